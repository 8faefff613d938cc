"""The part of a report about one network with many architectures: what its ensemble is worth and what it costs."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from polyarch.methods.stochastic.plots import stochastic_charts
from polyarch.methods.stochastic.record import NormModesRecord, StochasticMember, StochasticRecord
from polyarch.reports.drawing import draw
from polyarch.reports.headline import Entry, entries, predictor_in, with_role
from polyarch.reports.section import Section, Tile
from polyarch.reports.text import SPACE, count, key_of, percent, several, signed
from polyarch.results import Results, Role

MOST_PICTURES = 12
"""Further members are in the table only."""

WEIGHTINGS = {
    "uniform": "all have the same weight",
    "posterior": "their weights are the posterior given the validation examples",
    "stacked": "their weights maximise the likelihood of the validation examples",
}
SCORES = {
    "mutual_information": "disagreement of members (mutual information)",
    "entropy": "entropy",
    "max_probability": "1 - highest probability",
}
CORRUPTIONS = {"gaussian_noise": "noise", "gaussian_blur": "blur"}


@dataclass(frozen=True)
class MemberLine:
    """A row of the table of members; ``bar`` is its weight relative to the largest one, ``picture`` its wiring."""

    name: str
    member: StochasticMember
    bar: float
    picture: Markup | None


def section(results: Results) -> Section:
    """The ensemble, its members, what more members bring, and how well corrupted images are detected."""
    record = results.found(StochasticRecord)
    if record is None:
        return Section()
    noun = _noun(results)
    compared = _compared(results)
    return Section(
        Path(__file__).with_name("report.html"),
        sentences=None if compared is None else list(_sentences(results, record, *compared)),
        tiles=None if compared is None else list(_tiles(results, record, *compared)),
        charts=dict(stochastic_charts(record)),
        values={
            "record": record,
            "noun": noun,
            "done": " ".join(how_it_was_done(record, noun)),
            "lines": member_lines(results, record),
            "statistics": None if record.statistics is None else _statistics(record.statistics, noun),
            "detection": list(_detection(record)),
        },
    )


def how_it_was_done(record: StochasticRecord, noun: str) -> Iterator[str]:
    """The training and the choice of members."""
    own = f"; each {noun} also has some weights of its own" if record.own_weights else ""
    yield (
        f"One set of weights was trained under {several(record.drawn, noun)} drawn before training, one per "
        f"{record.draws}{own}."
    )
    if record.unlabelled:
        examples = several(record.unlabelled, "unlabelled example")
        yield f"{examples} had to get the same answer under any two of them."
    members, kept = len(record.members), sum(1 for member in record.members if member.weight)
    budget = f" within {count(record.max_macs)} multiply-accumulates" if record.max_macs else ""
    chosen = f"Of {several(record.evaluated, noun)}, the"
    if members == 1:
        yield f"{chosen} best by validation loss{budget} predicts alone."
        return
    together = "predict together" if kept == members else f"were weighted, and {kept} of them predict together"
    weights = WEIGHTINGS.get(record.weighting, record.weighting)
    yield f"{chosen} {members} best by validation loss{budget} {together}; {weights}."


def member_lines(results: Results, record: StochasticRecord) -> list[MemberLine]:
    """The members in the order of the record; the first wirings have a picture."""
    kind = str(results.space["kind"])
    largest = max((member.weight for member in record.members), default=1.0) or 1.0
    return [
        MemberLine(
            member.notation or key_of(member.architecture),
            member,
            member.weight / largest,
            Markup(draw(member.architecture, kind)) if kind == "wired" and position < MOST_PICTURES else None,
        )
        for position, member in enumerate(record.members)
    ]


def _compared(results: Results) -> tuple[Entry, Entry, Entry] | None:
    """The ensemble, its best member, and the network trained alone."""
    found = entries(results)
    ensemble, best, alone = (with_role(found, role) for role in (Role.MIXTURE, Role.BEST, Role.BASELINE))
    return None if ensemble is None or best is None or alone is None else (ensemble, best, alone)


def _sentences(
    results: Results, record: StochasticRecord, ensemble: Entry, best: Entry, baseline: Entry
) -> Iterator[str]:
    """The result in words; what a single run cannot tell is said."""
    chance = "" if baseline.std is not None else " Each was trained once: small differences may be chance."
    yield (
        f"On {results.data['name']}, the {ensemble.name} reaches {percent(ensemble.mean)} test accuracy, "
        f"{ensemble.against(best)} its best member alone ({percent(best.mean)}) and {ensemble.against(baseline)} "
        f"the {baseline.name} ({baseline.shown}).{chance}"
    )
    macs, member_macs = count(round(record.ensemble_macs)), count(round(record.member_macs))
    yield (
        f"It costs {_times(record)} the multiply-accumulates of its best member alone ({macs} instead of {member_macs} "
        f"per example) and has {count(record.parameters)} parameters."
    )
    together, alone = predictor_in(results, "ensemble"), predictor_in(results, None)
    if together is not None and alone is not None:
        yield (
            f"Before temperature scaling, its calibration error is {together.uncalibrated_calibration_error:.4f} and "
            f"its mean negative log-likelihood {together.uncalibrated_loss:.4f} nats; for the {alone.name} they are "
            f"{alone.uncalibrated_calibration_error:.4f} and {alone.uncalibrated_loss:.4f}."
        )


def _tiles(results: Results, record: StochasticRecord, ensemble: Entry, best: Entry, baseline: Entry) -> Iterator[Tile]:
    yield Tile("test accuracy", percent(ensemble.mean), f"of the {ensemble.name}")
    yield Tile("vs. best member alone", signed(ensemble.mean - best.mean), "percentage points")
    yield Tile(f"vs. {baseline.name}", signed(ensemble.mean - baseline.mean), "percentage points")
    together = predictor_in(results, "ensemble")
    if together is not None:
        yield Tile("calibration error", f"{together.uncalibrated_calibration_error:.4f}", "before temperature scaling")
    yield Tile("cost", _times(record), "that of its best member")
    yield Tile("parameters", count(record.parameters), "of the ensemble")


def _statistics(found: NormModesRecord, noun: str) -> str:
    batch, running = statistics.fmean(found.batch), statistics.fmean(found.running)
    order = "undefined, as one side does not vary" if found.spearman is None else f"{found.spearman:.2f}"
    return (
        f"With batch statistics, as in training, {several(len(found.batch), noun)} reach {percent(batch)} validation "
        f"accuracy on average; with running averages, as in use, {percent(running)} (rank correlation {order})."
    )


def _detection(record: StochasticRecord) -> Iterator[tuple[str, str, float, float]]:
    """Corruption, score, AUROC and false alarms of every row, in the order of `SCORES`."""
    order = list(SCORES)
    for corruption, scores in record.corrupted.items():
        for score in sorted(scores, key=lambda name: order.index(name) if name in order else len(order)):
            found, name = scores[score], CORRUPTIONS.get(corruption, corruption)
            yield name, SCORES.get(score, score), found["auroc"], found["fpr95"]


def _noun(results: Results) -> str:
    """What an architecture is called."""
    return "wiring" if results.space["kind"] == "wired" else "architecture"


def _times(record: StochasticRecord) -> str:
    return f"{record.ensemble_macs / max(record.member_macs, 1.0):.2f}{SPACE}times"
