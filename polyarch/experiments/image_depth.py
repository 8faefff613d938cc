"""Images: learned depths, pruning rules, calibration and speed of the convolutional network (figures 4, 9, 10, 11)."""

from __future__ import annotations

import statistics
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from polyarch.data import Batches, Normalisation, TensorData, load, resident, stratified_split
from polyarch.experiments.experiment import Experiment, Settings, spread
from polyarch.experiments.figures import Spec, grouped_bars, side_by_side, summary, with_spread
from polyarch.experiments.spirals import DOCUMENT, scores
from polyarch.jobs.timing import forward_seconds
from polyarch.methods.depth_training import DepthTraining
from polyarch.methods.deterministic_depth import FixedDepth
from polyarch.methods.variational_depth import RULES, DepthSearch, choose_depth, prune
from polyarch.objectives import mixed
from polyarch.predictive import exit_curve
from polyarch.randomness import derive_seed, global_seed
from polyarch.results import Claim
from polyarch.supernets import ConvolutionalDepth
from polyarch.training import CheckpointStore

EVALUATION_BATCH = 500
CONFIDENCES = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.999, 1.01)
"""Of early exit; above 1 nobody leaves early."""
EXIT_CONFIDENCE = 0.95
"""The one that the claim on early exit is about."""
MEASURES = {"accuracy": "accuracy", "mean_log_p": "mean log p", "mean_p": "mean p"}
NAMES = {"mnist": "MNIST", "fashion_mnist": "Fashion-MNIST", "cifar10": "CIFAR-10", "svhn": "SVHN", "digits": "digits"}


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
    measured = {"unpruned": scores(mixed(log_members, log_q), test.targets)}
    for rule, depth in chosen.items():
        weights = prune(q, depth).log_probabilities().double()
        measured[f"pruned {rule}"] = scores(mixed(log_members[: depth + 1], weights), test.targets)
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
    return net.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


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


