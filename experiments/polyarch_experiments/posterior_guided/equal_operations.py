"""Is guided search better than the simple thing? Five ways to a small network, at equal operations and equal epochs."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from polyarch.estimators import MACs
from polyarch.nn.channel_gates import TRANSPOSED, sliced
from polyarch.nn.channel_layers import NORMS
from polyarch.searchers import Limit, Limits
from polyarch.spaces import Architecture
from polyarch.supernets import GatedSupernet, narrowed, uniform_width
from polyarch_experiments.experiment import Experiment, Settings, Table
from polyarch_experiments.figures import Spec, lines, side_by_side, summary
from polyarch_experiments.images import NAMES, Images, store_of
from polyarch_experiments.measures import spread
from polyarch_experiments.papers import POSTERIOR_GUIDED_SEARCH
from polyarch_experiments.posterior_guided.gated_networks import (
    LARGE,
    SMALL,
    TINY,
    Drawn,
    build,
    learn,
    of_family,
    search_of,
    tested,
    train_plain,
    tune,
)
from polyarch_experiments.results import Claim
from polyarch_experiments.seeds import runs_of, seeded
from polyarch_experiments.verdict import claim, finding, interval_in_words, over_seeds

DataAndSeed = tuple[str, int]

WAYS = {
    "guided": "guided within the limit, tuned",
    "scratch": "its architecture from scratch",
    "uniform": "uniform width",
    "l1": "pruned by L1 norm, tuned",
    "scales": "pruned by norm scales, tuned",
}
DISTILLED = ", distilled"


def counts(settings: Settings) -> dict[str, int]:
    """How many seeds every data set has."""
    seeds: int = settings["seeds"]
    return dict.fromkeys(settings["data"], seeds)


def items(settings: Settings) -> dict[str, DataAndSeed]:
    """Every data set, all first seeds first."""
    return seeded(counts(settings))


def ways(settings: Settings) -> dict[str, str]:
    """Name -> title of every way; with distillation, once more with the whole network as a teacher."""
    taught = {f"{way}{DISTILLED}": f"{title}{DISTILLED}" for way, title in WAYS.items()}
    return {**WAYS, **(taught if settings["distillation"] else {})}


def run(settings: Settings, item: DataAndSeed, folder: Path) -> dict[str, Any]:
    """Trains the whole network once, and a network of every share of its operations in every way.

    Every way has ``epochs + tuning_epochs`` in all: the search and pruned networks as many as the settings say and then
    the tuning, networks from scratch all at once.
    """
    data, seed = item
    settings = of_family(settings, settings["family"])
    images, store = Images.of(settings, data, seed), store_of(folder, data, seed)
    net = build(settings, settings["family"], images, seed)
    whole = net.cost(net.whole())
    train_plain(settings, images, net.model, seed, store / "whole")  # without gates: pruning needs its weights
    teacher = net.extract(net.whole()).eval()
    found: dict[str, Any] = {"whole": {"test": tested(teacher, images), "cost": asdict(whole)}, "shares": {}}
    for share in settings["shares"]:
        place = store / f"share-{share:g}"
        guided, best = _guided(settings, images, seed, share * whole.macs, place)
        narrow = {
            "uniform": uniform_width(net, share * whole.macs).architecture,
            "l1": narrowed(net, share * whole.macs, filter_norms).architecture,
            "scales": narrowed(net, share * whole.macs, norm_scales).architecture,
        }
        plans: dict[str, tuple[GatedSupernet, Architecture]] = {
            "guided": (guided, best), "scratch": (guided, best), **{way: (net, one) for way, one in narrow.items()},
        }  # fmt: skip
        found["shares"][f"{share:g}"] = {
            way: _trained(settings, images, way, *plans[way.removesuffix(DISTILLED)], seed, place, teacher)
            for way in ways(settings)
        }
    return found


def _guided(
    settings: Settings, images: Images, seed: int, macs: float, store: Path
) -> tuple[GatedSupernet, Architecture]:
    """A search within a limit, and its best draw by validation images."""
    net = build(settings, settings["family"], images, seed)
    limits = Limits(net, [Limit(MACs(images.train.input_shape), macs)])
    q = learn(settings, images, net, search_of(settings), seed, store / "search", limits).q
    return net, Drawn.of(settings, images, net, q, seed, "guided", limits).best


def _trained(
    settings: Settings,
    images: Images,
    way: str,
    net: GatedSupernet,
    architecture: Architecture,
    seed: int,
    store: Path,
    teacher: nn.Module,
) -> dict[str, Any]:
    taught = teacher if way.endswith(DISTILLED) else None
    if way.removesuffix(DISTILLED) in ("scratch", "uniform"):
        fresh = build(settings, settings["family"], images, seed).extract(architecture)
        longer = {**settings, "epochs": settings["epochs"] + settings["tuning_epochs"]}
        network = train_plain(longer, images, fresh, seed, store / way.replace(", ", "-"), taught)
    else:
        network = tune(settings, images, net.extract(architecture), seed, store / way.replace(", ", "-"), taught)
    return {"test": tested(network, images), "cost": asdict(net.cost(architecture))}


def filter_norms(name: str, module: nn.Module) -> Tensor | None:
    """The L1 norm of every filter of a layer, relative to their mean: layers of any size have the same threshold."""
    if not sliced(module):
        return None
    weight = module.get_parameter("weight").detach()
    norms = (weight.transpose(0, 1) if isinstance(module, TRANSPOSED) else weight).abs().flatten(1).sum(1)
    return norms / norms.mean()


def norm_scales(name: str, module: nn.Module) -> Tensor | None:
    """The absolute scale of every channel of a batch normalisation."""
    return module.weight.detach().abs() if isinstance(module, NORMS) and module.weight is not None else None


def arrived(settings: Settings, runs: Mapping[str, Any]) -> list[str]:
    """The data sets that have results so far."""
    return [data for data in settings["data"] if runs_of(runs, counts(settings), data)]


def errors(settings: Settings, runs: Mapping[str, Any], data: str, share: float, way: str) -> list[float]:
    """Test errors in %, one per seed."""
    found = runs_of(runs, counts(settings), data)
    return [100 * (1 - one["shares"][f"{share:g}"][way]["test"]["accuracy"]) for one in found]


ENOUGH_EPOCHS = 30
FAIR = (
    "networks that fit their training images: after so few epochs the whole one does not. The preset long has 5,000 "
    "images, twice the width, 60 epochs and distillation, an estimated 34 hours on one core"
)

OTHERS = {
    "uniform": "a network of uniform width, trained from scratch",
    "l1": "pruning by the L1 norm of filters",
    "scales": "pruning by the scales of normalisation",
    "scratch": "its own architecture, trained from scratch",
}


def judge(settings: Settings, runs: dict[str, Any]) -> list[Claim]:
    """Guided search against every other way: differences paired by seed, on average over data sets and at every limit.

    Seeds are few, so that one place alone decides little: a claim is about the mean over all of them.
    """
    endings = ["", *([DISTILLED] if settings["distillation"] else [])]
    return [_better(settings, runs, f"guided{end}", f"{way}{end}") for end in endings for way in OTHERS]


def differences(settings: Settings, runs: Mapping[str, Any], ours: str, theirs: str, share: float) -> list[float]:
    """Points of test error of one way minus those of another, seed by seed; means over data sets.

    Of seeds that all data sets have.
    """
    sides = [[errors(settings, runs, data, share, way) for data in arrived(settings, runs)] for way in (ours, theirs)]
    complete = min(len(seeds) for seeds in sides[0])  # of every data set
    return [
        statistics.fmean(first[seed] - second[seed] for first, second in zip(*sides, strict=True))
        for seed in range(complete)
    ]


def _better(settings: Settings, runs: dict[str, Any], ours: str, theirs: str) -> Claim:
    by_share = {share: differences(settings, runs, ours, theirs, share) for share in settings["shares"]}
    means = [statistics.fmean(seeds) for seeds in zip(*by_share.values(), strict=True)]
    shown = [
        f"{share:.0%} of the operations {interval_in_words(over_seeds(found), 2)}" for share, found in by_share.items()
    ]
    way = theirs.removesuffix(DISTILLED)
    taught = ", both with distillation" if theirs.endswith(DISTILLED) else ""
    return claim(
        f"With as many operations and epochs, guided search is better than {OTHERS[way]}{taught}.",
        [finding("points of test error, mean over data sets and limits", over_seeds(means), below=0)],
        f"{len(means)} of {settings['seeds']} seeds; at {', '.join(shown)}",
        needs=FAIR if settings["epochs"] < ENOUGH_EPOCHS else None,
    )


def tables(settings: Settings, runs: dict[str, Any]) -> dict[str, Table]:
    """Errors and sizes of every way."""
    rows = []
    for data in arrived(settings, runs):
        found = runs_of(runs, counts(settings), data)
        whole = [one["whole"] for one in found]
        rows.append([NAMES[data], "100 %", "whole network", *_cells(whole)])
        for share in settings["shares"]:
            for way, title in ways(settings).items():
                networks = [one["shares"][f"{share:g}"][way] for one in found]
                rows.append([NAMES[data], f"{share:.0%}", title, *_cells(networks)])
    columns = ["data", "operations allowed", "way", "test error, %", "MACs, million", "parameters, thousand"]
    total = settings["epochs"] + settings["tuning_epochs"]
    return {
        f"Small networks of {settings['family']}, {total} epochs each; the whole one without the tuning": Table(
            columns, rows
        )
    }


def _cells(networks: list[dict[str, Any]]) -> list[str]:
    return [
        spread([100 * (1 - one["test"]["accuracy"]) for one in networks], 2),
        spread([one["cost"]["macs"] / 1e6 for one in networks], 3),
        spread([one["cost"]["parameters"] / 1e3 for one in networks], 1),
    ]


def figures(settings: Settings, runs: dict[str, Any]) -> dict[str, Spec]:
    """Error over operations, a line for every way."""
    panels = []
    for data in arrived(settings, runs):
        found = runs_of(runs, counts(settings), data)
        rows = [
            {
                "x": statistics.fmean(one["shares"][f"{share:g}"][way]["cost"]["macs"] / 1e6 for one in found),
                "series": title,
                **summary(errors(settings, runs, data, share, way)),
            }
            for way, title in ways(settings).items()
            for share in settings["shares"]
        ]
        panels.append(lines(rows, "million multiply-accumulates", "test error, %", log=True, title=NAMES[data]))
    return {"equal_operations": side_by_side(*panels)}


_CPU: Settings = {
    **SMALL, "data": ["fashion_mnist", "cifar10"], "seeds": 3, "family": "M", "shares": [0.1, 0.25, 0.5],
    "train": 2000, "valid": 500, "test": 2000, "epochs": 8, "tuning_epochs": 4, "candidates": 16, "distillation": False,
}  # fmt: skip

EQUAL_OPERATIONS = Experiment(
    name="equal_operations",
    document=POSTERIOR_GUIDED_SEARCH,
    claim="Networks with 10, 25 and 50 % of the multiply-accumulates of the whole one: guided search within the limit "
    "and tuning, its architecture from scratch, uniform width, and two ways of pruning with tuning, all with the same "
    "number of epochs; the presets long and paper also with distillation from the whole network.",
    presets={
        "quick": {
            **_CPU, **TINY, "data": ["digits"], "seeds": 1, "shares": [0.25, 0.5], "distillation": True,
        },
        "cpu": _CPU,
        "long": {
            **_CPU, "train": 5000, "valid": 1000, "test": 10_000, "width": 16, "epochs": 40, "tuning_epochs": 20,
            "candidates": 64, "distillation": True,
        },
        "paper": {
            **_CPU, **LARGE, "data": ["cifar10", "cifar100"], "seeds": 3, "distillation": True,
        },
    },
    items=items,
    task=run,
    judge=judge,
    figures=figures,
    tables=tables,
    partial=True,
)  # fmt: skip
