"""Processor minutes of the items of experiments on images and spirals, from a few short ones of each kind.

Writes what `polyarch_experiments.prices` reads, of the preset ``long`` where an experiment has it and otherwise of
``cpu``. An item with a share of the images and few epochs takes

    a + b share + epochs (c + d share)

in processor time, which hardly depends on what else the machine does; four short items say what a to d are. Where
training stops early, as on spirals, this is what it takes at most.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

import torch

from polyarch.files import write_json
from polyarch.plugins import EXPERIMENTS
from polyarch_experiments.experiment import Experiment, Settings
from polyarch_experiments.papers import POSTERIOR_GUIDED_SEARCH, STOCHASTIC_ARCHITECTURES, VARIATIONAL_DEPTH
from polyarch_experiments.prices import FILE, kind_of, priced_preset

SHARES = (20, 10)
"""Of the images: a twentieth, and a tenth."""
SIZES = ("train", "valid", "test", "labels", "attacked")
FEW = 50
"""No smaller part than this."""
DOCUMENTS = (VARIATIONAL_DEPTH, STOCHASTIC_ARCHITECTURES, POSTERIOR_GUIDED_SEARCH)


def shortened(settings: Settings, part: int, periods: int) -> Settings:
    """The settings with a part of the images and some epochs, with their share of further training.

    Spirals keep their few points and take a hundred steps for an epoch.
    """
    if "rotation" in settings:
        return {**settings, "epochs": 100 * periods}
    sizes = {name: max(settings[name] // part, FEW) for name in SIZES if name in settings}
    epochs = {"epochs": periods * unit(settings)} | ({"tuning_epochs": periods} if "tuning_epochs" in settings else {})
    return {**settings, **sizes, **epochs}


def unit(settings: Settings) -> int:
    """The epochs that come with one epoch of further training, where there is such."""
    if "rotation" in settings:
        return 100
    epochs: int = settings["epochs"]
    return round(epochs / settings["tuning_epochs"]) if "tuning_epochs" in settings else 1


def seconds(experiment: Experiment, settings: Settings, kind: str) -> float:
    """Processor seconds of the first item of a kind."""
    item = next(item for name, item in experiment.items(settings).items() if kind_of(name) == kind)
    with tempfile.TemporaryDirectory() as folder:
        started = time.process_time()
        experiment.task(settings, item, Path(folder))
        return time.process_time() - started


def minutes(experiment: Experiment, settings: Settings, kind: str) -> float:
    """A whole item."""
    periods: float = settings["epochs"] / unit(settings)
    parts = SHARES[:1] if "rotation" in settings else SHARES
    once, twice = ([seconds(experiment, shortened(settings, part, count), kind) for part in parts] for count in (1, 2))
    period = [max(two - one, 0.0) for one, two in zip(once, twice, strict=True)]
    rest = [max(one - more, 0.0) for one, more in zip(once, period, strict=True)]
    if "rotation" in settings:
        return (rest[0] + periods * period[0]) / 60
    return (whole(rest) + periods * whole(period)) / 60


def whole(taken: list[float]) -> float:
    """What all images take, on the line through what the shares took; not less than the larger share."""
    few, more = (1 / part for part in SHARES)
    slope = (taken[1] - taken[0]) / (more - few)
    return max(taken[0] + slope * (1 - few), taken[1])


def alike(name: str, kind: str) -> str:
    """What items of equal cost have in common: data sets differ in the first layer, weights of terms in a number."""
    data, _, method = kind.partition(", ")
    if name.startswith("spiral"):
        return kind.replace("noise 1.0", "noise 0.5")
    if name == "guided_settings":
        return "M" if kind.endswith(" M") else "MI"
    if name == "wiring_consistency":
        return method.rsplit(" ", 1)[0]
    if name == "image_max_depth":
        return kind.split(" ", 1)[1]
    return method or ("image" if name in ("image_depth", "equal_operations") else data)


def main() -> None:
    """Times the experiments that are named, or all; goes on with what is not in the file yet."""
    torch.set_num_threads(1)
    names = [name for name, one in sorted(EXPERIMENTS.items()) if one.document in DOCUMENTS]
    for name in sys.argv[1:] or names:
        experiment = EXPERIMENTS[name]
        settings = experiment.presets[priced_preset(experiment)]
        kinds = list(dict.fromkeys(map(kind_of, experiment.items(settings))))
        found: dict[str, float] = json.loads(FILE.read_text()).get(name, {})
        seconds(experiment, shortened(settings, SHARES[0], 1), kinds[0])  # loads the data
        for kind in kinds:
            if kind in found:
                continue
            taken = minutes(experiment, settings, kind)
            like = [other for other in kinds if alike(name, other) == alike(name, kind)]
            found |= dict.fromkeys(like, round(taken, 1) if taken >= 1 else round(taken, 3))
            print(f"{name}: {', '.join(like)}: {taken:.2f} minutes each", flush=True)
            write_json(FILE, {**json.loads(FILE.read_text()), name: found})


if __name__ == "__main__":
    main()
