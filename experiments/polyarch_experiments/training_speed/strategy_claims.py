"""What the runs of `strategy_ranking` say about the claims of the thesis."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from polyarch.ranking import rank_quality
from polyarch_experiments.experiment import Settings
from polyarch_experiments.measures import spread
from polyarch_experiments.results import Claim
from polyarch_experiments.seeds import runs_of
from polyarch_experiments.training_speed.strategy_scores import (
    ESTIMATORS,
    NAMES,
    correlation,
    correlation_along,
    scores_of,
    top_of,
    truth_of,
)

LIKE_ACCURACY = ("tl_mini", "val_acc", "val_acc_mini")
"""What SoTL is said to rank better than."""
FLAT = 0.05
"""A rank correlation that changes by less counts as unchanged."""

Found = Mapping[tuple[str, str], list[float]]
"""Strategy and estimator -> a value per seed."""


def judge(settings: Settings, runs: dict[str, Any]) -> list[Claim]:
    """Differences of means over seeds; the criteria were written before the runs."""
    truth = truth_of(runs, "nb201")
    found = {
        (strategy, estimator): [
            correlation(run, estimator, truth) for run in runs_of(runs, settings["strategies"], strategy)
        ]
        for strategy in settings["strategies"]
        for estimator in ESTIMATORS
    }
    tops = {
        (strategy, estimator): [
            top_of(run, estimator, truth) for run in runs_of(runs, settings["strategies"], strategy)
        ]
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
        reaches_goal(
            "The best strategy with SoTL reaches Spearman 0.7 with NAS-Bench-201, and a top 10 above that of the "
            "parameter count.",
            {strategy: NAMES[strategy] for strategy in settings["strategies"]},
            found,
            tops,
        ),
    ]
    if truth_of(runs, "own"):
        claims.append(_own_truth(settings, runs))
    return claims


def _mean(values: Sequence[float]) -> float:
    return statistics.fmean(values)


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
    along = correlation_along(settings, runs, truth)
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


def _gradients(settings: Settings, runs: Mapping[str, Any], found: Found) -> Claim:
    sums, norms = ([value for s in settings["strategies"] for value in found[s, name]] for name in ("sog", "sogn"))
    tracked = {
        name: [
            rank_quality(scores_of(run, name, keys), scores_of(run, "params", keys), resamples=1).spearman.value or 0.0
            for strategy in settings["strategies"]
            for run in runs_of(runs, settings["strategies"], strategy)
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


def reaches_goal(text: str, names: Mapping[str, str], found: Found, tops: Found) -> Claim:
    """Whether the best of several ways to train, with SoTL, ranks with Spearman 0.7 and a better top 10 than by size.

    Args:
        names: the ways, with what they are called.
    """
    pairs = [(way, estimator) for way in names for estimator in ("sotl", "sotl_last")]
    best = max(pairs, key=lambda pair: _mean(found[pair]))
    size = _mean(found[best[0], "params"])
    top, size_top = _mean(tops[best]), _mean(tops[best[0], "params"])
    return Claim(
        text=text,
        supported=_mean(found[best]) >= 0.7 and top > size_top,
        numbers=f"{names[best[0]]} with {ESTIMATORS[best[1]]}: {spread(found[best], 2)}, "
        f"top 10 {spread(tops[best], 2)} %; parameter count {size:.2f}, top 10 {size_top:.2f} % "
        f"(the best of {len(pairs)} pairs, chosen by this very number)",
    )


def _own_truth(settings: Settings, runs: Mapping[str, Any]) -> Claim:
    own, published = truth_of(runs, "own"), truth_of(runs, "nb201")
    means = {
        name: _mean(
            [
                correlation(run, name, own)
                for s in settings["strategies"]
                for run in runs_of(runs, settings["strategies"], s)
            ]
        )
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
