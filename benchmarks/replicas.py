"""Many runs at once: 8 searches for a depth one after the other over the same 8 side by side."""

from __future__ import annotations

from measure import Goal, interleaved, medians, options, report, summary

from polyarch.data import Batches, Normalisation, spirals
from polyarch.methods.depth.search import DepthSearch
from polyarch.randomness import global_seed
from polyarch.supernets import FullyConnectedDepth
from polyarch_experiments.depth.side_by_side import search_together

NAME = "replicas"
GOAL = Goal(">=", 5)
REPLICAS = 8
DEPTH = 20
POINTS = 200


def problem(seed: int) -> tuple[FullyConnectedDepth, Batches]:
    train = spirals(POINTS, seed=seed)
    with global_seed(seed, "network"):
        net = FullyConnectedDepth(features=2, classes=2, max_depth=DEPTH, width=20)
    return net, Batches(train, POINTS, shuffle=False, preprocessing=Normalisation.of(train))


def main() -> None:
    asked = options(NAME, __doc__ or NAME)
    iterations, rounds = (50, 2) if asked.quick else (300, 5)
    search = DepthSearch(epochs=iterations, patience=iterations)

    def one_after_another() -> None:
        for seed in range(REPLICAS):
            net, train = problem(seed)
            search.fit(net, train, seed=0)

    def side_by_side() -> None:
        nets, sources = zip(*map(problem, range(REPLICAS)), strict=True)
        search_together(search, nets, sources, seed=0)

    times = interleaved({"one_after_another": one_after_another, "side_by_side": side_by_side}, rounds)
    median = medians(times)
    ratio = median["one_after_another"] / median["side_by_side"]
    settings = {"replicas": REPLICAS, "depth": DEPTH, "width": 20, "points": POINTS, "iterations": iterations}
    report(NAME, ratio, GOAL, options=asked, settings={**settings, "rounds": rounds}, details=summary(times))


if __name__ == "__main__":
    main()
