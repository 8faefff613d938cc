"""The report of a run: one HTML file that needs nothing else, made from ``results.json`` alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from polyarch.errors import MissingExtra
from polyarch.files import write_atomically
from polyarch.reports import words
from polyarch.reports.canvas import printable
from polyarch.reports.drawing import draw
from polyarch.reports.headline import entries, sentences, tiles
from polyarch.reports.scripts import content_security_policy, embedded_json, library, resource
from polyarch.reports.searched import best_architecture, best_parameters, counted_parameters
from polyarch.reports.tables import memberships, top
from polyarch.reports.usage import blocks, classes_in_words, inputs_in_words
from polyarch.results import Results


def write_report(results: Results, path: Path) -> None:
    """Writes the report of a run, finished or not."""
    write_atomically(path, render(results))


def render(results: Results) -> str:
    """The report as HTML; every text from the results is escaped. Needs the ``report`` extra."""
    try:
        from polyarch.reports.charts import charts

        scripts = {"library": library(), "script": resource("report.js")}
    except ImportError:
        raise MissingExtra("Writing the report", "report") from None
    found = charts(results)
    return (
        _environment()
        .get_template("report.html")
        .render(
            **scripts,
            policy=content_security_policy(*scripts.values()),
            style=resource("report.css"),
            results=results,
            charts=found,
            specs=embedded_json(found),
            sentences=sentences(results),
            tiles=list(tiles(results)),
            entries=entries(results),
            drawing=_drawing(results),
            parameters=best_parameters(results),
            counted=counted_parameters(results),
            ensembles=[(one, memberships(one)) for one in results.predictors if len(one.members) > 1],
            top=top(results),
            blocks=blocks(results),
            inputs=inputs_in_words(results),
            classes=classes_in_words(results),
            settings=json.dumps(results.settings, indent=2),
        )
    )


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("polyarch.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_printable,
    )
    names = ("breakable", "count", "estimator_name", "figures", "in_words", "percent", "several")
    environment.filters.update({name: getattr(words, name) for name in names})
    return environment


def _printable(value: Any) -> Any:
    """Names are arbitrary text, a page is not; what is marked as HTML has been made by us."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _drawing(results: Results) -> Markup | None:
    best = best_architecture(results)
    if best is None:
        return None
    return Markup(draw(best, str(results.space["kind"]), choices=results.space.get("choices")))
