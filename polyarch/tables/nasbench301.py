"""NAS-Bench-301: a surrogate that predicts the accuracy of DARTS networks.

Zela et al. (2022), "Surrogate NAS Benchmarks: Going Beyond the Limited Search Spaces of Tabular NAS Benchmarks",
arXiv:2008.09777.
"""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from polyarch.data.locations import data_root
from polyarch.errors import MissingData, NotFiniteError
from polyarch.spaces import Architecture
from polyarch.spaces.darts import DARTS_NODES, darts_edges, darts_space
from polyarch.tables.truth import Truth


class Genotype(NamedTuple):
    """The input format of the surrogate: pairs of an operation and the node that it reads."""

    normal: list[tuple[str, int]]
    normal_concat: list[int]
    reduce: list[tuple[str, int]]
    reduce_concat: list[int]


class Surrogate(Protocol):
    """The ensemble that ``nasbench301.load_ensemble`` returns."""

    def predict(self, config: Genotype, representation: str, with_noise: bool) -> Any:
        """The predicted validation accuracy in percent."""


class NASBench301(Truth):
    """Validation accuracies of DARTS networks on CIFAR-10 in percent, as an ensemble predicts them without noise."""

    name = "nb301"

    def __init__(self, surrogate: Surrogate) -> None:
        self.space = darts_space()
        self._surrogate = surrogate

    @classmethod
    def load(cls, path: Path | None = None) -> "NASBench301":
        """Loads the folder of a surrogate, by default ``nas_bench_301/xgb_v1.0`` in the data folder.

        The package ``nasbench301`` unpickles the models, so use only the files of its authors.
        """
        path = path or data_root() / "nas_bench_301" / "xgb_v1.0"
        try:
            package = import_module("nasbench301")
        except ImportError:
            raise MissingData(
                "Expected the package nasbench301 for the surrogate NAS-Bench-301. Found none; "
                "`pip install nasbench301` installs it (github.com/automl/nasbench301)."
            ) from None
        if not any(path.rglob("*surrogate_model.model")):
            raise MissingData(
                f"Expected the surrogate models of NAS-Bench-301 in {path}. Found none; POLYARCH_DATA names the data "
                "folder, and the folder xgb_v1.0 is in nasbench301_models_v1_0.zip (figshare.com, article 13061510)."
            )
        return cls(package.load_ensemble(str(path)))

    def accuracy(self, architecture: Architecture) -> float:
        """The mean prediction of the ensemble."""
        if architecture not in self:
            raise self.unknown(architecture)
        predicted = float(
            self._surrogate.predict(config=genotype(architecture), representation="genotype", with_noise=False)
        )
        if not 0 <= predicted <= 100:
            raise NotFiniteError(f"Expected a prediction between 0 and 100 for {architecture.key}. Got {predicted}.")
        return predicted

    def __contains__(self, architecture: object) -> bool:
        if not isinstance(architecture, Architecture) or architecture.space.choice_names != self.space.choice_names:
            return False
        names = zip(self.space.choices, architecture.names, strict=True)
        return all(name in choice.options for choice, name in names)

    def __len__(self) -> int:
        return self.space.size

    def architectures(self) -> Sequence[Architecture]:
        """Raises, because the space has 1e18 members."""
        return tuple(self.space.enumerate())


def genotype(architecture: Architecture) -> Genotype:
    """The genotype of an architecture of the DARTS space or a sub-space."""
    normal, reduce = (
        [(operation, source) for (source, _), operation in darts_edges(architecture, cell).items()]
        for cell in ("normal", "reduce")
    )
    return Genotype(normal, list(DARTS_NODES), reduce, list(DARTS_NODES))
