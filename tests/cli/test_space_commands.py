"""`polyarch spaces` knows every published space and its notation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from typer.testing import CliRunner

from polyarch.cli.spaces import spaces_app
from polyarch.errors import ConfigError
from polyarch.plugins import SPACES
from polyarch.randomness import generator_at
from polyarch.runs.settings import RunSettings
from polyarch.runs.spaces import WiredSettings, as_trained_alone
from polyarch.runs.stage import described_choices, described_size
from polyarch.spaces import NB201_CONVOLUTIONS, NB201_NO_NONE, S2_OPERATIONS, darts_space, darts_string, nb201_space
from polyarch.supernets import gate
from polyarch.tables import published_notation

PAIRS = "[('skip_connect', 0), ('sep_conv_3x3', 1)" + ", ('skip_connect', 0), ('sep_conv_3x3', 2)" * 3 + "]"
GENOTYPE = f"Genotype(normal={PAIRS}, normal_concat=range(2, 6), reduce={PAIRS}, reduce_concat=range(2, 6))"


def run(*words: str) -> str:
    """What a command prints, without line breaks."""
    result = CliRunner().invoke(spaces_app, words, catch_exceptions=False)
    assert result.exit_code == 0
    return result.output.replace("\n", "")


def test_every_space_is_listed() -> None:
    output = run("list")
    assert all(name in output for name in SPACES)


@pytest.mark.parametrize(
    ("words", "size"),
    [
        (["darts"], "1,076,746,950,455,072,400"),
        (["darts", "--set", f"operations={list(S2_OPERATIONS)}".replace("'", '"')], "2,123,366,400"),
        (["nb101"], "14,580"),
        (["nb101", "--set", "space=3"], "1,312,200"),
        (["macro"], "6,561"),
        (["fairnas"], f"{6**19:,}"),
        (["wired"], f"{2**30:,}"),
        (["wired", "--set", "modules=8"], f"{2**108:,}"),
    ],
)
def test_sizes_of_published_spaces(words: list[str], size: str) -> None:
    assert f"{words[0]}: {size} architectures" in run("describe", *words)


@pytest.mark.parametrize(
    ("space", "text", "key"),
    [
        ("darts", GENOTYPE, "0,1|skip_connect|sep_conv_3x3|0,2|"),
        ("macro", "01201201", "identity|ir_3x3_t3|ir_5x5_t6|identity|"),
        ("nb201", "|none~0|+|none~0|none~1|+|none~0|none~1|skip_connect~2|", "none|none|none|none|none|skip_connect"),
        ("wired", "1000000000-0100000000-0000000001", f"on|{9 * 'off|'}off|on|off|"),
        ("nb101", "0|maxpool3x3|0,1|maxpool3x3|0,2|maxpool3x3|1,3|maxpool3x3|0,4", "0|maxpool3x3|0,1|"),
    ],
)
def test_architectures_are_drawn_from_their_notation(tmp_path: Path, space: str, text: str, key: str) -> None:
    out = tmp_path / "picture.svg"
    words = run("draw", space, "--architecture", text, "--out", str(out))
    assert words.startswith(f"Drew {key}") or words.startswith(f"Drew{key}")  # a long key begins a new line
    assert out.read_text().startswith("<svg")


def test_subspaces_of_nb201_have_names() -> None:
    assert nb201_space(NB201_NO_NONE).size == 4_096
    assert nb201_space(NB201_CONVOLUTIONS).size == 64


@pytest.mark.parametrize("kind", ["darts", "nb101", "macro", "fairnas", "wired"])
def test_published_spaces_build_supernets_for_images_only(kind: str) -> None:
    settings: Any = RunSettings.parse({"space": {"kind": kind}}, "test").space
    net = settings.build((1, 28, 28), 4).eval()
    assert net(torch.zeros(2, 1, 28, 28), net.space.sample(generator_at(0, "space"))).shape == (2, 4)
    with pytest.raises(ConfigError, match="Expected images"):
        settings.build((4,), 3)


@pytest.mark.parametrize(
    ("space", "words"),
    [
        ({"kind": "nb101", "space": 4}, "space.space"),
        ({"kind": "darts", "layers": 2}, "space.layers"),
        ({"kind": "darts", "channels": 1}, "space.channels"),
        ({"kind": "wired", "modules": 1}, "space.modules"),
        ({"kind": "wired", "stages": 9}, "space.stages"),
    ],
)
def test_impossible_settings_are_refused(space: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        RunSettings.parse({"space": space}, "test")


def test_wirings_have_weights_of_their_own_and_networks_alone_have_none() -> None:
    bits = ["1000000000-0000000000-0000000001", "0000000000-0000000000-0000000000"]
    space: Any = RunSettings.parse({"space": {"kind": "wired", "width": 2, "wirings": bits}}, "test").space
    net = space.build((3, 8, 8), 4)
    assert [published_notation(wiring) for wiring in net.wirings] == bits
    assert net.auxiliary is not None and space.model_copy(update={"stages": 1, "wirings": ()}).build((3, 8, 8), 4)
    alone: Any = as_trained_alone(space)
    plain = alone.build((3, 8, 8), 4)
    assert plain.wirings is None and plain.auxiliary is None and plain.space == net.space
    for width, side in ((4, 6), (4, 8), (14, 28), (16, 64)):
        assert next(WiredSettings().build((1, side, side), 2).parameters()).shape[0] == width


def test_genotypes_and_settings_agree_on_the_space() -> None:
    settings: Any = RunSettings.parse({"space": {"kind": "darts", "operations": S2_OPERATIONS}}, "test").space
    with torch.device("meta"):
        space = settings.build((3, 32, 32), 10).space
    assert space == darts_space(S2_OPERATIONS)
    assert darts_string(space.architecture([choice.options[0] for choice in space.choices])).count("skip_connect") == 16


def test_a_size_that_is_too_long_to_be_written() -> None:
    """Python refuses to write down numbers of more than 4,300 digits."""
    net = gate(nn.Sequential(nn.Linear(2, 15_000), nn.Linear(15_000, 1)), torch.zeros(2, 2))
    assert described_size(net) == "about 10^4,515"
    assert described_choices(net) == {"1[0..14999]": ["drop", "keep"]}
    json.dumps(described_size(net))
