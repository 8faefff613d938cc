"""What an experiment found: claims and the numbers behind them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from polyarch.files import write_json
from polyarch.results.record import VERSION, Record


class Claim(Record):
    """A claim of a document: whether the numbers support it, and the numbers.

    ``supported`` is None where it cannot be tested here; ``numbers`` then say why. ``number`` is that of the claim in
    the document's list, None for what goes beyond it; ``document`` is what the document reports.
    """

    text: str
    supported: bool | None
    numbers: str
    number: int | None = None
    document: str = "not in the document"

    @property
    def verdict(self) -> str:
        """For people."""
        words = {True: "holds", False: "does not hold at this size", None: "not testable here"}
        return words[self.supported]


class ExperimentResults(Record):
    """What an experiment found; ``runs`` are its raw results by name."""

    version: int = VERSION
    polyarch: str
    torch: str
    experiment: str
    preset: str
    settings: dict[str, Any]
    claims: list[Claim]
    runs: dict[str, Any]

    def write(self, path: Path) -> None:
        """Atomically, as readable JSON."""
        write_json(path, self.model_dump(mode="json"))
