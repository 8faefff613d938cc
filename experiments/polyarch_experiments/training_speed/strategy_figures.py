"""The tables and figures of `strategy_ranking`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from polyarch.ranking.halving import geometric_rungs, halving_on_curves
from polyarch_experiments.consistency import self_consistency
from polyarch_experiments.distinct_cells import TRUTHS, truth_on, typicality
from polyarch_experiments.experiment import Settings, Table
from polyarch_experiments.figures import Spec, grouped_bars, lines, scatter, side_by_side, summary
from polyarch_experiments.improvement import improvement
from polyarch_experiments.measures import spread
from polyarch_experiments.seeds import runs_of
from polyarch_experiments.training_speed.strategy_claims import RankedRuns
from polyarch_experiments.training_speed.strategy_scores import (
    CELLS,
    ESTIMATORS,
    NAMES,
    arrived,
    correlation,
    correlation_along,
    curves_of,
    estimators_of,
    scores_of,
    top_kept,
    top_of,
    truth_of,
)
from polyarch_experiments.verdict import interval_in_words

COMPARED = ("val_acc", "val_acc_after", "val_acc_mini", "tl_mini", "sovl", "params", "macs", "synflow", "naswot")
"""What SoTL is compared with."""
ELIMINATION = (2, 3, 4)
"""Of so many architectures one goes on to the next rung."""


def table(settings: Settings, runs: Mapping[str, Any], truth: str, measure: Callable[..., float], digits: int) -> Table:
    """Strategies by estimators: mean and spread over seeds."""
    known, estimators = truth_of(runs, truth), estimators_of(runs)
    rows = [
        [
            NAMES[strategy],
            *(
                spread(
                    [measure(run, estimator, known) for run in runs_of(runs, settings["strategies"], strategy)], digits
                )
                for estimator in estimators
            ),
        ]
        for strategy in settings["strategies"]
    ]
    return Table(["strategy", *estimators.values()], rows)


def tables(settings: Settings, runs: dict[str, Any]) -> dict[str, Table]:
    """Table 4.1 against all truths, table 4.5, and what early elimination keeps."""
    settings = arrived(settings, runs)
    if not settings["strategies"]:
        return {}
    n, own = len(truth_of(runs, "nb201")), len(truth_of(runs, "own"))
    found = {
        **(typicality(runs[CELLS]) if CELLS in runs else {}),
        f"Spearman with the NAS-Bench-201 test accuracy ({n} cells)": table(settings, runs, "nb201", correlation, 2),
        f"Mean NAS-Bench-201 test accuracy of the top 10 of {n}, in percent": table(settings, runs, "nb201", top_of, 2),
        "SoTL minus other estimators: difference of Spearman's correlations with its interval": _differences(
            settings, runs
        ),
    }
    own_data = truth_on(settings["run"]["data"]["name"])
    for truth in (name for name in TRUTHS if name != own_data and CELLS in runs):
        caption = f"the test accuracy on {TRUTHS[truth][1]} (supernets and scores are those of {TRUTHS[own_data][1]})"
        found[f"Spearman with {caption}"] = table(settings, runs, truth, correlation, 2)
        found[f"Top 10 by {caption}, in percent"] = table(settings, runs, truth, top_of, 2)
    found |= {
        "Gradients and the number of parameters: Spearman with the truth, and with the number of parameters (P) "
        "(table 4.5)": _gradients(settings, runs),
        "Kendall's tau between the seeds of a strategy": _consistency(settings, runs),
        "Early elimination on the running SoTL: share of the full ranking's top 10 that is kept, and of its steps that "
        "are taken": _elimination(settings, runs),
    }
    if own:
        found[f"Spearman with the accuracy of {own} cells trained alone at this size"] = table(
            settings, runs, "own", correlation, 2
        )
    return found


def _differences(settings: Settings, runs: Mapping[str, Any]) -> Table:
    ranked = RankedRuns(settings["strategies"], runs, truth_of(runs, "nb201"))
    others = [name for name in COMPARED if name in estimators_of(runs)]
    rows = [
        [
            NAMES[strategy],
            *(
                interval_in_words(
                    ranked.samples.interval(ranked.spearman(strategy, "sotl") - ranked.spearman(strategy, other)), 2
                )
                for other in others
            ),
        ]
        for strategy in settings["strategies"]
    ]
    return Table(["strategy", *(ESTIMATORS[name] for name in others)], rows)


def _gradients(settings: Settings, runs: Mapping[str, Any]) -> Table:
    truth = truth_of(runs, "nb201")
    rows = []
    for strategy in settings["strategies"]:
        found = runs_of(runs, settings["strategies"], strategy)
        sizes = [dict(zip(truth, scores_of(run, "params", list(truth)), strict=True)) for run in found]
        rows.append(
            [
                NAMES[strategy],
                *(
                    spread([correlation(run, name, truth) for run in found], 2)
                    for name in ("sotl", "sog", "sogn", "params")
                ),
                *(
                    spread([correlation(run, name, size) for run, size in zip(found, sizes, strict=True)], 2)
                    for name in ("sotl", "sog", "sogn")
                ),
            ]
        )
    return Table(["strategy", "SoTL", "SoG", "SoGN", "parameters", "SoTL-P", "SoG-P", "SoGN-P"], rows)


def _consistency(settings: Settings, runs: Mapping[str, Any]) -> Table:
    keys = list(truth_of(runs, "nb201"))
    rows = []
    for strategy in settings["strategies"]:
        found = runs_of(runs, settings["strategies"], strategy)
        agreement = [
            self_consistency([scores_of(run, name, keys) for run in found], resamples=1).kendall.value
            for name in ("sotl", "sotl_last", "val_acc")
            if len(found) > 1
        ]
        rows.append([NAMES[strategy], *("-" if value is None else f"{value:.2f}" for value in agreement or [None] * 3)])
    return Table(["strategy", "SoTL", "SoTL, last half", "ValAcc"], rows)


def _elimination(settings: Settings, runs: Mapping[str, Any]) -> Table:
    rows = []
    for factor in ELIMINATION:
        kept, cost = [], []
        for strategy in settings["strategies"]:
            for run in runs_of(runs, settings["strategies"], strategy):
                losses = curves_of(run, list(truth_of(runs, "nb201")))
                blocks = losses.shape[1]
                full = halving_on_curves(losses, [blocks])
                found = halving_on_curves(
                    losses, geometric_rungs(blocks, first=max(blocks // 8, 1), factor=factor), factor
                )
                kept.append(top_kept(found.order, full.order, min(10, len(losses))))
                cost.append(found.spent / found.full_steps)
        rows.append([f"1/{factor} go on, first after an eighth of the steps", spread(kept, 2), spread(cost, 2)])
    return Table(["rule", "top 10 kept", "steps taken"], rows)


def figures(settings: Settings, runs: dict[str, Any]) -> dict[str, Spec]:
    """Table 4.1 as bars, correlation along the short run (figure 4.6), improvement curves, and scores against truth."""
    settings, truth = arrived(settings, runs), truth_of(runs, "nb201")
    if not settings["strategies"]:
        return {}
    bars = [
        {"x": ESTIMATORS[name], "series": NAMES[strategy]}
        | summary([correlation(run, name, truth) for run in runs_of(runs, settings["strategies"], strategy)])
        for name in ("sotl", "sotl_last", "val_acc", "tl_mini", "sovl", "sog", "params", "macs", "synflow", "naswot")
        if name in estimators_of(runs)
        for strategy in settings["strategies"]
    ]
    steps = settings["run"]["scores"]["steps"]
    along = [
        {"x": (block + 1) * steps / len(values), "mean": value, "series": NAMES[strategy]}
        for strategy, values in correlation_along(settings, runs, truth).items()
        for block, value in enumerate(values)
    ]
    first = runs_of(runs, settings["strategies"], next(iter(settings["strategies"])))[0]
    keys, known = list(truth), list(truth.values())
    points = [
        {"x": score, "y": accuracy} for score, accuracy in zip(scores_of(first, "sotl_last", keys), known, strict=True)
    ]
    curves = []
    for name in ("sotl", "sotl_last", "val_acc", "params"):
        found = improvement(scores_of(first, name, keys), known, least=min(10, len(keys)))
        curves += [
            {"x": int(left), "mean": float(value), "series": ESTIMATORS[name]}
            for left, value in zip(found.kept, found.normalised, strict=True)
        ]
    return {
        "strategies_by_estimators": grouped_bars(bars, "", "Spearman with the truth", series="strategy"),
        "correlation_along_the_run": lines(along, "steps", "Spearman with the truth", series="strategy"),
        "improvement": side_by_side(
            lines(curves, "architectures left", "improvement (1 = best of all)", series="estimator"),
            scatter(points, "SoTL, last half", "true accuracy, percent"),
        ),
    }
