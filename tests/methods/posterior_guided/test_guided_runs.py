"""A posterior over channels, from settings to the best draw as a network of its own."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from stopping import run_and_stop, run_whole
from torch import Tensor, nn

import polyarch as library
from polyarch.data import load, resident
from polyarch.errors import Interrupted, InvalidInput
from polyarch.facade import SearchResult
from polyarch.methods.posterior_guided.draws import LearnedPosterior, learn_posterior, posterior_draws
from polyarch.methods.posterior_guided.record import GuidedRecord
from polyarch.methods.posterior_guided.strategy import masks
from polyarch.nn import OneOf
from polyarch.prediction.loading import load_artifact
from polyarch.prediction.modes import load_predictor
from polyarch.results import Results, Role
from polyarch.runs.run import Run
from polyarch.runs.settings import RunSettings, with_overrides
from polyarch.runs.workspace import Workspace
from polyarch.supernets import uniform_width

Command = Callable[..., subprocess.CompletedProcess[str]]
Outcome = Callable[[Path], dict[str, Any]]

SMALL: dict[str, Any] = {
    "data.limit": 60, "train.epochs": 2, "train.batch_size": 20, "retrain.epochs": 1, "programs": [],
    "checkpoint_seconds": 1000, "guided.candidates": 4, "guided.random_candidates": 2, "guided.members": 2,
    "guided.tune_epochs": 1,
}  # fmt: skip
NARROW: dict[str, Any] = {
    **SMALL, "space.kind": "multi_branch", "space.width": 2, "space.stages": 2, "space.stem_channels": 3,
    "space.kernels": [3],
}  # fmt: skip
NARROW_OPTIONS = [word for name, value in NARROW.items() for word in ("--set", f"{name}={value}")]


def searched(out: Path, settings: dict[str, Any], data: Any = "digits", **options: Any) -> SearchResult:
    options = {"report": False, "quiet": True, "method": "posterior-guided", **options}
    return library.search(data, out=out, settings=settings, **options)


def record_of(results: Results) -> GuidedRecord:
    found = results.found(GuidedRecord)
    assert found is not None
    return found


def test_inputs(data: str = "digits") -> tuple[Tensor, Tensor]:
    test = resident(load(data).test)
    return test.inputs, test.targets


test_inputs.__test__ = False  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> SearchResult:
    settings = {**NARROW, "train.epochs": 6, "guided.candidates": 8, "guided.drop": 0.3}
    return searched(tmp_path_factory.mktemp("guided") / "run", settings, ood="digits", report=True)


@pytest.fixture(scope="module")
def again(run: SearchResult) -> Run:
    """The same run, before anything was done."""
    return Run.build(RunSettings.read(run.folder / "config.toml"), Workspace(run.folder))


@pytest.fixture(scope="module")
def learned(again: Run) -> LearnedPosterior:
    """The network and the posterior at the end of that run's training, out of its checkpoint."""
    found = learn_posterior(again)
    found.net.eval()
    return found


