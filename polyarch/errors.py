"""Every exception that polyarch raises on purpose.

::

    PolyarchError                 one sentence: what was expected, what was found
    ├── InvalidInput              the caller's value is wrong (also a ValueError)
    │   ├── UnknownName           a name that is not on the list (also a KeyError)
    │   ├── ImpossibleSpace       no architecture satisfies the constraints or limits
    │   ├── DataError             data that cannot be used: NaN, empty class, wrong shape
    │   └── ConfigError           a run description that does not fit
    ├── MissingData               a data set or table that is not on this machine
    ├── MissingExtra              an optional package is not installed
    ├── CorruptFile               a checksum or format that does not match
    ├── ExportMismatch            an exported program that does not compute what its network computes
    ├── NotFiniteError            a loss or score became NaN or infinite (also an ArithmeticError)
    ├── WorkerDied                a worker process died too often on one item
    └── Interrupted               the user asked to stop; everything needed to resume is on disk

The command line prints the sentence and exits with code 2 (130 for `Interrupted`).
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class PolyarchError(Exception):
    """Base of all errors: its message is one sentence meant for the user."""


class InvalidInput(PolyarchError, ValueError):
    """A value the caller passed is wrong."""


class UnknownName(InvalidInput, KeyError):
    """A name that is not one of the known ones."""

    def __init__(self, kind: str, name: object, known: Iterable[str]) -> None:
        known = list(known)
        self._arguments = (kind, name, known)
        close = get_close_matches(str(name), known, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        self.message = f"Expected a {kind} out of {', '.join(known)}. Got {str(name)!r}.{hint}"
        super().__init__(self.message)

    def __str__(self) -> str:  # KeyError would print the repr of the message
        return self.message

    def __reduce__(self) -> tuple[type[UnknownName], tuple[str, object, list[str]]]:
        return type(self), self._arguments  # errors come back from worker processes by pickle


class ImpossibleSpace(InvalidInput):
    """No architecture satisfies the constraints or the limits."""


class DataError(InvalidInput):
    """Data that cannot be trained on."""


class ConfigError(InvalidInput):
    """A run description that does not fit."""


class MissingData(PolyarchError):
    """A data set or table that is not on this machine."""


class MissingExtra(PolyarchError):
    """An optional package is not installed."""

    def __init__(self, feature: str, extra: str) -> None:
        self._arguments = (feature, extra)
        super().__init__(f"{feature} needs an optional package: pip install 'polyarch[{extra}]'.")

    def __reduce__(self) -> tuple[type[MissingExtra], tuple[str, str]]:
        return type(self), self._arguments


class CorruptFile(PolyarchError):
    """A file whose checksum or format does not match."""


class ExportMismatch(PolyarchError):
    """An exported program that does not compute what its network computes."""


class NotFiniteError(PolyarchError, ArithmeticError):
    """A loss or a score became NaN or infinite."""


class WorkerDied(PolyarchError):
    """A worker process died too often while it held one item."""


class Interrupted(PolyarchError):
    """The user asked to stop; everything needed to resume is on disk."""
