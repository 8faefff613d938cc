"""Training an extracted architecture from scratch, as a task for executors."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from polyarch.data import BatchSource
from polyarch.export.artifact import weights_bytes, weights_of
from polyarch.files import write_atomically
from polyarch.runs.optimisers import schedule, sgd, smoothed_loss
from polyarch.runs.parts import Parts
from polyarch.predictive import calibration_error
from polyarch.randomness import derive_seed
from polyarch.spaces import Architecture
from polyarch.strategies import Supervised
from polyarch.training import Callback, CheckpointStore, History, fit


@dataclass(frozen=True)
class Retraining:
    """Trains one (architecture, seed) and tests it; writes its weights and goes on after a kill.

    Args:
        inherited: whether it starts from the weights of the supernet instead of fresh ones.
    """

    parts: Parts
    folder: Path
    inherited: bool = False

    def __call__(self, item: tuple[Architecture, int]) -> dict[str, Any]:
        """Test and validation results; the weights are in `weights_path`."""
        parts = self.parts
        network, history = self.train(item)
        path = self.weights_path(item)
        write_atomically(path, weights_bytes(weights_of(network)))
        valid = evaluate(network, parts.evaluation_batches(parts.valid))
        return {
            **evaluate(network, parts.evaluation_batches(parts.data.test)),
            "valid_accuracy": valid["accuracy"],
            "history": [{"epoch": row["epoch"], "loss": row["loss"]} for row in history.rows],
        }

    def train(
        self, item: tuple[Architecture, int], valid: BatchSource | None = None, callbacks: Sequence[Callback] = ()
    ) -> tuple[nn.Module, History]:
        """The network in evaluation mode and what was measured on the way.

        Args:
            valid: judged after every epoch; the weights are the same bits with and without it.
            callbacks: besides the schedule of the learning rate.
        """
        architecture, seed = item
        parts, settings = self.parts, self.parts.settings
        position = derive_seed(settings.seed, "retrain", architecture.key, seed) >> 1
        network = parts.net.extract(architecture) if self.inherited else parts.fresh(architecture, seed=position)
        optimizer = sgd(network, settings.retrain)
        history = fit(
            Supervised(network, optimizer, loss=smoothed_loss(settings.retrain)),
            parts.batches(parts.train, settings.retrain.batch_size, stream=f"retrain {seed}"),
            valid,
            epochs=settings.retrain.epochs,
            seed=position,
            callbacks=[schedule(optimizer, settings.retrain), *callbacks],
            checkpoints=CheckpointStore(self.checkpoint_folder(item)),
            checkpoint_seconds=settings.checkpoint_seconds,
        )
        return network.eval(), history

    def checkpoint_folder(self, item: tuple[Architecture, int]) -> Path:
        """Where one item keeps its checkpoints."""
        architecture, seed = item
        name = hashlib.sha256(architecture.key.encode()).hexdigest()[:16]
        return self.folder / f"{name}-{seed}"

    def weights_path(self, item: tuple[Architecture, int]) -> Path:
        """Where one item leaves its weights, in safetensors format."""
        return self.checkpoint_folder(item) / "weights.safetensors"


def evaluate(network: nn.Module, batches: BatchSource) -> dict[str, float]:
    """Accuracy, mean negative log-likelihood and expected calibration error (15 bins) of a prepared network."""
    logits, targets = outputs(network, batches)
    probabilities = logits.softmax(-1)
    return {
        "accuracy": float((probabilities.argmax(-1) == targets).float().mean()),
        "loss": float(F.cross_entropy(logits, targets)),  # finite where a probability is too small for a number
        "calibration_error": calibration_error(probabilities, targets),
    }


def outputs(network: Callable[[Tensor], Tensor], batches: BatchSource) -> tuple[Tensor, Tensor]:
    """Logits (N, C), or (K, N, C) of K members, in float64 and targets (N,) of all examples, on the CPU."""
    with torch.no_grad():
        pairs = [(network(batch.inputs).cpu().double(), batch.targets.cpu()) for batch in batches.epoch(0)]
    return torch.cat([logits for logits, _ in pairs], dim=-2), torch.cat([targets for _, targets in pairs])
