"""The page of the papers' settings and the presets `paper` say the same, and runs of these presets can be described."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from PIL import Image

from polyarch.data import Batches, TensorData
from polyarch.plugins import EXPERIMENTS
from polyarch.runs.settings import RunSettings
from polyarch_experiments.experiment import Settings
from polyarch_experiments.interchoice import chain_networks, weighted_supernets
from polyarch_experiments.papers import (
    DIFFERENTIABLE_SEARCH,
    INTERCHOICE_WEIGHTS,
    POSTERIOR_GUIDED_SEARCH,
    STOCHASTIC_ARCHITECTURES,
    TRAINING_SPEED,
    VARIATIONAL_DEPTH,
)
from polyarch_experiments.ranked_supernets import trial_of
from polyarch_experiments.training_speed import cell_evaluation, searched_cells, strategy_ranking
from polyarch_experiments.training_speed.fine_tuning import short_run

PAGE = Path(__file__).resolve().parents[2] / "docs" / "paper-settings.md"
PAPERS = (
    TRAINING_SPEED,
    DIFFERENTIABLE_SEARCH,
    INTERCHOICE_WEIGHTS,
    VARIATIONAL_DEPTH,
    STOCHASTIC_ARCHITECTURES,
    POSTERIOR_GUIDED_SEARCH,
)
NAMES = sorted(name for name, experiment in EXPERIMENTS.items() if experiment.document in PAPERS)
DESCRIPTIONS = ("run", "macro_run", "recipes.*")
"""Where presets have the description of a run, whose other settings are the defaults."""


class Row(NamedTuple):
    """A row of a table of the page."""

    setting: str
    paper: str
    preset: str
    remark: str

    @property
    def stated(self) -> str | None:
        """The value that the paper states, if it does: what its column starts with."""
        found = re.match(r"`([^`]+)`", self.paper)
        return found[1] if found else None


def rows_of(page: str) -> dict[str, list[Row]]:
    """The rows of the page by experiment, the title of a section."""
    found = {}
    for section in page.split("\n## ")[1:]:
        title, _, text = section.partition("\n")
        lines = [line for line in text.splitlines() if line.startswith("| `")]
        found[title.strip("`")] = [Row(*(cell.strip() for cell in line.strip("|").split("|"))) for line in lines]
    return found


def value_of(words: str) -> Any:
    """What a cell says: JSON, or ``1..4`` for a list of consecutive numbers."""
    ends = re.fullmatch(r"(\d+)\.\.(\d+)", words)
    return list(range(int(ends[1]), int(ends[2]) + 1)) if ends else json.loads(words)


def leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Single values with the names that lead to them; an empty section is one."""
    if isinstance(value, Mapping) and value:
        for name, part in value.items():
            yield from leaves(part, (*path, name))
    else:
        yield path, value


def matches(pattern: str, path: tuple[str, ...]) -> bool:
    """Whether a setting of the page is this one: ``*`` stands for any part of a name."""
    parts = pattern.split(".")
    return len(parts) == len(path) and all(fnmatchcase(name, part) for name, part in zip(path, parts, strict=True))


def at(value: Any, parts: list[str]) -> list[Any]:
    """The values that a setting of the page names."""
    if not parts:
        return [value]
    if not isinstance(value, Mapping):
        return []
    inner = [part for name, part in value.items() if fnmatchcase(name, parts[0])]
    return [found for one in inner for found in at(one, parts[1:])]


def spelt_out(settings: Any, path: tuple[str, ...] = ()) -> Any:
    """The same with every default of the runs that it describes."""
    if not isinstance(settings, Mapping):
        return settings
    if any(matches(pattern, path) for pattern in DESCRIPTIONS):
        return RunSettings.parse(settings, "the preset").model_dump(mode="json")
    return {name: spelt_out(part, (*path, name)) for name, part in settings.items()}


