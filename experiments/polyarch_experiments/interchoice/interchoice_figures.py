"""Tables and figures of supernets with inter-choice weights: improvement curves and agreement of seeds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from polyarch_experiments.experiment import Settings, Table
from polyarch_experiments.figures import Row, Spec, grouped_bars, lines, side_by_side, summary
from polyarch_experiments.improvement import improvement
from polyarch_experiments.interchoice.weighted_supernets import (
    TOP,
    Ranked,
    agreement,
    correlations,
    gains,
    runs_with,
    weights_of,
)
from polyarch_experiments.measures import spread

MEASURES = {
    "mean_truth": "mean accuracy of those left (%)",
    "normalised": "improvement (1 = best)",
    "kendall": "Kendall, truly worst removed",
}
"""Of improvement curves, and what to call them."""


def tables(settings: Settings, runs: dict[str, Any]) -> dict[str, Table]:
    """How every space and kind of weights ranks, and how far seeds agree."""
    ranked = _ranked(settings, runs)
    rows = [
        [
            space, kind, f"{found[0]['parameters']:,}", spread(correlations(found), 2),
            f"{correlations(found[:1], 'params')[0]:.2f}", spread(gains(found), 2), str(len(found)),
        ]
        for space, kinds in ranked.items()
        for kind, found in kinds.items()
        if found
    ]  # fmt: skip
    columns = [
        "space", "weights", "supernet parameters", "Kendall with the truth", "of the parameter count",
        "improvement of the top 10", "seeds",
    ]  # fmt: skip
    return {
        "Validation accuracy with inherited weights": Table(columns, rows),
        "Agreement of seeds, mean over their pairs": agreement_table(ranked),
    }


def _ranked(settings: Settings, runs: Mapping[str, Any]) -> dict[str, dict[str, list[Ranked]]]:
    """Results by space and kind of weights, one per seed."""
    return {
        space: {kind: runs_with(settings, runs, space, kind) for kind in weights_of(settings)}
        for space in settings["spaces"]
    }


def agreement_table(ranked: Mapping[str, Mapping[str, Sequence[Ranked]]], scores: str = "val_acc") -> Table:
    """Kendall, Pearson and Spearman of the predictions of pairs of seeds, by space and kind of weights."""
    rows = []
    for space, kinds in ranked.items():
        for kind, found in kinds.items():
            if (agreed := agreement(found, scores)) is not None:
                pairs = (agreed.kendall_of_pairs, agreed.pearson_of_pairs, agreed.spearman_of_pairs)
                rows.append([space, kind, *(_mean_of(values) for values in pairs)])
    return Table(["space", "weights", "Kendall", "Pearson", "Spearman"], rows)


def _mean_of(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return spread(known, 3) if known else "-"


def improvement_rows(series: Mapping[str, Sequence[Ranked]], measure: str, least: int = TOP) -> list[Row]:
    """Improvement curves with mean and standard deviation over all seeds, by series.

    Args:
        measure: of an `ImprovementCurve`.
        least: so many architectures are left at the end.
    """
    rows = []
    for name, found in series.items():
        curves = [improvement(run["val_acc"], run["truth"], least=min(least, len(run["truth"]))) for run in found]
        for position, kept in enumerate(curves[0].kept if curves else ()):
            values = [float(getattr(curve, measure)[position]) for curve in curves]
            if all(map(math.isfinite, values)):  # a correlation of equal numbers is none
                rows.append({"x": int(kept), "series": name, **summary(values)})
    return rows


def improvement_panels(
    columns: Mapping[str, Mapping[str, Sequence[Ranked]]],
    measures: Sequence[str] = ("normalised", "kendall"),
    least: int = TOP,
) -> Spec:
    """A panel for every measure and title, with a curve for every series under that title."""
    panels = [
        lines(
            improvement_rows(series, measure, least),
            "architectures left",
            MEASURES[measure],
            series="weights",
            title=title,
        )
        for measure in measures
        for title, series in columns.items()
    ]
    return side_by_side(*panels, columns=len(columns))


def figures(settings: Settings, runs: dict[str, Any]) -> dict[str, Spec]:
    """Improvement of the top 10 by space, and the curves of figures 4 (down to 10) and 8 (down to 1)."""
    ranked = _ranked(settings, runs)
    bars = [
        {"x": space, "series": kind} | summary(gains(found))
        for space, kinds in ranked.items()
        for kind, found in kinds.items()
        if found
    ]
    return {
        "improvement_by_space": grouped_bars(bars, "", "improvement of the top 10", series="weights"),
        "improvement_curves": improvement_panels(ranked),
        "improvement_of_all": improvement_panels(ranked, ["normalised"], least=1),
    }
