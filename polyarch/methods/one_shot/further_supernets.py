"""Supernets that differ in their seed alone: whether rankings agree shows how far to trust one of them."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from polyarch.executors import in_background
from polyarch.methods.one_shot.ranking import LEAST, judges
from polyarch.randomness import derive_seed
from polyarch.runs.run import Run
from polyarch.runs.settings import RunSettings
from polyarch.runs.training import fit_supernet
from polyarch.training import CheckpointStore


@dataclass(frozen=True)
class FurtherTrainings:
    """Trains the supernets of several runs, one after the other; their weights stay in the last checkpoints."""

    runs: Sequence[Run]
    stores: Sequence[CheckpointStore]

    def __call__(self) -> None:
        """Goes on from the last checkpoints."""
        for run, store in zip(self.runs, self.stores, strict=True):
            fit_supernet(run, store)


@contextmanager
def further_supernets(run: Run) -> Iterator[Callable[[], list[Run]]]:
    """Trains them in the background from here on, or, with one worker, when they are asked for.

    Yields a function that returns one run per further seed, with a trained supernet; none if none is wanted.
    """
    count = further_count(run.settings) if judges(run.estimators(run.settings.rank.estimators)) else 0
    others = [reseeded(run, position) for position in range(1, count + 1)]
    stores = [run.workspace.store(_name(position)) for position in range(1, count + 1)]

    def trained() -> list[Run]:
        for other, store in zip(others, stores, strict=True):
            fit_supernet(other, store, stop=run.stop)  # reads what is there, and trains what is missing
        return others

    if run.settings.workers == 1 or not others:
        yield trained
        return
    with in_background(FurtherTrainings(others, stores)) as wait:

        def awaited() -> list[Run]:
            with run.display.stage("further supernets" if count > 1 else "second supernet"), run.stop.at_once():
                wait()
            return trained()

        yield awaited


def further_count(settings: RunSettings) -> int:
    """How many supernets the settings ask for besides the first; none without enough architectures to compare."""
    rank = settings.rank
    return max(rank.supernets, rank.seeds) - 1 if rank.architectures >= LEAST and not rank.halving else 0


def reseeded(run: Run, position: int = 1) -> Run:
    """The same data and settings with another seed for weights, paths and the order of batches.

    Args:
        position: 1 for the second supernet, and so on.
    """
    further = () if position == 1 else (position,)
    seed = derive_seed(run.settings.seed, "second", *further) >> 1
    settings = run.settings.model_copy(update={"seed": seed})
    return replace(run, settings=settings, feed=replace(run.feed, seed=seed), net=run.networks.supernet(seed))


def _name(position: int) -> str:
    return "train-second" if position == 1 else f"train-{position + 1}"
