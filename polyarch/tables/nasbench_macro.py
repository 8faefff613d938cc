"""NAS-Bench-Macro: 6,561 chains of eight MobileNetV2 layers on CIFAR-10.

Su et al. (2021), "Prioritized Architecture Sampling with Monto-Carlo Tree Search", arXiv:2103.11922.
"""

import csv
import gzip
from pathlib import Path

from polyarch.data.locations import data_root
from polyarch.errors import CorruptFile, MissingData, first_line
from polyarch.spaces.macro import macro_space, parse_macro
from polyarch.tables.curve_table import CurveTable

RUNS = ("test_acc_0", "test_acc_1", "test_acc_2")
COLUMNS = (*RUNS, "params", "flops")


def load_macro(path: Path | None = None) -> CurveTable:
    """Loads ``nas_bench_macro/nb_macro_cifar10.csv.gz`` from the data folder, or the given file.

    The accuracy is the mean test accuracy of three runs; the columns are the single runs, ``params`` and ``flops``.
    """
    path = path or data_root() / "nas_bench_macro" / "nb_macro_cifar10.csv.gz"
    if not path.is_file():
        raise MissingData(
            f"Expected NAS-Bench-Macro at {path}. Found no such file; POLYARCH_DATA names the data folder, and the "
            "numbers are those of data/nas-bench-macro_cifar10.json in github.com/xiusu/NAS-Bench-Macro."
        )
    space = macro_space()
    try:
        with gzip.open(path, "rt", newline="") as file:
            rows = list(csv.DictReader(file))
        indices = [parse_macro(row["arch"], space).indices for row in rows]
        columns = {name: [float(row[name]) for row in rows] for name in COLUMNS}
        means = [sum(runs) / len(RUNS) for runs in zip(*(columns[name] for name in RUNS), strict=True)]
        return CurveTable("macro", space, indices, means, columns=columns)
    except Exception as error:  # damaged bytes make gzip and csv raise all kinds of errors
        raise CorruptFile(f"Expected {path} to be the table of NAS-Bench-Macro. Found: {first_line(error)}.") from None
