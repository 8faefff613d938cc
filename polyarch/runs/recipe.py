"""How a network is trained for so many seconds: the settings, their values for the data, optimiser and clock."""

import time
from typing import Annotated, Any, Literal

import torch
from pydantic import Field, PositiveInt
from torch import nn

from polyarch.data import Dataset
from polyarch.runs.sections import Decay, Fraction, Rate
from polyarch.settings import Settings
from polyarch.training import TimeBudget

LEAST_CROPPED = 16
"""The side of images from which on they are cropped at first."""

FEW_EXAMPLES = 20_000
"""Fewer images are seen dozens of times and need a stronger weight decay: chosen on validation images of CIFAR-10
(3,200 training images) and Fashion-MNIST (55,000)."""


class RecipeSettings(Settings):
    """How networks are trained for a time.

    Seconds are of one core and pass with the ``clock``: real ones, those of the processor, or ``work``, the time that
    the steps would take on a machine like ours, so that every machine takes the same steps.

    The learning rate rises over ``warmup`` steps to its peak and falls to zero over the last ``falling`` part of the
    time. Until then training images are cropped to the part ``crop`` of their side, which makes steps faster; only
    networks of elastic layers, which take images of any size, do that. ``optimiser`` is Nesterov's SGD or AdamW;
    neither decays biases and normalisation layers.
    """

    clock: Literal["work", "real", "processor"] = "work"
    optimiser: Literal["sgd", "adamw"] = "sgd"
    batch_size: PositiveInt = 64
    learning_rate: Rate = 0.1
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    weight_decay: Decay = 5e-4
    label_smoothing: Annotated[float, Field(ge=0, lt=1)] = 0.0
    warmup: PositiveInt = 50
    falling: Fraction = 0.4
    crop: Annotated[float, Field(gt=0, le=1)] = 1.0


def suitable_recipe(data: Dataset, examples: int) -> dict[str, Any]:
    """Values for so many training examples of the data."""
    if data.is_image:
        crop = 0.75 if min(data.input_shape[1:]) >= LEAST_CROPPED else 1.0
        return {
            "optimiser": "sgd",
            "learning_rate": 0.1,
            "weight_decay": 2e-3 if examples < FEW_EXAMPLES else 5e-4,
            "batch_size": min(64, max(examples // 8, 8)),
            "crop": crop,
        }
    return {
        "optimiser": "adamw",
        "learning_rate": 0.002,
        "weight_decay": 0.01,
        "batch_size": min(128, max(examples // 8, 8)),
    }


def optimiser(network: nn.Module, settings: RecipeSettings) -> torch.optim.Optimizer:
    """Nesterov's SGD or AdamW; biases, normalisation layers and the scales of members do not decay."""
    weights: list[nn.Parameter] = []
    others: list[nn.Parameter] = []
    for name, parameter in network.named_parameters():
        decays = parameter.dim() > 1 and not name.endswith((".bias", "_scales"))
        (weights if decays else others).append(parameter)
    groups = [{"params": weights, "weight_decay": settings.weight_decay}, {"params": others, "weight_decay": 0.0}]
    if settings.optimiser == "adamw":
        return torch.optim.AdamW(groups, lr=settings.learning_rate, betas=(settings.momentum, 0.999), foreach=True)
    return torch.optim.SGD(groups, lr=settings.learning_rate, momentum=settings.momentum, nesterov=True, foreach=True)


def time_budget(seconds: float, settings: RecipeSettings, step_seconds: float) -> TimeBudget:
    """So many seconds on the clock of the settings; ``step_seconds`` are what a step counts as work."""
    passing = time.process_time_ns if settings.clock == "processor" else time.monotonic_ns
    return TimeBudget(seconds, step_seconds if settings.clock == "work" else None, passing)
