"""Networks trained alone as DARTS evaluates cells: settings, sizes, training, resumption, and what is exported."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

import polyarch as library
from polyarch.data import Cutout, load
from polyarch.errors import ConfigError
from polyarch.export import export_programs, read_weights
from polyarch.nn.drop_path import DropPath
from polyarch.prediction.loading import load_artifact
from polyarch.runs.checks import check_run
from polyarch.runs.plan import work_alone
from polyarch.runs.retraining import Retraining, retraining_feed, trained_network
from polyarch.runs.run import Run
from polyarch.runs.settings import RunSettings
from polyarch.runs.spaces import as_trained_alone
from polyarch.runs.workspace import Workspace
from polyarch.strategies import SupervisedWithAuxiliary
from polyarch.training import Callback, FitState

EVALUATION = {"layers": 4, "channels": 6, "drop_path": 0.5}
SPACE = {
    "kind": "darts", "layers": 3, "channels": 4, "operations": ["skip_connect", "sep_conv_3x3"],
    "evaluation": EVALUATION,
}  # fmt: skip
RETRAIN = {"epochs": 2, "batch_size": 16, "cutout": 4}


def settings_of(*, method: str = "darts", **sections: Any) -> RunSettings:
    content = {
        "method": method, "data": {"name": "digits", "limit": 40}, "space": SPACE, "retrain": RETRAIN, "workers": 1,
        "checkpoint_seconds": 0, **sections,
    }  # fmt: skip
    return RunSettings.parse(content, "the test")


def run_of(**sections: Any) -> Run:
    return Run.build(settings_of(**sections), Workspace(Path("nowhere")))


class TestSettings:
    def test_the_recipe_is_that_of_darts_unless_something_else_is_asked_for(self) -> None:
        found = settings_of(space={"kind": "darts", "evaluation": {}}, retrain={"epochs": 7})
        evaluation = as_trained_alone(found.space).model_dump()
        assert (evaluation["layers"], evaluation["channels"], evaluation["evaluation"]) == (20, 36, None)
        assert found.space.model_dump()["evaluation"]["auxiliary"] == 0.4
        assert found.space.model_dump()["evaluation"]["drop_path"] == 0.2
        recipe = {
            "epochs": 7, "batch_size": 96, "learning_rate": 0.025, "final_learning_rate": 0.0, "momentum": 0.9,
            "weight_decay": 3e-4, "clip": 5.0, "cutout": 16,
        }  # fmt: skip
        assert found.retrain.model_dump().items() >= recipe.items()
        assert found.retrain.model_fields_set == {"epochs"}  # the rest gives way to a limit on the time
        plain = settings_of(space={"kind": "darts"}, retrain={})
        assert (plain.retrain.learning_rate, plain.retrain.clip, plain.retrain.cutout) == (0.1, 0.0, None)

    def test_written_and_read_again(self, tmp_path: Path) -> None:
        asked = settings_of()
        asked.write(tmp_path / "config.toml")
        assert RunSettings.read(tmp_path / "config.toml") == asked

    def test_refusals(self) -> None:
        with pytest.raises(ConfigError, match=r"Expected retrain\.cutout below the side of the images, 8\. Got 16\."):
            check_run(run_of(retrain={}))
        with pytest.raises(ConfigError, match=r"Expected a method that can use space\.evaluation\. Got 'race'\."):
            check_run(run_of(method="race"))
        with pytest.raises(ConfigError, match=r"Expected space\.evaluation\.layers in the test"):
            settings_of(space={"kind": "darts", "evaluation": {"layers": 2}})


class TestTraining:
    def test_the_network_has_the_size_of_the_evaluation(self) -> None:
        run = run_of()
        (architecture,) = run.draw(1, "test")
        strategy, course = Retraining(run, Path("nowhere")).strategy(architecture, 0)
        assert isinstance(strategy, SupervisedWithAuxiliary) and strategy.auxiliary == 0.4 and strategy.clip == 5.0
        size = sum(weight.numel() for weight in strategy.network.parameters())
        assert run.alone.parameter_count(architecture) == size > run.net.parameter_count(architecture)
        assert work_alone(run) > 2 and work_alone(run_of(space={**SPACE, "evaluation": None})) == 1
        layers = [layer for layer in strategy.taught.modules() if isinstance(layer, DropPath)]
        state = FitState(strategy, epochs=2, steps_per_epoch=4)
        seen = []
        for state.step in (0, 4, 7):
            course[0].on_step_start(state)
            seen.append(layers[0].p)
        assert seen == [0.0, 0.5 * 4 / 8, 0.5 * 7 / 8]  # rises linearly to 0.5

    def test_images_lose_squares_while_networks_are_trained_alone_only(self) -> None:
        run = run_of()
        assert not any(isinstance(one, Cutout) for one in run.feed.augmentations)
        (cutout,) = retraining_feed(run).augmentations
        assert isinstance(cutout, Cutout) and cutout.length == 4

    def test_a_training_that_was_stopped_ends_with_the_same_bits(self, tmp_path: Path) -> None:
        class Stop(Callback):
            """Ends the process, as it were, in the second epoch."""

            def __init__(self, at: int | None) -> None:
                self.at = at

            def on_step_end(self, state: FitState, metrics: Mapping[str, float]) -> None:
                if state.step == self.at:
                    raise KeyboardInterrupt

        run = run_of()
        item = (run.draw(1, "test")[0], 0)
        whole, _ = Retraining(run, tmp_path / "whole").train(item, callbacks=[Stop(None)])
        with pytest.raises(KeyboardInterrupt):
            Retraining(run, tmp_path / "stopped").train(item, callbacks=[Stop(3)])
        resumed, _ = Retraining(run, tmp_path / "stopped").train(item, callbacks=[Stop(None)])
        for name, value in whole.state_dict().items():
            assert torch.equal(resumed.state_dict()[name], value), name


def raw_examples() -> torch.Tensor:
    examples: torch.Tensor = next(iter(load("digits").test.stream([torch.arange(20)])))
    return examples


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> library.SearchResult:
    """A search from Python."""
    chosen = {
        **{f"space.{name}": value for name, value in SPACE.items() if name != "evaluation"},
        **{f"space.evaluation.{name}": value for name, value in EVALUATION.items()},
        "data.limit": 40, "train.epochs": 1, "train.batch_size": 20, "retrain.epochs": 1, "retrain.seeds": 1,
        "retrain.members": 1, "retrain.random_architectures": 0, "scores.policy_batches": 2, "workers": 1,
        "programs": [],
    }  # fmt: skip
    folder = tmp_path_factory.mktemp("evaluation") / "run"
    return library.search("digits", out=folder, method="darts", quiet=True, report=False, settings=chosen)


class TestExport:
    def test_what_was_not_asked_for_fits_the_data(self, found: library.SearchResult) -> None:
        retrain = found.results.settings["retrain"]
        assert (retrain["cutout"], retrain["batch_size"], retrain["learning_rate"]) == (4, 8, 0.025)

    def test_the_artifact_is_the_network_without_what_training_adds(self, found: library.SearchResult) -> None:
        run = Run.build(RunSettings.read(found.folder / "config.toml"), Workspace(found.folder))
        assert found.results.artifact is not None and found.results.predictors is not None
        item = (run.net.space.architecture(found.results.artifact["architecture"]), 0)
        network = trained_network(Retraining(run, found.folder / "checkpoints" / "retrain"), item)
        assert not any(isinstance(layer, DropPath) for layer in network.modules())
        raw = raw_examples()
        with torch.no_grad():
            expected = (network(run.feed.preprocessing(raw)) / found.results.predictors[0].temperature).softmax(-1)
        probabilities = found.predictor("single").predict_proba(raw)
        torch.testing.assert_close(probabilities, expected.to(probabilities), rtol=0, atol=1e-5)
        names = read_weights(found.folder / "artifact" / "weights.safetensors")
        assert len(names) == len(network.state_dict()) and not any("auxiliary" in name for name in names)

    @pytest.mark.slow
    def test_programs_are_the_artifact(self, found: library.SearchResult) -> None:
        folder = found.folder / "artifact"
        differences = export_programs(folder, load_artifact(folder), raw_examples())
        assert set(differences) == {"model.pt2", "model.onnx"} and max(differences.values()) < 1e-4
