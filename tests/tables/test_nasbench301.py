"""NAS-Bench-301, with a package of the same interface in place of the real one."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from polyarch.errors import InvalidInput, MissingData, NotFiniteError
from polyarch.randomness import generator_at
from polyarch.spaces import nb201_space
from polyarch.spaces.darts import S2_OPERATIONS, darts_space, parse_darts
from polyarch.tables import NASBench301
from polyarch.tables.nasbench301 import genotype

GENOTYPE = (
    "Genotype(normal=[('sep_conv_3x3', 0), ('sep_conv_3x3', 1), ('sep_conv_5x5', 0), ('sep_conv_3x3', 1), "
    "('skip_connect', 1), ('skip_connect', 0), ('skip_connect', 0), ('dil_conv_3x3', 2)], normal_concat=[2, 3, 4, 5], "
    "reduce=[('max_pool_3x3', 0), ('max_pool_3x3', 1), ('skip_connect', 2), ('max_pool_3x3', 1), ('max_pool_3x3', 0), "
    "('skip_connect', 2), ('skip_connect', 2), ('avg_pool_3x3', 1)], reduce_concat=[2, 3, 4, 5])"
)


class Recorder:
    """Answers like the package's ``SurrogateAPI``, and notes what it was asked."""

    def __init__(self, answer: float = 94.5) -> None:
        self.answer = answer
        self.asked: list[Any] = []

    def predict(self, config: Any, representation: str, with_noise: bool = True) -> float:
        self.asked.append((config, representation, with_noise))
        return self.answer


def official_configuration(arch: Any) -> dict[str, str]:
    """What the package makes of a genotype, edge by edge (``convert_genotype_to_config``)."""
    config = {}
    for kind in ("normal", "reduce"):
        start = 0
        for node in range(4):
            pairs = getattr(arch, kind)[2 * node : 2 * node + 2]
            config.update({f"edge_{kind}_{start + source}": operation for operation, source in pairs})
            config[f"inputs_node_{kind}_{node + 2}"] = "_".join(map(str, sorted(source for _, source in pairs)))
            start += node + 2
    return config


def test_the_surrogate_sees_the_network() -> None:
    surrogate = Recorder()
    architecture = parse_darts(GENOTYPE)
    assert NASBench301(surrogate).accuracy(architecture) == 94.5
    [(config, representation, with_noise)] = surrogate.asked
    assert representation == "genotype" and with_noise is False
    seen = official_configuration(config)
    assert len(seen) == 2 * (8 + 4)
    assert seen["edge_normal_3"] == "sep_conv_3x3" and seen["edge_normal_2"] == "sep_conv_5x5"
    assert seen["edge_normal_11"] == "dil_conv_3x3" and seen["inputs_node_normal_5"] == "0_2"
    assert seen["edge_reduce_10"] == "avg_pool_3x3" and seen["inputs_node_reduce_5"] == "1_2"
    assert config.normal_concat == config.reduce_concat == [2, 3, 4, 5]


def test_genotypes_come_back() -> None:
    space = darts_space()
    for index in range(20):
        architecture = space.sample(generator_at(0, "architecture", index))
        assert parse_darts(str(genotype(architecture))) == architecture


def test_parts_of_the_space_and_strangers() -> None:
    truth = NASBench301(Recorder())
    smaller = darts_space(S2_OPERATIONS).sample(generator_at(0, "architecture"))
    assert smaller in truth and truth.accuracy(smaller) == 94.5
    stranger = nb201_space().architecture(["none"] * 6)
    assert stranger not in truth and "text" not in truth
    with pytest.raises(InvalidInput, match=r"architectures of nb301 .*Got none"):
        truth.accuracy(stranger)
    assert len(truth) == truth.space.size
    with pytest.raises(InvalidInput, match="to enumerate"):
        truth.architectures()


@pytest.mark.parametrize("answer", [float("nan"), float("inf"), -1.0, 100.5])
def test_predictions_that_are_no_percentages(answer: float) -> None:
    with pytest.raises(NotFiniteError, match="between 0 and 100"):
        NASBench301(Recorder(answer)).accuracy(parse_darts(GENOTYPE))


def test_loading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nasbench301", None)
    with pytest.raises(MissingData, match="pip install nasbench301"):
        NASBench301.load(tmp_path)
    package = ModuleType("nasbench301")
    loaded: list[str] = []

    def load_ensemble(ensemble_parent_directory: str) -> Recorder:
        loaded.append(ensemble_parent_directory)
        return Recorder(91.0)

    package.load_ensemble = load_ensemble  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "nasbench301", package)
    with pytest.raises(MissingData, match="nasbench301_models_v1_0"):
        NASBench301.load(tmp_path)
    (tmp_path / "member").mkdir()
    (tmp_path / "member" / "surrogate_model.model").touch()
    assert NASBench301.load(tmp_path).accuracy(parse_darts(GENOTYPE)) == 91.0
    assert loaded == [str(tmp_path)]
