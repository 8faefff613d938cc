"""Training an extracted architecture from scratch, as a task for executors."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from polyarch.data import BatchSource
from polyarch.export.artifact import weights_bytes, weights_of
from polyarch.files import write_atomically
from polyarch.jobs.parts import Parts, schedule, sgd, smoothed_loss
from polyarch.randomness import derive_seed, global_seed
from polyarch.spaces import Architecture
from polyarch.strategies import Supervised, Tally
from polyarch.training import CheckpointStore, fit


@dataclass(frozen=True)
class Retraining:
    """Trains one (architecture, seed) with fresh weights and tests it; writes its weights and goes on after a kill."""

    parts: Parts
    folder: Path

    def __call__(self, item: tuple[Architecture, int]) -> dict[str, Any]:
        """Test and validation results; the weights are in `weights_path`."""
        architecture, seed = item
        parts, settings = self.parts, self.parts.settings
        position = derive_seed(settings.seed, "retrain", architecture.key, seed) >> 1
        network = fresh(parts.net.extract(architecture), seed=position)
        optimizer = sgd(network, settings.retrain)
        fit(
            Supervised(network, optimizer, loss=smoothed_loss(settings.retrain)),
            parts.batches(parts.train, settings.retrain.batch_size, stream=f"retrain {seed}"),
            epochs=settings.retrain.epochs,
            seed=position,
            callbacks=[schedule(optimizer, settings.retrain)],
            checkpoints=CheckpointStore(self.checkpoint_folder(item)),
            checkpoint_seconds=settings.checkpoint_seconds,
        )
        path = self.weights_path(item)
        write_atomically(path, weights_bytes(weights_of(network)))
        network.eval()
        valid = evaluate(network, parts.evaluation_batches(parts.valid))
        return {**evaluate(network, parts.evaluation_batches(parts.data.test)), "valid_accuracy": valid["accuracy"]}

    def checkpoint_folder(self, item: tuple[Architecture, int]) -> Path:
        """Where one item keeps its checkpoints."""
        architecture, seed = item
        name = hashlib.sha256(architecture.key.encode()).hexdigest()[:16]
        return self.folder / f"{name}-{seed}"

    def weights_path(self, item: tuple[Architecture, int]) -> Path:
        """Where one item leaves its weights, in safetensors format."""
        return self.checkpoint_folder(item) / "weights.safetensors"


def fresh(network: nn.Module, *, seed: int) -> nn.Module:
    """Initialises every layer anew by its own ``reset_parameters``, from the seed."""
    with global_seed(seed, "initialise"):
        for module in network.modules():
            reset = getattr(module, "reset_parameters", None)
            if callable(reset):
                reset()
    return network


def evaluate(network: nn.Module, batches: BatchSource) -> dict[str, float]:
    """Accuracy, mean negative log-likelihood and expected calibration error (15 bins) of a prepared network."""
    # Here and not above: the import takes two seconds, which every command and every worker would wait for.
    from torchmetrics.functional.classification import multiclass_calibration_error

    tally = Tally()
    logits, targets = [], []
    with torch.no_grad():
        for batch in batches.epoch(0):
            output = network(batch.inputs)
            tally.add(output, batch.targets)
            logits.append(output)
            targets.append(batch.targets)
    probabilities = torch.cat(logits).softmax(-1)
    error = multiclass_calibration_error(
        probabilities, torch.cat(targets), num_classes=probabilities.shape[-1], n_bins=15
    )
    return {**tally.means(), "calibration_error": float(error)}
