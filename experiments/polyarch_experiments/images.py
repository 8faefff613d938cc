"""What experiments on images share: parts of a data set, training by one recipe, and what networks say of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from polyarch.data import (
    Augmentation,
    Batches,
    Cutout,
    Normalisation,
    RandomFlip,
    RandomResizedCrop,
    RandomShift,
    TensorData,
    load,
    resident,
    shaped_like,
    stratified_split,
)
from polyarch.objectives import log_marginal
from polyarch.predictive import brier, entropy, risk_coverage
from polyarch.randomness import derive_seed
from polyarch.strategies import Strategy
from polyarch.training import Callback, CheckpointStore, History, Schedule, cosine, fit
from polyarch_experiments.experiment import Settings
from polyarch_experiments.measures import scores

EVALUATION_BATCH = 250
DROPS = (0.3, 0.6, 0.8)
"""The shares of the steps after which a step schedule lowers the rate."""
NAMES = {
    "fashion_mnist": "Fashion-MNIST",
    "cifar10": "CIFAR-10",
    "cifar100": "CIFAR-100",
    "mnist": "MNIST",
    "svhn": "SVHN",
    "imagenet": "ImageNet",
    "digits": "digits",
}


@dataclass(frozen=True)
class Images:
    """Parts of a data set as they are, and how they become inputs; flips only where a mirrored image is one of them."""

    name: str
    train: TensorData
    valid: TensorData
    test: TensorData
    normalisation: Normalisation
    augmentations: tuple[Augmentation, ...]

    @classmethod
    def of(cls, settings: Settings, name: str, seed: int) -> Images:
        """As many examples as the settings say, class by class: others for every seed, but always the same tests."""
        data = load(name, size=settings["size"])
        wanted = settings["train"] + settings["valid"]
        train, valid = stratified_split(
            _share(resident(data.train), wanted, seed), settings["valid"] / wanted, seed=seed
        )
        pixels = data.input_shape[-1]
        shift, scale = RandomShift(max(pixels // 8, 1)), settings.get("crop_scale")
        found: list[Augmentation] = [RandomResizedCrop((scale, 1.0)) if scale else shift]
        if name not in ("mnist", "svhn", "digits"):
            found.append(RandomFlip())
        normalisation = Normalisation.of(train)
        if settings["cutout"]:
            found.append(Cutout(pixels // 2, fill=normalisation.mean))
        test = _share(resident(data.test), settings["test"], 0)
        return cls(name, train, valid, test, normalisation, tuple(found))

    def training_batches(
        self, examples: TensorData, batch_size: int, seed: int, stream: str = "train", *, views: int = 1
    ) -> Batches:
        """Shuffled and augmented."""
        return Batches(
            examples,
            batch_size,
            seed=derive_seed(seed, "batches", stream),
            augmentations=self.augmentations,
            preprocessing=self.normalisation,
            views=views,
        )

    def batches(self, examples: TensorData, size: int = EVALUATION_BATCH) -> Batches:
        """In order, as they are."""
        return Batches(examples, size, shuffle=False, preprocessing=self.normalisation)

    def outside(self, name: str) -> TensorData:
        """As many test images of another data set, in the form of these."""
        other = _share(resident(load(name).test), len(self.test), 0)
        shaped = shaped_like(other.inputs, self.test.input_shape, as_bytes=True)
        return TensorData(shaped, torch.zeros(len(shaped), dtype=torch.int64), 1)


def _share(data: TensorData, count: int, seed: int) -> TensorData:
    return stratified_split(data, count / len(data), seed=seed)[1] if count < len(data) else data


def store_of(folder: Path, name: str, seed: int) -> Path:
    """Where a run keeps its checkpoints."""
    return folder / "checkpoints" / f"{name.replace(', ', '-').replace(' ', '-')}-{seed}"


def sgd(settings: Settings, network: nn.Module) -> torch.optim.SGD:
    """SGD with Nesterov's momentum, as wide residual networks are trained."""
    return torch.optim.SGD(
        network.parameters(),
        lr=settings["learning_rate"],
        momentum=0.9,
        weight_decay=settings["weight_decay"],
        nesterov=True,
        foreach=True,
    )


def fit_cosine(
    settings: Settings,
    strategy: Strategy,
    optimizer: torch.optim.Optimizer,
    source: Batches,
    valid: Batches,
    seed: int,
    store: Path,
    held_out: Batches | None = None,
    callbacks: Sequence[Callback] = (),
) -> History:
    """The schedule of the settings: a cosine to 0, several with warm restarts, or steps.

    Args:
        callbacks: besides the schedule.
    """
    return fit(
        strategy,
        source,
        valid,
        epochs=settings["epochs"],
        seed=derive_seed(seed, "fit"),
        held_out=held_out,
        callbacks=[Schedule(optimizer, _rate(settings)), *callbacks],
        checkpoints=CheckpointStore(store),
        checkpoint_seconds=120,
    )


def _rate(settings: Settings) -> Callable[[int, int], float]:
    """A cosine to 0 or, with ``restart_epochs``, one of so many epochs and then of twice as many as the last.

    With ``schedule`` "steps" it is that of wide residual networks, a fifth after 30, 60 and 80 % of the steps each.
    Loshchilov and Hutter (2017), "SGDR: Stochastic Gradient Descent with Warm Restarts", arXiv:1608.03983; Zagoruyko
    and Komodakis (2016), "Wide Residual Networks", arXiv:1605.07146. With ``drop_epochs`` the rate is constant and
    falls to a tenth after each of these epochs.
    """
    if settings.get("schedule") == "steps":
        return lambda step, total: settings["learning_rate"] * 0.2 ** sum(step >= share * total for share in DROPS)
    rate = cosine(settings["learning_rate"], 0.0)
    if drops := settings.get("drop_epochs"):

        def stepped(step: int, total: int) -> float:
            passed = sum(step * settings["epochs"] >= drop * total for drop in drops)
            return float(settings["learning_rate"] * 0.1**passed)

        return stepped
    if not settings.get("restart_epochs"):
        return rate

    def restarted(step: int, total: int) -> float:
        length = settings["restart_epochs"] * total / settings["epochs"]
        while step >= length:
            step, length = step - round(length), 2 * length
        return rate(step, round(length))

    return restarted


def measure(logits: Tensor, targets: Tensor, weights: Tensor | None = None) -> dict[str, float]:
    """Of a mixture of members (K, N, C), with equal weights by default."""
    shares = torch.full((len(logits),), 1 / len(logits), dtype=torch.float64) if weights is None else weights
    log_probs = log_marginal(torch.log_softmax(logits.double(), -1), shares.double().log())
    probabilities = log_probs.exp()
    wrong = probabilities.argmax(-1) != targets
    return {
        **scores(log_probs, targets),
        "brier": brier(probabilities, targets),
        "risk_area": risk_coverage(entropy(probabilities), wrong).area,
    }


@torch.no_grad()
def logits_of(network: nn.Module, batches: Batches) -> Tensor:
    """In evaluation mode: (N, C), or (K, N, C) of members."""
    network.eval()
    return torch.cat([network(batch.inputs) for batch in batches.epoch(0)], dim=-2)
