"""Images: learned depths, pruning rules, calibration and speed of the convolutional network (figures 4, 9, 10, 11)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from polyarch.data import Batches, Normalisation, TensorData, load, resident, stratified_split
from polyarch.methods.depth.choice import forward_seconds
from polyarch.methods.depth.search import RULES, DepthSearch, DepthTraining, choose_depth, prune
from polyarch.objectives import log_marginal
from polyarch.predictive import exit_curve
from polyarch.randomness import derive_seed, global_seed
from polyarch.runs.networks import to_device
from polyarch.supernets import ConvolutionalDepth
from polyarch.training import CheckpointStore
from polyarch_experiments.depth.fixed_depth import FixedDepth
from polyarch_experiments.depth.image_claims import CONFIDENCES, figures, judge
from polyarch_experiments.experiment import Experiment, Settings
from polyarch_experiments.measures import scores
from polyarch_experiments.papers import VARIATIONAL_DEPTH

EVALUATION_BATCH = 500


def items(settings: Settings) -> dict[str, tuple[str, int]]:
    """Every data set with every seed."""
    return {f"{name} seed {seed}": (name, seed) for name in settings["data"] for seed in range(settings["seeds"])}


def run(settings: Settings, item: tuple[str, int], folder: Path) -> dict[str, Any]:
    """Learns a depth, then trains a network of the chosen depth from scratch; all choices on validation examples."""
    name, seed = item
    data = load(name)
    train, valid = _split(resident(data.train), settings, seed)
    normalisation = Normalisation.of(train)

    def batches(examples: TensorData) -> Batches:
        return Batches(examples, EVALUATION_BATCH, shuffle=False, preprocessing=normalisation)

    source = Batches(train, settings["batch_size"], seed=derive_seed(seed, "batches"), preprocessing=normalisation)
    test = resident(data.test)
    store = folder / "checkpoints" / f"{name}-{seed}"
    net = _network(settings, data.input_shape[0], data.classes, settings["max_depth"], seed)
    search = DepthSearch(**_training(settings))
    q, history = search.fit(net, source, batches(valid), seed=seed, checkpoints=CheckpointStore(store / "learned"))
    net.eval()
    log_q = q.log_probabilities().detach().double()
    logits = _outputs(lambda x: net.forward_many(x, net.space.members), batches(test))  # (D+1, N, C)
    chosen = {rule: choose_depth(q, rule) for rule in RULES}
    log_members = torch.log_softmax(logits, -1)
    measured = {"unpruned": scores(log_marginal(log_members, log_q), test.targets)}
    for rule, depth in chosen.items():
        weights = prune(q, depth).log_probabilities().double()
        measured[f"pruned {rule}"] = scores(log_marginal(log_members[: depth + 1], weights), test.targets)
    kept = max(chosen["95%"], 1)  # a network of fixed depth has a block
    pruned_weights = prune(q, kept).log_probabilities().double()
    baseline = _network(settings, data.input_shape[0], data.classes, kept, derive_seed(seed, "fixed"))
    fixed, fixed_history = FixedDepth(**_training(settings)).fit(
        baseline, source, batches(valid), seed=seed, checkpoints=CheckpointStore(store / "fixed")
    )
    fixed.eval()
    measured["fixed depth"] = scores(torch.log_softmax(_outputs(fixed, batches(test)), -1), test.targets)
    return {
        "depths": chosen,
        "q": [round(value, 6) for value in log_q.exp().tolist()],
        "epochs": {"learned": len(history.rows), "fixed": len(fixed_history.rows)},
        "alone": [scores(one, test.targets)["mean_log_p"] for one in log_members],
        "test": measured,
        "exits": [
            {"confidence": point.confidence, "mean_depth": point.mean_depth, "accuracy": point.accuracy}
            for point in exit_curve(
                logits[: kept + 1], test.targets, pruned_weights.exp(), range(kept + 1), CONFIDENCES
            )
        ],
        "share_of_forward": _share_of_forward(net, kept, normalisation(test.inputs[:EVALUATION_BATCH])),
    }


def _split(data: TensorData, settings: Settings, seed: int) -> tuple[TensorData, TensorData]:
    """Training and validation examples, class by class."""
    wanted = settings["train"] + settings["valid"]
    kept = stratified_split(data, wanted / len(data), seed=seed)[1] if wanted < len(data) else data
    train, valid = stratified_split(kept, settings["valid"] / len(kept), seed=seed)
    return train, valid


def _network(settings: Settings, channels: int, classes: int, max_depth: int, seed: int) -> ConvolutionalDepth:
    with global_seed(seed, "network"):
        net = ConvolutionalDepth(
            in_channels=channels,
            classes=classes,
            max_depth=max_depth,
            channels=settings["channels"],
            inner_channels=settings["inner_channels"],
        )
    return to_device(net, torch.device("cpu"))


def _training(settings: Settings) -> dict[str, Any]:
    return {name: settings[name] for name in DepthTraining.__dataclass_fields__ if name in settings}


@torch.no_grad()
def _outputs(network: Any, batches: Batches) -> Tensor:
    """Logits in float64, joined along the examples."""
    return torch.cat([network(batch.inputs).double() for batch in batches.epoch(0)], dim=-2)


def _share_of_forward(net: ConvolutionalDepth, depth: int, inputs: Tensor) -> float:
    """The time of a forward pass of the pruned network over that of the full one."""
    kept = {"pruned": net.space.members[depth], "full": net.space.members[-1]}
    networks = {name: net.extract(architecture).eval() for name, architecture in kept.items()}
    seconds = forward_seconds(networks, inputs.contiguous(memory_format=torch.channels_last))
    return seconds["pruned"] / seconds["full"]


_CPU: Settings = {
    "data": ["mnist", "fashion_mnist", "cifar10"], "seeds": 3, "max_depth": 20, "channels": 16, "inner_channels": 8,
    "train": 6000, "valid": 2000, "batch_size": 128, "epochs": 24, "patience": 24, "drop_after": 18,
    "learning_rate": 0.1, "momentum": 0.5,
}  # fmt: skip

IMAGE_DEPTH = Experiment(
    name="image_depth",
    document=VARIATIONAL_DEPTH,
    claim="Depth, pruning, calibration and speed on images (figures 4, 9, 10, 11); cpu has CIFAR-10 in place of SVHN.",
    presets={
        "quick": {
            **_CPU, "data": ["digits"], "seeds": 1, "max_depth": 3, "channels": 8, "inner_channels": 4, "train": 600,
            "valid": 200, "epochs": 2,
        },
        "cpu": _CPU,
        "paper": {
            **_CPU, "data": ["mnist", "fashion_mnist", "svhn"], "seeds": 4, "max_depth": 50, "channels": 64,
            "inner_channels": 32, "train": 54_000, "valid": 6000, "batch_size": 512, "epochs": 1000, "patience": 30,
            "drop_after": 30,
        },
    },
    items=items,
    task=run,
    judge=judge,
    figures=figures,
)  # fmt: skip
