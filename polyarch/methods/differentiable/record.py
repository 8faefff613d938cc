"""What a search by gradients found, and how it went."""

from pydantic import Field

from polyarch.results.predictors import Record


class DifferentiableRecord(Record):
    """A search by gradients: how q over the relaxed ``choices`` moved, and the architecture that came out.

    ``history`` has a row per epoch (true accuracies in percent), ``architectures`` the key of what q pointed at after
    it, ``marginals`` the probabilities of the options of every choice; options that were dropped have 0.
    ``findings`` are those of the guard against collapse; ``back_to`` is the epoch whose state it put back. ``notation``
    is how others write the architecture, e.g. as a genotype.
    """

    method: str
    gradient: str
    parametrisation: str
    discretisation: str
    architecture: dict[str, str]
    notation: str | None = None
    choices: dict[str, list[str]]
    history: list[dict[str, float]]
    architectures: list[str]
    marginals: list[dict[str, list[float]]]
    findings: list[str] = Field(default_factory=list)
    back_to: int | None = None

    @property
    def kept_epoch(self) -> int:
        """The epoch whose q counts: the last one, unless the search went back."""
        return len(self.architectures) - 1 if self.back_to is None else self.back_to
