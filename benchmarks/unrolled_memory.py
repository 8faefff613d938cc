"""Peak memory and processor seconds of exact SoTL gradients through T steps: one graph over segments of sqrt(T).

An MLP 784-200-10 whose learning rate is the setting. Plain training, the direct gradient, is the third side. Every
measurement is taken in a process of its own. The ratio is how much the memory of segments grows from the last T but one
to the last, four times as long, over the growth of sqrt(T), which is 2.
"""

from __future__ import annotations

import math
import multiprocessing
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from measure import Goal, options, report
from torch import nn

from polyarch.data import Batch
from polyarch.objectives import InnerSGD, direct_gradient, module_loss, unrolled_gradient
from polyarch.randomness import generator_at, global_seed

NAME = "unrolled_memory"
GOAL = Goal("<=", 1.25)
SEED = 0
FEATURES, WIDTH, CLASSES, BATCH = 784, 200, 10, 100


def work(side: str, steps: int) -> Callable[[], object]:
    """One gradient of the rate through all steps; the batches are there before."""
    with global_seed(SEED, "network"):
        network = nn.Sequential(nn.Linear(FEATURES, WIDTH), nn.ReLU(), nn.Linear(WIDTH, CLASSES))
    loss, weights = module_loss(network, F.cross_entropy), dict(network.named_parameters())
    settings, optimiser = {"rate": torch.tensor(0.01)}, InnerSGD("rate", momentum=0.9)
    generator = generator_at(SEED, "batches")
    batches = [
        Batch(torch.randn(BATCH, FEATURES, generator=generator), torch.randint(CLASSES, (BATCH,), generator=generator))
        for _ in range(steps)
    ]
    if side == "plain training":
        return lambda: direct_gradient(loss, weights, settings, batches, optimiser)
    segment = steps if side == "one graph" else None
    return lambda: unrolled_gradient(loss, weights, settings, batches, optimiser, segment=segment)


def megabytes(name: str) -> float:
    """A line of the process's own status."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) / 1000


def measure(side: str, steps: int) -> tuple[float, float]:
    """Processor seconds, and megabytes at most above what was there before."""
    torch.set_num_threads(1)
    work(side, 2)()  # what torch loads and keeps the first time
    action = work(side, steps)
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    resident = megabytes("VmRSS")
    started = time.process_time()
    action()
    return time.process_time() - started, megabytes("VmHWM") - resident


def main() -> None:
    asked = options(NAME, __doc__ or NAME)
    lengths, rounds = ((4, 16, 64), 1) if asked.quick else ((4, 16, 64, 256, 1024), 3)
    sides = ["plain training", "segments", "one graph"]
    rows, segments = [], []
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        for steps in lengths:
            found: dict[str, list[tuple[float, float]]] = {side: [] for side in sides}
            for _ in range(rounds):
                for side in sides:
                    found[side].append(pool.apply(measure, (side, steps)))
                sides.reverse()
            peaks = {side: round(statistics.median(peak for _, peak in runs), 1) for side, runs in found.items()}
            times = {side: round(statistics.median(taken for taken, _ in runs), 4) for side, runs in found.items()}
            rows.append({"steps": steps, "median_peak_megabytes": peaks, "median_processor_seconds": times})
            segments.append(peaks["segments"])
            print(rows[-1])
    ratio = segments[-1] / segments[-2] / math.sqrt(lengths[-1] / lengths[-2])
    settings = {"features": FEATURES, "width": WIDTH, "batch": BATCH, "rounds": rounds, "data": "random"}
    report(NAME, ratio, GOAL, options=asked, settings=settings, details={"by_steps": rows})


if __name__ == "__main__":
    main()
