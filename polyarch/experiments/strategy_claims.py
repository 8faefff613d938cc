"""What the runs of `strategy_ranking` say: table 4.1, its claims and figures."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyarch.experiments.experiment import Settings, Table, spread
from polyarch.experiments.figures import Spec, grouped_bars, lines, scatter, side_by_side, summary
from polyarch.ranking import improvement, rank_quality, self_consistency, top_k
from polyarch.ranking.halving import geometric_rungs, halving_on_curves, top_kept
from polyarch.results import Claim

Values = NDArray[np.float64]

NAMES = {
    "single_path": "SPOS",
    "fair": "FairNAS",
    "multi_path": "MultiPath",
    "reptile": "Reptile",
    "meta_prox": "MetaProx",
    "multi_path_meta_prox": "MultiPath+MetaProx",
}
ESTIMATORS = {
    "sotl": "SoTL",
    "sotl_last": "SoTL, last half",
    "sotl_ema": "SoTL, average",
    "sovl": "SoVL",
    "tl_mini": "TLMini",
    "val_acc": "ValAcc",
    "val_acc_mini": "ValAccMini",
    "sog": "SoG",
    "sogn": "SoGN",
    "params": "parameters",
    "macs": "MACs",
}
LIKE_ACCURACY = ("tl_mini", "val_acc", "val_acc_mini")
"""What SoTL is said to rank better than."""
FLAT = 0.05
"""A rank correlation that changes by less counts as unchanged."""
ELIMINATION = (2, 3, 4)
"""Of so many architectures one goes on to the next rung."""


def _runs(settings: Settings, runs: Mapping[str, Any], strategy: str) -> list[dict[str, Any]]:
    return [runs[f"{strategy} seed {seed}"] for seed in range(settings["strategies"][strategy])]


def truth_of(runs: Mapping[str, Any], name: str) -> dict[str, float]:
    """The true accuracy (percent) by key: of the published table, or of the networks trained here."""
    if name == "own":
        found = [run["accuracies"] for key, run in runs.items() if key.startswith("truth ")]
        return {key: accuracy for accuracies in found for key, accuracy in accuracies.items()}
    first = next(run for key, run in runs.items() if not key.startswith("truth "))
    return {row["architecture"]: row["nb201"] for row in first["scored"]}


def _scores(run: Mapping[str, Any], estimator: str, keys: Sequence[str]) -> list[float]:
    """Higher is better for all but costs, which count as predictions too: larger networks are expected to be better."""
    by_key = {row["architecture"]: row["scores"][estimator] for row in run["scored"]}
    return [by_key[key] for key in keys]


def correlation(run: Mapping[str, Any], estimator: str, truth: Mapping[str, float]) -> float:
    """Spearman's rank correlation of an estimator with the truth, on the architectures whose truth is known."""
    keys = list(truth)
    found = rank_quality(_scores(run, estimator, keys), list(truth.values()), resamples=1).spearman.value
    return 0.0 if found is None else found


def _top(run: Mapping[str, Any], estimator: str, truth: Mapping[str, float]) -> float:
    keys = list(truth)
    return top_k(_scores(run, estimator, keys), list(truth.values()), min(10, len(keys)))


def table(settings: Settings, runs: Mapping[str, Any], truth: str, measure: Callable[..., float], digits: int) -> Table:
    """Strategies by estimators: mean and spread over seeds."""
    known = truth_of(runs, truth)
    rows = [
        [
            NAMES[strategy],
            *(
                spread([measure(run, estimator, known) for run in _runs(settings, runs, strategy)], digits)
                for estimator in ESTIMATORS
            ),
        ]
        for strategy in settings["strategies"]
    ]
    return Table(["strategy", *ESTIMATORS.values()], rows)


def tables(settings: Settings, runs: dict[str, Any]) -> dict[str, Table]:
    """Table 4.1 against both truths, and what early elimination keeps."""
    n, own = len(truth_of(runs, "nb201")), len(truth_of(runs, "own"))
    found = {
        f"Spearman with the NAS-Bench-201 test accuracy ({n} cells)": table(settings, runs, "nb201", correlation, 2),
        f"Mean NAS-Bench-201 test accuracy of the top 10 of {n}, in percent": table(settings, runs, "nb201", _top, 2),
        "Kendall's tau between the seeds of a strategy": _consistency(settings, runs),
        "Early elimination on the running SoTL: share of the full ranking's top 10 that is kept, and of its steps that "
        "are taken": _elimination(settings, runs),
    }
    if own:
        found[f"Spearman with the accuracy of {own} cells trained alone at this size"] = table(
            settings, runs, "own", correlation, 2
        )
    return found


