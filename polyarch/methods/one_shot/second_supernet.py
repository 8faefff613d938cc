"""A second supernet that differs in its seed alone: whether rankings agree shows how far to trust one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch

from polyarch.executors import in_background
from polyarch.methods.one_shot.trust import LEAST, judges
from polyarch.randomness import derive_seed, global_seed
from polyarch.runs.devices import to_device
from polyarch.runs.parts import Parts
from polyarch.runs.run import Context
from polyarch.runs.settings import RunSettings
from polyarch.runs.training import fit_supernet
from polyarch.supernets import Supernet
from polyarch.training import CheckpointStore


@dataclass(frozen=True)
class SecondTraining:
    """Trains the supernet of some parts; its weights stay in the last checkpoint."""

    parts: Parts
    store: CheckpointStore

    def __call__(self) -> None:
        """Goes on from the last checkpoint."""
        fit_supernet(self.parts, self.store)


@contextmanager
def second_supernet(context: Context) -> Iterator[Callable[[], Supernet] | None]:
    """Trains it in the background from here on, or, with one worker, when it is asked for; None if not wanted."""
    estimators = context.parts.estimators(context.parts.settings.rank.estimators)
    if not wants_second(context.parts.settings) or not judges(estimators):
        yield None
        return
    parts = reseeded(context.parts)
    training = SecondTraining(parts, context.workspace.store("train-second"))

    def trained() -> Supernet:
        fit_supernet(parts, training.store, stop=context.stop)  # reads what is there, and trains what is missing
        return parts.net

    if context.parts.settings.workers == 1:
        yield trained
        return
    with in_background(training) as wait:

        def awaited() -> Supernet:
            with context.display.stage("second supernet"), context.stop.at_once():
                wait()
            return trained()

        yield awaited


def wants_second(settings: RunSettings) -> bool:
    """Whether the settings ask for a second supernet, and for enough architectures to compare."""
    rank = settings.rank
    return rank.supernets > 1 and rank.architectures >= LEAST and not rank.halving


def reseeded(parts: Parts) -> Parts:
    """The same data and settings with another seed for weights, paths and the order of batches."""
    settings = parts.settings.model_copy(update={"seed": derive_seed(parts.settings.seed, "second") >> 1})
    with global_seed(settings.seed, "supernet"):
        net = to_device(parts.make(), torch.device(settings.device))
    return replace(parts, settings=settings, net=net)
