"""Reads tables from CSV (also gzipped) and parquet files, or from a folder of train and test files."""

from __future__ import annotations

import csv
import gzip
import zlib
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polyarch.data.columns import require_distinct
from polyarch.data.dataset import Dataset
from polyarch.data.split_keys import SplitKeys
from polyarch.data.splits import TEST_SIDES, sides_of
from polyarch.data.table_dataset import TableSource, table_dataset
from polyarch.data.targets import TargetKind
from polyarch.errors import CorruptFile, DataError, MissingData, MissingExtra, first_line

if TYPE_CHECKING:
    import pandas as pd

TABLE_SUFFIXES = (".csv", ".csv.gz", ".parquet")
SEPARATORS = ",;\t|"


def is_table_file(path: Path) -> bool:
    """Whether the file name has the suffix of a table."""
    return path.name.lower().endswith(TABLE_SUFFIXES)


def table_files(folder: Path) -> dict[str, Path]:
    """The tables of a folder that are named train, test, val, ..., by name."""
    found: dict[str, Path] = {}
    for side in ("train", *TEST_SIDES):
        for suffix in TABLE_SUFFIXES:
            path = folder / f"{side}{suffix}"
            if path.is_file():
                found.setdefault(side, path)
    return found


def read_table_file(
    path: Path,
    *,
    target: str | None = None,
    task: TargetKind | None = None,
    test_share: float | None = 0.2,
    keys: SplitKeys | None = None,
) -> Dataset:
    """Reads one file; ``test_share`` of it becomes the test set."""
    return table_dataset(path.name, read_table(path), target=target, task=task, test_share=test_share, keys=keys)


def read_table_folder(
    folder: Path,
    *,
    target: str | None = None,
    task: TargetKind | None = None,
    test_share: float | None = 0.2,
    keys: SplitKeys | None = None,
) -> Dataset:
    """Reads train.csv, test.csv and valid.csv (or parquet), or those of them that are there; see `sides_of`."""
    files = table_files(folder)
    train = read_table(files["train"])
    test, valid = (read_table(files[side]) if side else None for side in sides_of(files, test_share))
    name = folder.resolve().name
    return table_dataset(name, train, test, valid=valid, target=target, task=task, test_share=test_share, keys=keys)


def read_frame(path: Path) -> pd.DataFrame:
    """Reads a table as a data frame; refuses CSV rows that are shorter or longer than the header."""
    import pandas

    if not path.is_file():
        raise MissingData(f"Expected a table at {path}. Found no such file.")
    if path.suffix.lower() == ".parquet":
        try:
            return pandas.read_parquet(path)
        except ImportError:
            raise MissingExtra("Reading a parquet file", "parquet") from None
        except Exception as error:  # the reader raises all kinds of errors on damaged bytes
            raise CorruptFile(f"Expected {path} to be a readable parquet file. Found: {first_line(error)}.") from None
    try:
        separator, rows = _checked_lines(path)
        frame = pandas.read_csv(
            path,
            sep=separator,
            encoding="utf-8-sig",
            index_col=False,
            skipinitialspace=True,
            na_values=["?"],
            low_memory=False,  # infers types from whole columns, not from chunks
        )
    except DataError:
        raise
    except UnicodeDecodeError as error:
        raise CorruptFile(f"Expected {path} to be text in UTF-8. Found: {error}.") from None
    except (csv.Error, OSError, EOFError, zlib.error, ValueError) as error:
        raise CorruptFile(f"Expected {path} to be a readable table. Found: {first_line(error)}.") from None
    if len(frame) != rows:
        raise CorruptFile(f"Expected {path} to have {rows} rows. Found {len(frame)}: check its quotation marks.")
    return frame


def _checked_lines(path: Path) -> tuple[str, int]:
    """The separator and the number of rows; pandas would silently pad short rows and cut long ones."""
    open_text: Any = partial(gzip.open, path) if path.suffix.lower() == ".gz" else path.open
    with open_text("rt", encoding="utf-8-sig", newline="") as file:
        header = file.readline()
        separator = max(SEPARATORS, key=header.count)
        file.seek(0)
        lines = csv.reader(file, delimiter=separator, skipinitialspace=True)
        names = [name.strip() for name in next(lines, [])]
        if not names:
            raise CorruptFile(f"Expected {path} to have a line of column names. Found an empty file.")
        require_distinct(names, str(path))
        rows = 0
        for cells in lines:
            if not cells:
                continue
            rows += 1
            if len(cells) != len(names):
                raise CorruptFile(f"Expected {len(names)} cells per row of {path}. Found {len(cells)} in row {rows}.")
    return separator, rows


def read_table(path: Path) -> TableSource:
    """The table without its unnamed columns, which number the rows."""
    frame = read_frame(path)
    unnamed = [name for name in frame.columns if str(name).startswith("Unnamed: ")]
    notes = tuple(f"{name.replace('Unnamed:', 'Column')} is left out: it has no name." for name in unnamed)
    return TableSource(frame.drop(columns=unnamed), str(path), notes)
