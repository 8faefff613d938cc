"""The report of a run: one HTML file that needs nothing else, made from ``results.json`` alone."""

import importlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import ChoiceLoader, Environment, FileSystemLoader, PackageLoader, StrictUndefined
from markupsafe import Markup

from polyarch.errors import MissingExtra, UnknownName
from polyarch.files import write_atomically
from polyarch.plugins import method_named
from polyarch.predictive.metrics import METRICS
from polyarch.reports import headline, text
from polyarch.reports.canvas import printable
from polyarch.reports.drawing import draw
from polyarch.reports.score_text import ScoreText
from polyarch.reports.scripts import content_security_policy, embedded_json, library, resource
from polyarch.reports.section import Section
from polyarch.reports.text import several
from polyarch.results import PredictorRecord, Results
from polyarch.tasks import Classification, MultiLabel, OwnTask, Regression

FITTING = 0.9
"""Training accuracy below which a calibration error says little: who does not fit is rarely too sure."""

FILTERS = (
    "breakable", "count", "estimator_name", "figures", "key_of", "limits_text", "percent", "several", "with_noise",
)  # fmt: skip


def write_report(results: Results, path: Path) -> None:
    """Writes the report of a run, finished or not."""
    write_atomically(path, render(results))


def render(results: Results, section: Section | None = None) -> str:
    """The report as HTML; every text from the results is escaped. Needs the ``report`` extra.

    Args:
        section: the method's part; by default what the method itself gives.
    """
    _require_extra()
    from polyarch.reports.number_plots import shown_predictor
    from polyarch.reports.plots import charts

    section = section or section_of(results)
    entries = headline.entries(results, section.answer)
    found = {**dict(charts(results, entries, spells_out=section.spells_out)), **section.charts}
    sentences = headline.sentences(results) if section.sentences is None else section.sentences
    tiles = headline.tiles(results) if section.tiles is None else section.tiles
    best = headline.best_architecture(results)
    answer = shown_predictor(results)
    values: dict[str, Any] = {
        "results": results,
        "sentences": list(sentences),
        "tiles": list(tiles),
        "entries": entries,
        "seeds": sum(len(entry.scores) for entry in entries if entry.is_answer),
        "score": ScoreText.of(results),
        "metric_titles": metric_titles(results),
        "fitting": FITTING,
        "shares": [name for name, metric in METRICS.items() if metric.unit == "share"],
        "shown_points": answer.points if answer is not None else [],
        "drawing": section.drawing or picture_of(results, best if section.spells_out else None),
        "parameters": headline.exported_parameters(results),
        "ensembles": [(one, _members(one)) for one in headline.mixtures(results) if section.spells_out],
        "exports": exports(results),
        "modes": modes(results, section.modes),
        "prediction": prediction_text(results),
        "readouts": READOUTS.get(results.task.kind, list(OwnTask.readouts)),
        "settings": json.dumps(results.settings, indent=2),
    }
    return filled(section.template or Path("page.html"), found, {**values, **section.values})


def filled(
    template: Path, charts: Mapping[str, Any], values: Mapping[str, Any], *, follows: Markup | None = None
) -> str:
    """A page as HTML: a template that extends ``base.html``, with the style, the scripts and the charts that it places.

    Args:
        template: one of ours by its name, or a file; templates that it includes lie in the same folder.
        charts: id -> Vega-Lite specification.
        values: what the template uses beside ``plot`` and ``sortable``.
        follows: a script that asks the server of the page for more.
    """
    _require_extra()
    scripts = {"library": library(), "script": resource("page.js")}
    further = [] if follows is None else [follows]
    environment = environment_of(template)
    macros: Any = environment.get_template("macros.html").make_module({"charts": charts})
    shared = {
        **scripts,
        "further_scripts": further,
        "policy": content_security_policy(*scripts.values(), *further, connects=follows is not None),
        "style": resource("page.css"),
        "plot": macros.plot,
        "sortable": macros.sortable,
        "links_in": _links,
        "charts_in": lambda content: embedded_json(
            {name: spec for name, spec in charts.items() if f'id="chart-{name}"' in content}
        ),
        "charts": charts,
    }
    return environment.get_template(template.name).render({**shared, **values})


