"""What the learning rate of short runs changes: tables 4.4 and 4.5 and figure 4.8 of the thesis."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyarch.ranking import top_k
from polyarch_experiments.distinct_cells import TRUTHS
from polyarch_experiments.experiment import Settings, Table
from polyarch_experiments.figures import Row, Spec, lines, side_by_side, summary
from polyarch_experiments.measures import rank_correlation, spread
from polyarch_experiments.training_speed.strategy_scores import CELLS

Values = NDArray[np.float64]

GROUPS = {"best": "truly best 10 %", "median": "median 10 %"}
"""Groups of cells whose losses are compared (figure 4.8)."""


def rate_tables(settings: Settings, runs: Mapping[str, Any]) -> dict[str, Table]:
    """SoTL and ValAcc by rate (table 4.4), and gradients, parameters and SoTL by rate (table 4.5)."""
    trained = [run for name, run in runs.items() if name != CELLS]
    batch = settings["batches"][0]
    names = {rate: f"{rate:g} {batch}" for rate in settings["rates"]}
    truths = {shown: [one[key] for one in runs[CELLS]["truths"].values()] for key, (_, shown) in TRUTHS.items()}
    speed = {rate: [-np.array(run["losses"][name]).sum(1) for run in trained] for rate, name in names.items()}

    def read(estimator: str, rate: float) -> list[Values]:
        return [_filled(run["scores"][names[rate]][estimator]) for run in trained]

    accuracies = {rate: read("val_acc_after", rate) for rate in names}
    by_rate = [
        [
            shown,
            estimator,
            *(_correlations(scores[rate], truth) for rate in names),
            *(spread([top_k(one.tolist(), truth, min(10, len(truth))) for one in scores[rate]], 2) for rate in names),
        ]
        for shown, truth in truths.items()
        for estimator, scores in (("SoTL", speed), ("ValAcc", accuracies))
    ]
    sizes = [np.array(run["params"], np.float64) for run in trained]
    last = settings["rates"][-1]
    gradients = [
        [
            shown,
            *(_correlations(read(estimator, rate), truth) for estimator in ("sog", "sogn") for rate in names),
            _correlations(sizes, truth),
            _correlations(speed[last], sizes[0].tolist()),
            _correlations(read("sog", last), sizes[0].tolist()),
        ]
        for shown, truth in truths.items()
    ]
    return {
        f"SoTL and ValAcc after short runs on CIFAR-10 by rate, batches of {batch} (table 4.4)": Table(
            [
                "truth",
                "score",
                *(f"Spearman, rate {rate:g}" for rate in names),
                *(f"top 10, rate {rate:g}, %" for rate in names),
            ],
            by_rate,
        ),
        "Spearman of gradients and of the number of parameters; with the latter as truth (P), at the highest rate "
        "(table 4.5)": Table(
            [
                "truth",
                *(f"{shown}, rate {rate:g}" for shown in ("SoG", "SoGN") for rate in names),
                "parameters",
                "SoTL-P",
                "SoG-P",
            ],
            gradients,
        ),
    }


def rates_along(settings: Settings, trained: Sequence[Mapping[str, Any]]) -> Spec:
    """The truth of the top 10 and mean losses, of all cells and of two groups, along the run (figure 4.8)."""
    batch = settings["batches"][0]
    curves = {
        rate: [np.array(run["losses"][f"{rate:g} {batch}"]) for run in trained] for rate in settings["rates"]
    }  # (n, blocks) per seed
    truth = np.array(trained[0]["truth"])
    groups = dict(zip(GROUPS.values(), _groups(truth), strict=True))

    def rows(rate: float, rows_of: Mapping[str, Any]) -> Iterator[Row]:
        blocks = curves[rate][0].shape[1]
        for series, values in rows_of.items():
            for block in range(blocks):
                at = (block + 1) * settings["steps"] / blocks
                yield {"x": at, "series": series, **summary([one[block] for one in values])}

    tops: list[Row] = []
    for rate, found in curves.items():
        best = [
            [top_k(column.tolist(), truth.tolist(), min(10, len(truth))) for column in -np.cumsum(one, axis=1).T]
            for one in found
        ]
        tops += rows(rate, {f"rate {rate:g}": best})
    panels = [
        lines(
            rows(rate, {name: [one[cells].mean(0) for one in found] for name, cells in groups.items()}),
            "steps",
            "mean training loss",
            series="cells",
            title=f"rate {rate:g}",
        )
        for rate, found in curves.items()
    ]
    return side_by_side(lines(tops, "steps", "true accuracy of the top 10 by SoTL, %", series="rate"), *panels)


def _groups(truth: Values) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The truly best tenth of the cells and the tenth around the median, at least one cell each."""
    order, size = np.argsort(-truth, kind="stable"), max(len(truth) // 10, 1)
    middle = (len(truth) - size) // 2
    return order[:size], order[middle : middle + size]


def _correlations(scores: Sequence[Values], truth: Sequence[float]) -> str:
    return spread([rank_correlation(one.tolist(), truth) for one in scores], 2)


def _filled(scores: Sequence[float | None]) -> Values:
    """Runs whose loss was not finite come last."""
    known = [score for score in scores if score is not None]
    return np.array([min(known) - 1 if score is None else score for score in scores], np.float64)
