"""One network with many architectures in words: what was trained, what its ensemble is worth and what it costs."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass

from markupsafe import Markup

from polyarch.reports.drawing import draw
from polyarch.reports.headline import Tile, compared, entries, predictor_named
from polyarch.reports.words import SPACE, count, key_of, percent, several
from polyarch.results import NormModesRecord, PredictorRecord, Results, StochasticMember, StochasticRecord

MOST_PICTURES = 12
"""Further members are in the table only."""

WEIGHTINGS = {
    "uniform": "all count the same",
    "posterior": "their shares are the posterior given the validation examples",
    "stacked": "their shares are those with the highest likelihood of the validation examples",
}
SCORES = {
    "mutual_information": "disagreement of members (mutual information)",
    "entropy": "entropy",
    "max_probability": "1 - highest probability",
}
CORRUPTIONS = {"gaussian_noise": "noise", "gaussian_blur": "blur"}


@dataclass(frozen=True)
class MemberLine:
    """A row of the table of members; ``bar`` is its share of the largest one, ``picture`` its wiring."""

    name: str
    member: StochasticMember
    bar: float
    picture: Markup | None


@dataclass(frozen=True)
class DetectionLine:
    """How well a score tells corrupted copies from test images."""

    corruption: str
    score: str
    auroc: float
    false_alarms: float


@dataclass(frozen=True)
class StochasticPart:
    """What the section of the report says; ``noun`` is what an architecture is called."""

    noun: str
    done: str
    lines: tuple[MemberLine, ...]
    statistics: str | None
    detection: tuple[DetectionLine, ...]


def stochastic_part(results: Results, record: StochasticRecord) -> StochasticPart:
    """The section about one network with many architectures."""
    kind = str(results.space["kind"])
    largest = max((member.weight for member in record.members), default=1.0) or 1.0
    lines = [
        MemberLine(
            member.notation or key_of(member.architecture),
            member,
            member.weight / largest,
            Markup(draw(member.architecture, kind)) if kind == "wired" and position < MOST_PICTURES else None,
        )
        for position, member in enumerate(record.members)
    ]
    return StochasticPart(
        _noun(results),
        " ".join(_done(results, record)),
        tuple(lines),
        None if record.statistics is None else _statistics(results, record.statistics),
        tuple(_detection(record)),
    )


def sentences(results: Results, record: StochasticRecord) -> list[str]:
    """The result in words; what one run cannot tell is said."""
    ensemble, best, *_ = found = entries(results)
    baseline = found[-1]
    said = (
        f"On {results.data['name']} the {ensemble.name} reaches {percent(ensemble.mean)} test accuracy, "
        f"{compared(ensemble, best)} its best member alone ({percent(best.mean)}) and {compared(ensemble, baseline)} "
        f"the {baseline.name} ({baseline.shown})."
    )
    chance = "" if baseline.std is not None else " Each was trained once: small differences may be chance."
    together = predictor_named(results, ensemble.name)
    alone = predictor_named(results, baseline.name)
    return [
        said + chance,
        f"It costs {_times(record)} the multiply-accumulates of its best member alone ({_cost(record)} per example) "
        f"and has {count(record.parameters)} parameters.",
        *_calibration(together, alone),
    ]


def tiles(results: Results, record: StochasticRecord) -> Iterator[Tile]:
    """The numbers of the sentences, to be seen at a glance."""
    ensemble, best, *_ = found = entries(results)
    yield Tile("test accuracy", percent(ensemble.mean), f"of {ensemble.name}")
    yield Tile("points over one member", f"{100 * (ensemble.mean - best.mean):+.2f}", "the best one alone")
    yield Tile("points over alone", f"{100 * (ensemble.mean - found[-1].mean):+.2f}", found[-1].name)
    together = predictor_named(results, ensemble.name)
    if together is not None:
        yield Tile("calibration error", f"{together.uncalibrated_calibration_error:.4f}", "before any temperature")
    yield Tile("cost", _times(record), "that of its best member")
    yield Tile("parameters", count(record.parameters), "of the ensemble")


def _done(results: Results, record: StochasticRecord) -> Iterator[str]:
    noun = _noun(results)
    own = f", where each {noun} has some weights of its own" if record.own_weights else ""
    yield (
        f"One set of weights was trained under {several(record.drawn, noun)} drawn before training, one for every "
        f"{record.draws}{own}."
    )
    if record.unlabelled:
        examples = several(record.unlabelled, "example")
        yield f"{examples} without labels had to get the same answer under any two of them."
    members, kept = len(record.members), sum(1 for member in record.members if member.weight)
    budget = f" within {count(record.max_macs)} multiply-accumulates" if record.max_macs else ""
    together = "predict together" if kept == members else f"were weighed, and {kept} of them predict together"
    yield (
        f"Of {several(record.evaluated, noun)} the {members} best by validation loss{budget} {together}; "
        f"{WEIGHTINGS.get(record.weighting, record.weighting)}."
    )


def _statistics(results: Results, found: NormModesRecord) -> str:
    batch, running = statistics.fmean(found.batch), statistics.fmean(found.running)
    order = "no order on one side" if found.spearman is None else f"rank correlation {found.spearman:.2f}"
    return (
        f"With the statistics of each batch, as in training, {several(len(found.batch), _noun(results))} reach "
        f"{percent(batch)} validation accuracy on average, with running averages, as in use, {percent(running)} "
        f"({order})."
    )


def _detection(record: StochasticRecord) -> Iterator[DetectionLine]:
    for corruption, scores in record.corrupted.items():
        for score in sorted(scores, key=lambda name: list(SCORES).index(name) if name in SCORES else len(SCORES)):
            yield DetectionLine(
                CORRUPTIONS.get(corruption, corruption),
                SCORES.get(score, score),
                scores[score]["auroc"],
                scores[score]["fpr95"],
            )


def _calibration(together: PredictorRecord | None, alone: PredictorRecord | None) -> Iterator[str]:
    if together is not None and alone is not None:
        yield (
            f"Before any temperature its calibration error is {together.uncalibrated_calibration_error:.4f} and its "
            f"mean negative log-likelihood {together.uncalibrated_loss:.4f} nats; for the {alone.name} they are "
            f"{alone.uncalibrated_calibration_error:.4f} and {alone.uncalibrated_loss:.4f}."
        )


def _noun(results: Results) -> str:
    return "wiring" if results.space["kind"] == "wired" else "architecture"


def _times(record: StochasticRecord) -> str:
    return f"{record.ensemble_macs / max(record.member_macs, 1.0):.2f}{SPACE}times"


def _cost(record: StochasticRecord) -> str:
    return f"{count(round(record.ensemble_macs))} against {count(round(record.member_macs))}"
