"""NAS-Bench-Macro: notation, canonical form and parameter counts, against the published table."""

from __future__ import annotations

import csv
import gzip
from collections import defaultdict
from pathlib import Path

import pytest
import torch

from polyarch.errors import InvalidInput
from polyarch.spaces import Space, macro_space, macro_string, parse_macro
from polyarch.supernets import MacroSupernet
from polyarch.testing import SpaceContract

SPACE = macro_space()


@pytest.fixture(scope="module")
def table(data_root: Path) -> list[dict[str, str]]:
    path = data_root / "nas_bench_macro" / "nb_macro_cifar10.csv.gz"
    if not path.is_file():
        pytest.skip(f"needs the NAS-Bench-Macro table: {path} is not there")
    with gzip.open(path, "rt") as file:
        return list(csv.DictReader(file))


class TestMacroSpace(SpaceContract):
    def make_space(self) -> Space:
        return macro_space()


def test_notation_round_trip_for_all_chains() -> None:
    texts = [macro_string(chain) for chain in SPACE.enumerate()]
    assert len(set(texts)) == 3**8
    assert all(macro_string(parse_macro(text, SPACE)) == text for text in texts)
    assert parse_macro("01200000").names[:3] == ("identity", "ir_3x3_t3", "ir_5x5_t6")


@pytest.mark.parametrize("text", ["", "0120000", "012000000", "01200003", "0120000a", "٠1200000"])
def test_malformed_notation_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="Expected 8 digits"):
        parse_macro(text)


def test_parameter_counts_are_those_of_the_table(table: list[dict[str, str]]) -> None:
    with torch.device("meta"):
        net = MacroSupernet()
    assert len(table) == 6_561
    for row in table:
        assert net.parameter_count(parse_macro(row["arch"], SPACE)) == int(row["params"])


def test_same_networks_have_the_same_row(table: list[dict[str, str]]) -> None:
    """The benchmark trained every network once, and wrote its results for all chains that are this network."""
    rows: dict[str, set[tuple[str, ...]]] = defaultdict(set)
    for row in table:
        rows[parse_macro(row["arch"], SPACE).canonical()].add(tuple(row.values())[1:])
    assert len(rows) == 3_969
    assert all(len(group) == 1 for group in rows.values())
    assert len(set.union(*rows.values())) == 3_969
