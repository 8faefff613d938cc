"""Is torch.compile worth it in a race? A step of its networks as they are over the same step compiled.

The networks of a race of 20 minutes on photographs, on one thread; the first steps, which compile, are timed apart.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from measure import Goal, interleaved, medians, options, report, seconds
from torch import nn
from worth import photos

from polyarch.data import Batch
from polyarch.methods.race.candidates import field
from polyarch.methods.race.settings import RaceSettings
from polyarch.methods.race.suggestion import suggest_race
from polyarch.runs.recipe import optimiser
from polyarch.runs.run import Run
from polyarch.runs.settings import RunSettings
from polyarch.runs.suggestion import with_suggestions
from polyarch.runs.workspace import Workspace
from polyarch.strategies import Supervised

NAME = "compiled_step"
GOAL = Goal(">=", 1.1)
MINUTES = 20.0


def stepping(run: Run, network: nn.Module, batch: Batch) -> Callable[[], object]:
    """A training step of the race on one batch."""
    strategy = Supervised(network, optimiser(network, run.settings.section(RaceSettings)), task=run.task)
    generator = torch.Generator().manual_seed(0)
    return lambda: strategy.step([batch], generator=generator)


def compare(run: Run, rounds: int, count: int) -> list[dict[str, Any]]:
    """Median processor seconds of a step for every network, as it is and compiled, and the seconds of compiling."""
    race = run.settings.section(RaceSettings)
    assert race.seconds is not None
    batch = next(run.feed.batches(run.feed.train, race.batch_size, stream=NAME).epoch(0))
    rows = []
    for candidate in field(run, count, race.seconds):
        plain, compiled = (run.networks.fresh(candidate.architecture, seed=0) for _ in range(2))
        compiled.compile()
        sides = {"plain": stepping(run, plain, batch), "compiled": stepping(run, compiled, batch)}
        compiling = seconds(sides["compiled"])
        interleaved(sides, 2)  # warm-up
        found = medians(interleaved(sides, rounds, time.process_time))
        rows.append(
            {
                "network": candidate.architecture.key,
                "parameters": sum(parameter.numel() for parameter in plain.parameters()),
                "compiling_seconds": round(compiling, 1),
                "median_seconds": {side: round(value, 5) for side, value in found.items()},
                "ratio": round(found["plain"] / found["compiled"], 3),
            }
        )
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    asked = options(NAME, __doc__ or NAME)
    content = {"method": "race", "max_minutes": MINUTES, "workers": 2, "space": {"kind": "auto"}}
    settings, data = RunSettings.parse(content, "the benchmark"), photos(0)
    settings = with_suggestions(settings, suggest_race(settings, data, None).settings)
    with tempfile.TemporaryDirectory() as folder:
        run = Run.build(settings, Workspace(Path(folder) / "run"), data=data)
        rows = compare(run, 5 if asked.quick else 25, 2 if asked.quick else 6)
    times = {side: sum(row["median_seconds"][side] for row in rows) for side in ("plain", "compiled")}
    report(
        NAME,
        times["plain"] / times["compiled"],
        GOAL,
        options=asked,
        settings={"minutes": MINUTES, "data": "photos"},
        details={"networks": rows},
    )


if __name__ == "__main__":
    main()
