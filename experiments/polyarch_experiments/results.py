"""What an experiment found: claims, the intervals behind their verdicts, and the raw numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from polyarch.files import write_json

VERSION = 3
"""Of the format of the results files. Claims of version 2 have no findings."""

VERDICTS = {True: "holds", False: "fails", None: "undecided"}


class Finding(BaseModel):
    """A measured quantity with its interval, and the range in which a claim expects it.

    ``low`` and ``high`` are None where there is no interval, as with a single seed. The claim says that the quantity is
    larger than ``above`` and smaller than ``below``; None sets no bound.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    value: float | None
    low: float | None = None
    high: float | None = None
    above: float | None = None
    below: float | None = None

    @property
    def supported(self) -> bool | None:
        """True if the whole interval is in the range, False if all of it is outside on one side, None otherwise."""
        if self.low is None or self.high is None:
            return None
        above, below = (-float("inf") if self.above is None else self.above), self.below
        if self.low > above and (below is None or self.high < below):
            return True
        if self.high <= above or (below is not None and self.low >= below):
            return False
        return None


class Claim(BaseModel):
    """A claim of a paper: whether the numbers support it, and the numbers.

    Attributes:
        supported: None where the numbers do not decide it; ``numbers`` or ``needs`` then say why.
        number: that of the claim in the list of the paper's claims, None for what goes beyond it.
        document: what the paper reports.
        findings: the intervals that the verdict comes from.
        ours: the threshold that is ours and not the paper's.
        needs: what a fair test would take, where this is none; it never fails then.
    """

    model_config = ConfigDict(extra="forbid")

    text: str
    supported: bool | None
    numbers: str
    number: int | None = None
    document: str = "not in the paper"
    findings: list[Finding] = []
    ours: str | None = None
    needs: str | None = None

    @property
    def verdict(self) -> str:
        """For people."""
        return VERDICTS[self.supported]


class ExperimentResults(BaseModel):
    """What an experiment found.

    Attributes:
        runs: the raw results by name.
        processor_seconds: what they took, by the same names, in the session that finished them; empty in results of
            earlier versions.
    """

    model_config = ConfigDict(extra="forbid")

    version: int = VERSION
    polyarch: str
    torch: str
    experiment: str
    preset: str
    settings: dict[str, Any]
    claims: list[Claim]
    runs: dict[str, Any]
    processor_seconds: dict[str, float] = {}

    def write(self, path: Path) -> None:
        """Atomically, as readable JSON."""
        write_json(path, self.model_dump(mode="json"))
