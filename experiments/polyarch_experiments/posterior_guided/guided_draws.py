"""Networks drawn from the learned posterior against random and plain ones (tables 1, 3, 6, 7 and 9)."""

from __future__ import annotations

import copy
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from polyarch.nn import StackedNetworks
from polyarch.predictive import detect, uncertainty_scores
from polyarch.supernets import uniform_width
from polyarch_experiments.experiment import Experiment, Settings
from polyarch_experiments.images import Images, logits_of, measure, store_of
from polyarch_experiments.papers import POSTERIOR_GUIDED_SEARCH
from polyarch_experiments.posterior_guided.gated_networks import (
    LARGE,
    PLAIN,
    SMALL,
    TINY,
    Drawn,
    build,
    learn,
    of_family,
    random_search,
    search_of,
    tested,
    train_plain,
    tune,
)
from polyarch_experiments.posterior_guided.guided_draws_claims import counts, figures, judge, tables
from polyarch_experiments.seeds import seeded

FamilyAndSeed = tuple[str, int]
"""``data, family`` and a seed."""


def items(settings: Settings) -> dict[str, FamilyAndSeed]:
    """Every family on every data set, all first seeds first."""
    return seeded(counts(settings))


def run(settings: Settings, item: FamilyAndSeed, folder: Path) -> dict[str, Any]:
    """Trains the same network three times: with learned drop probabilities, with fixed ones, and without gates."""
    name, seed = item
    data, family = name.split(", ")
    settings = of_family(settings, family)
    images = Images.of(settings, data, seed)
    store = store_of(folder, name, seed)
    search = search_of(settings)

    net = build(settings, family, images, seed)
    q = learn(settings, images, net, search, seed, store / "guided").q
    guided = Drawn.of(settings, images, net, q, seed, "guided")
    flat = Drawn.of(settings, images, net, q.flat(), seed, "flat")

    other = build(settings, family, images, seed)
    fixed = learn(settings, images, other, random_search(search, q), seed, store / "random").q
    random = Drawn.of(settings, images, other, fixed, seed, "random")
    kinds = {"guided": guided, "flat": flat, "random": random}

    full = net.whole()
    plain = build(settings, family, images, seed)
    alone = train_plain(settings, images, plain.extract(full), seed, store / "alone")
    tuned = {
        kind: tested(tune(settings, images, drawn.net.extract(drawn.best), seed, store / f"tuned-{kind}"), images)
        for kind, drawn in (("guided", guided), ("random", random))
    }
    return {
        "keep_rate": q.keep_rate,
        "drop": dict(zip(q.groups, q.drop.tolist(), strict=True)),
        **{kind: drawn.summary(images) for kind, drawn in kinds.items()},
        "reestimated": {kind: drawn.reestimated_accuracy(images, settings["members"]) for kind, drawn in kinds.items()},
        "tuned": tuned,
        "all_kept": tested(net.extract(full), images),
        "alone": tested(alone, images),
        "plain": _plain(settings, family, images, seed, net.cost(guided.best).macs, store / "plain"),
        "full_cost": asdict(net.cost(full)),
        "best_of": {
            kind: {
                str(count): drawn.expected_best(count)
                for count in settings["best_of"]
                if count <= settings["candidates"]
            }
            for kind, drawn in kinds.items()
        },
        "prediction": _prediction(settings, images, guided, alone),
    }


def _plain(settings: Settings, family: str, images: Images, seed: int, macs: float, store: Path) -> dict[str, Any]:
    """A network of the plain family and of uniform width with at most so many operations, trained alone."""
    plain = build(settings, PLAIN.get(family, family), images, seed)
    architecture = uniform_width(plain, macs).architecture
    network = train_plain(settings, images, plain.extract(architecture), seed, store)
    return {"test": tested(network, images), "cost": asdict(plain.cost(architecture))}


def _prediction(settings: Settings, images: Images, guided: Drawn, alone: torch.nn.Module) -> dict[str, Any]:
    """Several draws together, the best one, and the network without gates: on test images and on strange ones."""
    members = [guided.net.extract(guided.draws(position)) for position in range(settings["members"])]
    predictors = {
        "mixture": StackedNetworks(members),
        "best": StackedNetworks([guided.net.extract(guided.best)]),
        "alone": StackedNetworks([copy.deepcopy(alone)]),
    }
    found: dict[str, Any] = {}
    for kind, predictor in predictors.items():
        logits = logits_of(predictor, images.batches(images.test))
        found[kind] = {"test": measure(logits, images.test.targets), "detection": {}}
        known = uncertainty_scores(torch.softmax(logits.double(), -1))
        for outside in settings["outside"][images.name]:
            strange = logits_of(predictor, images.batches(images.outside(outside)))
            scores = uncertainty_scores(torch.softmax(strange.double(), -1))
            found[kind]["detection"][outside] = {score: asdict(detect(known[score], scores[score])) for score in scores}
    return found


_CPU: Settings = {
    **SMALL, "data": ["fashion_mnist", "cifar10"], "seeds": {"MI": 3, "M": 2},
    "best_of": [1, 2, 4, 8, 16, 32, 64], "members": 10,
    "outside": {"fashion_mnist": ["mnist"], "cifar10": ["fashion_mnist"]},
}  # fmt: skip

GUIDED_DRAWS = Experiment(
    name="guided_draws",
    document=POSTERIOR_GUIDED_SEARCH,
    claim="Networks drawn with learned drop probabilities, against draws at one rate for all, with the same expected "
    "share of channels: from the same weights (flat), and from weights that were trained with that one rate (random). "
    "The best of all draws by validation images stands for each, without and with further training; the network "
    "without gates and a plain one with as many operations as the best draw, both trained alone, stand beside them.",
    presets={
        "quick": {
            **_CPU, **TINY, "data": ["digits"], "seeds": {"MI": 1, "E": 1}, "best_of": [1, 3], "members": 2,
            "outside": {"digits": []},
        },
        "cpu": _CPU,
        "paper": {
            **_CPU, **LARGE, "data": ["cifar10"], "seeds": {"MI": 3, "M": 3, "EI": 3, "E": 3},
            "families": {**LARGE["families"], "MI": {**LARGE["families"]["MI"], "candidates": 10_000}},
            "best_of": [50, 500, 1500, 5000, 10_000], "outside": {"cifar10": ["svhn", "fashion_mnist"]},
        },
    },
    items=items,
    task=run,
    judge=judge,
    figures=figures,
    tables=tables,
)  # fmt: skip
