"""Learning curves from scratch: do training losses rank better than validation accuracy? (figures 4.4, 4.5)

SoTL is that of the last epoch, as the thesis has it unless it says otherwise (section 3.1).

SpikeNAS-Bench has the curves of 15,625 cells on CIFAR-10, each trained alone by SGD with cosine annealing: 14,935 of
them for 100 epochs, 690 others for 200.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyarch.randomness import derive_seed
from polyarch.ranking import top_k
from polyarch.tables import CurveTable, load_spikenas
from polyarch_experiments.experiment import Experiment, Settings, Table
from polyarch_experiments.figures import Row, Spec, lines, side_by_side, summary
from polyarch_experiments.measures import spread
from polyarch_experiments.papers import TRAINING_SPEED
from polyarch_experiments.results import Claim, Finding
from polyarch_experiments.training_speed.curves import accumulated, correlation_along
from polyarch_experiments.verdict import claim, finding, paired

Values = NDArray[np.float64]

EARLY = 0.25
"""The share of the training that counts as early."""
TOP = 10
DECAY = 0.9
"""Of SoTL-EMA, per epoch."""
GROUPS = {"all": "all cells", "top": "the truly best quarter"}
"""Names of what is ranked; the second is what a search is about: telling good cells apart."""
WHOLE = "SoTL, all epochs"
"""The sum over the whole run so far, where SoTL is that of the last epoch."""
PARAMETERS = "parameters"
SHOWN = (1, 2, 3, 4, 5, 7, 10, 15, 20, 25, 35, 50, 75, 100, 125, 150, 200)
"""Epochs that have a column in tables of more."""


def items(settings: Settings) -> dict[str, int]:
    """The cells of every length of training."""
    return {f"{length} epochs": length for length in settings["lengths"]}


def run(settings: Settings, length: int, folder: Path) -> dict[str, Any]:
    """Ranks cells by what is known after some epochs, all of them and random subsets."""
    table = load_spikenas()
    rows = np.flatnonzero(table.column("epochs") == length)
    truth = table.accuracies()[rows]
    epochs = [epoch for epoch in settings["epochs"] if epoch <= length]
    scores = {
        name: values[:, [epoch - 1 for epoch in epochs]] for name, values in _predictors(table, rows, length).items()
    }
    scores[PARAMETERS] = table.column("params")[rows, None]
    best_first = np.argsort(-truth, kind="stable")
    groups = {"all": np.arange(len(rows)), "top": best_first[: len(rows) // 4]}
    found: dict[str, Any] = {"epochs": epochs}
    for name, group in groups.items():
        size = min(settings["size"], len(group) // 2)
        found[name] = {
            "n": len(group),
            "size": size,
            "accuracy": {"mean": float(truth[group].mean()), "best": float(truth[group].max())},
            "whole": _ranked(scores, truth, group),
            "subsets": [
                _ranked(scores, truth, _subset(group, size, length, number)) for number in range(settings["subsets"])
            ],
        }
    return found


def _predictors(table: CurveTable, rows: NDArray[np.int64], length: int) -> dict[str, Values]:
    """What is known of every cell after every epoch, (n, length); more is better."""
    losses, valid_losses, accuracies = (
        table.curves(measure)[rows, :length] for measure in ("train_loss", "valid_loss", "valid_accuracy")
    )
    return {
        "SoTL": -accumulated(losses),
        WHOLE: -accumulated(losses, window=None),
        "SoTL-EMA": -accumulated(losses, window=None, decay=DECAY),
        "ValAcc": accuracies,
        "SoVL": -accumulated(valid_losses),
    }


def _subset(group: NDArray[np.int64], size: int, length: int, number: int) -> NDArray[np.int64]:
    generator = np.random.default_rng(derive_seed(length, "subset", number))
    return generator.choice(group, size, replace=False)


def _ranked(scores: Mapping[str, Values], truth: Values, group: NDArray[np.int64]) -> dict[str, Any]:
    """Spearman and the mean truth of the top 10 at every epoch."""
    known = truth[group].tolist()
    found = {}
    for name, values in scores.items():
        chosen = values[group]
        correlations = correlation_along(-chosen, known)
        found[name] = {
            "spearman": [0.0 if value is None else round(value, 4) for value in correlations],
            "top10": [round(top_k(column.tolist(), known, TOP), 3) for column in chosen.T],
        }
    return found


def _means(run: Mapping[str, Any], group: str, name: str, measure: str, first: float, last: float) -> list[float]:
    """For every subset the mean over the epochs after the share ``first`` of the training, up to ``last``."""
    length = run["epochs"][-1]
    kept = [index for index, epoch in enumerate(run["epochs"]) if first * length < epoch <= last * length]
    return [
        statistics.fmean(subset[name][measure][index] for index in kept) for subset in run[group]["subsets"] if kept
    ]


def _compare(
    runs: Mapping[str, Any], group: str, ours: str, theirs: str, measure: str = "spearman",
    between: tuple[float, float] = (0.0, EARLY),
) -> tuple[list[Finding], str]:  # fmt: skip
    """By how much one is better, with intervals over random subsets, and the numbers."""
    digits = 2 if measure == "top10" else 3
    findings, parts = [], []
    for name, run in runs.items():
        first, second = (_means(run, group, side, measure, *between) for side in (ours, theirs))
        findings.append(finding(f"{name}: ahead by", paired(first, second), above=0))
        found = run[group]
        parts.append(
            f"{name}, subsets of {found['size']} of {found['n']:,}: {ours} {spread(first, digits)}, "
            f"{theirs} {spread(second, digits)}"
        )
    return findings, "; ".join(parts)


def judge(settings: Settings, runs: dict[str, Any]) -> list[Claim]:
    """Means over epochs; differences are paired in random subsets of cells."""
    return list(_claims(runs))


def _claims(runs: Mapping[str, Any]) -> Iterator[Claim]:
    document = "SoTL beats validation accuracy early in training (figures 4.4 and 4.5)"
    findings, numbers = _compare(runs, "all", "SoTL", "ValAcc")
    yield claim(
        "From scratch, SoTL ranks cells better than validation accuracy in the first quarter of the training.",
        findings,
        f"mean Spearman over its epochs, SoTL of the last epoch; {numbers}",
        number=6,
        document=document,
    )
    yield claim(
        "The advantage of SoTL is smaller under fast annealing.",
        [],
        "every cell was trained with one schedule only, cosine annealing over all its epochs, and those of 100 and of "
        f"200 epochs are different cells; {numbers}",
        number=6,
        document="less so under fast annealing",
        needs="the same cells trained by a short and by a long schedule, as NATS-Bench has them (12 and 200 epochs)",
    )
    for text, said, compared in (
        (
            "Among the truly best quarter of the cells, SoTL ranks better than validation accuracy that early.",
            "mean Spearman over the epochs of the first quarter",
            _compare(runs, "top", "SoTL", "ValAcc"),
        ),
        (
            "In the first quarter, the sum of training losses over all epochs ranks better than validation accuracy.",
            "mean Spearman over its epochs",
            _compare(runs, "all", WHOLE, "ValAcc"),
        ),
        (
            "In the first quarter, the ten cells that SoTL puts first are better than those of validation accuracy.",
            "mean test accuracy in percent",
            _compare(runs, "all", "SoTL", "ValAcc", measure="top10"),
        ),
        (
            "Early, training losses of the last epoch rank better than its validation losses.",
            "mean Spearman over the epochs of the first quarter",
            _compare(runs, "all", "SoTL", "SoVL"),
        ),
        (
            "In the second half, the losses of the last epoch rank better than the sum over all.",
            "mean Spearman over its epochs",
            _compare(runs, "all", "SoTL", WHOLE, between=(0.5, 1.0)),
        ),
    ):
        yield claim(text, compared[0], f"{said}; {compared[1]}")
    yield _parameters(runs)


def _parameters(runs: Mapping[str, Any]) -> Claim:
    """Whether SoTL is better than a number that needs no training, and from which epoch on."""
    findings, parts = [], []
    for name, run in runs.items():
        pairs = list(zip(run["epochs"], run["all"]["whole"]["SoTL"]["spearman"], strict=True))
        (baseline,) = run["all"]["whole"][PARAMETERS]["spearman"]
        worse = [epoch for epoch, value in pairs if value <= baseline]
        since = next((epoch for epoch, _ in pairs if epoch > max(worse, default=0)), None)
        quarter = max(at for at, epoch in enumerate(run["epochs"]) if epoch <= EARLY * run["epochs"][-1])
        ours, theirs = (
            [subset[side]["spearman"][at] for subset in run["all"]["subsets"]]
            for side, at in (("SoTL", quarter), (PARAMETERS, 0))
        )
        findings.append(finding(f"{name}: ahead by", paired(ours, theirs), above=0))
        shown = "never" if since is None else f"from epoch {since} on"
        parts.append(f"{name}: parameters {baseline:.3f}, SoTL better {shown}")
    return claim(
        "At the end of the first quarter, SoTL ranks better than the number of parameters.", findings, "; ".join(parts)
    )


def tables(settings: Settings, runs: dict[str, Any]) -> dict[str, Table]:
    """Spearman over all cells by epoch."""
    found = {}
    for name, run in runs.items():
        epochs = run["epochs"]
        kept = [index for index, epoch in enumerate(epochs) if epoch in SHOWN or len(epochs) <= len(SHOWN)]
        for group, words in GROUPS.items():
            whole = run[group]["whole"]
            rows = []
            for predictor, values in whole.items():
                padded = _padded(values["spearman"], len(epochs))
                rows.append([predictor, *(f"{padded[index]:.3f}" for index in kept)])
            caption = f"Spearman with the final test accuracy, {words} of {name} ({run[group]['n']:,}), by epoch"
            found[caption] = Table(["", *(str(epochs[index]) for index in kept)], rows)
    return found


def _padded(values: Sequence[float], length: int) -> Sequence[float]:
    """A number that needs no training is the same at every epoch."""
    return values if len(values) == length else list(values) * length


def figures(settings: Settings, runs: dict[str, Any]) -> dict[str, Spec]:
    """Rank correlation and the truth of the top 10 over epochs; the band is one standard deviation over subsets."""

    def rows(run: Mapping[str, Any], group: str, measure: str) -> Iterator[Row]:
        subsets, epochs = run[group]["subsets"], run["epochs"]
        for name in subsets[0]:
            columns = [_padded(subset[name][measure], len(epochs)) for subset in subsets]
            for epoch, values in zip(epochs, zip(*columns, strict=True), strict=True):
                yield {"x": epoch, "series": name, **summary(values)}

    def panels(measure: str, title: str) -> list[Spec]:
        return [
            lines(rows(run, group, measure), "epochs", title, log=True, title=f"{name}, {words}")
            for name, run in runs.items()
            for group, words in GROUPS.items()
        ]

    return {
        "curve_ranking": side_by_side(*panels("spearman", "Spearman with the test accuracy")),
        "curve_top10": side_by_side(*panels("top10", "test accuracy of the top 10, %")),
    }


_CPU: Settings = {"lengths": [100, 200], "epochs": list(SHOWN), "size": 200, "subsets": 10}

CURVE_RANKING = Experiment(
    name="curve_ranking",
    document=TRAINING_SPEED,
    claim="From scratch, SoTL ranks better than validation accuracy early in training (figures 4.4 and 4.5).",
    presets={
        "quick": {**_CPU, "lengths": [200], "epochs": [1, 10, 25, 50, 150, 200], "size": 50, "subsets": 3},
        "cpu": _CPU,
        "paper": {**_CPU, "epochs": list(range(1, 201))},
    },
    items=items,
    task=run,
    judge=judge,
    figures=figures,
    tables=tables,
)
