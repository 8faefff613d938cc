"""The report of a run: one HTML file that needs nothing else, made from ``results.json`` alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from polyarch.files import write_atomically
from polyarch.reports.drawing import draw
from polyarch.reports.plots import Point, Series, curve, scatter
from polyarch.results import Results, ScoredArchitecture

TOP = 20


def write_report(results: Results, path: Path) -> None:
    """Writes the report of a finished search."""
    write_atomically(path, render(results))


def render(results: Results) -> str:
    """The report as HTML; every text from the results is escaped."""
    environment = Environment(
        loader=PackageLoader("polyarch.reports"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    return environment.get_template("report.html").render(
        results=results,
        drawing=_drawing(results),
        training=Markup(_training(results)),
        ranking=_ranking(results),
        top=_top(results),
        settings=json.dumps(results.settings, indent=2),
    )


def _drawing(results: Results) -> Markup | None:
    if results.artifact is None:
        return None
    return Markup(draw(results.artifact["architecture"], results.space["kind"]))


def _training(results: Results) -> str:
    rows = results.training.history
    series = [Series("training loss", [(row["epoch"], row["loss"]) for row in rows], "#1a73e8")]
    if "valid_loss" in rows[-1]:
        series.append(Series("validation loss", [(row["epoch"], row["valid_loss"]) for row in rows], "#c5221f"))
    return curve(series, x_label="epoch", y_label="loss (nats)")


def _ranking(results: Results) -> Markup | None:
    """The first estimator over the number of parameters, with the best architecture highlighted."""
    ranking = results.ranking
    if ranking is None or not ranking.architectures:
        return None
    names = [score.estimator for score in ranking.architectures[0].scores]
    if "params" not in names or names[0] == "params":
        return None
    best = results.artifact["architecture"] if results.artifact else None
    points = [
        Point(item.score("params"), item.score(names[0]), _key(item), highlighted=item.architecture == best)
        for item in ranking.architectures
    ]
    return Markup(scatter(points, x_label="parameters", y_label=names[0]))


def _top(results: Results) -> list[dict[str, Any]]:
    """The best of the search, by its first objective."""
    search = results.search
    if search is None:
        return []
    objective = search.objectives[0]
    descending = objective not in ("params", "macs", "latency")
    unique = {_key(item): item for item in search.evaluated}
    ordered = sorted(unique.values(), key=lambda item: item.score(objective), reverse=descending)
    return [{"key": _key(item), "scores": item.scores} for item in ordered[:TOP]]


def _key(item: ScoredArchitecture) -> str:
    return "|".join(item.architecture.values())
