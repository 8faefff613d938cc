"""Regression on four tables over 20 splits: coverage of 90 % intervals, and RMSE against trees.

The tables are the last numeric column before the label of magic and of penbased (shared data, if it is there),
scikit-learn's diabetes, and a generated one whose noise is known. Every split shuffles the rows; a fifth is test data.
All learn from the same training rows, at most 3,000: the race, gradient boosting and extra trees, as every report has
them. Resumable: results are stored as they arrive, and those of other settings are replaced.
"""

import argparse
import json
import os
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_diabetes

import polyarch
from polyarch.data import data_root
from polyarch.data.table_dataset import TableSource, table_dataset
from polyarch.files import write_json

RESULTS = Path(__file__).parent.parent / "docs" / "results" / "regression" / "tables.json"
COVERAGE = 0.9
MOST_ROWS = 3000
SETTINGS: dict[str, Any] = {"programs": [], "race.clock": "work", "race.seconds": 30.0, "task.coverage": COVERAGE}
"""Set by time alone; the clock of work, so that results can be had again."""


def tables() -> Iterator[tuple[str, pd.DataFrame]]:
    """Names and rows, with the target in column y."""
    for name in ("magic", "penbased"):
        path = data_root() / "tabular" / f"{name}.csv.gz"
        if path.exists():
            frame = pd.read_csv(path)
            *columns, label = frame.columns
            yield name, frame.drop(columns=label).rename(columns={columns[-1]: "y"})
    yield "diabetes", load_diabetes(as_frame=True).frame.rename(columns={"target": "y"})
    yield "generated", generated(3000)


def generated(rows: int) -> pd.DataFrame:
    """y = sin(2 a) + b c + noise of standard deviation 0.3, or 0.8 where d is above 0; e and f do not matter."""
    generator = np.random.default_rng(0)
    inputs = generator.normal(size=(rows, 6))
    a, b, c, d, _, _ = inputs.T
    noise = np.where(d > 0, 0.8, 0.3) * generator.normal(size=rows)
    return pd.DataFrame(inputs, columns=list("abcdef")).assign(y=np.sin(2 * a) + b * c + noise)


def measured(name: str, frame: pd.DataFrame, split: int) -> dict[str, float]:
    """Coverage, width and RMSE of the default predictor on one split, and the RMSE of trees."""
    rows = frame.sample(frac=1.0, random_state=split, ignore_index=True)
    test, rest = (part.reset_index(drop=True) for part in (rows[: len(rows) // 5], rows[len(rows) // 5 :]))
    train = TableSource(rest[:MOST_ROWS], name)
    data = table_dataset(name, train, test=TableSource(test, name), target="y", task="regression")
    with tempfile.TemporaryDirectory() as folder:
        found = polyarch.search(
            data, out=Path(folder) / "run", seed=split, workers=1, quiet=True, report=False, settings=SETTINGS
        ).results
    answer = next(one for one in found.predictors if one.folder == found.default)
    trees = {entry.name.removesuffix(" (scikit-learn)"): entry for entry in found.comparison or []}
    boosting, extra_trees = trees["gradient boosting"], trees["extra trees"]
    assert answer.conformal is not None
    return {
        "covered": answer.conformal.covered,
        "width": answer.conformal.size,
        "rmse": answer.metrics["rmse"],
        "nll": answer.loss,
        "single_rmse": found.predictors[0].metrics["rmse"],
        "boosting_rmse": boosting.mean,
        "boosting_nll": boosting.runs[0].loss,
        "extra_trees_rmse": extra_trees.mean,
    }


def main() -> None:
    """Runs what is missing and prints means with standard deviations over splits."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--quick", action="store_true", help="two splits of the two small tables, not stored")
    arguments = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    stored = json.loads(RESULTS.read_text()) if RESULTS.exists() and not arguments.quick else {}
    is_same = stored.get("settings") == SETTINGS
    runs: dict[str, dict[str, dict[str, float]]] = stored["runs"] if is_same else {}
    chosen = [(name, frame) for name, frame in tables() if not arguments.quick or name in ("diabetes", "generated")]
    for split in range(2 if arguments.quick else arguments.splits):
        for name, frame in chosen:
            known = runs.setdefault(name, {})
            if str(split) not in known:
                known[str(split)] = measured(name, frame, split)
                print(name, split, {key: round(value, 4) for key, value in known[str(split)].items()}, flush=True)
                if not arguments.quick:
                    write_json(RESULTS, {"settings": SETTINGS, "runs": runs})
    for name, known in runs.items():
        columns = {key: [run[key] for run in known.values()] for key in next(iter(known.values()))}
        shown = {
            key: f"{statistics.fmean(values):.4g} +- {statistics.stdev(values):.2g}" for key, values in columns.items()
        }
        print(f"{name} ({len(known)} splits): {shown}")


if __name__ == "__main__":
    main()