def section_of(results: Results) -> Section:
    """What the method of the run adds; nothing where it is not installed."""
    try:
        method = method_named(results.method)
    except UnknownName:
        return Section()
    section: Section = method.report(results)
    return section


def picture_of(results: Results, architecture: dict[str, str] | None) -> Markup | None:
    """An architecture of the run's space."""
    if architecture is None:
        return None
    space = results.space
    return Markup(draw(architecture, str(space["kind"]), choices=space.get("choices"), nesting=space.get("nesting")))


def _require_extra() -> None:
    try:
        for name in ("altair", "vl_convert"):
            importlib.import_module(name)
    except ImportError:
        raise MissingExtra("Writing the report", "report") from None


def environment_of(template: Path) -> Environment:
    """Where a template, those beside it and ours are found; every text is escaped."""
    further = [FileSystemLoader(template.parent)] if template.is_absolute() else []
    environment = Environment(
        loader=ChoiceLoader([PackageLoader("polyarch.reports"), *further]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_printable,
    )
    environment.filters.update({name: getattr(text, name) for name in FILTERS})
    return environment


def _members(predictor: PredictorRecord) -> list[tuple[dict[str, str], float]]:
    """Architectures and weights, the heaviest first."""
    return sorted(zip(predictor.members, predictor.weights, strict=True), key=lambda pair: -pair[1])


def _links(content: str) -> list[tuple[str, Markup]]:
    """Ids and short names of the sections in a page."""
    return [
        (place, Markup(name)) for place, name in re.findall(r'<section id="([\w-]+)" data-link="([^"]+)">', content)
    ]


def _printable(value: Any) -> Any:
    """Names are arbitrary text, a page is not; what is marked as HTML was made by us."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


READOUTS = {task.kind: list(task.readouts) for task in (Classification, Regression, MultiLabel)}

MODES = {"artifact": "single", "ensemble": "ensemble", "posterior": "marginal"}
"""Folder of a run -> the mode that loads it."""


def exports(results: Results) -> dict[str, str]:
    """Folder -> name of the predictor in it, the default one first."""
    found = {one.folder: one.name for one in results.predictors if one.folder is not None}
    default = results.default or "artifact"
    return {default: found.get(default, "best network")} | found


def modes(results: Results, further: Mapping[str, str]) -> dict[str, str]:
    """Values of ``--mode`` -> what predicts.

    Args:
        further: those of the method.
    """
    return {MODES[folder]: name for folder, name in exports(results).items() if folder in MODES} | dict(further)


def metric_titles(results: Results) -> dict[str, str]:
    """The metrics of predictors, the one that selection goes by first: name -> what a person calls it."""
    names = dict.fromkeys(name for one in results.predictors for name in one.metrics if name != "loss")
    known = {name: METRICS[name].title if name in METRICS else name.replace("_", " ") for name in names}
    chosen = results.task.metric
    return {chosen: known[chosen], **known} if chosen in known else known


def prediction_text(results: Results, most: int = 20) -> str:
    """What programs return, with the names in the order of the outputs; of many only the first."""
    names = results.task.names
    more = f", … ({len(names) - most:,} more)" if len(names) > most else ""
    listed = f": {', '.join(names[:most])}{more}" if names else ""
    match results.task.kind:
        case "classification":
            return f"a probability for each of {several(len(names), 'class')}{listed}; and the entropy in nats"
        case "multi-label":
            return f"a probability for each of {several(len(names), 'label')}{listed}; and the entropy in nats"
        case "regression":
            return f"mean, standard deviation and interval of {several(len(names), 'number')}{listed}"
    return "the outputs of the network, and how far its members disagree"
