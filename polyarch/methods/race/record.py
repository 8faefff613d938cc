"""The section of a race in ``results.json``."""

from collections.abc import Sequence

from polyarch.results import MethodRecord, Record


class LegRecord(Record):
    """A candidate after so many seconds: its training loss now and as expected at the end, and validation results."""

    seconds: float
    steps: int
    training_loss: float
    expected_loss: float
    valid_loss: float
    valid_score: float


class CandidateRecord(Record):
    """One network in the race; ``name`` has the options that matter to it.

    ``recipe`` is how it was trained, where candidates differ in that; ``parent`` is the place of the candidate whose
    weights it went on from, if it is not fresh; ``curve`` has points of its training loss; ``share`` is that in the
    ensemble, of ``folds`` networks that were trained and validated by different parts of the examples.
    """

    name: str
    architecture: dict[str, str]
    augmentation: str
    recipe: str = ""
    is_reference: bool
    is_finalist: bool
    parent: int | None
    parameters: int
    macs: float
    legs: list[LegRecord]
    curve: list[dict[str, float]]
    folds: int = 1
    share: float = 0.0


class RaceRecord(MethodRecord):
    """The whole race; ``best`` is the place of the network that is delivered.

    ``speed_agreement`` is Kendall's tau between the losses expected after the first rung and final validation losses,
    where evidence was asked for.
    """

    candidates: list[CandidateRecord]
    best: int
    speed_agreement: float | None = None

    @property
    def studied(self) -> Sequence[Record]:
        """All candidates."""
        return self.candidates

    @property
    def is_table(self) -> bool:
        """Whether candidates differ in how they were trained, as on tables."""
        return any(one.recipe for one in self.candidates)

    @property
    def reference(self) -> CandidateRecord | None:
        """The plain network; None where a race was finished before it had begun."""
        return next((one for one in self.candidates if one.is_reference), None)
