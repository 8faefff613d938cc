"""The table of all 15,625 NAS-Bench-201 cells.

Dong and Yang (2020), "NAS-Bench-201: Extending the Scope of Reproducible Neural Architecture Search",
arXiv:2001.00326.
"""

import gzip
import zlib
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from polyarch.data.locations import data_root
from polyarch.errors import CorruptFile, InvalidInput, MissingData, UnknownName, first_line
from polyarch.spaces import NB201_OPERATIONS, Architecture, nb201_space
from polyarch.tables.row_index import RowIndex
from polyarch.tables.truth import Truth

CELLS = 15625
TEXTS = ("index", "arch_str", "unique_str")
"""Columns of text."""

NOTATION = "|?~0|+|?~0|?~1|+|?~0|?~1|?~2|"
"""The notation of cells, with operations in the order of `NB201_EDGES`."""


class NASBench201(Truth):
    """True values of cells by column, e.g. ``cifar10_test_200`` (percent) or ``params_cifar10``.

    The lines of the table stay in memory (6 MB), and a column is parsed at its first use; ``column`` is the accuracy.
    """

    def __init__(self, header: Sequence[str], lines: Sequence[bytes], column: str = "cifar10_test_200") -> None:
        self._header = tuple(header)
        self._lines = lines
        self._numbers: dict[str, NDArray[np.float64]] = {}
        self.columns = tuple(name for name in self._header if name not in TEXTS)
        if column not in self.columns:
            raise UnknownName("column of the NAS-Bench-201 table", column, self.columns)
        self.column = column
        self.name = f"nb201:{column}"
        self.space = nb201_space()

    @classmethod
    def load(cls, path: Path | None = None, column: str = "cifar10_test_200") -> "NASBench201":
        """Loads ``nas_bench_201/nb201_table.csv.gz`` from the data folder, or the given file."""
        path = path or data_root() / "nas_bench_201" / "nb201_table.csv.gz"
        if not path.is_file():
            raise MissingData(
                f"Expected the NAS-Bench-201 table at {path}. Found no such file; POLYARCH_DATA names the data folder."
            )
        try:
            first, *lines = gzip.decompress(path.read_bytes()).splitlines()
            header = first.decode().split(",")
        except (OSError, EOFError, ValueError, zlib.error) as error:
            raise CorruptFile(f"Expected {path} to be a gzipped table of cells. Found: {first_line(error)}.") from None
        if "arch_str" not in header:
            raise CorruptFile(f"Expected {path} to be a gzipped table of cells. Found no column arch_str.")
        if len(lines) != CELLS:
            raise CorruptFile(f"Expected {CELLS} cells in {path}. Found {len(lines)}.")
        table = cls(header, lines, column)
        try:
            table._rows  # noqa: B018 - parses the cells, to detect a damaged file here
            table._values(column)
        except (InvalidInput, ValueError) as error:
            raise CorruptFile(f"Expected {path} to be a gzipped table of cells. {first_line(error)}.") from None
        return table

    def accuracy(self, architecture: Architecture) -> float:
        """The value in the chosen column, by default the test accuracy on CIFAR-10."""
        return self.value(architecture, self.column)

    def value(self, architecture: Architecture, column: str) -> float:
        """The value of a cell in a column."""
        if column not in self.columns:
            raise UnknownName("column of the NAS-Bench-201 table", column, self.columns)
        row = self._rows.find(architecture)
        if row is None:
            raise self.unknown(architecture)
        number = float(self._values(column)[row])
        if np.isnan(number):
            raise InvalidInput(f"Expected a number in {column} for {architecture.key}. Got an empty cell.")
        return number

    def __contains__(self, architecture: object) -> bool:
        return isinstance(architecture, Architecture) and self._rows.find(architecture) is not None

    def __len__(self) -> int:
        return len(self._lines)

    def architectures(self) -> Sequence[Architecture]:
        """All cells in the order of the benchmark's index."""
        return self._rows.architectures()

    @cached_property
    def _rows(self) -> RowIndex:
        texts = self._texts("arch_str")
        joined = b"\n".join(texts)
        for index, operation in enumerate(NB201_OPERATIONS):  # one byte each, so that all cells have equal length
            joined = joined.replace(operation.encode(), bytes([index]))
        words = joined.split(b"\n")
        cells = np.array(words, dtype=f"S{len(NOTATION) + 1}").view(np.uint8).reshape(len(words), -1)
        pattern = np.frombuffer(f"{NOTATION}\0".encode(), dtype=np.uint8)  # numpy pads shorter words with zeros
        wrong = np.where(pattern == ord("?"), cells >= len(NB201_OPERATIONS), cells != pattern).any(axis=1)
        if wrong.any():
            raise InvalidInput(f"Found the cell {texts[int(wrong.argmax())].decode(errors='replace')[:120]!r}.")
        return RowIndex(self.space, cells[:, pattern == ord("?")])

    def _values(self, column: str) -> NDArray[np.float64]:
        """One column as numbers, NaN for empty cells: (15625,)."""
        if column not in self._numbers:
            self._numbers[column] = np.array([float(text or "nan") for text in self._texts(column)])
        return self._numbers[column]

    def _texts(self, column: str) -> list[bytes]:
        position = self._header.index(column)
        try:
            return [line.split(b",", position + 1)[position] for line in self._lines]
        except IndexError:
            raise InvalidInput(f"Found a row of fewer than {position + 1} columns.") from None
