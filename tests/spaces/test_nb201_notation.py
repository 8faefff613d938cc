"""NAS-Bench-201: its notation, against the published numbers and table."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import pytest

from polyarch.errors import InvalidInput, UnknownName
from polyarch.spaces import nb201_space, nb201_string, parse_nb201
from polyarch.supernets import NB201Supernet

SPACE = nb201_space()


@pytest.fixture(scope="module")
def table(nb201_table_path: Path) -> list[dict[str, str]]:
    with gzip.open(nb201_table_path, "rt") as file:
        return list(csv.DictReader(file))


def test_published_counts() -> None:
    cells = list(SPACE.enumerate())
    assert len(cells) == SPACE.size == 15_625


def test_notation_round_trip_for_all_cells() -> None:
    texts = set()
    for cell in SPACE.enumerate():
        text = nb201_string(cell)
        texts.add(text)
        assert parse_nb201(text, SPACE) == cell
    assert len(texts) == 15_625


def test_notation_names_source_and_target() -> None:
    text = "|avg_pool_3x3~0|+|nor_conv_1x1~0|skip_connect~1|+|none~0|nor_conv_3x3~1|skip_connect~2|"
    cell = parse_nb201(text)
    assert cell.to_dict() == {
        "0->1": "avg_pool_3x3",
        "0->2": "nor_conv_1x1",
        "1->2": "skip_connect",
        "0->3": "none",
        "1->3": "nor_conv_3x3",
        "2->3": "skip_connect",
    }
    assert nb201_string(cell) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "|none~0|",
        "|none~0|+|none~0|none~1|",
        "|none~0|+|none~0|none~1|+|none~0|none~1|",
        "|none~0|+|none~0|none~1|+|none~0|none~1|none~3|",
        "|none~0|+|none~0|none~1|+|none~0|none~1|none~2|+|none~0|",
        "|none~0|+|none~0|none~0|none~1|+|none~0|none~1|none~2|",
        "|none~0|skip_connect~0|+|none~0|none~1|+|none~0|none~1|none~2|",
        "none~0+none~0|none~1+none~0|none~1|none~2",
    ],
)
def test_malformed_notation_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="Expected a cell like"):
        parse_nb201(text)


def test_unknown_operations_are_refused() -> None:
    with pytest.raises(UnknownName, match="nor_conv_3x3"):
        parse_nb201("|nor_conv_5x5~0|+|none~0|none~1|+|none~0|none~1|none~2|")
    with pytest.raises(InvalidInput, match="nor_conv_5x5"):
        nb201_space(("none", "nor_conv_5x5"))


def test_parameter_counts_are_those_of_the_benchmark(table: list[dict[str, str]]) -> None:
    net = NB201Supernet(channels=16, cells=5, affine=True)
    fixed, options = net._parameter_table
    for row in table[::15][:1000]:
        cell = parse_nb201(row["arch_str"], SPACE)
        # The benchmark counts operations that do not reach the output, too.
        everything = fixed + sum(options.get((name, cell[name]), 0) for name in SPACE.choice_names)
        assert everything == int(row["params_cifar10"]) >= net.parameter_count(cell)
