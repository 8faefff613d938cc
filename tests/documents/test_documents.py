"""Links lead somewhere, pages name everything that there is, and numbers are those that were measured."""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
import runpy
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.main
from pydantic import BaseModel

import polyarch
from polyarch.cli import app
from polyarch.plugins import EXPERIMENTS, METHODS, method_named
from polyarch.results import Results
from polyarch.runs.settings import RunSettings
from polyarch_experiments.experiment import Experiment
from polyarch_experiments.page import EARLIER, OUTDATED, THEN, is_current, judged_claims, page, results_of
from polyarch_experiments.results import Claim, ExperimentResults

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
RESULT_PAGES = {
    "variational-depth": {"variational depth": set(range(1, 10))},
    "one-shot": {"training speed": set(range(1, 9)), "inter-choice weights": {1, 2, 3}},
    "differentiable": {"differentiable search": set(range(9, 19))},
    "stochastic-architectures": {"networks with stochastic architectures": set(range(1, 7))},
    "posterior-guided": {"posterior-guided search": set(range(1, 5))},
}
"""Pages of results: their documents, and the numbers of the claims that are judged."""
EARLIER_SETTINGS = {
    "depth_updates", "equal_operations", "fine_tuning", "guided_draws", "guided_families", "guided_limits",
    "guided_settings", "interchoice_ranking", "shared_wirings", "spiral_max_depth", "spiral_points",
    "spiral_width", "supernet_recipe", "wiring_consistency", "wiring_ensemble",
}  # fmt: skip
"""Experiments whose stored results have the settings of an earlier preset; their pages say so."""
ON_THIS_MACHINE = {"workers"}
"""Settings whose default is not a value."""


@cache
def judging_once() -> dict[str, Experiment]:
    """All experiments; each judges its stored results once, which takes seconds."""
    return {name: replace(experiment, judge=once(experiment.judge)) for name, experiment in EXPERIMENTS.items()}


