"""Checks that find what is wrong with the settings before anything is written or trained."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch

from polyarch.errors import ConfigError, InvalidInput
from polyarch.plugins import method_named
from polyarch.randomness import generator_at
from polyarch.runs.evaluation import evaluation_of
from polyarch.runs.judging import ood_batches
from polyarch.runs.run import Run
from polyarch.runs.sections import SearchSettings, TrainSettings
from polyarch.runs.settings import RunSettings
from polyarch.runs.space_settings import interchoice_of
from polyarch.supernets import GatedSupernet
from polyarch.training import Callback

if TYPE_CHECKING:
    from polyarch.methods.method import Method

TAKES: dict[str, Callable[[Run], bool]] = {
    "gates": lambda run: isinstance(run.net, GatedSupernet),
    "unlabelled": lambda run: run.feed.unlabelled is not None,
    "evaluation": lambda run: evaluation_of(run.settings.space) is not None,
}
"""What only some methods can use, and whether a run has it; see `Method.takes`."""


def check_run(run: Run) -> None:
    """Refuses OOD data that do not fit, and what the method cannot use."""
    check_wirings(run.settings)
    for name, has in TAKES.items():
        if has(run) and name not in run.method.takes:
            what = {
                "gates": f"space {run.settings.space.kind} with gates",
                "unlabelled": "data.unlabelled",
                "evaluation": "space.evaluation",
            }
            raise ConfigError(f"Expected a method that can use {what[name]}. Got {run.method.name!r}.")
    check_batch_sizes(run)
    cutout, shape = run.settings.retrain.cutout, run.feed.data.input_shape
    if cutout and run.feed.data.is_image and cutout >= min(shape[1:]):
        raise ConfigError(f"Expected retrain.cutout below the side of the images, {min(shape[1:])}. Got {cutout}.")
    ood_batches(run)


def check_batch_sizes(run: Run) -> None:
    """Refuses batches of one example where batch normalisation would have nothing to take statistics of."""
    for name in ("train", "scores"):
        if getattr(run.settings, name).batch_size == 1 and not _learns_from_one(run):
            raise ConfigError(f"Expected {name}.batch_size of 2 or more for batch normalisation. Got 1.")


def _learns_from_one(run: Run) -> bool:
    network = run.net.extract(run.net.space.sample(generator_at(0, "dry run"))).train()
    try:
        with torch.no_grad():
            network(run.feed.example.inputs[:1].to(run.settings.device))
    except ValueError as error:
        return "more than 1 value per channel" not in str(error)
    return True


def check_wirings(settings: RunSettings) -> None:
    """Refuses wirings that the method cannot use: it would try others, for which the network has no weights."""
    method: Method = method_named(settings.method)
    if getattr(settings.space, "wirings", ()) and "wirings" not in method.takes:
        raise ConfigError(f"Expected a method that can use space.wirings. Got {method.name!r}.")


def check_callbacks(callbacks: Sequence[object], stages: Sequence[str], method: str) -> None:
    """Refuses callbacks that are none, and those that a method without a supernet's training would never call."""
    for callback in callbacks:
        if not isinstance(callback, Callback):
            found = f"the class {callback.__name__}" if isinstance(callback, type) else f"a {type(callback).__name__}"
            raise InvalidInput(f"Expected callbacks of polyarch.training.Callback. Got {found}.")
    if callbacks and "train" not in stages:
        raise ConfigError(f"Expected a method that trains a supernet, which callbacks follow. Got {method!r}.")


def check_training(run: Run, steps_setting: str = "train.inner_steps") -> None:
    """Strategies refuse spaces and limits that they cannot train, and one step of an epoch or more should be full.

    Args:
        steps_setting: what makes a step take several batches.
    """
    strategy = run.method.training(run).strategy
    batches = len(run.feed.training_batches(run.settings.train.batch_size))
    if batches < strategy.batches_per_step:
        raise ConfigError(
            f"Expected {strategy.batches_per_step} or more batches of training examples for {steps_setting}. "
            f"Got {batches}; try a smaller train.batch_size."
        )
    interchoice, epochs = interchoice_of(run.settings.space), run.settings.train.epochs
    if interchoice is not None and (interchoice.split_epoch or 0) >= epochs:
        raise ConfigError(
            f"Expected space.interchoice.split_epoch below train.epochs, {epochs}. Got {interchoice.split_epoch}."
        )


def refuse_searching(run: Run) -> None:
    """Settings of a search among scored architectures mean nothing to methods that learn theirs."""
    for name, default in SearchSettings():
        if not name.startswith("max_") and getattr(run.settings.search, name) != default:
            raise ConfigError(
                f"Expected no search.{name} with method {run.method.name!r}, which scores nothing. Got one."
            )


def refuse_strategy(run: Run) -> None:
    """The strategy of a method that has its own cannot be chosen."""
    if run.settings.train.strategy != TrainSettings().strategy:
        raise ConfigError(f"Expected no train.strategy with method {run.method.name!r}, which has its own. Got one.")
