"""The report of a run: one HTML file that needs nothing else, made from ``results.json`` alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from polyarch.errors import MissingExtra
from polyarch.files import write_atomically
from polyarch.methods.depth import headline as depth_headline
from polyarch.methods.depth import words as depths
from polyarch.methods.depth.panels import panels
from polyarch.methods.differentiable.report import differentiable_part
from polyarch.methods.one_shot.elimination_report import elimination_part
from polyarch.methods.one_shot.trust_report import trust_part
from polyarch.methods.posterior_guided import report as guided
from polyarch.methods.stochastic import report as stochastic
from polyarch.reports import words
from polyarch.reports.canvas import printable
from polyarch.reports.drawing import draw
from polyarch.reports.headline import entries, sentences, tiles
from polyarch.reports.scripts import content_security_policy, embedded_json, library, resource
from polyarch.reports.searched import best_architecture, best_parameters, counted_parameters, is_spelled_out
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
        .get_template(_template(results))
        .render(
            **scripts,
            policy=content_security_policy(*scripts.values()),
            style=resource("report.css"),
            results=results,
            charts=found,
            specs=embedded_json(found),
            **_answer(results),
            entries=entries(results),
            drawing=_drawing(results),
            parameters=best_parameters(results),
            counted=counted_parameters(results),
            top=top(results),
            differentiable=differentiable_part(results.differentiable),
            elimination=elimination_part(results.elimination),
            ranking_trust=trust_part(results.ranking),
            blocks=blocks(results),
            inputs=inputs_in_words(results),
            classes=classes_in_words(results),
            settings=json.dumps(results.settings, indent=2),
        )
    )


def _template(results: Results) -> str:
    known = {"depth.html": results.depth, "stochastic.html": results.stochastic, "guided.html": results.guided}
    return next((name for name, record in known.items() if record is not None), "report.html")


def _answer(results: Results) -> dict[str, Any]:
    """What differs between searches for an architecture, a depth or channels, and a network of many architectures."""
    if results.stochastic is not None:
        return {
            "sentences": stochastic.sentences(results, results.stochastic),
            "tiles": list(stochastic.tiles(results, results.stochastic)),
            "ensembles": [],
            "part": stochastic.stochastic_part(results, results.stochastic),
        }
    if results.guided is not None:
        return {
            "sentences": guided.sentences(results, results.guided),
            "tiles": list(guided.tiles(results, results.guided)),
            "ensembles": [],
            "part": guided.guided_part(results, results.guided),
        }
    depth = results.depth
    if depth is None:
        mixtures = [one for one in results.predictors if len(one.members) > 1 and is_spelled_out(results)]
        ensembles = [(one, memberships(one)) for one in mixtures]
        return {"sentences": sentences(results), "tiles": list(tiles(results)), "ensembles": ensembles}
    return {
        "sentences": depth_headline.sentences(results, depth),
        "tiles": list(depth_headline.tiles(results, depth)),
        "ensembles": [],
        "depth": depth,
        "deepest": depths.deepest(depth),
        "is_learned": depths.is_learned(depth),
        "rules": depths.RULES,
        "updates": depths.UPDATES.get(depth.updates, depth.updates),
        "exit": depth_headline.chosen_exit(depth),
        "times": [depths.time_of(one, results, depth) for one in depth.predictors],
        "panels": panels(depth, results.data["classes"]),
    }


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
    environment.filters["rule_name"] = depths.rule_name
    return environment


def _printable(value: Any) -> Any:
    """Names are arbitrary text, a page is not; what is marked as HTML has been made by us."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _drawing(results: Results) -> Markup | None:
    if results.depth is not None:  # whatever the choice is called in the user's network
        options = [str(one.depth) for one in results.depth.depths]
        return Markup(draw({"depth": str(results.depth.chosen)}, "depth", choices={"depth": options}))
    best = best_architecture(results)
    if best is None or not is_spelled_out(results):
        return None
    return Markup(draw(best, str(results.space["kind"]), choices=results.space.get("choices")))
