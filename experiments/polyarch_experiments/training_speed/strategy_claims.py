"""What the runs of `strategy_ranking` say about the claims of the thesis."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from polyarch.ranking import RankSamples, rank_quality
from polyarch_experiments.distinct_cells import OTHER_DATA
from polyarch_experiments.experiment import Settings
from polyarch_experiments.measures import spread
from polyarch_experiments.results import Claim, Finding
from polyarch_experiments.seeds import runs_of
from polyarch_experiments.training_speed.strategy_scores import (
    ESTIMATORS,
    NAMES,
    Values,
    arrived,
    curves_of,
    estimators_of,
    scores_of,
    supernets,
    truth_of,
)
from polyarch_experiments.verdict import claim, finding, not_run, paired, several_seeds

_IN_THESIS = ("single_path", "fair", "multi_path", "reptile", "meta_prox")
SOTL = dict(zip(_IN_THESIS, (0.78, 0.89, 0.91, 0.87, 0.88), strict=True))
"""Spearman of SoTL with CIFAR-10 in table 4.1."""
LIKE_ACCURACY = {
    "val_acc": dict(zip(_IN_THESIS, (0.75, 0.76, 0.76, 0.76, 0.64), strict=True)),
    "val_acc_mini": dict(zip(_IN_THESIS, (0.71, 0.69, 0.66, 0.74, 0.76), strict=True)),
    "tl_mini": dict(zip(_IN_THESIS, (0.81, 0.83, 0.86, 0.81, 0.82), strict=True)),
}
"""What SoTL is said to rank better than, and the same of these."""
ELSEWHERE = "on NAS-Bench-1shot1 only (table 4.2)"
"""What the thesis reports on MultiPath + MetaProx."""
WITHOUT_TRAINING = ("params", "macs", "synflow", "naswot")
"""What needs no supernet."""
HEADLINE = ("fair", "single_path")
"""Strategies after which every baseline is a claim of its own."""
FLAT = 0.05
"""A rank correlation that changes by less counts as unchanged."""
TRACKED = 0.7
"""A rank correlation with the parameter count above which a score tracks it."""
GOAL = 0.8
"""Spearman's correlation that a ranking by training speed should reach: more than the parameter count over all networks
of the table."""
FAIR_PASSES = 80
"""Passes over the training images from which on the strategies are compared fairly; `supernet_recipe` found so on other
cells."""
TOP = 10


class RankedRuns:
    """Draws of rank statistics by strategy and estimator, all on the same bootstrap samples of cells and seeds.

    Args:
        counts: how many seeds every strategy has.
        runs: by ``STRATEGY seed SEED``.
        truth: the true accuracy by architecture.
        planned: the strategies that claims are about, those that ``counts`` has by default.
    """

    def __init__(
        self,
        counts: Mapping[str, int],
        runs: Mapping[str, Any],
        truth: Mapping[str, float],
        planned: Sequence[str] | None = None,
    ) -> None:
        self.counts, self.runs, self.truth = counts, runs, truth
        self.planned = tuple(counts) if planned is None else tuple(planned)
        self._known: dict[tuple[str, ...], Values] = {}

    @cached_property
    def samples(self) -> RankSamples:
        """Those of the cells."""
        return RankSamples(list(self.truth.values()))

    def scores(self, strategy: str, estimator: str) -> list[list[float]]:
        """(seeds, n)"""
        return [scores_of(run, estimator, list(self.truth)) for run in runs_of(self.runs, self.counts, strategy)]

    def spearman(self, strategy: str, estimator: str) -> Values:
        """Draws of the correlation with the truth."""
        key = ("spearman", strategy, estimator)
        if key not in self._known:
            draws = self.samples.spearman(self.scores(strategy, estimator))
            self._known[key] = several_seeds(draws, self.counts[strategy])
        return self._known[key]

    def top(self, strategy: str, estimator: str) -> Values:
        """Draws of the mean truth of the top 10, in percent."""
        key = ("top", strategy, estimator)
        if key not in self._known:
            draws = self.samples.top(self.scores(strategy, estimator), min(TOP, len(self.truth)))
            self._known[key] = several_seeds(draws, self.counts[strategy])
        return self._known[key]

    def finding(self, name: str, draws: Values, **bounds: float) -> Finding:
        """A quantity with the interval of its draws."""
        return finding(name, self.samples.interval(draws), **bounds)

    def by_strategy(
        self, draws: Callable[[str], Values], *, needed: Sequence[str] = (), **bounds: float
    ) -> list[Finding]:
        """One quantity per strategy of the claims.

        Args:
            draws: of a strategy that has run.
            needed: strategies that have to be there as well.
        """
        there = all(name in self.counts for name in needed)
        return [
            self.finding(NAMES[name], draws(name), **bounds) if there and name in self.counts else not_run(NAMES[name])
            for name in self.planned
            if name not in needed
        ]


def judge(settings: Settings, runs: dict[str, Any]) -> list[Claim]:
    """Verdicts on all strategies of the settings, undecided for those whose runs are not there yet.

    The criteria were written before the runs.
    """
    found = arrived(settings, runs)
    return list(_claims(found, list(settings["strategies"]), runs)) if found["strategies"] else []


def _claims(settings: Settings, planned: Sequence[str], runs: Mapping[str, Any]) -> Iterator[Claim]:
    ranked = RankedRuns(settings["strategies"], runs, truth_of(runs, "nb201"), planned)
    needs = fair_passes(settings)
    yield from _better_than_accuracy(ranked, needs)
    yield from _strategies(ranked, needs)
    yield _enough_steps(settings, ranked, needs)
    yield from _gradients(ranked, needs)
    yield _both(ranked, needs)
    yield _cost(settings, runs)
    yield from _headlines(ranked, needs)
    if "fair" in ranked.counts:
        yield reaches_goal(f"FairNAS with SoTL reaches Spearman {GOAL} with NAS-Bench-201.", "fair", ranked, needs)
    if truth_of(runs, "own"):
        yield _own_truth(settings, runs)
    yield from _elsewhere()


def _elsewhere() -> Iterator[Claim]:
    """What the thesis says about data that are not here, and about spaces, which are those of `space_ranking`."""
    files = "the files of NAS-Bench-101 and NAS-Bench-301, with the experiment `space_ranking`"
    for number, text, table, needs in (
        (1, "SoTL ranks better than ValAcc in supernets of CIFAR-100 and of ImageNet16-120.", "4.1", OTHER_DATA),
        (1, "SoTL ranks better than ValAcc in NAS-Bench-1shot1 and in the DARTS space.", "4.2", files),
        (None, "In the DARTS space, the network that SoTL puts first is better than that of ValAcc.", "4.3", files),
    ):
        yield claim(text, [], number=number, document=f"table {table}", needs=needs)


def fair_passes(settings: Settings) -> str | None:
    """What a fair comparison of strategies would take, if this is none."""
    passes = settings.get("passes", settings["run"]["train"]["epochs"])
    return None if passes >= FAIR_PASSES else f"{FAIR_PASSES} passes over the training images or more, not {passes}"


def _better_than_accuracy(ranked: RankedRuns, needs: str | None) -> Iterator[Claim]:
    """One claim for every strategy and every other estimator, those of strategies that have run first."""
    for name in sorted(ranked.planned, key=lambda name: name not in ranked.counts):
        for other, reported in LIKE_ACCURACY.items():
            difference = [ranked.spearman(name, "sotl") - ranked.spearman(name, other)] if name in ranked.counts else []
            yield claim(
                f"After {NAMES[name]}, SoTL ranks better than {ESTIMATORS[other]}.",
                [ranked.finding("difference of Spearman", draws, above=0) for draws in difference],
                number=1,
                document=f"Spearman {SOTL[name]} against {reported[name]} on CIFAR-10 (table 4.1)"
                if name in SOTL
                else ELSEWHERE,
                needs=needs,
            )


def _strategies(ranked: RankedRuns, needs: str | None) -> Iterator[Claim]:
    def over_single_path(statistic: Callable[[str, str], Values], sign: int) -> list[Finding]:
        def draws(name: str) -> Values:
            return sign * (statistic(name, "sotl") - statistic("single_path", "sotl"))

        found = ranked.by_strategy(draws, needed=("single_path",), above=0)
        return [one for one in found if one.name != NAMES["multi_path_meta_prox"]]

    yield claim(
        "FairNAS, MultiPath, Reptile and MetaProx rank better than SPOS by SoTL.",
        over_single_path(ranked.spearman, 1),
        "Spearman minus that after SPOS",
        number=2,
        document="0.89 / 0.91 / 0.87 / 0.88 against 0.78 with SPOS",
        needs=needs,
    )
    yield claim(
        "SPOS has the best top 10 by SoTL.",
        over_single_path(ranked.top, -1),
        "points of true accuracy that its top 10 are ahead",
        number=2,
        document="92.87 % against 92.23 / 92.73 / 91.97 / 92.00 %",
        needs=needs,
    )


def _enough_steps(settings: Settings, ranked: RankedRuns, needs: str | None) -> Claim:
    steps = settings["run"]["scores"]["steps"]

    def gained(name: str) -> Values:
        curves = [curves_of(run, list(ranked.truth)) for run in runs_of(ranked.runs, ranked.counts, name)]
        blocks = curves[0].shape[1]
        half, end = (
            ranked.samples.spearman([(-losses[:, :until].sum(1)).tolist() for losses in curves])
            for until in (blocks // 2, blocks)
        )
        return several_seeds(end - half, len(curves))

    return claim(
        f"The correlation is flat after {steps // 2} steps.",
        ranked.by_strategy(gained, above=-FLAT, below=FLAT),
        f"Spearman after {steps} steps minus that after {steps // 2}",
        number=3,
        document="50 to 100 steps are enough (figure 4.6)",
        ours=f"a change of less than {FLAT} counts as none",
        needs=needs,
    )


def _gradients(ranked: RankedRuns, needs: str | None) -> Iterator[Claim]:
    yield claim(
        "SoG ranks better than SoGN under every strategy.",
        ranked.by_strategy(lambda name: ranked.spearman(name, "sog") - ranked.spearman(name, "sogn"), above=0),
        "Spearman with SoG minus that with SoGN",
        number=5,
        document="after SPOS 0.86 against 0.81 (short-run rate 0.01), 0.78 against 0.54 (0.001) (table 4.5)",
        needs=needs,
    )
    sizes = RankSamples(ranked.scores(next(iter(ranked.counts)), "params")[0])
    for estimator in ("sog", "sogn"):

        def with_size(name: str, estimator: str = estimator) -> Values:
            return several_seeds(sizes.spearman(ranked.scores(name, estimator)), ranked.counts[name])

        yield claim(
            f"{ESTIMATORS[estimator]} tracks the number of parameters.",
            ranked.by_strategy(with_size, above=TRACKED),
            "Spearman with the number of parameters",
            number=5,
            document="both are said to be a proxy of the parameter count; SoG has 0.78 with it (table 4.5)",
            ours=f"a correlation above {TRACKED} counts as tracking",
            needs=needs,
        )


def _both(ranked: RankedRuns, needs: str | None) -> Claim:
    both = "multi_path_meta_prox"
    return claim(
        "MultiPath + MetaProx ranks better by SoTL than either alone.",
        [
            ranked.finding(f"over {NAMES[one]}", ranked.spearman(both, "sotl") - ranked.spearman(one, "sotl"), above=0)
            if one in ranked.counts and both in ranked.counts
            else not_run(f"over {NAMES[one]}")
            for one in ("multi_path", "meta_prox")
        ],
        number=7,
        document="0.61 / 0.61 / 0.27 against 0.54 / 0.56 / 0.20 and 0.55 / 0.55 / 0.20 on NAS-Bench-1shot1 (table 4.2)",
        needs=needs,
    )


def _cost(settings: Settings, runs: Mapping[str, Any]) -> Claim:
    trained = supernets(runs)
    steps = settings["run"]["scores"]["steps"]
    short = [100 / steps * run["seconds"]["short_run"] for run in trained]
    valid = [run["seconds"]["val_acc"] for run in trained]
    return claim(
        "100 SoTL steps cost less than one pass over the validation set.",
        [finding("seconds less", paired(valid, short), above=0)],
        f"{spread(short, 1)} s for 100 steps of 64 examples, {spread(valid, 1)} s for the validation pass over "
        f"{trained[0]['valid_examples']:,} examples with 20 batches of adaptation (per architecture, one core; the "
        "interval is over runs)",
        number=8,
        document="4.5 s against 6.5 s on a P100",
    )


def _headlines(ranked: RankedRuns, needs: str | None) -> Iterator[Claim]:
    for name in (name for name in HEADLINE if name in ranked.counts):
        for other in (other for other in WITHOUT_TRAINING if other in estimators_of(ranked.runs)):
            yield claim(
                f"After {NAMES[name]}, SoTL ranks better than {ESTIMATORS[other]}.",
                [
                    ranked.finding(
                        "difference of Spearman", ranked.spearman(name, "sotl") - ranked.spearman(name, other), above=0
                    )
                ],
                document=f"Spearman {SOTL[name]} against 0.79 on CIFAR-10 (table 4.1)"
                if other == "params"
                else "not in the paper",
                needs=needs,
            )
        yield claim(
            f"After {NAMES[name]}, the top 10 of SoTL are better than those of the parameter count and of ValAcc.",
            [
                ranked.finding(
                    f"points over {ESTIMATORS[other]}", ranked.top(name, "sotl") - ranked.top(name, other), above=0
                )
                for other in ("params", "val_acc")
            ],
            needs=needs,
        )


def reaches_goal(text: str, name: str, ranked: RankedRuns, needs: str | None = None) -> Claim:
    """Whether a way to train ranks well enough with SoTL."""
    return claim(
        text,
        [ranked.finding("Spearman", ranked.spearman(name, "sotl"), above=GOAL)],
        f"parameter count {ranked.spearman(name, 'params')[0]:.2f}",
        ours=f"a Spearman of {GOAL}, more than the parameter count has over all networks of the table",
        needs=needs,
    )


def _own_truth(settings: Settings, runs: Mapping[str, Any]) -> Claim:
    own, published = truth_of(runs, "own"), truth_of(runs, "nb201")
    ranked = RankedRuns(settings["strategies"], runs, own)
    means = {
        name: np.mean([ranked.spearman(strategy, name) for strategy in ranked.counts], axis=0)
        for name in ("sotl", "sotl_last", "val_acc", "params")
    }
    between = rank_quality([own[key] for key in own], [published[key] for key in own]).spearman
    shown = ", ".join(f"{ESTIMATORS[name]} {values[0]:.2f}" for name, values in means.items())
    return claim(
        "Against networks of this size trained alone, SoTL (last half) ranks better than the parameter count.",
        [ranked.finding("mean over strategies", means["sotl_last"] - means["params"], above=0)],
        f"Spearman, mean over strategies and seeds: {shown}; the truth of this size and that of the table agree with "
        f"{between.value:.2f} ({between.low:.2f} to {between.high:.2f}) on {len(own)} cells",
    )
