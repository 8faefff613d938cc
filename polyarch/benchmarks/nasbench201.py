"""The table of all 15,625 NAS-Bench-201 cells."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

from polyarch.data.sources import data_root
from polyarch.errors import CorruptFile, InvalidInput, MissingData, UnknownName
from polyarch.spaces import Architecture, nb201_string


class NASBench201:
    """True values of cells, by column of the table, e.g. ``cifar10_test_200`` (percent) or ``params_cifar10``."""

    def __init__(self, rows: dict[str, dict[str, str]]) -> None:
        self._rows = rows
        self.columns = tuple(name for name in next(iter(rows.values())) if name not in ("index", "arch_str"))

    @classmethod
    def load(cls, path: Path | None = None) -> NASBench201:
        """From ``nas_bench_201/nb201_table.csv.gz`` in the data folder, or from the given file."""
        path = path or data_root() / "nas_bench_201" / "nb201_table.csv.gz"
        if not path.is_file():
            raise MissingData(
                f"Expected the NAS-Bench-201 table at {path}. Found no such file; POLYARCH_DATA names the data folder."
            )
        try:
            with gzip.open(path, "rt", newline="") as file:
                rows = {row["arch_str"]: row for row in csv.DictReader(file)}
        except (OSError, EOFError, KeyError) as error:
            raise CorruptFile(f"Expected {path} to be a gzipped table of cells. Found: {error}.") from None
        if len(rows) != 15625:
            raise CorruptFile(f"Expected 15625 cells in {path}. Found {len(rows)}.")
        return cls(rows)

    def value(self, architecture: Architecture, column: str) -> float:
        """The table's number for a cell."""
        if column not in self.columns:
            raise UnknownName("column of the NAS-Bench-201 table", column, self.columns)
        text = self._rows[nb201_string(architecture)][column]
        try:
            return float(text)
        except ValueError:
            raise InvalidInput(f"Expected a number in {column} for {architecture.key}. Got {text!r}.") from None

    def __len__(self) -> int:
        return len(self._rows)
