"""What experiments on stochastic architectures share: images, wirings, and networks trained by one recipe."""

from __future__ import annotations

from collections.abc import Sequence
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
    RandomShift,
    TensorData,
    load,
    resident,
    shaped_like,
    stratified_split,
)
from polyarch.experiments.experiment import Settings
from polyarch.experiments.spirals import scores
from polyarch.jobs.devices import to_device
from polyarch.methods.stochastic_architectures import nsa, nsa_i
from polyarch.nn.dropout import with_dropout
from polyarch.objectives import mixed
from polyarch.predictive import area, brier, entropy, risk_coverage
from polyarch.randomness import derive_seed, generator_at, global_seed
from polyarch.spaces import Architecture, erdos_renyi, wired_space
from polyarch.strategies import Strategy
from polyarch.supernets import WiredSupernet
from polyarch.training import CheckpointStore, History, Schedule, cosine, fit

DOCUMENT = "networks with stochastic architectures"
EVALUATION_BATCH = 250
NAMES = {"fashion_mnist": "Fashion-MNIST", "cifar10": "CIFAR-10", "mnist": "MNIST", "svhn": "SVHN", "digits": "digits"}

SMALL: Settings = {
    "size": 16, "train": 4000, "valid": 500, "test": 1000, "cutout": False, "width": 8, "modules": 4, "stages": 3,
    "batch_size": 32, "learning_rate": 0.02, "weight_decay": 5e-4,
}  # fmt: skip
"""Images, networks and their training, as two cores have the time for; then in a few seconds, and in the document."""
TINY: Settings = {
    **SMALL, "size": None, "train": 200, "valid": 50, "test": 60, "width": 4, "modules": 3, "stages": 2,
}  # fmt: skip
LARGE: Settings = {
    **SMALL, "size": None, "train": 45_000, "valid": 5000, "test": 10_000, "cutout": True, "width": 160, "modules": 8,
    "batch_size": 128, "learning_rate": 0.1,
}  # fmt: skip


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
        found: list[Augmentation] = [RandomShift(max(pixels // 8, 1))]
        if name not in ("mnist", "svhn", "digits"):
            found.append(RandomFlip())
        if settings["cutout"]:
            found.append(Cutout(pixels // 2))
        test = _share(resident(data.test), settings["test"], 0)
        return cls(name, train, valid, test, Normalisation.of(train), tuple(found))

    def training_batches(self, examples: TensorData, batch_size: int, seed: int, stream: str = "train") -> Batches:
        """Shuffled and augmented."""
        return Batches(
            examples,
            batch_size,
            seed=derive_seed(seed, "batches", stream),
            augmentations=self.augmentations,
            preprocessing=self.normalisation,
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
    dropout: float = 0.0,
    auxiliary: bool = True,
) -> WiredSupernet:
    """A network with fresh weights.

    Args:
        wirings: those with weights of their own.
        dropout: in front of every convolution but the first.
    """
    with global_seed(seed, "network"):
        net = WiredSupernet(
            width=settings["width"],
            modules=settings["modules"],
            stages=settings["stages"],
            in_channels=images.train.input_shape[0],
            classes=images.train.classes,
            wirings=wirings,
            auxiliary=auxiliary,
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
) -> History:
    """The schedule of the settings: a cosine to 0."""
    return fit(
        strategy,
        source,
        valid,
        epochs=settings["epochs"],
        seed=derive_seed(seed, "fit"),
        held_out=held_out,
        callbacks=[Schedule(optimizer, cosine(settings["learning_rate"], 0.0))],
        checkpoints=CheckpointStore(store),
        checkpoint_seconds=120,
    )


def measure(logits: Tensor, targets: Tensor, weights: Tensor | None = None) -> dict[str, float]:
    """Of a mixture of members (K, N, C), with equal weights by default."""
    shares = torch.full((len(logits),), 1 / len(logits), dtype=torch.float64) if weights is None else weights
    log_probs = mixed(torch.log_softmax(logits.double(), -1), shares.double().log())
    probabilities = log_probs.exp()
    correct = probabilities.argmax(-1) == targets
    return {
        **scores(log_probs, targets),
        "brier": brier(probabilities, targets),
        "risk_area": area(risk_coverage(entropy(probabilities), correct)),
    }


@torch.no_grad()
def logits_of(network: nn.Module, batches: Batches) -> Tensor:
    """In evaluation mode: (N, C), or (K, N, C) of members."""
    network.eval()
    return torch.cat([network(batch.inputs) for batch in batches.epoch(0)], dim=-2)


@torch.no_grad()
def member_logits(net: WiredSupernet, wirings: Sequence[Architecture], batches: Batches) -> Tensor:
    """Of every wiring with the shared weights, running statistics: (K, N, C)."""
    net.eval()
    return torch.cat([net.forward_many(batch.inputs, wirings) for batch in batches.epoch(0)], dim=1)
