"""What experiments on posterior-guided search share: networks with gates, their training, the best of many draws."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from polyarch.data import TensorData
from polyarch.distributions import KeepDrop
from polyarch.methods.posterior_guided.search import PosteriorSearch
from polyarch.networks import DenseNet, EnasNetwork, InflatedResNet, MultiBranchResNet
from polyarch.nn import ReestimatedStatistics
from polyarch.randomness import derive_seed, global_seed
from polyarch.runs.networks import to_device
from polyarch.searchers import DrawScoring, JudgedDraw, LimitedDraws, Limits, best_draw
from polyarch.searchers.limited_draws import Posterior
from polyarch.spaces import Architecture
from polyarch.strategies import Distilled, PosteriorGuided, Supervised
from polyarch.supernets import GatedSupernet, gate, probe
from polyarch.training import Callback, WithinLimits
from polyarch.training.callbacks import FitState
from polyarch_experiments.experiment import Settings
from polyarch_experiments.images import Images, fit_cosine, logits_of, measure, sgd

STATISTICS_BATCHES = 8
"""Of training images, for statistics of normalisation layers that are estimated anew."""

FAMILIES = {
    "MI": "multi-branch ResNet, wide",
    "M": "multi-branch ResNet",
    "EI": "ENAS cells, wide",
    "E": "ENAS cells",
    "R": "ResNet, kernels 3 and 5",
    "D": "DenseNet",
}

SMALL: Settings = {
    "size": 16, "train": 4000, "valid": 1000, "test": 2000, "cutout": False, "width": 8, "blocks": 1,
    "batch_size": 32, "epochs": 16, "learning_rate": 0.05, "weight_decay": 5e-4,
    "square_length_scale": 50.0, "prior_examples": 500_000, "q_rate_factor": 25.0, "drop": 0.1, "temperature": 0.2,
    "candidates": 64, "tuning_epochs": 5, "tuning_rate": 0.01,
    "families": {
        "MI": {"width": 13, "square_length_scale": 150.0},
        "EI": {"width": 16, "square_length_scale": 0.1},
        "E": {"square_length_scale": 0.1},
    },
}  # fmt: skip
"""Images, networks and training that two cores have time for; `TINY` takes seconds, `LARGE` is the paper's setting.

d^2 and N are those of the paper, by family: M with 96 channels and MI with 160, E and EI with twice as many. Two
thousand steps are few for drop probabilities to move far, so their learning rate is higher than in the paper, which
trains for 600,000 steps.
"""
TINY: Settings = {
    **SMALL, "size": None, "train": 200, "valid": 50, "test": 60, "width": 4, "epochs": 1, "candidates": 3,
    "tuning_epochs": 1, "families": {"MI": {"width": 7, "square_length_scale": 150.0}},
}  # fmt: skip
_CELLS: Settings = {
    "blocks": 5, "square_length_scale": 0.1, "epochs": 630, "restart_epochs": 10, "learning_rate": 0.05,
}  # fmt: skip
LARGE: Settings = {
    **SMALL, "size": None, "train": 45_000, "valid": 5000, "test": 10_000, "cutout": True, "width": 96, "blocks": 4,
    "batch_size": 128, "epochs": 1800, "learning_rate": 0.01, "q_rate_factor": 1.0, "candidates": 1500,
    "tuning_epochs": 100,
    "families": {
        "MI": {"width": 160, "square_length_scale": 150.0},
        "E": {"width": 40, **_CELLS},
        "EI": {"width": 75, **_CELLS},
        "R": {"width": 32},
        "D": {"width": 32},
    },
}  # fmt: skip
"""The widths of E and EI are those at which our cells have the paper's 4.6 and 15.3 million parameters."""


def of_family(settings: Settings, family: str) -> Settings:
    """The settings with those of a family in place."""
    return {**settings, **settings["families"].get(family, {})}


def build(settings: Settings, family: str, images: Images, seed: int) -> GatedSupernet:
    """A network of a family with fresh weights and gates, of the size that the settings say."""
    width, blocks = settings["width"], settings["blocks"]
    shape: dict[str, Any] = {"in_channels": images.train.input_shape[0], "classes": images.train.classes}
    with global_seed(seed, "network"):
        model: MultiBranchResNet | EnasNetwork | InflatedResNet | DenseNet
        match family:
            case "MI" | "M":
                model = MultiBranchResNet(width=width, blocks=blocks, **shape)
            case "EI" | "E":
                model = EnasNetwork(width=width, cells=blocks, **shape)
            case "R":
                model = InflatedResNet(width=width, blocks=(blocks,) * 3, **shape)
            case "D":
                model = DenseNet(growth=width, layers=(4 * blocks,) * 3, **shape)
            case _:
                raise AssertionError(family)
    net = gate(model, probe(images.train.input_shape), groups=model.gate_groups(), name=family)
    return to_device(net, torch.device("cpu"))


def search_of(settings: Settings) -> PosteriorSearch:
    """How the settings learn the posterior."""
    return PosteriorSearch(
        length_scale=math.sqrt(settings["square_length_scale"]),
        prior_examples=settings["prior_examples"],
        drop=settings["drop"],
        temperature=settings["temperature"],
        learning_rate=settings["learning_rate"],
        q_rate_factor=settings["q_rate_factor"],
        weight_decay=settings["weight_decay"],
    )