def _consistency(settings: Settings, runs: Mapping[str, Any]) -> Table:
    keys = list(truth_of(runs, "nb201"))
    rows = []
    for strategy in settings["strategies"]:
        found = _runs(settings, runs, strategy)
        agreement = [
            self_consistency([_scores(run, name, keys) for run in found], resamples=1).kendall.value
            for name in ("sotl", "sotl_last", "val_acc")
            if len(found) > 1
        ]
        rows.append([NAMES[strategy], *("-" if value is None else f"{value:.2f}" for value in agreement or [None] * 3)])
    return Table(["strategy", "SoTL", "SoTL, last half", "ValAcc"], rows)


def _curves(run: Mapping[str, Any]) -> Values:
    """(n, blocks) mean training losses of the short runs."""
    return np.array([row["losses"] for row in run["scored"]])


def _elimination(settings: Settings, runs: Mapping[str, Any]) -> Table:
    rows = []
    for factor in ELIMINATION:
        kept, cost = [], []
        for strategy in settings["strategies"]:
            for run in _runs(settings, runs, strategy):
                losses = _curves(run)
                blocks = losses.shape[1]
                full = halving_on_curves(losses, [blocks])
                found = halving_on_curves(
                    losses, geometric_rungs(blocks, first=max(blocks // 8, 1), factor=factor), factor
                )
                kept.append(top_kept(found.order, full.order, min(10, len(losses))))
                cost.append(found.spent / found.full_steps)
        rows.append([f"1/{factor} go on, first after an eighth of the steps", spread(kept, 2), spread(cost, 2)])
    return Table(["rule", "top 10 kept", "steps taken"], rows)


def judge(settings: Settings, runs: dict[str, Any]) -> list[Claim]:
    """Differences of means over seeds; the criteria were written before the runs."""
    truth = truth_of(runs, "nb201")
    found = {
        (strategy, estimator): [correlation(run, estimator, truth) for run in _runs(settings, runs, strategy)]
        for strategy in settings["strategies"]
        for estimator in ESTIMATORS
    }
    tops = {
        (strategy, estimator): [_top(run, estimator, truth) for run in _runs(settings, runs, strategy)]
        for strategy in settings["strategies"]
        for estimator in ("sotl", "sotl_last", "params")
    }
    claims = [
        _better_than_accuracy(settings, found),
        _strategies(settings, found, tops),
        _enough_steps(settings, runs, truth),
        _gradients(settings, runs, found),
        _both(settings, found),
        _cost(settings, runs),
        _goal(settings, found, tops),
    ]
    if truth_of(runs, "own"):
        claims.append(_own_truth(settings, runs))
    return claims


def _mean(values: Sequence[float]) -> float:
    return statistics.fmean(values)


Found = Mapping[tuple[str, str], list[float]]


def _better_than_accuracy(settings: Settings, found: Found) -> Claim:
    wins = [
        _mean(found[strategy, "sotl"]) > max(_mean(found[strategy, other]) for other in LIKE_ACCURACY)
        for strategy in settings["strategies"]
    ]
    return Claim(
        number=1,
        text="SoTL ranks better than ValAcc, ValAccMini and TLMini under every strategy.",
        supported=all(wins),
        numbers=f"under {sum(wins)} of {len(wins)} strategies; Spearman "
        + "; ".join(
            f"{NAMES[strategy]}: "
            + ", ".join(f"{ESTIMATORS[name]} {spread(found[strategy, name], 2)}" for name in ("sotl", *LIKE_ACCURACY))
            for strategy in settings["strategies"]
        ),
        document="SoTL 0.78 / 0.89 / 0.91 / 0.87 / 0.88 against ValAcc 0.75 / 0.76 / 0.76 / 0.76 / 0.64 "
        "(SPOS / FairNAS / MultiPath / Reptile / MetaProx)",
    )


def _strategies(settings: Settings, found: Found, tops: Found) -> Claim:
    others = [name for name in settings["strategies"] if name not in ("single_path", "multi_path_meta_prox")]
    better = all(_mean(found[name, "sotl"]) > _mean(found["single_path", "sotl"]) for name in others)
    best_top = all(_mean(tops["single_path", "sotl"]) >= _mean(tops[name, "sotl"]) for name in others)
    return Claim(
        number=2,
        text="FairNAS, MultiPath, Reptile and MetaProx rank better than SPOS by SoTL, yet SPOS has the best top 10.",
        supported=(better and best_top) if others else None,
        numbers="; ".join(
            f"{NAMES[name]}: Spearman {spread(found[name, 'sotl'], 2)}, top 10 {spread(tops[name, 'sotl'], 2)} %"
            for name in settings["strategies"]
        )
        + f"; better ranking: {_yes(better)}, best top 10 with SPOS: {_yes(best_top)}",
        document="Spearman 0.78 (SPOS) against 0.87 to 0.91; top 10 92.87 % (SPOS) against 91.97 to 92.73 %",
    )


def _enough_steps(settings: Settings, runs: Mapping[str, Any], truth: Mapping[str, float]) -> Claim:
    along = _along(settings, runs, truth)
    blocks = len(next(iter(along.values())))
    half, end = blocks // 2 - 1, blocks - 1
    changes = {strategy: values[end] - values[half] for strategy, values in along.items()}
    steps = settings["run"]["scores"]["steps"]
    return Claim(
        number=3,
        text=f"The correlation is flat after {steps // 2} steps (changes by less than {FLAT} until {steps}).",
        supported=all(abs(change) < FLAT for change in changes.values()),
        numbers="; ".join(
            f"{NAMES[strategy]}: {values[half]:.2f} after {steps // 2}, {values[end]:.2f} after {steps}"
            for strategy, values in along.items()
        ),
        document="50 to 100 steps are enough (figure 4.6)",
    )


def _along(settings: Settings, runs: Mapping[str, Any], truth: Mapping[str, float]) -> dict[str, list[float]]:
    """Spearman of the sum of losses so far, after every block of steps: mean over seeds."""
    found = {}
    for strategy in settings["strategies"]:
        curves = []
        for run in _runs(settings, runs, strategy):
            sums = -np.cumsum(_curves(run), axis=1)  # (n, blocks), in the order of the scored architectures
            known = [truth[row["architecture"]] for row in run["scored"]]
            curves.append([rank_quality(column, known, resamples=1).spearman.value or 0.0 for column in sums.T])
        found[strategy] = np.mean(curves, axis=0).tolist()
    return found


def _gradients(settings: Settings, runs: Mapping[str, Any], found: Found) -> Claim:
    sums, norms = ([value for s in settings["strategies"] for value in found[s, name]] for name in ("sog", "sogn"))
    tracked = {
        name: [
            rank_quality(_scores(run, name, keys), _scores(run, "params", keys), resamples=1).spearman.value or 0.0
            for strategy in settings["strategies"]
            for run in _runs(settings, runs, strategy)
            for keys in [[row["architecture"] for row in run["scored"]]]
        ]
        for name in ("sog", "sogn")
    }
    return Claim(
        number=5,
        text="SoG ranks better than SoGN, and both track the number of parameters (Spearman above 0.7).",
        supported=_mean(sums) > _mean(norms) and min(map(_mean, tracked.values())) > 0.7,
        numbers=f"Spearman with the truth: SoG {spread(sums, 2)}, SoGN {spread(norms, 2)}; with the parameters: "
        f"SoG {spread(tracked['sog'], 2)}, SoGN {spread(tracked['sogn'], 2)} (all strategies and seeds)",
        document="SoG above SoGN, both close to the parameter count (figure 4.9, table 4.5)",
    )


def _both(settings: Settings, found: Found) -> Claim:
    names = ("multi_path_meta_prox", "multi_path", "meta_prox")
    known = all(name in settings["strategies"] for name in names)
    return Claim(
        number=7,
        text="MultiPath + MetaProx ranks better by SoTL than either alone.",
        supported=_mean(found[names[0], "sotl"]) > max(_mean(found[name, "sotl"]) for name in names[1:])
        if known
        else None,
        numbers="; ".join(f"{NAMES[name]} {spread(found[name, 'sotl'], 2)}" for name in names if known) or "not run",
        document="the combination ranks best",
    )


def _cost(settings: Settings, runs: Mapping[str, Any]) -> Claim:
    seconds = [run["seconds"] for name, run in runs.items() if not name.startswith("truth ")]
    steps = settings["run"]["scores"]["steps"]
    examples = next(run["valid_examples"] for name, run in runs.items() if not name.startswith("truth "))
    short = [100 / steps * found["short_run"] for found in seconds]
    valid = [found["val_acc"] for found in seconds]
    return Claim(
        number=8,
        text="100 SoTL steps cost less than one pass over the validation set.",
        supported=_mean(short) < _mean(valid),
        numbers=f"{spread(short, 1)} s for 100 steps of 64 examples, {spread(valid, 1)} s for the validation pass "
        f"over {examples:,} examples with 20 batches of adaptation (per architecture, one core)",
        document="4.5 s against 6.5 s on a P100",
    )


def _goal(settings: Settings, found: Found, tops: Found) -> Claim:
    best = max(
        ((strategy, name) for strategy in settings["strategies"] for name in ("sotl", "sotl_last")),
        key=lambda pair: _mean(found[pair]),
    )
    size = _mean(found[best[0], "params"])
    top, size_top = _mean(tops[best]), _mean(tops[best[0], "params"])
    return Claim(
        text="The best strategy with SoTL reaches Spearman 0.7 with NAS-Bench-201, and a top 10 above that of the "
        "parameter count.",
        supported=_mean(found[best]) >= 0.7 and top > size_top,
        numbers=f"{NAMES[best[0]]} with {ESTIMATORS[best[1]]}: {spread(found[best], 2)}, "
        f"top 10 {spread(tops[best], 2)} %; parameter count {size:.2f}, top 10 {size_top:.2f} % "
        f"(the best of {2 * len(settings['strategies'])} pairs, "
        "chosen by this very number)",
    )


def _own_truth(settings: Settings, runs: Mapping[str, Any]) -> Claim:
    own, published = truth_of(runs, "own"), truth_of(runs, "nb201")
    means = {
        name: _mean([correlation(run, name, own) for s in settings["strategies"] for run in _runs(settings, runs, s)])
        for name in ("sotl", "sotl_last", "val_acc", "params")
    }
    between = rank_quality([own[key] for key in own], [published[key] for key in own]).spearman
    shown = ", ".join(f"{ESTIMATORS[name]} {value:.2f}" for name, value in means.items())
    return Claim(
        text="Against networks of this size trained alone, SoTL (last half) ranks better than the parameter count.",
        supported=means["sotl_last"] > means["params"],
        numbers=f"Spearman, mean over strategies and seeds: {shown}; the truth of this size and that of the table "
        f"agree with {between.value:.2f} ({between.low:.2f} to {between.high:.2f}) on {len(own)} cells",
    )


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def figures(settings: Settings, runs: dict[str, Any]) -> dict[str, Spec]:
    """Table 4.1 as bars, correlation along the short run (figure 4.6), improvement curves, and scores against truth."""
    truth = truth_of(runs, "nb201")
    bars = [
        {"x": ESTIMATORS[name], "series": NAMES[strategy]}
        | summary([correlation(run, name, truth) for run in _runs(settings, runs, strategy)])
        for name in ("sotl", "sotl_last", "val_acc", "tl_mini", "sovl", "sog", "params")
        for strategy in settings["strategies"]
    ]
    steps = settings["run"]["scores"]["steps"]
    along = [
        {"x": (block + 1) * steps / len(values), "mean": value, "series": NAMES[strategy]}
        for strategy, values in _along(settings, runs, truth).items()
        for block, value in enumerate(values)
    ]
    first = _runs(settings, runs, next(iter(settings["strategies"])))[0]
    keys, known = list(truth), list(truth.values())
    points = [
        {"x": score, "y": accuracy} for score, accuracy in zip(_scores(first, "sotl_last", keys), known, strict=True)
    ]
    curves = []
    for name in ("sotl", "sotl_last", "val_acc", "params"):
        found = improvement(_scores(first, name, keys), known, least=min(10, len(keys)))
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
