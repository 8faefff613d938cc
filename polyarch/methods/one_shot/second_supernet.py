"""A second supernet that differs in its seed alone: whether rankings agree shows how far to trust one of them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from polyarch.executors import in_background
from polyarch.methods.one_shot.ranking import LEAST, judges
from polyarch.randomness import derive_seed
from polyarch.runs.run import Run
from polyarch.runs.settings import RunSettings
from polyarch.runs.training import fit_supernet
from polyarch.supernets import Supernet
from polyarch.training import CheckpointStore


@dataclass(frozen=True)
class SecondTraining:
    """Trains the supernet of a run; its weights stay in the last checkpoint."""

    run: Run
    store: CheckpointStore

    def __call__(self) -> None:
        """Goes on from the last checkpoint."""
        fit_supernet(self.run, self.store)


@contextmanager
def second_supernet(run: Run) -> Iterator[Callable[[], Supernet] | None]:
    """Trains it in the background from here on, or, with one worker, when it is asked for; None if not wanted."""
    estimators = run.estimators(run.settings.rank.estimators)
    if not wants_second(run.settings) or not judges(estimators):
        yield None
        return
    other = reseeded(run)
    training = SecondTraining(other, run.workspace.store("train-second"))

    def trained() -> Supernet:
        fit_supernet(other, training.store, stop=run.stop)  # reads what is there, and trains what is missing
        return other.net

    if run.settings.workers == 1:
        yield trained
        return
    with in_background(training) as wait:

        def awaited() -> Supernet:
            with run.display.stage("second supernet"), run.stop.at_once():
                wait()
            return trained()

        yield awaited


def wants_second(settings: RunSettings) -> bool:
    """Whether the settings ask for a second supernet, and for enough architectures to compare."""
    rank = settings.rank
    return rank.supernets > 1 and rank.architectures >= LEAST and not rank.halving


def reseeded(run: Run) -> Run:
    """The same data and settings with another seed for weights, paths and the order of batches."""
    seed = derive_seed(run.settings.seed, "second") >> 1
    settings = run.settings.model_copy(update={"seed": seed})
    return replace(run, settings=settings, feed=replace(run.feed, seed=seed), net=run.networks.supernet(seed))
