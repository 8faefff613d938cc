"""What experiments on stochastic architectures share: wirings, and networks trained by one recipe."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from polyarch.data import Batches
from polyarch.methods.stochastic.recipes import nsa, nsa_i
from polyarch.randomness import generator_at, global_seed
from polyarch.runs.networks import to_device
from polyarch.spaces import Architecture, erdos_renyi, wired_space
from polyarch.supernets import WiredSupernet
from polyarch.training import History
from polyarch_experiments.experiment import Settings
from polyarch_experiments.images import Images, fit_cosine, sgd
from polyarch_experiments.stochastic.dropout_layers import with_dropout

SMALL: Settings = {
    "size": 16, "train": 4000, "valid": 500, "test": 1000, "cutout": False, "width": 8, "modules": 4, "stages": 3,
    "batch_size": 32, "learning_rate": 0.02, "weight_decay": 5e-4, "schedule": "steps", "layout": "aggregated",
}  # fmt: skip
"""Images, networks and training that two cores have time for; `TINY` takes seconds, `LARGE` is the paper's setting.

Networks of `FITTED` fit their training images, as those of the paper do."""
TINY: Settings = {
    **SMALL, "size": None, "train": 200, "valid": 50, "test": 60, "width": 4, "modules": 3, "stages": 2,
}  # fmt: skip
FITTED: Settings = {
    **SMALL, "size": None, "train": 10_000, "valid": 1000, "test": 10_000, "cutout": True, "width": 16,
    "batch_size": 64, "learning_rate": 0.1,
}  # fmt: skip
LARGE: Settings = {
    **SMALL, "size": None, "train": 45_000, "valid": 5000, "test": 10_000, "cutout": True, "width": 160, "modules": 8,
    "batch_size": 128, "learning_rate": 0.1,
}  # fmt: skip


def earlier_network(settings: Settings) -> str | None:
    """Why results with these settings say nothing about the network of today."""
    if "layout" in settings:
        return None
    return (
        "the network of today. These numbers are of an earlier one, whose stages passed on their last module alone, so "
        "that its residual wiring was no residual network"
    )


def draw_wirings(settings: Settings, count: int, seed: int, stream: str = "wirings") -> list[Architecture]:
    """Wirings of the space of these settings; another stream gives others."""
    space = wired_space(settings["stages"], settings["modules"])
    return erdos_renyi(space, count, generator=generator_at(seed, stream))


def build(
    settings: Settings,
    images: Images,
    seed: int,
    *,
    wirings: Sequence[Architecture] | None = None,
    own_norms: bool = True,
    dropout: float = 0.0,
    auxiliary: bool = True,
) -> WiredSupernet:
    """A network with fresh weights.

    Args:
        wirings: those with weights of their own.
        own_norms: whether these have a scale and shift of their own, too.
        dropout: after every convolution but the first.
    """
    with global_seed(seed, "network"):
        net = WiredSupernet(
            width=settings["width"],
            modules=settings["modules"],
            stages=settings["stages"],
            in_channels=images.train.input_shape[0],
            classes=images.train.classes,
            wirings=wirings,
            own_norms=own_norms,
            auxiliary=auxiliary,
            layout=settings["layout"],
        )
    if dropout:
        with_dropout(net, dropout)
    return to_device(net, torch.device("cpu"))


def train(
    settings: Settings,
    images: Images,
    net: WiredSupernet,
    wirings: Sequence[Architecture],
    seed: int,
    store: Path,
    *,
    per_example: bool = True,
) -> History:
    """Trains shared weights under these wirings; with one wiring it is ordinary training.

    Validation examples are judged after every epoch, each under a wiring of its own.
    """
    optimizer = sgd(settings, net)
    method = nsa_i if per_example and len(wirings) > 1 else nsa
    source = images.training_batches(images.train, settings["batch_size"], seed)
    valid = images.batches(images.valid)
    return fit_cosine(settings, method(net, wirings, optimizer), optimizer, source, valid, seed, store)


@torch.no_grad()
def member_logits(net: WiredSupernet, wirings: Sequence[Architecture], batches: Batches) -> Tensor:
    """Of every wiring with the shared weights, running statistics: (K, N, C)."""
    net.eval()
    return torch.cat([net.forward_many(batch.inputs, wirings) for batch in batches.epoch(0)], dim=1)
