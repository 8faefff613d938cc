"""Inter-choice weights on a chain, the FairNAS supernet on SubImageNet, with a truth of networks trained alone."""

from __future__ import annotations

from typing import Any

from polyarch_experiments.experiment import Experiment, Settings
from polyarch_experiments.interchoice.chain_claims import judge
from polyarch_experiments.interchoice.chain_figures import figures, tables
from polyarch_experiments.interchoice.chain_networks import items, run
from polyarch_experiments.papers import INTERCHOICE_WEIGHTS

STRONG = {"scale": 0.08, "interpolation": "random", "jitter": 0.4}
"""How the paper augments the images of networks that it trains alone, where those of supernets are cropped less."""


_SHORT_TRAINING: Settings = {
    "batch_size": 64, "learning_rate": 0.1, "final_learning_rate": 1e-5, "warmup_epochs": 0.5, "weight_decay": 4e-5,
    "decay_norms": False, "label_smoothing": 0.1,
}  # fmt: skip
"""Of supernets, and of networks alone, which take fewer epochs: all of their weights learn in every step."""


def _weights(*splits: int) -> dict[str, dict[str, Any]]:
    return {
        "base": {},
        "bias": {"kind": "bias"},
        **{f"split at {epoch}": {"kind": "split", "split_epoch": epoch} for epoch in splits},
    }


def _short(size: int, limit: int, epochs: int, adapting: int = 20) -> dict[str, Any]:
    """A chain of eight layers on small images of CIFAR-10, with the augmentation of the paper's supernets."""
    return {
        "data": {"name": "cifar10", "size": size, "limit": limit, "flip": True, "scale": 0.4},
        "space": {
            "kind": "chain", "channels": [16, 16, 24, 24, 24, 32, 32, 32], "strides": [2, 1, 1, 1, 1, 2, 1, 1],
            "kernels": [3, 5, 7], "expansions": [3, 6], "skip": False, "head_channels": 128,
        },
        "train": {"epochs": epochs, **_SHORT_TRAINING},
        "scores": {"batch_size": 64, "policy": "adapt", "policy_batches": adapting},
    }  # fmt: skip


_CPU: Settings = {
    "seeds": 3, "architectures": 50, "alone_seeds": 2, "consistent": 80, "valid_examples": 2000,
    "weights": _weights(16, 20),
    "run": _short(size=16, limit=5000, epochs=24),
    "alone": {"retrain": {"epochs": 6, **_SHORT_TRAINING}},
    "baselines": {"12 epochs": {"train": {"epochs": 12}}, "24 epochs, strong augmentation": {"data": STRONG}},
}  # fmt: skip

_TABLE_5: Settings = {
    "batch_size": 128, "learning_rate": 0.05, "final_learning_rate": 1e-5, "warmup_epochs": 5, "momentum": 0.9,
    "weight_decay": 4e-5, "decay_norms": False, "label_smoothing": 0.1,
}  # fmt: skip
"""How the paper trains on SubImageNet, supernets for 600 epochs and networks alone for 240."""

_PAPER: Settings = {
    "seeds": 3, "architectures": 50, "alone_seeds": 2, "consistent": 250, "valid_examples": 25_000,
    "weights": _weights(400, 500),
    "run": {
        "data": {"name": "subimagenet", "valid": "subimagenet/test", "size": 224, "flip": True, "scale": 0.4},
        "space": {"kind": "fairnas"},
        "train": {"epochs": 600, **_TABLE_5},
        "scores": {"batch_size": 128, "policy": "adapt", "policy_batches": 20},
    },
    "alone": {"data": STRONG, "space": {"dropout": 0.2}, "retrain": {"epochs": 240, **_TABLE_5}},
    "baselines": {
        "150 epochs, strong augmentation": {"data": STRONG, "train": {"epochs": 150}},
        "300 epochs": {"train": {"epochs": 300}},
        "900 epochs": {"train": {"epochs": 900}},
    },
}  # fmt: skip

INTERCHOICE_CHAIN = Experiment(
    name="interchoice_chain",
    document=INTERCHOICE_WEIGHTS,
    claim="Inter-choice weights on a chain, with the accuracies of networks trained alone (figures 5 to 7, 9 and 10).",
    presets={
        "quick": {
            **_CPU, "seeds": 2, "architectures": 6, "consistent": 8, "valid_examples": 100, "weights": _weights(1),
            "run": _short(size=8, limit=130, epochs=2, adapting=2),
            "alone": {"retrain": {"epochs": 1, **_SHORT_TRAINING}},
            "baselines": {"1 epoch": {"train": {"epochs": 1}}},
        },
        "cpu": _CPU,
        "paper": _PAPER,
    },
    items=items,
    task=run,
    judge=judge,
    figures=figures,
    tables=tables,
)  # fmt: skip
