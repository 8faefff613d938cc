"""Code in README and docs is run, and links lead somewhere."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

from polyarch.experiments import EXPERIMENTS
from polyarch.jobs.settings import RunSettings
from polyarch.results import ExperimentResults

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)


def test_readme_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = blocks(ROOT / "README.md", "python")
    exec(compile(example, "README.md", "exec"), {})
    assert '"space": "nb201"' in capsys.readouterr().out


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_run_descriptions_are_valid(page: Path) -> None:
    for block in blocks(page, "toml"):
        RunSettings.parse(tomllib.loads(block), page.name)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("path", sorted((ROOT / "docs" / "results").glob("*.json")), ids=lambda path: path.stem)
def test_results_page_says_what_was_measured(path: Path) -> None:
    """Numbers on the page are those of the stored results, and the settings those of the preset."""
    results = ExperimentResults.model_validate_json(path.read_text())
    experiment = EXPERIMENTS[results.experiment]
    assert results.settings == json.loads(json.dumps(experiment.presets[results.preset]))
    page = (ROOT / "docs" / "RESULTS.md").read_text()
    for claim in experiment.judge(results.settings, results.runs):
        verdict = "supported" if claim.supported else "not supported"
        assert f"**{claim.text}** {verdict}." in page
        assert claim.numbers in page


@pytest.mark.parametrize("path", sorted((ROOT / "benchmarks" / "results").glob("*.json")), ids=lambda path: path.stem)
def test_benchmarks_page_says_what_was_measured(path: Path) -> None:
    stored = json.loads(path.read_text())
    page = (ROOT / "docs" / "BENCHMARKS.md").read_text()
    assert f"| `{stored['name']}` | {stored['ratio']:.2f} | {stored['goal']} |" in page