class TestRun:
    def test_draws_are_judged_with_the_weights_they_come_with(
        self, run: SearchResult, again: Run, learned: LearnedPosterior
    ) -> None:
        record = record_of(run.results)
        draws = posterior_draws(again, learned.posterior)
        assert [len(record.guided), len(record.random)] == [8, 2]
        batches = list(again.feed.in_order(again.feed.valid).epoch(0))
        for kind, judged in (("guided", record.guided), ("random", record.random)):
            for draw in judged:
                architecture = draws[kind](draw.position)
                with torch.no_grad():
                    right = [learned.net(x, architecture).argmax(1) == targets for x, targets in batches]
                assert draw.score == pytest.approx(float(torch.cat(right).double().mean()), abs=1e-6)
                network = learned.net.extract(architecture)
                assert draw.parameters == sum(parameter.numel() for parameter in network.parameters())
        assert record.best_draw.score == max(draw.score for draw in record.guided)

    def test_what_was_learned_and_kept_layer_by_layer(
        self, run: SearchResult, again: Run, learned: LearnedPosterior
    ) -> None:
        record, net = record_of(run.results), learned.net
        best = posterior_draws(again, learned.posterior)["guided"](record.best)
        assert {layer.name: layer.kept for layer in record.layers} == masks(net, best)
        torch.testing.assert_close(
            torch.tensor([layer.drop for layer in record.layers]), learned.posterior.state_dict()["logits"].sigmoid()
        )
        assert record.layers[0].drop != record.initial_drop == 0.3
        assert record.keep_rate == pytest.approx(learned.posterior.keep_rate)
        assert record.full_parameters == net.parameter_count(net.whole()) > record.best_draw.parameters
        assert {"loss", "penalty", "kept"} <= set(run.results.training.history[-1])

    def test_contenders(self, run: SearchResult, again: Run, learned: LearnedPosterior) -> None:
        contenders = run.results.comparison
        assert contenders is not None
        assert [one.name for one in contenders] == [
            "best draw", "best draw, trained further", "mixture of 2 draws", "random draws, one rate",
            "whole network, weights of the search", "whole network, trained alone", "uniform width, as many operations",
        ]  # fmt: skip
        inputs, targets = test_inputs()
        whole = learned.net.extract(learned.net.whole()).eval()
        with torch.no_grad():
            right = float((whole(again.feed.preprocessing(inputs)).argmax(1) == targets).float().mean())
        assert contenders[4].mean == pytest.approx(right, abs=1e-6)
        assert len(contenders[1].runs[0].history) == len(contenders[5].runs[0].history) == 1
        assert {one.role for one in contenders[:2]} == {Role.BEST, Role.OTHER}  # one of the two is exported
        roles = [Role.MIXTURE, Role.RANDOM, Role.INHERITED, Role.BASELINE, Role.OTHER]
        assert [one.role for one in contenders[2:]] == roles
        assert {"train", "draw", "retrain"} <= set(run.results.seconds)

    def test_uniform_width_has_as_many_operations_and_epochs(
        self, run: SearchResult, again: Run, learned: LearnedPosterior
    ) -> None:
        contenders, record, net = run.results.comparison, record_of(run.results), learned.net
        assert contenders is not None and record.uniform_width is not None
        best = posterior_draws(again, learned.posterior)["guided"](record.best)
        uniform = uniform_width(net, net.cost(best).macs)
        assert uniform.width == record.uniform_width
        assert contenders[-1].runs[0].architecture == masks(net, uniform.architecture)
        assert net.cost(uniform.architecture).macs <= record.best_draw.macs < record.full_macs
        tuned, narrow = (len(contenders[place].runs[0].history) for place in (1, 6))
        assert narrow == tuned + again.settings.train.epochs == 7

    def test_the_whole_network_teaches_what_is_tuned_and_uniform_width(self, run: SearchResult, tmp_path: Path) -> None:
        settings = {**NARROW, "train.epochs": 6, "guided.candidates": 8, "guided.drop": 0.3}
        taught = searched(tmp_path / "run", {**settings, "guided.distillation": True}).results.comparison
        assert taught is not None and run.results.comparison is not None
        histories = [[one.runs[0].history for one in sides] for sides in (run.results.comparison, taught)]
        assert [one == other for one, other in zip(*histories, strict=True)] == [
            name not in ("best draw, trained further", "uniform width, as many operations")
            for name in (one.name for one in taught)
        ]

    def test_the_better_of_drawn_and_trained_further_is_exported(self, run: SearchResult) -> None:
        assert run.results.comparison is not None and run.results.artifact is not None
        drawn, further = (one.runs[0] for one in run.results.comparison[:2])
        exported = run.results.predictors[0]
        better = further if further.valid_score >= drawn.valid_score else drawn
        best = run.results.contender(Role.BEST)
        assert best is not None and best.runs == [better]
        assert exported.score == pytest.approx(better.score, abs=1e-6)
        inputs, targets = test_inputs()
        found = run.predictor("single")(inputs)
        assert float((found.probabilities.argmax(1) == targets).float().mean()) == pytest.approx(better.score, abs=1e-6)
        network = load_artifact(run.folder / "artifact").networks
        assert run.results.artifact["parameters"] == sum(parameter.numel() for parameter in network.parameters())

    def test_the_mixture_of_draws(self, run: SearchResult, again: Run, learned: LearnedPosterior) -> None:
        inputs, _ = test_inputs()
        draws = posterior_draws(again, learned.posterior)["guided"]
        with torch.no_grad():
            x = again.feed.preprocessing(inputs)
            logits = torch.stack([learned.net(x, draws(position)) for position in range(2)]).double()
        temperature = run.results.predictors[1].temperature
        members = (logits / temperature).softmax(-1)
        found = load_predictor(run.folder, "marginal")(inputs)
        torch.testing.assert_close(found.probabilities.double(), members.mean(0), rtol=1e-4, atol=1e-5)
        entropy = torch.special.entr(members.mean(0)).sum(-1)
        disagreement = entropy - torch.special.entr(members).sum(-1).mean(0)
        torch.testing.assert_close(found.mutual_information.double(), disagreement, rtol=1e-3, atol=1e-5)
        assert torch.equal(run.predictor("marginal")(inputs).probabilities, found.probabilities)
        answer = {"artifact": "single", "posterior": "marginal"}[str(run.results.default)]
        assert torch.equal(run.predictor()(inputs).probabilities, run.predictor(answer)(inputs).probabilities)
        assert not torch.equal(run.predictor("single")(inputs).probabilities, found.probabilities)
        assert set(run.results.predictors[1].detection) == {"entropy", "max_probability", "mutual_information"}

    def test_results_do_not_list_every_slice(self, run: SearchResult) -> None:
        text = (run.folder / "results.json").read_text()
        assert '"drop",' not in text.replace(" ", "").replace("\n", "").partition('"choices"')[0]
        assert Results.read(run.folder / "results.json") == run.results
        (choices,) = [run.results.space["choices"]]
        assert len(choices) == len(record_of(run.results).layers)

    def test_the_report_has_its_section(self, run: SearchResult) -> None:
        assert 'id="guided"' in (run.folder / "report.html").read_text()