def learn(
    settings: Settings,
    images: Images,
    net: GatedSupernet,
    search: PosteriorSearch,
    seed: int,
    store: Path,
    limits: Limits | None = None,
) -> PosteriorGuided:
    """Trains kernels and drop probabilities, within limits, if there are any; fixed probabilities rise from 0."""
    strategy = search.strategy(net, num_data=len(images.train))
    source = images.training_batches(images.train, settings["batch_size"], seed)
    callbacks: list[Callback] = [] if limits is None else [WithinLimits(strategy, limits, seed=seed)]
    if not search.learned:
        callbacks.append(RisingDropout(strategy.q, search.drop))
    fit_cosine(
        settings, strategy, strategy.optimizer, source, images.batches(images.valid), seed, store, callbacks=callbacks
    )
    net.eval()
    return strategy


class RisingDropout(Callback):
    """A predefined dropout rate for all channels that rises linearly from 0 to its value at the end of the training.

    So trained are the one-shot networks of Bender et al. (2018), "Understanding and Simplifying One-Shot Architecture
    Search", which the paper's random draws come from.
    """

    def __init__(self, q: KeepDrop, drop: float) -> None:
        self.q = q
        self.drop = drop

    def on_step_start(self, state: FitState) -> None:
        """Sets the rate; it follows from the step alone."""
        share = (state.step + 1) / state.total_steps
        with torch.no_grad():
            self.q.logits.fill_(math.log(share * self.drop) - math.log1p(-share * self.drop))


def train_plain(
    settings: Settings, images: Images, network: nn.Module, seed: int, store: Path, teacher: nn.Module | None = None
) -> nn.Module:
    """Trains a network without gates, by the same recipe with weight decay on everything; a teacher is distilled."""
    optimizer = sgd(settings, network)
    source = images.training_batches(images.train, settings["batch_size"], seed)
    strategy = Supervised(network, optimizer)
    if teacher is not None:
        strategy = Distilled(network, optimizer, teacher=teacher.eval())
    fit_cosine(settings, strategy, optimizer, source, images.batches(images.valid), seed, store)
    return network.eval()


def tune(
    settings: Settings, images: Images, network: nn.Module, seed: int, store: Path, teacher: nn.Module | None = None
) -> nn.Module:
    """Trains an extracted network a little further."""
    short = {**settings, "epochs": settings["tuning_epochs"], "learning_rate": settings["tuning_rate"]}
    short.pop("restart_epochs", None)
    return train_plain(short, images, network, derive_seed(seed, "tuning"), store, teacher)


@dataclass(frozen=True)
class Drawn:
    """Draws from a distribution, judged on validation and on test images; those at the same place are the same."""

    net: GatedSupernet
    draws: LimitedDraws
    valid: Sequence[JudgedDraw]
    test: Sequence[JudgedDraw]

    @classmethod
    def of(
        cls,
        settings: Settings,
        images: Images,
        net: GatedSupernet,
        q: Posterior,
        seed: int,
        stream: str,
        limits: Limits | None = None,
    ) -> Drawn:
        """As many as the settings say."""
        draws = LimitedDraws(net, q, limits, seed=seed, stream=stream)
        sides = []
        for examples in (images.valid, images.test):
            scoring = DrawScoring(net, {stream: draws}, images.batches(examples))
            sides.append([scoring((stream, position)) for position in range(settings["candidates"])])
        return cls(net, draws, *sides)

    @property
    def best(self) -> Architecture:
        """The best by validation images."""
        return self.draws(best_draw(self.valid).position)

    def expected_best(self, count: int) -> float:
        """The expected test accuracy of the best, by validation images, of ``count`` random ones of these draws."""
        order = sorted(self.valid, key=lambda one: (-one.score, one.loss))
        total = len(order)
        chosen = math.comb(total, count)
        # the one at rank r is the best of those chosen if all others are from behind it
        return sum(
            math.comb(total - rank - 1, count - 1) / chosen * self.test[one.position].score
            for rank, one in enumerate(order)
        )

    def reestimated_accuracy(self, images: Images, count: int) -> float:
        """The mean test accuracy of the first draws if each gets statistics of its own for its normalisation layers."""
        inputs = [batch.inputs for batch in images.batches(images.train).epoch(0)]
        policy = ReestimatedStatistics(min(len(inputs), STATISTICS_BATCHES))
        found = []
        for position in range(count):
            network = self.net.extract(self.draws(position))
            policy.prepare(network, inputs)
            found.append(tested(network, images)["accuracy"])
        return statistics.fmean(found)

    def summary(self, images: Images) -> dict[str, Any]:
        """The best draw on test images, what it costs and leaves out; and the mean of all draws."""
        best, network = self.best, self.net.extract(self.best)
        cost = self.net.cost(best)
        kept = self.net.slices(best).split([one.slices for one in self.net.gates])
        return {
            "test": tested(network, images),
            "valid_accuracy": best_draw(self.valid).score,
            "mean_accuracy": statistics.fmean(one.score for one in self.test),
            "cost": asdict(cost),
            "dropped_channels": 1 - float(torch.cat(kept).mean()),
            "dropped_operations": statistics.fmean(not part.any() for part in kept),
        }


def tested(network: nn.Module, images: Images, examples: TensorData | None = None) -> dict[str, float]:
    """What a network says of the test images."""
    examples = examples or images.test
    return measure(logits_of(network, images.batches(examples))[None], examples.targets)


def random_search(search: PosteriorSearch, q: KeepDrop) -> PosteriorSearch:
    """The same training without a learned distribution: everything is dropped at the mean rate of q."""
    return replace(search, learned=False, drop=float(q.flat().drop))
