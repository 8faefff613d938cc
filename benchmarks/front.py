"""Is one training for every size worth its time? A front against plain networks that share its processor time.

Photographs: 4,000 of CIFAR-10. The front has so many minutes of the processor. Its sizes with about 25, 50 and 100 % of
the largest one's multiply-accumulates are compared with plain residual networks of as many, and with the same networks
trained alone, by the same recipe, for a third of the time each. With ``--long`` a front of three times the minutes is
compared with the same, too. Resumable: results are stored as they arrive.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import torch
from plain_networks import PlainTraining, width_of
from torch import nn
from worth import photos

import polyarch
from polyarch import SearchResult
from polyarch.data import Dataset, resident
from polyarch.files import write_json
from polyarch.methods.front.settings import FrontSettings
from polyarch.methods.front.training import ElasticTraining
from polyarch.runs.display import Quiet
from polyarch.runs.image_augmentation import crop_side
from polyarch.runs.recipe import optimiser, time_budget
from polyarch.runs.retraining import tested
from polyarch.runs.run import Run
from polyarch.runs.start import Beginning
from polyarch.spaces import Architecture
from polyarch.strategies import Supervised
from polyarch.training import CheckpointStore, Laps, StopRequest, Trapezoid, WeightAverage, fit
from polyarch.training.laps import ENDLESS, LAP

RESULTS = Path(__file__).parent.parent / "docs" / "results" / "worth" / "fronts.json"
SHARES = (0.25, 0.5, 1.0)


def front(data: Dataset, out: Path, seconds: float, seed: int) -> SearchResult:
    """One training for all sizes, on the clock of the processor."""
    return polyarch.search(
        data,
        out=out,
        front=True,
        seed=seed,
        resume=(out / "config.toml").exists(),
        quiet=True,
        report=False,
        settings={"programs": [], "front.clock": "processor", "front.seconds": seconds},
    )


def compared(found: SearchResult, share: float) -> int:
    """The index of the size with about this share of the largest one's multiply-accumulates."""
    most = found.front[-1].macs
    return min(range(len(found.front)), key=lambda index: abs(found.front[index].macs / most - share))


def plain(run: Run, macs: float, seconds: float, seed: int) -> dict[str, Any]:
    """A plain residual network with so many multiply-accumulates."""
    width = width_of(macs, run.feed.data.input_shape, run.feed.data.classes)
    *pair, _ = PlainTraining(run.feed, seconds, width)(seed)
    valid, test = (
        run.task.scores(found[None], resident(data).targets)
        for found, data in zip(pair, (run.feed.valid, run.feed.data.test), strict=True)
    )
    return {"width": width, "valid_score": valid["accuracy"], "score": test["accuracy"], "loss": test["loss"]}


def alone(run: Run, architecture: Architecture, seconds: float, seed: int) -> dict[str, Any]:
    """A network trained alone by the recipe of the front."""
    settings = run.settings.section(FrontSettings)
    network = run.networks.fresh(architecture, seed=seed)
    turn = seconds * (1 - settings.falling)
    with tempfile.TemporaryDirectory() as folder:
        for until, falls_after in ((turn, None), (seconds, turn)):
            averaged = _leg(run, network, until, falls_after, seed, Path(folder))
    return _scores(tested(run, averaged.eval()))


def _leg(run: Run, network: nn.Module, until: float, falls_after: float | None, seed: int, folder: Path) -> nn.Module:
    settings = run.settings.section(FrontSettings)
    optimizer, average = optimiser(network, settings), WeightAverage(network)
    budget = time_budget(until, settings, 0.0)
    schedule = Trapezoid(
        optimizer, budget, peak=settings.learning_rate, warmup=settings.warmup, falls_after=falls_after
    )
    crop = crop_side(run, settings.crop) if falls_after is None else None
    fit(
        Supervised(network, optimizer, task=run.task),
        Laps(ElasticTraining(run).batches(crop), LAP),
        epochs=ENDLESS,
        seed=seed,
        callbacks=[budget, schedule, average],
        checkpoints=CheckpointStore(folder),
        further=True,
    )
    return average.average


def measured(seed: int, seconds: float, known: dict[str, Any], folder: Path, long: bool) -> Iterator[dict[str, Any]]:
    """What is known of a seed, again whenever something has been added to it."""
    data, out = photos(seed), folder / f"{seconds:g}-{seed}"
    found = front(data, out, seconds, seed)
    known["front"] = {str(share): _size(found, share) for share in SHARES}
    yield known
    for share in SHARES:
        run = Beginning(out, Quiet(), StopRequest(), data=data).reopen(None, {}, "the benchmark")
        size = found.front[compared(found, share)]
        if str(share) not in known.setdefault("plain", {}):
            known["plain"][str(share)] = plain(run, size.macs, seconds / len(SHARES), seed)
            yield known
        if str(share) not in known.setdefault("alone", {}):
            architecture = run.net.space.architecture(size.architecture)
            known["alone"][str(share)] = alone(run, architecture, seconds / len(SHARES), seed)
            yield known
    if long and "long front" not in known:
        longer = front(data, folder / f"{3 * seconds:g}-{seed}", 3 * seconds, seed)
        known["long front"] = {str(share): _size(longer, share) for share in SHARES}
        yield known


def _size(found: SearchResult, share: float) -> dict[str, Any]:
    one = found.front[compared(found, share)]
    names = ("parameters", "macs", "valid_score", "valid_loss", "score", "loss")
    return {name: getattr(one, name) for name in names}


def _scores(result: Mapping[str, Any]) -> dict[str, float]:
    return {name: result[name] for name in ("valid_score", "score", "loss")}


def summary(runs: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """A line per share and other side: mean test accuracies, and the difference."""
    for side, other, share in product(("front", "long front"), ("plain", "alone"), map(str, SHARES)):
        pairs = [(one[side][share], one[other][share]) for one in runs.values() if side in one]
        if pairs:
            ours, theirs = (statistics.fmean(pair[place]["score"] for pair in pairs) for place in (0, 1))
            losses = [statistics.fmean(pair[place]["loss"] for pair in pairs) for place in (0, 1)]
            yield (
                f"{side:10} {100 * float(share):4.0f} % of the MACs: {ours:.4f}, {other} {theirs:.4f}, "
                f"{100 * (ours - theirs):+.2f} points; NLL {losses[0]:.4f}, {other} {losses[1]:.4f} "
                f"({len(pairs)} seeds)"
            )


def main() -> None:
    """Runs what is missing and prints a summary."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=3.0, help="of the processor, for the front")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--long", action="store_true", help="a front of three times the minutes, too")
    parser.add_argument("--runs", type=Path, default=Path("runs/front-benchmark"), help="folder of the runs")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)
    stored = json.loads(arguments.out.read_text()) if arguments.out.exists() else {}
    by_minutes: dict[str, dict[str, Any]] = stored.get("minutes", {})
    runs = by_minutes.setdefault(f"{arguments.minutes:g}", {})
    for seed in range(arguments.seeds):
        before = runs.setdefault(str(seed), {})
        for known in measured(seed, 60 * arguments.minutes, before, arguments.runs, arguments.long):
            print(seed, json.dumps(known), flush=True)
            write_json(arguments.out, {"minutes": by_minutes})
    for line in summary(runs):
        print(line)


if __name__ == "__main__":
    main()