def asked() -> RunSettings:
    return RunSettings.parse(with_overrides({}, {**NARROW, "method": "posterior-guided", "workers": 1}), "a test")


@pytest.fixture(scope="module")
def free(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Results]:
    """The folder and the results of a run without limits that nothing stopped; tests read them only."""
    folder = tmp_path_factory.mktemp("free") / "run"
    return folder, run_whole(asked(), folder)


@pytest.mark.slow
def test_limits_are_kept_by_every_draw(tmp_path: Path, free: tuple[Path, Results]) -> None:
    whole = record_of(free[1])
    limit = 0.4 * whole.full_parameters
    settings = {**NARROW, "train.epochs": 5}  # in the last one, drop probabilities stay where the limit has them
    record = record_of(searched(tmp_path / "limited", settings, max_params=limit).results)
    assert whole.strength == record.strength == 0  # the limit was there while the posterior was learned
    assert record.keep_rate < whole.keep_rate
    assert all(draw.parameters <= limit for draw in (*record.guided, *record.random))
    assert min(draw.parameters for draw in whole.guided) > limit


@pytest.mark.slow
def test_early_stopping_waits_until_limits_hold(tmp_path: Path, free: tuple[Path, Results]) -> None:
    """The best epoch by validation loss may be one in which networks were too large."""
    settings = {**NARROW, "train.epochs": 5, "train.patience": 1}
    limit = 0.4 * record_of(free[1]).full_parameters
    found = searched(tmp_path / "run", settings, max_params=limit)
    assert len(found.results.training.history) >= 4
    assert record_of(found.results).strength == 0


