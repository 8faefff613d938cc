"""The whole results file of a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from polyarch.errors import CorruptFile
from polyarch.files import write_json
from polyarch.methods.depth.record import DepthRecord
from polyarch.methods.differentiable.record import DifferentiableRecord
from polyarch.methods.posterior_guided.record import GuidedRecord
from polyarch.methods.stochastic.record import StochasticRecord
from polyarch.results.predictors import Contender, PredictorRecord
from polyarch.results.record import VERSION, Record
from polyarch.results.stages import EliminationRecord, RankingRecord, SearchRecord, TrainingRecord


class Results(Record):
    """The whole file. Everything but ``seconds`` is the same bits for the same settings.

    ``predictors`` are the best network alone and the mixtures; ``depth`` is there after a search for a depth, where
    ``seconds`` may tell the time of a forward pass: ``forward_full`` and ``forward_pruned``. ``decisions`` say what was
    chosen for the user and why. ``differentiable`` is there after a search by gradients, ``stochastic`` after training
    under many architectures, where the first of ``predictors`` is the ensemble, ``guided`` after a posterior-guided
    search.
    """

    version: int = VERSION
    polyarch: str
    torch: str
    settings: dict[str, Any]
    data: dict[str, Any]
    space: dict[str, Any]
    training: TrainingRecord
    ranking: RankingRecord | None = None
    elimination: EliminationRecord | None = None
    search: SearchRecord | None = None
    comparison: list[Contender] | None = None
    artifact: dict[str, Any] | None = None
    predictors: list[PredictorRecord] = Field(default_factory=list)
    depth: DepthRecord | None = None
    differentiable: DifferentiableRecord | None = None
    stochastic: StochasticRecord | None = None
    guided: GuidedRecord | None = None
    decisions: list[str] = Field(default_factory=list)
    seconds: dict[str, float] = Field(default_factory=dict)

    def write(self, path: Path) -> None:
        """Atomically, as readable JSON."""
        write_json(path, self.model_dump(mode="json"))

    @classmethod
    def read(cls, path: Path) -> Results:
        """What ``write`` wrote."""
        try:
            content = json.loads(path.read_text())
        except (OSError, ValueError) as error:
            raise CorruptFile(f"Expected {path} to be a results file. Found: {error}.") from None
        if not isinstance(content, dict) or content.get("version") != VERSION:
            found = content.get("version") if isinstance(content, dict) else type(content).__name__
            raise CorruptFile(f"Expected {path} to be a results file of version {VERSION}. Found {found!r}.")
        try:
            return cls.model_validate(content)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"]))
            raise CorruptFile(f"Expected {place} in {path} to fit. Found: {first['msg']}.") from None