def problems(name: str, rows: list[Row]) -> list[str]:
    """What the rows of an experiment say that its preset does not, or leave out."""
    preset = json.loads(json.dumps(EXPERIMENTS[name].presets["paper"]))
    whole = spelt_out(preset)
    found = []
    for row in rows:
        setting, expected = row.setting.strip("`"), value_of(row.preset.strip("`"))
        parts = setting.split(".")
        values = at(preset, parts) or at(whole, parts)
        if not values or any(value != expected for value in values):
            found.append(f"{setting}: {expected} on the page, {values or 'nothing'} in the preset")
        same = row.stated is not None and value_of(row.stated) == expected
        if same == bool(row.remark):
            found.append(f"{setting}: a remark where the preset has not what the paper states, and only there")
        if not row.paper:
            found.append(f"{setting}: nothing on what the paper says")
    for path, _ in leaves(preset):
        listed = [
            row for row in rows if any(matches(row.setting.strip("`"), path[:n]) for n in range(1, len(path) + 1))
        ]
        if len(listed) != 1:
            found.append(f"{'.'.join(path)}: in {len(listed)} rows")
    return found


def described(name: str, settings: Settings) -> Iterator[dict[str, Any]]:
    """The descriptions of all runs of an experiment with a supernet."""
    match name:
        case "strategy_ranking":
            yield from (strategy_ranking.content_of(settings, strategy) for strategy in settings["strategies"])
        case "fine_tuning":
            yield settings["run"]
        case "space_ranking":
            for its in settings["spaces"].values():
                run = {**settings["run"], "space": its["space"]}
                yield from (strategy_ranking.content_of({**settings, "run": run}, name) for name in its["strategies"])
        case "gradient_sums":
            yield settings["run"]
        case "supernet_recipe":
            yield from settings["recipes"].values()
        case "cell_search":
            for method in settings["methods"]:
                yield searched_cells.content_of(settings["run"], method, settings["own"].get(method, {}))
        case "cell_shape":
            for space in settings["spaces"].values():
                for method in ("darts", "sotl-darts"):
                    content = {**settings["run"], "space": space}
                    yield searched_cells.content_of(content, method, settings["own"].get(method, {}))
        case "cell_evaluation":
            for space, methods in settings["methods"].items():
                for method in methods:
                    yield cell_evaluation.content(settings, space, method)
                    yield from cell_evaluation.evaluations(settings, space, method).values()
        case "interchoice_ranking" | "interchoice_kinds":
            for space in settings["spaces"]:
                for kind in weighted_supernets.weights_of(settings):
                    yield weighted_supernets.settings_of(settings, space, kind)
        case "interchoice_chain":
            for supernet in (*settings["weights"], *settings["baselines"]):
                yield chain_networks.settings_of(settings, supernet)
            yield chain_networks.merged(settings["run"], settings["alone"])


ROWS = rows_of(PAGE.read_text())


def test_every_experiment_has_a_table() -> None:
    assert sorted(ROWS) == NAMES and all(ROWS.values())


@pytest.mark.parametrize("name", NAMES)
def test_page_and_preset_agree(name: str) -> None:
    assert problems(name, ROWS[name]) == []


@pytest.mark.parametrize("name", NAMES)
def test_a_difference_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In every value of the page, in a setting that the page does not have, and in every value of the preset."""
    rows = ROWS[name]
    for index, row in enumerate(rows):
        changed = [*rows[:index], row._replace(preset="`-7`"), *rows[index + 1 :]]
        assert problems(name, changed)
        assert problems(name, [*rows[:index], row._replace(setting="`nowhere`"), *rows[index + 1 :]])
    preset = EXPERIMENTS[name].presets["paper"]
    for key in preset:
        kept = {other: value for other, value in preset.items() if other != key}
        for settings in (kept, {**kept, key: -7}):
            monkeypatch.setitem(EXPERIMENTS[name].presets, "paper", settings)
            assert problems(name, rows)
    monkeypatch.setitem(EXPERIMENTS[name].presets, "paper", {**preset, "new": 1})
    assert problems(name, rows) == ["new: in 0 rows"]


@pytest.mark.parametrize("name", NAMES)
def test_runs_can_be_described(name: str) -> None:
    settings = EXPERIMENTS[name].presets["paper"]
    assert EXPERIMENTS[name].items(settings)
    for content in described(name, settings):
        parsed = RunSettings.parse(content, "the preset")
        assert RunSettings.parse(parsed.model_dump(mode="json"), "what was written") == parsed


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in NAMES if any(described(name, EXPERIMENTS[name].presets["paper"]))])
def test_runs_start(name: str, tmp_path: Path, data_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every supernet of the papers takes a training step, on four images; those of SubImageNet are made up."""
    monkeypatch.setenv("POLYARCH_DATA", str(tmp_path if name == "interchoice_chain" else data_root))
    for path in (tmp_path / "subimagenet" / side / kind for side in ("train", "test") for kind in "ab"):
        path.mkdir(parents=True)
        for number in range(4):
            Image.new("RGB", (32, 32), (50 * number, 90, 30)).save(path / f"{number}.png")
    started = set()
    for content in described(name, EXPERIMENTS[name].presets["paper"]):
        space = {key: value for key, value in content["space"].items() if key != "evaluation"}
        key = json.dumps([space, content["train"], content.get("method"), content.get("differentiable")])
        if key in started:
            continue
        started.add(key)
        run = trial_of({**content, "space": space, "data": {**content["data"], "limit": 20}})
        strategy = run.method.training(run).strategy
        batches = [next(iter(run.feed.training_batches(4).epoch(0)))]
        found = strategy.step(batches, batches * strategy.held_out_per_step, generator=torch.Generator())
        assert 0 < found["loss"] < 20


