"""A table of architectures with accuracies and learning curves, stored in one file."""

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polyarch.errors import CorruptFile, InvalidInput, MissingData, UnknownName, first_line
from polyarch.files import write_atomically
from polyarch.spaces import Architecture, Choice, Space, nb201_space
from polyarch.spaces.macro import macro_space
from polyarch.spaces.nb101 import NB101_PARENTS, nb101_space
from polyarch.tables.curves import Curves
from polyarch.tables.row_index import RowIndex
from polyarch.tables.truth import Truth


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Writes a compressed npz file atomically."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)
    write_atomically(path, buffer.getvalue())


@contextmanager
def reading_arrays(path: Path, expected: str) -> Iterator[Mapping[str, NDArray[Any]]]:
    """Opens an npz file; any error in the block becomes a `CorruptFile` that names it."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            yield arrays
    except Exception as error:  # damaged bytes make zip, numpy and JSON raise all kinds of errors
        raise CorruptFile(f"Expected {path} to be {expected}. Found: {first_line(error)}.") from None


FORMAT = 1


class CurveTable(Truth):
    """Accuracies, learning curves and other numbers of n architectures trained alone.

    Args:
        indices: the chosen option of every choice, (n, choices), all rows different.
        accuracies: in percent, (n,); usually the final test accuracy.
        curves: measure, e.g. ``train_loss`` or ``valid_accuracy`` -> (n, epochs); NaN after the end of a shorter run.
        columns: other numbers by name, e.g. ``parameters`` -> (n,).

    >>> space = Space("two", (Choice("edge", ("skip", "conv")),))
    >>> table = CurveTable("own", space, [[0], [1]], [80.0, 90.0], {"train_loss": [[2.0, np.nan], [2.0, 1.5]]})
    >>> table.accuracy(space.architecture(["conv"])), table.curve(space.architecture(["skip"]), "train_loss").tolist()
    (90.0, [2.0])
    """

    def __init__(
        self,
        name: str,
        space: Space,
        indices: ArrayLike,
        accuracies: ArrayLike,
        curves: Mapping[str, ArrayLike | Curves] | None = None,
        columns: Mapping[str, ArrayLike] | None = None,
    ) -> None:
        self.name = name
        self.space = space
        self._rows = RowIndex(space, indices)
        self._accuracies = self._checked("accuracies", accuracies)
        self._columns = {key: self._checked(key, values) for key, values in (columns or {}).items()}
        self._curves = {
            key: values if isinstance(values, Curves) else Curves.plain(values)
            for key, values in (curves or {}).items()
        }
        for key, values in self._curves.items():
            if len(values) != len(self._rows):
                raise InvalidInput(f"Expected {len(self._rows)} curves of {key}. Got {len(values)}.")

    def _checked(self, name: str, values: ArrayLike) -> NDArray[np.float64]:
        column = np.asarray(values, dtype=np.float64)
        if column.shape != (len(self._rows),):
            raise InvalidInput(f"Expected {name} to have {len(self._rows)} numbers. Got shape {column.shape}.")
        return column

    @property
    def measures(self) -> tuple[str, ...]:
        """The names of the learning curves."""
        return tuple(self._curves)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the other numbers."""
        return tuple(self._columns)

    def accuracies(self) -> NDArray[np.float64]:
        """The accuracies of all rows in percent: (n,)."""
        return self._accuracies.copy()

    def column(self, name: str) -> NDArray[np.float64]:
        """One of the ``columns``: (n,)."""
        return self._named(name).copy()

    def _named(self, column: str) -> NDArray[np.float64]:
        if column not in self._columns:
            raise UnknownName(f"column of {self.name}", column, self._columns)
        return self._columns[column]

    def curves(self, measure: str) -> NDArray[np.float64]:
        """The learning curves of all rows, NaN after the end of a shorter one: (n, epochs)."""
        if measure not in self._curves:
            raise UnknownName(f"learning curve of {self.name}", measure, self._curves)
        return self._curves[measure].array()

    def accuracy(self, architecture: Architecture) -> float:
        """The accuracy in percent."""
        return float(self._accuracies[self._row(architecture)])

    def value(self, architecture: Architecture, column: str) -> float:
        """The value of an architecture in one of the ``columns``."""
        return float(self._named(column)[self._row(architecture)])

    def _curve(self, architecture: Architecture, measure: str) -> NDArray[np.float64]:
        return self._curves[measure].row(self._row(architecture))

    def _row(self, architecture: Architecture) -> int:
        row = self._rows.find(architecture)
        if row is None:
            raise self.unknown(architecture)
        return row

    def __contains__(self, architecture: object) -> bool:
        return isinstance(architecture, Architecture) and self._rows.find(architecture) is not None

    def __len__(self) -> int:
        return len(self._rows)

    def architectures(self) -> Sequence[Architecture]:
        """The architectures of all rows."""
        return self._rows.architectures()

    def by(self, column: str) -> "CurveTable":
        """The same table with one of its ``columns`` as the accuracy."""
        name, values = f"{self.name}:{column}", self._named(column)
        return CurveTable(name, self.space, self._rows.indices, values, self._curves, self._columns)

    def save(self, path: Path) -> None:
        """Writes one compressed npz file of plain arrays; the space is stored by the names of its options."""
        header = {
            "format": FORMAT,
            "name": self.name,
            "space": self.space.name,
            "choices": [[choice.name, list(choice.options)] for choice in self.space.choices],
            "steps": {key: values.step for key, values in self._curves.items()},
            "columns": list(self._columns),
        }
        arrays: dict[str, NDArray[Any]] = {
            "header": np.frombuffer(json.dumps(header).encode(), dtype=np.uint8),
            "indices": self._rows.indices,
            "accuracies": self._accuracies,
            **{f"column {key}": values for key, values in self._columns.items()},
            **{f"curve {key}": values.values for key, values in self._curves.items()},
        }
        write_arrays(path, arrays)

    @classmethod
    def load(cls, path: Path, space: Space | None = None) -> "CurveTable":
        """Reads what ``save`` wrote; ``space`` supplies constraints and canonical form, which the file lacks."""
        if not path.is_file():
            raise MissingData(f"Expected a table of learning curves at {path}. Found no such file.")
        with reading_arrays(path, "a table of learning curves") as arrays:
            header = json.loads(arrays["header"].tobytes())
            if header["format"] != FORMAT:
                raise CorruptFile(f"format {header['format']}")
            stored = Space(header["space"], tuple(Choice(name, tuple(options)) for name, options in header["choices"]))
            curves = {key: Curves(arrays[f"curve {key}"], step) for key, step in header["steps"].items()}
            columns = {key: arrays[f"column {key}"] for key in header["columns"]}
            whole = space if space == stored else _known(stored)
            table = cls(header["name"], whole, arrays["indices"], arrays["accuracies"], curves, columns)
        if space is not None and space != stored:
            raise InvalidInput(f"Expected {path} to be about space {space.name!r}. Found space {stored.name!r}.")
        return table


def _known(stored: Space) -> Space:
    """The published space with its canonical form, if the file is about one."""
    published: tuple[Space, ...] = (nb201_space(), macro_space(), *(nb101_space(number) for number in NB101_PARENTS))
    return next((space for space in published if space == stored), stored)