def own(input_shape: tuple[int, ...], classes: int) -> nn.Module:
    return nn.Sequential(
        nn.Linear(2, 6), nn.ReLU(), nn.Linear(6, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, classes)
    )


class Grouped(nn.Module):
    """Says itself which of its layers have gates."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(2, 5)
        self.second = nn.Linear(5, 4)
        self.last = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.last(torch.relu(self.second(torch.relu(self.first(x)))))
        return logits

    def gate_groups(self) -> dict[str, list[str]]:
        return {"middle": ["second"]}


class TestOtherNetworks:
    def test_a_network_of_ones_own(self, tmp_path: Path) -> None:
        found = searched(tmp_path / "run", SMALL, "spirals", module=own)
        record = record_of(found.results)
        assert [(layer.name, len(layer.kept)) for layer in record.layers] == [("2", 6), ("5", 6)]
        assert found.results.settings["space"]["gated"] is True
        assert found.predictor("marginal")(torch.zeros(3, 2)).probabilities.shape == (3, 2)
        assert found.predictor("single")(torch.zeros(3, 2)).probabilities.shape == (3, 2)

    def test_it_may_say_what_is_gated(self, tmp_path: Path) -> None:
        record = record_of(searched(tmp_path / "run", SMALL, "spirals", module=Grouped()).results)
        assert [(layer.name, layer.group) for layer in record.layers] == [("second", "middle")]

    def test_blocks_with_choices_are_refused(self, tmp_path: Path) -> None:
        network = nn.Sequential(nn.Linear(2, 4), OneOf("kind", a=nn.ReLU(), b=nn.Tanh()), nn.Linear(4, 2))
        with pytest.raises(InvalidInput, match=r"without OneOf, Repeat and Maybe blocks.*'kind'"):
            searched(tmp_path / "run", SMALL, "spirals", module=network)

    def test_a_table_goes_to_a_fully_connected_network(self, tmp_path: Path) -> None:
        rows = pd.DataFrame({"size": range(80), "kind": list("ab") * 40, "label": ["no", "yes", "yes", "no"] * 20})
        rows.to_csv(tmp_path / "rows.csv", index=False)
        found = searched(tmp_path / "run", {**SMALL, "data.limit": 40}, str(tmp_path / "rows.csv"), target="label")
        assert found.results.settings["space"]["kind"] == "residual_mlp"
        assert load_predictor(found.folder).columns is not None

    @pytest.mark.parametrize("space", ["depth_fc", "depth_cnn"])
    def test_depth_and_channels_together(self, space: str, tmp_path: Path) -> None:
        sizes = {
            "space.max_depth": 3,
            **({"space.channels": 4, "space.inner_channels": 3} if space == "depth_cnn" else {}),
        }
        found = searched(tmp_path / "run", {**SMALL, "space.kind": space, **sizes})
        record = record_of(found.results)
        assert len(record.depths) == 4 and sum(record.depths) == pytest.approx(1, abs=1e-5)
        assert record.best_depth in range(4)
        assert found.results.artifact is not None
        assert found.results.artifact["architecture"]["depth"] == str(record.best_depth)
        inputs, targets = test_inputs()
        right = float((found.predictor("single")(inputs).probabilities.argmax(1) == targets).float().mean())
        assert right == pytest.approx(found.results.predictors[0].score, abs=1e-6)

    @pytest.mark.parametrize("space", ["enas", "inflated_resnet", "densenet"])
    @pytest.mark.slow
    def test_other_families(self, space: str, tmp_path: Path) -> None:
        sizes = {"densenet": {"growth": 2, "layers": [1, 1]}, "inflated_resnet": {"width": 2, "blocks": [1, 1]}}
        chosen = sizes.get(space, {"width": 2, "stages": 2})
        settings = {**SMALL, "space.kind": space, **{f"space.{name}": value for name, value in chosen.items()}}
        found = searched(tmp_path / "run", {**settings, "programs": ["pt2", "onnx"]})
        assert (found.folder / "artifact" / "model.onnx").exists() and (
            found.folder / "posterior" / "model.pt2"
        ).exists()
        sides = {layer.side for layer in record_of(found.results).layers}
        assert sides == ({"input", "output"} if space == "enas" else {"input"})


def weights_of(folder: Path) -> list[bytes]:
    return [(folder / name / "weights.safetensors").read_bytes() for name in ("artifact", "posterior")]


def test_a_run_that_was_stopped_ends_with_the_same_bits(
    tmp_path: Path, free: tuple[Path, Results], outcome: Outcome
) -> None:
    with pytest.raises(Interrupted):
        run_and_stop(asked(), tmp_path / "stopped", 4)
    library.search("digits", out=tmp_path / "stopped", resume=True, quiet=True, report=False)
    assert outcome(tmp_path / "stopped") == outcome(free[0])
    assert weights_of(tmp_path / "stopped") == weights_of(free[0])


@pytest.mark.slow
def test_worker_processes_end_with_the_same_bits(tmp_path: Path, free: tuple[Path, Results]) -> None:
    several = run_whole(asked().model_copy(update={"workers": 2}), tmp_path / "several")
    assert several.record == free[1].record and several.comparison == free[1].comparison
    assert weights_of(tmp_path / "several") == weights_of(free[0])


def test_from_the_command_line(tmp_path: Path, polyarch: Command) -> None:
    limited = ["--method", "posterior-guided", "--max-macs", "12k", "--workers", "1"]
    arguments = ["--data", "digits", *limited, *NARROW_OPTIONS]
    done = polyarch("search", *arguments, "--out", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Posterior: " in done.stdout and "Best draw: number " in done.stdout
    assert all(draw.macs <= 12_000 for draw in record_of(Results.read(tmp_path / "run" / "results.json")).guided)
    np.savez(tmp_path / "some.npz", x=test_inputs()[0][:5].numpy())
    predicted = polyarch("predict", "run", "some.npz", "--mode", "marginal", "--out", "marginal.csv", cwd=tmp_path)
    assert predicted.returncode == 0, predicted.stderr
    assert load_predictor(tmp_path / "run", "single")(test_inputs()[0][:5]).probabilities.shape == (5, 10)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--space", "nb201"], "Expected a space with gates for method posterior-guided: multi_branch, enas"),
        (["--method", "one-shot", "--space", "multi_branch"],
         "Expected a method that can use space multi_branch with gates. Got 'one-shot'."),
        (["--budget", "5"], "Expected no search.budget with method 'posterior-guided', which scores nothing"),
        (["--strategy", "fair"], "Expected no train.strategy with method 'posterior-guided', which has its own"),
        (["--max-params", "10", *NARROW_OPTIONS], "to meet the limits"),
        (["--set", "guided.drop=1.0"], "guided.drop"),
        (["--set", "guided.temperature=0"], "guided.temperature"),
        (["--space", "multi_branch", "--set", "space.kernels=[2]"], "odd kernel sizes"),
        (["--space", "densenet", "--set", "space.layers=[]"], "space.layers"),
    ],
)  # fmt: skip
def test_refusals_are_one_sentence(tmp_path: Path, polyarch: Command, words: list[str], sentence: str) -> None:
    method = [] if "--method" in words else ["--method", "posterior-guided"]
    refused = polyarch("search", "--data", "digits", *method, *words, "--out", "run", cwd=tmp_path)
    assert refused.returncode == 2, refused.stdout + refused.stderr
    assert sentence in refused.stderr
    assert refused.stderr.count("\n") == 1 and "Traceback" not in refused.stderr
    assert not (tmp_path / "run").exists()
