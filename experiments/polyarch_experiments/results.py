"""What an experiment found: claims and the numbers behind them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from polyarch.files import write_json

VERSION = 2
"""Of the format of the results files."""


class Claim(BaseModel):
    """A claim of a paper: whether the numbers support it, and the numbers.

    ``supported`` is None where it cannot be tested here; ``numbers`` then say why. ``number`` is that of the claim in
    the list of the paper's claims, None for what goes beyond it; ``document`` is what the paper reports.
    """

    model_config = ConfigDict(extra="forbid")

    text: str
    supported: bool | None
    numbers: str
    number: int | None = None
    document: str = "not in the paper"

    @property
    def verdict(self) -> str:
        """For people."""
        words = {True: "holds", False: "does not hold at this size", None: "not testable here"}
        return words[self.supported]


class ExperimentResults(BaseModel):
    """What an experiment found; ``runs`` are its raw results by name."""

    model_config = ConfigDict(extra="forbid")

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
