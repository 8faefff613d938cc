"""Every exception that polyarch raises on purpose.

::

    PolyarchError                 one sentence: what was expected, what was found
    ├── InvalidInput              the caller passed a wrong value (also a ValueError)
    │   ├── UnknownName           the name is not on the list of known names (also a KeyError)
    │   ├── ImpossibleSpace       no architecture satisfies the constraints or limits
    │   ├── DataError             the data cannot be used: NaN, an empty class, a wrong shape
    │   └── ConfigError           the settings of a run contradict each other or its data
    ├── MissingData               a data set or table is not on this machine
    ├── MissingExtra              an optional package is not installed
    ├── CorruptFile               a checksum or file format does not match
    ├── ExportMismatch            an exported program and its network compute different outputs
    ├── NotFiniteError            a loss or score became NaN or infinite (also an ArithmeticError)
    ├── WorkerDied                a worker process died too often on the same task
    └── Interrupted               the user asked to stop; everything needed to resume is on disk

The command line prints the sentence and exits with code 2 (130 for `Interrupted`).
"""

from collections.abc import Iterable
from difflib import get_close_matches


class PolyarchError(Exception):
    """Base of all errors; its message is one sentence for the user."""


class InvalidInput(PolyarchError, ValueError):
    """The caller passed a wrong value."""


class UnknownName(InvalidInput, KeyError):
    """The name is not on the list of known names."""

    def __init__(self, kind: str, name: object, known: Iterable[str]) -> None:
        known = list(known)
        self._arguments = (kind, name, known)
        hint = closest_name(str(name), known)
        article = "an" if kind[:1] in "aeiou" else "a"
        self.message = f"Expected {article} {kind} out of {', '.join(known)}. Got {str(name)!r}.{hint}"
        super().__init__(self.message)

    def __str__(self) -> str:  # KeyError would print the repr of the message
        return self.message

    def __reduce__(self) -> "tuple[type[UnknownName], tuple[str, object, list[str]]]":
        return type(self), self._arguments  # worker processes send their errors back as pickles


class ImpossibleSpace(InvalidInput):
    """No architecture satisfies the constraints or limits."""


class DataError(InvalidInput):
    """The data cannot be used for training."""


class ConfigError(InvalidInput):
    """The settings of a run contradict each other or its data."""


class MissingData(PolyarchError):
    """A data set or table is not on this machine."""


class MissingExtra(PolyarchError):
    """An optional package is not installed."""

    def __init__(self, feature: str, extra: str) -> None:
        self._arguments = (feature, extra)
        super().__init__(f"{feature} needs an optional package: pip install 'polyarch[{extra}]'.")

    def __reduce__(self) -> "tuple[type[MissingExtra], tuple[str, str]]":
        return type(self), self._arguments


class CorruptFile(PolyarchError):
    """A checksum or file format does not match."""


class ExportMismatch(PolyarchError):
    """An exported program and its network compute different outputs."""


class NotFiniteError(PolyarchError, ArithmeticError):
    """A loss, score or weight became NaN or infinite."""

    def at(self, place: str, *, advice: str | None = None, note: str = "") -> "NotFiniteError":
        """The same error with a place, such as ``in epoch 3``, other advice, which follows a semicolon, and a note.

        Example:
            >>> print(NotFiniteError("Expected a finite loss. Got nan; try less.").at("in epoch 3"))
            Expected a finite loss. Got nan in epoch 3; try less.
        """
        found, _, before = str(self).removesuffix(".").partition("; ")
        parts = (f"{found} {place}", before if advice is None else advice, note)
        return NotFiniteError(f"{'; '.join(filter(None, parts))}.")


class WorkerDied(PolyarchError):
    """A worker process died too often on the same task."""


class Interrupted(PolyarchError):
    """The user asked to stop; everything needed to resume is on disk."""


class UnlikeProcessors(UserWarning):
    """The machines of a cluster compute different last bits."""


def closest_name(name: str, known: Iterable[str]) -> str:
    """`` Did you mean 'x'?`` for the known name most similar to this one; an empty text if none is similar."""
    close = get_close_matches(name, list(known), n=1)
    return f" Did you mean {close[0]!r}?" if close else ""


def first_line(error: Exception) -> str:
    """The first line of another package's error, to quote inside a sentence; its type if it has no message."""
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__
