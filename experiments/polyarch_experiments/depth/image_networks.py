"""What the experiments on images share: data by seed, and convolutional networks of learned and of fixed depth."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from polyarch.data import Batches, Normalisation, TensorData, load, resident, stratified_split
from polyarch.methods.depth.choice import forward_seconds
from polyarch.methods.depth.posterior import DepthPosterior
from polyarch.methods.depth.search import (
    RULES,
    DepthSearch,
    DepthTraining,
    choose_depth,
    depth_prior,
    exact_posterior,
    expected_depth,
    prune,
)
from polyarch.objectives import log_marginal
from polyarch.predictive import exit_curve
from polyarch.randomness import derive_seed, global_seed
from polyarch.runs.networks import to_device
from polyarch.supernets import ConvolutionalDepth
from polyarch.training import CheckpointStore
from polyarch_experiments.depth.fixed_depth import FixedDepth
from polyarch_experiments.experiment import Settings
from polyarch_experiments.measures import scores

EVALUATION_BATCH = 500
CONFIDENCES = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.999, 1.01)
"""Confidences of early exit; above 1 no input leaves early."""
IMAGES: Settings = {
    "data": ["mnist", "fashion_mnist", "cifar10"], "seeds": 3, "channels": 16, "inner_channels": 8, "train": 6000,
    "valid": 2000, "batch_size": 128, "epochs": 24, "patience": 24, "drop_after": 18, "learning_rate": 0.1,
    "momentum": 0.5,
}  # fmt: skip
"""Small networks on a tenth of the images; CIFAR-10 in place of SVHN."""
LONG: Settings = {
    **IMAGES, "seeds": 5, "bias": True, "train": 12_000, "epochs": 60, "patience": 60, "drop_after": 45,
    "q_learning_rate": 1.0,
}  # fmt: skip
"""5,600 steps, convolutions with biases, and a q that moves ten times as fast as the weights."""
PAPER: Settings = {
    **IMAGES, "data": ["mnist", "fashion_mnist", "svhn"], "seeds": 4, "channels": 64, "inner_channels": 32,
    "bias": True, "train": 54_000, "valid": 6000, "batch_size": 512, "epochs": 1000, "patience": 30, "drop_after": 30,
}  # fmt: skip
QUICK: Settings = {
    **IMAGES, "data": ["digits"], "seeds": 1, "channels": 8, "inner_channels": 4, "train": 600, "valid": 200,
    "epochs": 2,
}  # fmt: skip
SHAPE = ("channels", "inner_channels", "bias")
"""Settings of the network."""


@dataclass(frozen=True)
class ImageProblem:
    """The images of one data set and seed."""

    settings: Settings
    seed: int
    channels: int
    classes: int
    source: Batches
    train: TensorData
    valid: TensorData
    test: TensorData
    normalisation: Normalisation

    @classmethod
    def of(cls, settings: Settings, name: str, seed: int) -> ImageProblem:
        """Training and validation images, class by class, and all test images."""
        data = load(name)
        whole, wanted = resident(data.train), settings["train"] + settings["valid"]
        kept = stratified_split(whole, wanted / len(whole), seed=seed)[1] if wanted < len(whole) else whole
        train, valid = stratified_split(kept, settings["valid"] / len(kept), seed=seed)
        normalisation = Normalisation.of(train)
        order = derive_seed(seed, "batches")
        source = Batches(train, settings["batch_size"], seed=order, preprocessing=normalisation)
        test = resident(data.test)
        return cls(settings, seed, data.input_shape[0], data.classes, source, train, valid, test, normalisation)

    def in_order(self, examples: TensorData) -> Batches:
        """Without shuffling; no batch has a single image, which has no statistics."""
        size = next(size for size in range(EVALUATION_BATCH, 1, -1) if len(examples) % size != 1)
        return Batches(examples, size, shuffle=False, preprocessing=self.normalisation)

    def network(self, max_depth: int, seed: int) -> ConvolutionalDepth:
        """Untrained."""
        with global_seed(seed, "network"):
            net = ConvolutionalDepth(
                in_channels=self.channels,
                classes=self.classes,
                max_depth=max_depth,
                **{name: self.settings[name] for name in SHAPE if name in self.settings},
            )
        return to_device(net, torch.device("cpu"))

    def training(self, kind: type[DepthTraining]) -> dict[str, Any]:
        """The settings that a kind of training has."""
        return {name: self.settings[name] for name in kind.__dataclass_fields__ if name in self.settings}

    def learned(self, max_depth: int, store: Path) -> dict[str, Any]:
        """Learns a depth up to ``max_depth``; all choices are made without test images.

        Returns: depths by every rule from the learned q and, as ``exact_depths``, from the exact posterior, which is
        certain where images are many; both posteriors, E_q[d] and KL(learned || exact); every depth ``alone``; test
        results of mixtures; early exit and the time of the network pruned by the 95 % rule.
        """
        net = self.network(max_depth, self.seed)
        search = DepthSearch(**self.training(DepthSearch))
        valid = self.in_order(self.valid)
        q, history = search.fit(net, self.source, valid, seed=self.seed, checkpoints=CheckpointStore(store))
        prior = depth_prior(net.space)
        posterior = DepthPosterior(prior, q, exact_posterior(net, prior, self.in_order(self.train)))
        net.eval()
        log_q = q.log_probabilities().detach().double()
        targets = self.test.targets
        logits = outputs(lambda x: net.forward_many(x, net.space.members), self.in_order(self.test))  # (D+1, N, C)
        log_members = torch.log_softmax(logits, -1)
        chosen = {rule: choose_depth(q, rule) for rule in RULES}
        measured = {"unpruned": scores(log_marginal(log_members, log_q), targets)}
        for rule, depth in chosen.items():
            weights = prune(q, depth).log_probabilities().double()
            measured[f"pruned {rule}"] = scores(log_marginal(log_members[: depth + 1], weights), targets)
        kept = max(chosen["95%"], 1)  # a network of fixed depth has a block
        pruned = prune(q, kept).log_probabilities().double().exp()
        curve = exit_curve(logits[: kept + 1], targets, pruned, range(kept + 1), CONFIDENCES)
        return {
            "depths": chosen,
            "exact_depths": {rule: choose_depth(posterior.exact, rule) for rule in RULES},
            "q": [round(value, 6) for value in log_q.exp().tolist()],
            "exact": [round(value, 6) for value in posterior.exact.log_probabilities().exp().tolist()],
            "kl": posterior.divergence,
            "expected": expected_depth(log_q.exp()),
            "epochs": {"learned": len(history.rows)},
            "alone": [scores(one, targets)["mean_log_p"] for one in log_members],
            "test": measured,
            "exits": [
                {"confidence": point.confidence, "mean_depth": point.mean_depth, "accuracy": point.accuracy}
                for point in curve
            ],
            "share_of_forward": self._share_of_forward(net, kept),
        }

    def fixed(self, depth: int, store: Path) -> tuple[dict[str, float], int]:
        """Test results of a network of a fixed depth, trained from scratch by the same protocol, and its epochs."""
        baseline = self.network(depth, derive_seed(self.seed, "fixed"))
        network, history = FixedDepth(**self.training(FixedDepth)).fit(
            baseline, self.source, self.in_order(self.valid), seed=self.seed, checkpoints=CheckpointStore(store)
        )
        network.eval()
        log_probs = torch.log_softmax(outputs(network, self.in_order(self.test)), -1)
        return scores(log_probs, self.test.targets), len(history.rows)

    def _share_of_forward(self, net: ConvolutionalDepth, depth: int) -> float:
        """The time of a forward pass of the pruned network over that of the full one."""
        inputs = self.normalisation(self.test.inputs[:EVALUATION_BATCH])
        kept = {"pruned": net.space.members[depth], "full": net.space.members[-1]}
        networks = {name: net.extract(architecture).eval() for name, architecture in kept.items()}
        seconds = forward_seconds(networks, inputs.contiguous(memory_format=torch.channels_last))
        return seconds["pruned"] / seconds["full"]


@torch.no_grad()
def outputs(network: Any, batches: Batches) -> Tensor:
    """Logits in float64, joined along the examples."""
    return torch.cat([network(batch.inputs).double() for batch in batches.epoch(0)], dim=-2)