def once(judge: Callable[..., list[Claim]]) -> Callable[..., list[Claim]]:
    known: list[list[Claim]] = []

    def judged(settings: Any, runs: Any) -> list[Claim]:
        known.extend([] if known else [judge(settings, runs)])
        return known[0]

    return judged


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
        assert "://" in target or (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("path", sorted((ROOT / "docs" / "results").glob("*.json")), ids=lambda path: path.stem)
def test_results_page_says_what_was_measured(path: Path) -> None:
    """Numbers on the page are those of the stored results, and the settings those of the preset."""
    results = ExperimentResults.model_validate_json(path.read_text())
    experiment = judging_once()[results.experiment]
    (name,) = (name for name, documents in RESULT_PAGES.items() if experiment.document in documents)
    page = (ROOT / "docs" / "results" / f"{name}.md").read_text()
    same = results.settings == json.loads(json.dumps(experiment.presets[results.preset]))
    section = page.partition(f"\n## {path.stem}\n")[2].partition("\n## ")[0]
    assert same or (results.experiment in EARLIER_SETTINGS and EARLIER in section)
    assert is_current(experiment, results) != (THEN in section or OUTDATED in section)
    for claim in judged_claims(experiment, results):
        assert f"**{claim.text}** {claim.verdict.capitalize()}." in page
        assert claim.numbers in page


@pytest.mark.parametrize("name", RESULT_PAGES)
def test_the_page_of_documents_is_what_the_command_writes(name: str) -> None:
    """Every numbered claim of every document is on it."""
    stored = ROOT / "docs" / "results" / f"{name}.md"
    documents, known = list(RESULT_PAGES[name]), judging_once()
    kept = results_of(documents, known, stored.parent)
    ran = {one.name for one, _ in kept}
    not_run = [one for key, one in sorted(known.items()) if one.document in documents and key not in ran]
    assert page(documents, kept, stored.stem, not_run) == stored.read_text()
    for document, numbers in RESULT_PAGES[name].items():
        claims = [c for e, r in kept if e.document == document for c in judged_claims(e, r)]
        assert {claim.number for claim in claims if claim.number} == numbers


@pytest.mark.parametrize(
    "path", sorted((ROOT / "docs" / "results" / "searches").glob("*.json")), ids=lambda path: path.stem
)
def test_results_page_says_what_searches_found(path: Path) -> None:
    results = Results.read(path)
    assert results.comparison is not None and results.artifact is not None
    accuracies = [f"{one.mean:.4f}" + (f" +- {one.std:.4f}" if len(one.runs) > 1 else "") for one in results.comparison]
    ensemble = results.predictors[1]
    row = f"| `{path.stem}` | {accuracies[0]} | {accuracies[1]} | {ensemble.score:.4f} | "
    row += f"{ensemble.uncalibrated['calibration_error']:.3f}, {ensemble.metrics['calibration_error']:.3f} | "
    row += f"{results.artifact['parameters']:,} | {sum(results.seconds.values()) / 60:.1f} |"
    assert row in (ROOT / "docs" / "RESULTS.md").read_text()


@pytest.mark.parametrize("path", sorted((ROOT / "benchmarks" / "results").glob("*.json")), ids=lambda path: path.stem)
def test_benchmarks_page_says_what_was_measured(path: Path) -> None:
    stored = json.loads(path.read_text())
    page = (ROOT / "docs" / "BENCHMARKS.md").read_text()
    assert f"| `{stored['name']}` | {stored['ratio']:.2f} | {stored['goal']} |" in page


def test_every_option_of_every_command_is_explained() -> None:
    sections = dict(_sections((ROOT / "docs" / "commands.md").read_text()))
    for words, command in _commands(typer.main.get_command(app)):
        section = next(text for title, text in sections.items() if words[0] in title.split(", "))
        options = {option for parameter in command.params for option in parameter.opts if option.startswith("--")}
        missing = {option for option in options - {"--help"} if f"`{option}`" not in section}
        assert not missing, f"{' '.join(words)} has {', '.join(sorted(missing))}"


def test_every_setting_is_listed_with_its_default() -> None:
    page = (ROOT / "docs" / "commands.md").read_text()
    pattern = re.compile(r"^\| `([a-z_.]+)`(?: \*)? \| (?:`([^|]*)` )?\|", re.MULTILINE)
    rows = pattern.findall(dict(_sections(page))["Settings"])
    listed = {name: json.loads(default) if default else None for name, default in rows}
    expected = dict(_defaults(RunSettings()))
    del expected["sections"]  # of methods; they follow
    for method in map(method_named, METHODS):
        if method.section and type(method).__module__.startswith("polyarch."):
            expected |= _defaults(method.Settings(), f"{method.section}.")
    assert listed == expected


def test_the_page_of_the_architecture_names_the_rooms_in_their_order() -> None:
    rooms = re.findall(r"^([a-z]+) ", (ROOT / "docs" / "architecture.md").read_text().split("```")[1], re.MULTILINE)
    source = (ROOT / "tests" / "test_imports.py").read_text().partition("ROOMS = (")[2].partition(")")[0]
    assert rooms == re.findall(r'"([a-z]+)"', source)


def test_every_public_name_is_on_a_page_of_the_api() -> None:
    pages = "\n".join(path.read_text() for path in sorted((ROOT / "docs" / "api").glob("*.md")))
    shown = set(re.findall(r"^::: (\S+)$", pages, re.MULTILINE))
    assert {f"polyarch.{name}" for name in polyarch.__all__} <= shown
    rooms = {module.name for module in pkgutil.iter_modules(polyarch.__path__)}
    public = {room for room in rooms if hasattr(importlib.import_module(f"polyarch.{room}"), "__all__")}
    assert {f"polyarch.{room}" for room in public} <= shown


@pytest.mark.parametrize("path", sorted((ROOT / "docs" / "api").glob("*.md")), ids=lambda path: path.stem)
def test_pages_of_the_api_can_be_read_without_building_them(path: Path) -> None:
    """`python docs/api/contents.py` writes them again."""
    found = runpy.run_path(str(ROOT / "docs" / "api" / "contents.py"))
    assert path.read_text() == found["page_with_contents"](path.read_text())
    assert path.stem == "index" or "\n| `" in path.read_text()


def _sections(page: str) -> Iterator[tuple[str, str]]:
    for section in page.split("\n## ")[1:]:
        title, _, text = section.partition("\n")
        yield title, text


def _commands(command: Any, *words: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    if not hasattr(command, "commands"):
        yield words, command
        return
    for name, inner in command.commands.items():
        yield from _commands(inner, *words, name)


def _defaults(settings: BaseModel, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The dotted name of every setting, of spaces only the kind, and its default as JSON has it."""
    for name, value in settings:
        if isinstance(value, BaseModel):
            inner = dict(_defaults(value, f"{prefix}{name}."))
            yield from inner.items() if name != "space" else [("space.kind", inner["space.kind"])]
        else:
            known = None if name in ON_THIS_MACHINE else json.loads(json.dumps(value))
            yield f"{prefix}{name}", known
