"""The part of a report about one network with many architectures: what its ensemble is worth and what it costs."""

import statistics
from collections.abc import Iterator
from pathlib import Path

from markupsafe import Markup

from polyarch.methods.stochastic.plots import stochastic_charts
from polyarch.methods.stochastic.record import StochasticRecord
from polyarch.reports.drawing import draw
from polyarch.reports.headline import Entry, entries, predictor_in, with_role
from polyarch.reports.section import Section, Tile
from polyarch.reports.text import SPACE, count, percent, signed, the
from polyarch.results import Results, Role

MOST_PICTURES = 12
"""Further members are in the table only."""

NAMES = {
    "uniform": "all have the same weight",
    "posterior": "their weights are the posterior given the validation examples",
    "stacked": "their weights maximise the likelihood of the validation examples",
    "mutual_information": "disagreement of members (mutual information)",
    "max_probability": "1 - highest probability",
    "gaussian_noise": "noise",
    "gaussian_blur": "blur",
}
"""Of weightings, scores and corruptions."""


def section(results: Results) -> Section:
    """The ensemble, its members, what more members bring, and how well corrupted images are detected."""
    record = results.found(StochasticRecord)
    if record is None:
        return Section()
    kind, compared = str(results.space["kind"]), _compared(results)
    pictures = [Markup(draw(member.architecture, kind)) for member in record.members[:MOST_PICTURES]]
    return Section(
        Path(__file__).with_name("report.html"),
        sentences=None if compared is None else list(_sentences(results, record, *compared)),
        tiles=None if compared is None else list(_tiles(results, record, *compared)),
        answer=Role.MIXTURE,
        charts=dict(stochastic_charts(record)),
        values={
            "record": record,
            "noun": "wiring" if kind == "wired" else "architecture",
            "names": NAMES,
            "mean": statistics.fmean,
            "pictures": pictures if kind == "wired" else [],
        },
    )


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
        f"It costs {_times(record)}{SPACE}times the multiply-accumulates of its best member alone ({macs} instead of "
        f"{member_macs} per example) and has {count(record.parameters)} parameters."
    )
    together, alone = predictor_in(results, "ensemble"), predictor_in(results, None)
    if together is not None and alone is not None:
        yield (
            f"Before temperature scaling, its calibration error is {together.uncalibrated_calibration_error:.4f} and "
            f"its mean negative log-likelihood {together.uncalibrated_loss:.4f} nats; for {the(alone.name)} they are "
            f"{alone.uncalibrated_calibration_error:.4f} and {alone.uncalibrated_loss:.4f}."
        )


def _tiles(results: Results, record: StochasticRecord, ensemble: Entry, best: Entry, baseline: Entry) -> Iterator[Tile]:
    yield Tile("test accuracy", percent(ensemble.mean), f"of the {ensemble.name}")
    yield Tile("vs. best member", signed(ensemble.mean - best.mean), "points")
    yield Tile("vs. one network", signed(ensemble.mean - baseline.mean), f"points; {baseline.name}")
    together = predictor_in(results, "ensemble")
    if together is not None:
        yield Tile("calibration error", f"{together.uncalibrated_calibration_error:.4f}", "before temperature scaling")
    yield Tile("cost", _times(record), "times that of its best member")
    yield Tile("parameters", count(record.parameters), "of the ensemble")


def _times(record: StochasticRecord) -> str:
    return f"{record.ensemble_macs / max(record.member_macs, 1.0):.2f}"