def test_strategies_train_for_the_same_epochs_and_have_their_own_rates() -> None:
    settings = EXPERIMENTS["strategy_ranking"].presets["paper"]
    contents = {name: strategy_ranking.content_of(settings, name) for name in settings["strategies"]}
    assert {name: content["train"]["strategy"] for name, content in contents.items()} == {
        name: name for name in contents
    }
    assert {content["train"]["epochs"] for content in contents.values()} == {100}
    rates = {name: content["scores"]["learning_rate"] for name, content in contents.items()}
    assert rates.pop("single_path") == 0.01 and set(rates.values()) == {0.001}


@pytest.mark.parametrize(("batch_size", "steps"), [(64, 300), (128, 195), (256, 97)])
def test_short_runs_end_with_the_epoch(batch_size: int, steps: int) -> None:
    """25,000 images are 390, 195 and 97 full batches; training batches leave out what does not fill one."""
    images = TensorData(torch.zeros(25_000, 1), torch.zeros(25_000, dtype=torch.int64), classes=1)
    settings = EXPERIMENTS["fine_tuning"].presets["paper"]
    assert short_run(settings, Batches(images, batch_size), 0.01, 0).steps == steps


def test_the_supernet_has_the_parameters_of_the_paper() -> None:
    """Table 3 of the paper on inter-choice weights, and table 1's splits."""
    settings = EXPERIMENTS["interchoice_ranking"].presets["paper"]
    contents = {
        kind: RunSettings.parse(weighted_supernets.settings_of(settings, "all", kind), "the preset")
        for kind in weighted_supernets.weights_of(settings)
    }
    base = contents["base"].space.build((3, 32, 32), 10)
    assert sum(parameter.numel() for parameter in base.parameters()) == 782_938
    chosen = {kind: content.space.model_dump()["interchoice"] for kind, content in contents.items()}
    assert chosen["base"] is None
    assert [one["previous"] for one in chosen.values() if one and one["kind"] == "bias"] == [1, 2, 3]
    assert [one["split_epoch"] for one in chosen.values() if one and one["kind"] == "split"] == [125, 175, 200]


def test_the_chain_has_the_parameters_of_the_paper() -> None:
    """Table 4 of the paper on inter-choice weights; dropout is that of networks trained alone."""
    settings = EXPERIMENTS["interchoice_chain"].presets["paper"]
    base, alone = (
        RunSettings.parse(content, "the preset").space.build((3, 224, 224), 100)
        for content in (
            chain_networks.settings_of(settings, "base"),
            chain_networks.merged(settings["run"], settings["alone"]),
        )
    )
    assert sum(parameter.numel() for parameter in base.parameters()) == 14_839_700
    assert [layer.p for layer in alone.modules() if isinstance(layer, torch.nn.Dropout)] == [0.2]
    assert not any(isinstance(layer, torch.nn.Dropout) for layer in base.modules())
