"""One set of weights under many wirings: batch statistics, ensembles of wirings, wirings never seen (claims 1 to 3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from polyarch.estimators import ValAcc
from polyarch.nn import AdaptedStatistics, BatchStatistics, NormPolicy, ReestimatedStatistics, RunningStatistics
from polyarch.predictive import detect
from polyarch.randomness import generator_at
from polyarch.ranking import norm_modes
from polyarch.spaces import Architecture, per_example_gates
from polyarch.supernets import WiredSupernet
from polyarch_experiments.experiment import Experiment, Settings
from polyarch_experiments.images import Images, measure, store_of
from polyarch_experiments.papers import STOCHASTIC_ARCHITECTURES
from polyarch_experiments.seeds import seeded
from polyarch_experiments.stochastic.batch_means import batch_mean_variances
from polyarch_experiments.stochastic.shared_wirings_claims import counts, figures, judge, tables
from polyarch_experiments.stochastic.wired_networks import (
    FITTED,
    LARGE,
    SMALL,
    TINY,
    build,
    draw_wirings,
    earlier_network,
    member_logits,
    train,
)

MethodAndSeed = tuple[str, int]
"""``data, method`` and a seed."""


def items(settings: Settings) -> dict[str, MethodAndSeed]:
    """Every method on every data set, all first seeds first."""
    return seeded(counts(settings))


def run(settings: Settings, item: MethodAndSeed, folder: Path) -> dict[str, Any]:
    """Trains one network and judges wirings with its weights, on test examples."""
    name, seed = item
    data, method = name.split(", ")
    images = Images.of(settings, data, seed)
    described = settings["methods"][method]
    wirings = draw_wirings(settings, described["wirings"], seed)
    own = described["own_weights"]
    net = build(settings, images, seed, wirings=None if own == "none" else wirings, own_norms=own == "all")
    store = store_of(folder, name, seed)
    history = train(settings, images, net, wirings, seed, store, per_example=described["draws"] == "example")
    judged, together = wirings[: settings["judged"]], wirings[: max(settings["ensemble_sizes"])]
    modes = norm_modes(net, judged, images.batches(images.test, settings["batch_size"]))
    found = {
        "curve": [round(value, 5) for value in history["valid_accuracy"]],
        "batch": _rounded(modes.batch),
        "running": _rounded(modes.running),
        "spearman": modes.spearman,
        "mean_variance": _mean_variances(settings, net, wirings, images, seed),
        "policies": _policies(settings, net, judged[: settings["recalibrated"]], images, seed),
        "ensemble": _ensembles(
            settings, member_logits(net, together, images.batches(images.test)), images.test.targets
        ),
    }
    if own == "none":
        known = set(wirings)
        fresh = [
            wiring for wiring in draw_wirings(settings, 3 * settings["judged"], seed, "unseen") if wiring not in known
        ][: settings["judged"]]
        logits = member_logits(net, fresh, images.batches(images.test))
        unseen = (logits.argmax(-1) == images.test.targets).double().mean(1)
        found["unseen"] = _rounded(unseen.tolist())
        # Where many wirings were seen, those that were not are the rarer ones, with more edges.
        found["edges"] = {side: _mean_edges(some) for side, some in (("seen", judged), ("unseen", fresh))}
        # Rounded, so that equal counts of right answers are equal numbers.
        found["seen_auc"] = detect(torch.tensor(found["unseen"]), torch.tensor(found["running"])).auroc
    return found


def _rounded(values: Sequence[float]) -> list[float]:
    return [round(value, 5) for value in values]


def _mean_edges(wirings: Sequence[Architecture]) -> float:
    """How many skip edges are on, in the mean."""
    return sum(sum(wiring.indices) for wiring in wirings) / len(wirings)


def _ensembles(settings: Settings, logits: Tensor, targets: Tensor) -> dict[str, dict[str, float]]:
    """Mixtures of the first T wirings with equal weights: logits (K, N, C)."""
    sizes = [size for size in settings["ensemble_sizes"] if size <= len(logits)]
    return {str(size): measure(logits[:size], targets) for size in sizes}


def _mean_variances(
    settings: Settings, net: WiredSupernet, wirings: Sequence[Architecture], images: Images, seed: int
) -> dict[str, float]:
    """The variance of batch means over the variance within batches, averaged over layers, for both kinds of draws."""
    generator = generator_at(seed, "mean variance")
    found = {}

    def one(judged: WiredSupernet, x: Tensor) -> Tensor:
        # As gates: a wiring by itself would use its own layers of normalisation, and shared ones see no other.
        wiring = wirings[int(torch.randint(len(wirings), (), generator=generator))]
        return judged(x, per_example_gates([wiring] * len(x)))  # type: ignore[no-any-return]

    def each(judged: WiredSupernet, x: Tensor) -> Tensor:
        rows = torch.randint(len(wirings), (len(x),), generator=generator).tolist()
        return judged(x, per_example_gates([wirings[row] for row in rows]))  # type: ignore[no-any-return]

    draws: dict[str, Callable[[WiredSupernet, Tensor], Tensor]] = {"batch": one, "example": each}
    for name, forward in draws.items():
        source = images.training_batches(images.train, settings["batch_size"], seed, "variances")
        inputs = (batch.inputs for batch in islice(source.epoch(0), settings["variance_batches"]))
        layers = batch_mean_variances(net, forward, inputs)
        shares = [layer.relative for layer in layers.values() if layer.relative is not None]
        found[name] = sum(shares) / len(shares)
    return found


def _policies(
    settings: Settings, net: WiredSupernet, wirings: Sequence[Architecture], images: Images, seed: int
) -> dict[str, float]:
    """The mean accuracy of some wirings under every policy of batch statistics."""
    batches = settings["policy_batches"]
    policies: tuple[NormPolicy, ...] = (
        RunningStatistics(),
        BatchStatistics(),
        AdaptedStatistics(batches),
        ReestimatedStatistics(batches),
    )
    train_batches = images.training_batches(images.train, settings["batch_size"], seed, "policies")
    test = images.batches(images.test, settings["batch_size"])
    return {
        str(policy): sum(ValAcc(test, train_batches, policy=policy).score(net, wiring) for wiring in wirings)
        / len(wirings)
        for policy in policies
    }


OwnWeights = Literal["none", "coefficients", "all"]
"""What wirings have to themselves: nothing, coefficients of inputs (figure 4), or scale and shift, too."""


def _method(draws: str, wirings: int, own_weights: OwnWeights = "none") -> Settings:
    return {"draws": draws, "wirings": wirings, "own_weights": own_weights}


_METHODS = {
    "nsa-i 500": _method("example", 500),
    "coefficients 500": _method("example", 500, "coefficients"),
    "nsa 500": _method("batch", 500),
    **{f"nsa-i {count}": _method("example", count) for count in (5, 50, 5000)},
    "nsa-id 5": _method("example", 5, "all"),
}
_CPU: Settings = {
    **SMALL, "data": ["fashion_mnist"], "seeds": 2, "methods": _METHODS, "epochs": 20,
    "judged": 30, "ensemble_sizes": [1, 2, 5, 10, 20, 50, 100], "recalibrated": 4, "policy_batches": 20,
    "variance_batches": 20,
}  # fmt: skip

SHARED_WIRINGS = Experiment(
    name="shared_wirings",
    document=STOCHASTIC_ARCHITECTURES,
    claim="One set of weights under many wirings: batch statistics in training and in test, ensembles of wirings, and "
    "wirings that training never saw (figures 2, 3, 4 and table 1).",
    presets={
        "quick": {
            **_CPU, **TINY, "data": ["digits"], "seeds": 1, "epochs": 1, "judged": 6, "ensemble_sizes": [1, 2, 5],
            "recalibrated": 1, "policy_batches": 2, "variance_batches": 3,
            "methods": {
                "nsa 500": _method("batch", 10), "nsa-i 5": _method("example", 3), "nsa-i 500": _method("example", 10),
                "coefficients 500": _method("example", 10, "coefficients"), "nsa-id 5": _method("example", 3, "all"),
            },
        },
        "cpu": _CPU,
        "long": {
            **_CPU, **FITTED, "test": 1000, "seeds": 3, "epochs": 40, "judged": 100,
            "ensemble_sizes": [1, 2, 5, 10, 20, 50, 100, 200, 500],
        },
        "paper": {
            **_CPU, **LARGE, "data": ["cifar10"], "seeds": 3, "epochs": 300, "judged": 100,
            "ensemble_sizes": [1, 2, 5, 10, 20, 50, 100, 200, 500], "recalibrated": 20, "variance_batches": 100,
            "methods": {
                **{f"nsa {count}": _method("batch", count) for count in (500, 5000, 50_000)},
                **{f"nsa-i {count}": _method("example", count) for count in (5, 50, 500, 5000, 50_000)},
                "coefficients 500": _method("example", 500, "coefficients"), "nsa-id 5": _method("example", 5, "all"),
            },
        },
    },
    items=items,
    task=run,
    judge=judge,
    figures=figures,
    tables=tables,
    partial=True,
    outdated=earlier_network,
)  # fmt: skip
