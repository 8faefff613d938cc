"""The sizes of a run, and what it takes to train and to measure them."""

import statistics
from collections.abc import Sequence

from polyarch.estimators import MACs
from polyarch.methods.front.settings import FrontSettings
from polyarch.runs.plan import delivery_seconds
from polyarch.runs.run import Run
from polyarch.runs.work import work_seconds
from polyarch.spaces import Architecture
from polyarch.strategies import SandwichPaths
from polyarch.supernets import ladder

FORWARD = 1 / 3
"""The share of a training step that a pass without gradients takes."""


def sizes_of(run: Run) -> list[Architecture]:
    """The networks that are scaled as a whole and keep the counted limits, from few multiply-accumulates to many."""
    kept = [one for one in ladder(run.net) if run.counted_limits.allows(one)]
    macs = MACs(run.feed.example.inputs)
    return sorted(kept, key=lambda one: (macs.score(run.net, one), run.net.parameter_count(one)))


def step_seconds(run: Run, sizes: Sequence[Architecture], crop: int | None) -> float:
    """What a step counts on the clock ``work``: the largest, the smallest, and the mean of those between."""
    settings = run.settings.section(FrontSettings)
    costs = [work_seconds(run, one, settings.batch_size, crop) for one in sizes]
    between = SandwichPaths(sizes, settings.between).between
    ends = costs[-1] + (costs[0] if len(costs) > 1 else 0.0)
    return ends + (between * statistics.fmean(costs[1:-1]) if between else 0.0)


def end_seconds(run: Run, sizes: Sequence[Architecture]) -> float:
    """What is kept of the time for the end: every size on validation and test data, calibration and programs."""
    settings = run.settings.section(FrontSettings)
    batches = (len(run.feed.valid) + len(run.feed.data.test)) / settings.batch_size + settings.statistics
    passes = sum(FORWARD * work_seconds(run, one, settings.batch_size) for one in sizes)
    return delivery_seconds(run.settings) + batches * passes
