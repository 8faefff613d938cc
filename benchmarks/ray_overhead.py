"""Scoring architectures through a Ray cluster on this machine, over worker processes."""

from __future__ import annotations

from collections.abc import Callable

from measure import Goal, interleaved, medians, options, report, summary
from parallel_ranking import SEED, Scores, task

from polyarch.executors import Mapper, Processes, Ray
from polyarch.randomness import generator_at, global_seed
from polyarch.spaces import Architecture
from polyarch.supernets import NB201Supernet

NAME = "ray_overhead"
GOAL = Goal("<=", 1.10)
WORKERS = 2
CHANNELS = 8
TRIVIAL = 2000


def main() -> None:
    asked = options(NAME, __doc__ or NAME)
    count, rounds = (6, 2) if asked.quick else (16, 5)
    with global_seed(SEED, "weights"):
        net = NB201Supernet(channels=CHANNELS, cells=1)
    architectures = [net.space.sample(generator_at(SEED, "architecture", index)) for index in range(count)]
    scoring = task(net)

    def walk(run: Mapper[Architecture, Scores]) -> Callable[[], None]:
        def score_all() -> None:
            assert len(dict(run(architectures))) == count

        return score_all

    with Processes(WORKERS).open(scoring) as processes, Ray(workers=WORKERS).open(scoring) as ray:
        for run in (processes, ray):  # starts the workers and lets every one of them run something
            dict(run(architectures[:4]))
        times = interleaved({"processes": walk(processes), "ray": walk(ray)}, rounds)
    with Processes(WORKERS).open(abs) as few, Ray(workers=WORKERS).open(abs) as many:
        for trivial in (few, many):
            dict(trivial(range(10)))
        trivial_times = interleaved(
            {"processes": lambda: dict(few(range(TRIVIAL))), "ray": lambda: dict(many(range(TRIVIAL)))}, rounds
        )
    middle = medians(times)
    each = {side: round(1000 * seconds / TRIVIAL, 3) for side, seconds in medians(trivial_times).items()}
    pairs = [r / p for r, p in zip(times["ray"], times["processes"], strict=True)]
    print({side: f"{value:.2f} s" for side, value in middle.items()}, f"trivial items: {each} ms")
    report(
        NAME,
        middle["ray"] / middle["processes"],
        GOAL,
        options=asked,
        settings={"architectures": count, "channels": CHANNELS, "workers": WORKERS, "rounds": rounds},
        details={
            **summary(times),
            "ratio_range": [round(min(pairs), 3), round(max(pairs), 3)],
            "trivial_item_milliseconds": each,
        },
    )


if __name__ == "__main__":
    main()