def _seeds(settings: Settings, runs: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return [runs[f"{name} seed {seed}"] for seed in range(settings["seeds"])]


def _values(settings: Settings, runs: dict[str, Any], name: str, kind: str, measure: str) -> list[float]:
    return [run["test"][kind][measure] for run in _seeds(settings, runs, name)]


def _depths(settings: Settings, runs: dict[str, Any], name: str, rule: str) -> list[float]:
    return [float(run["depths"][rule]) for run in _seeds(settings, runs, name)]


def judge(settings: Settings, runs: dict[str, Any]) -> list[Claim]:
    """Orderings and differences of means over seeds."""
    names = settings["data"]
    means = [statistics.fmean(_depths(settings, runs, name, "95%")) for name in names]
    in_order = all(first < second for first, second in pairwise(means))
    order = " < ".join(NAMES[name] for name in names)
    return [
        Claim(
            number=5,
            text=f"Harder data get deeper networks: {order} (rule 95 %).",
            supported=in_order if len(names) > 1 else None,
            numbers="; ".join(
                f"{NAMES[name]}: 95 % {spread(_depths(settings, runs, name, '95%'), 1)}, "
                f"argmax {spread(_depths(settings, runs, name, 'argmax'), 1)}, "
                f"expected {spread(_depths(settings, runs, name, 'expected'), 1)}"
                for name in names
            )
            + f" (D = {settings['max_depth']})",
            document="about 18 (MNIST), 28 (Fashion-MNIST) and 30 (SVHN) of D = 50",
        ),
        _pruning(settings, runs),
        _calibration(settings, runs),
        _speed(settings, runs),
        _early_exit(settings, runs),
    ]


def _pruning(settings: Settings, runs: dict[str, Any]) -> Claim:
    parts, kept = [], []
    for name in settings["data"]:
        found = {
            (kind, measure): _values(settings, runs, name, kind, measure)
            for kind in ("unpruned", "pruned 95%")
            for measure in MEASURES
        }
        means = {key: statistics.fmean(values) for key, values in found.items()}
        kept.append(
            abs(means["pruned 95%", "accuracy"] - means["unpruned", "accuracy"]) <= 0.005
            and abs(means["pruned 95%", "mean_log_p"] - means["unpruned", "mean_log_p"]) <= 0.02
        )
        sides = [
            f"{shown} {spread(found['pruned 95%', measure], 4)} pruned, {spread(found['unpruned', measure], 4)} full"
            for measure, shown in MEASURES.items()
        ]
        parts.append(f"{NAMES[name]}: {', '.join(sides)}")
    return Claim(
        number=6,
        text="Pruning by the 95 % rule keeps accuracy (within 0.5 points) and log-likelihood (within 0.02 nats).",
        supported=all(kept),
        numbers="; ".join(parts),
        document="no loss against the unpruned mixture",
    )


def _calibration(settings: Settings, runs: dict[str, Any]) -> Claim:
    parts, better = [], {}
    for name in settings["data"]:
        ours, theirs = (
            _values(settings, runs, name, kind, "calibration_error") for kind in ("pruned 95%", "fixed depth")
        )
        better[name] = statistics.fmean(ours) < statistics.fmean(theirs)
        parts.append(f"{NAMES[name]}: {spread(ours, 4)} learned, {spread(theirs, 4)} fixed depth")
    easiest, *harder = settings["data"]
    return Claim(
        number=7,
        text=f"A learned depth is better calibrated than a fixed one on harder data, and worse on {NAMES[easiest]}.",
        supported=all(better[name] for name in harder) and not better[easiest] if harder else None,
        numbers="; ".join(parts) + " (expected calibration error, 15 bins; a fixed depth of the same number of blocks)",
        document="lower error on Fashion-MNIST and SVHN, higher on MNIST (underconfident)",
    )


def _speed(settings: Settings, runs: dict[str, Any]) -> Claim:
    shares = {name: [1 - run["share_of_forward"] for run in _seeds(settings, runs, name)] for name in settings["data"]}
    return Claim(
        number=8,
        text="The pruned network's forward pass is faster than that of the full depth.",
        supported=all(statistics.fmean(found) > 0 for found in shares.values()),
        numbers="; ".join(
            f"{NAMES[name]}: {spread([100 * value for value in found], 0)} % less time"
            for name, found in shares.items()
        ),
        document="62 % (MNIST), 41 % (Fashion-MNIST) and 37 % (SVHN) faster than D = 50",
    )


def _early_exit(settings: Settings, runs: dict[str, Any]) -> Claim:
    parts, kept = [], []
    for name in settings["data"]:
        curves = [{point["confidence"]: point for point in run["exits"]} for run in _seeds(settings, runs, name)]
        early, full = ([curve[confidence] for curve in curves] for confidence in (EXIT_CONFIDENCE, CONFIDENCES[-1]))
        lost = [other["accuracy"] - point["accuracy"] for point, other in zip(early, full, strict=True)]
        used, whole = ([point["mean_depth"] for point in side] for side in (early, full))
        kept.append(statistics.fmean(lost) <= 0.002 and statistics.fmean(used) < statistics.fmean(whole))
        parts.append(
            f"{NAMES[name]}: {spread(used, 1)} of {spread(whole, 1)} blocks, accuracy lower by {spread(lost, 4)}"
        )
    return Claim(
        text=f"Early exit at confidence {EXIT_CONFIDENCE} uses fewer blocks and loses at most 0.2 points of accuracy.",
        supported=all(kept),
        numbers="; ".join(parts),
    )


def figures(settings: Settings, runs: dict[str, Any]) -> dict[str, Spec]:
    """Posteriors, rules, calibration, speed and early exit."""
    names = settings["data"]
    posterior = [
        {"x": depth, "series": NAMES[name], **summary([run["q"][depth] for run in _seeds(settings, runs, name)])}
        for name in names
        for depth in range(settings["max_depth"] + 1)
    ]
    alone = [
        {"x": depth, "series": NAMES[name], **summary([run["alone"][depth] for run in _seeds(settings, runs, name)])}
        for name in names
        for depth in range(settings["max_depth"] + 1)
    ]

    def bars(kinds: dict[str, str], measure: str) -> list[dict[str, Any]]:
        return [
            {"x": NAMES[name], "series": shown, **summary(_values(settings, runs, name, kind, measure))}
            for name in names
            for kind, shown in kinds.items()
        ]

    rules = {"unpruned": "full mixture", **{f"pruned {rule}": f"pruned, {rule}" for rule in RULES}}
    sides = {"pruned 95%": "learned, pruned", "unpruned": "learned, full", "fixed depth": "fixed depth"}
    saved = {name: [1 - run["share_of_forward"] for run in _seeds(settings, runs, name)] for name in names}
    speed = [{"x": NAMES[name], "series": "time saved", **summary(found)} for name, found in saved.items()]
    exits = [
        {"x": point["mean_depth"], "series": NAMES[name], **summary([point["accuracy"]])}
        for name in names
        for point in _seeds(settings, runs, name)[0]["exits"]
    ]
    return {
        "image_posteriors": side_by_side(
            with_spread(posterior, "depth", "q(depth)", series="", title="Posterior over the depth"),
            with_spread(alone, "depth", "test mean log p", series="", title="Every depth alone"),
        ),
        "image_rules": side_by_side(
            grouped_bars(bars(rules, "accuracy"), "", "test accuracy", series="", title="Accuracy by pruning rule"),
            grouped_bars(bars(rules, "mean_log_p"), "", "test mean log p", series="", title="Log-likelihood by rule"),
        ),
        "image_calibration": grouped_bars(
            bars(sides, "calibration_error"), "", "expected calibration error", series="", title="Calibration"
        ),
        "image_speed": grouped_bars(speed, "", "share of forward time saved", series="", title="Speed-up by pruning"),
        "image_exits": with_spread(
            exits, "mean depth used", "test accuracy", series="", title="Early exit, seed 0: confidence 0.5 to never"
        ),
    }


_CPU: Settings = {
    "data": ["mnist", "fashion_mnist", "cifar10"], "seeds": 3, "max_depth": 20, "channels": 16, "inner_channels": 8,
    "train": 6000, "valid": 2000, "batch_size": 128, "epochs": 24, "patience": 24, "drop_after": 18,
    "learning_rate": 0.1, "momentum": 0.5,
}  # fmt: skip

IMAGE_DEPTH = Experiment(
    name="image_depth",
    document=DOCUMENT,
    claim="Depth, pruning, calibration, speed on images (figures 4, 9, 10, 11); at cpu size CIFAR-10 in place of SVHN.",
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
