"""A truth of one's own: what is measured, kills, workers, the whole of a small space, and what is refused."""

from __future__ import annotations

import math
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from scipy.stats import spearmanr

from polyarch.errors import ConfigError, Interrupted, NotFiniteError
from polyarch.methods.one_shot.record import OneShotRecord, RankingRecord
from polyarch.randomness import derive_seed
from polyarch.results import Results
from polyarch.runs.display import Quiet
from polyarch.runs.retraining import Retraining, TrainingItem
from polyarch.runs.run import Run
from polyarch.runs.settings import RunSettings, with_overrides
from polyarch.runs.stage import perform
from polyarch.runs.start import Beginning
from polyarch.runs.workspace import Workspace
from polyarch.spaces import Choice, Space
from polyarch.strategies import Supervised
from polyarch.tables import CurveTable, load_truth
from polyarch.tables.lookup import known_members
from polyarch.training import FitState, StopRequest
from polyarch.truths.building import BuiltTruth, CurveTraining, Stopwatch, build_truth, start_build, summary_sentences

Command = Callable[..., subprocess.CompletedProcess[str]]

TINY: dict[str, Any] = {
    "data.name": "digits",
    "data.limit": 96,
    "space.kind": "nb201",
    "space.channels": 2,
    "truth.architectures": 4,
    "truth.seeds": 2,
    "retrain.epochs": 2,
    "retrain.batch_size": 32,
    "workers": 1,
}
WHOLE = {**TINY, "space.operations": ["none", "skip_connect"], "truth.architectures": "all", "truth.seeds": 1}
LARGE = ["--set", "space.kernels=[1, 3, 5, 7]", "--set", "space.expansions=[2, 3, 6]"]  # 13^6 chains


def settings(values: dict[str, Any]) -> RunSettings:
    return RunSettings.parse(with_overrides({}, values), "the test")


def built(folder: Path, values: dict[str, Any]) -> BuiltTruth:
    return build_truth(start_build(Beginning(folder, Quiet(), StopRequest()), settings(values)))


def run_of(values: dict[str, Any]) -> Run:
    """Before anything is written."""
    return Run.build(settings(values), Workspace(Path("nowhere")))


def words(values: dict[str, Any], folder: Path) -> list[str]:
    """The same build as a command."""
    assignments = [f"{key}={value}" for key, value in values.items()]
    return ["truth", "build", "--out", str(folder), *(word for text in assignments for word in ("--set", text))]


def arrays(folder: Path) -> dict[str, NDArray[Any]]:
    """Everything in the table but the time that it took."""
    with np.load(folder / "truth.npz", allow_pickle=False) as found:
        return {name: found[name] for name in found.files if name != "column seconds"}


def assert_same_bits(first: Path, second: Path) -> None:
    one, other = arrays(first), arrays(second)
    assert one.keys() == other.keys()
    for name, values in one.items():
        assert values.tobytes() == other[name].tobytes(), name


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, BuiltTruth]:
    """A small truth; tests read it only."""
    folder = tmp_path_factory.mktemp("truth") / "own"
    return folder, built(folder, TINY)


def test_the_table_has_what_a_plain_training_loop_measures(own: tuple[Path, BuiltTruth]) -> None:
    table, architecture = own[1].table, own[1].trained[1]
    run = run_of(TINY)
    feed = run.feed
    final, curves = [], []
    for seed in range(2):
        position = derive_seed(0, "retrain", architecture.key, seed) >> 1
        network = run.networks.fresh(architecture, seed=position)
        batches = feed.batches(feed.train, 32, stream=f"retrain {seed}")
        optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
        rows = []
        for epoch in range(2):
            losses = []
            for index, batch in enumerate(batches.epoch(epoch)):
                optimizer.param_groups[0]["lr"] = 0.05 * (1 + math.cos(math.pi * (3 * epoch + index) / 6))
                loss = F.cross_entropy(network.train()(batch.inputs), batch.targets)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
            valid = [network.eval()(batch.inputs) for batch in feed.in_order(feed.valid).epoch(0)]
            targets = torch.cat([batch.targets for batch in feed.in_order(feed.valid).epoch(0)])
            right = float((torch.cat(valid).argmax(1) == targets).double().mean())
            rows.append([np.mean(losses), F.cross_entropy(torch.cat(valid), targets).item(), 100 * right])
        curves.append(rows)
        test = [(network(b.inputs).argmax(1) == b.targets) for b in feed.in_order(feed.data.test).epoch(0)]
        final.append(100 * float(torch.cat(test).double().mean()))
    expected = np.array(curves).mean(axis=0)  # (epochs, measures)
    assert table.accuracy(architecture) == pytest.approx(np.mean(final), abs=1e-4)
    assert [table.value(architecture, f"accuracy_seed_{s}") for s in range(2)] == pytest.approx(final, abs=1e-4)
    for index, measure in enumerate(("train_loss", "valid_loss", "valid_accuracy")):
        assert table.curve(architecture, measure) == pytest.approx(expected[:, index], rel=1e-4)
    assert table.value(architecture, "parameters") == sum(p.numel() for p in network.parameters())
    assert table.value(architecture, "seconds") > 0


def test_the_folder_is_a_truth_and_no_checkpoints_stay(own: tuple[Path, BuiltTruth]) -> None:
    folder, found = own
    truth = load_truth(folder)
    assert isinstance(truth, CurveTable)
    assert truth.space.canonical is not None  # the published space is known again
    assert list(truth.architectures()) == list(found.trained)
    assert [truth.accuracy(member) for member in found.trained] == found.accuracies.mean(axis=1).tolist()
    second = load_truth(f"{folder}:accuracy_seed_1")
    assert [second.accuracy(member) for member in found.trained] == found.accuracies[:, 1].tolist()
    assert not list((folder / "checkpoints" / "truth").iterdir())
    assert len({member.canonical() for member in found.trained}) == 4


@pytest.mark.slow
def test_killed_and_resumed_with_other_workers_the_bits_are_the_same(
    own: tuple[Path, BuiltTruth], tmp_path: Path, environment: dict[str, str], polyarch: Command
) -> None:
    folder = tmp_path / "killed"
    journal = folder / "checkpoints" / "truth.jsonl"
    command = words({**TINY, "checkpoint_seconds": 0}, folder)
    with subprocess.Popen(
        [sys.executable, "-m", "polyarch.cli", *command], stdout=subprocess.DEVNULL, env=environment
    ) as process:
        deadline = time.monotonic() + 120
        while not (journal.exists() and journal.read_text() and list(folder.glob("checkpoints/truth/*/*.ckpt"))):
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
    finished = journal.read_text().splitlines()
    assert 1 <= len(finished) < 8
    assert not (folder / "truth.npz").exists()
    resumed = polyarch(*command, "--resume", "--workers", "2")
    assert resumed.returncode == 0, resumed.stderr
    assert "already finished are not run again" in resumed.stdout and "Best: " in resumed.stdout
    assert journal.read_text().splitlines()[: len(finished)] == finished
    assert_same_bits(own[0], folder)


def test_ctrl_c_loses_no_finished_network(
    own: tuple[Path, BuiltTruth], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop, train, calls = StopRequest(), Retraining.train, []

    def interrupted(self: Retraining, item: TrainingItem, *rest: Any) -> Any:
        calls.append(item)
        if len(calls) == 3:
            stop.ask()
        return train(self, item, *rest)

    monkeypatch.setattr(Retraining, "train", interrupted)
    run = start_build(Beginning(tmp_path / "run", Quiet(), stop), settings(TINY))
    with pytest.raises(Interrupted, match="--resume continues"):
        build_truth(run)
    stop.asked = False
    build_truth(run)
    assert len(calls) == 9  # eight, and the one that was under way again
    assert_same_bits(own[0], tmp_path / "run")


def test_the_whole_of_a_small_space(tmp_path: Path) -> None:
    found = built(tmp_path / "run", WHOLE)
    truth = load_truth(tmp_path / "run")
    assert len(truth) == truth.space.size == 64
    assert len(found.trained) == 5  # 0, x, 2x, 3x and 4x
    by_network: dict[str, set[float]] = {}
    for member in run_of(WHOLE).net.space.enumerate():
        by_network.setdefault(member.canonical(), set()).add(truth.accuracy(member))
    assert len(by_network) == 5 and all(len(values) == 1 for values in by_network.values())
    assert known_members(truth, truth.space) is None  # random architectures can be ranked


def test_networks_that_diverge_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train = Retraining.train
    bad: list[TrainingItem] = []

    def diverging(self: Retraining, item: TrainingItem, *rest: Any) -> Any:
        bad.append(item) if not bad else None
        if item == bad[0]:
            raise NotFiniteError("Expected a finite training loss. Got nan; try a lower learning rate.")
        return train(self, item, *rest)

    monkeypatch.setattr(Retraining, "train", diverging)
    found = built(tmp_path / "run", {**TINY, "truth.architectures": 2, "truth.seeds": 1})
    assert len(found.trained) == len(found.table) == 1
    assert bad[0][0] not in found.table
    assert summary_sentences(found)[-1].startswith(f"Left out: 1 training that diverged, e.g. {bad[0][0].key} seed 0:")


def test_a_validation_loss_that_is_not_finite_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights that explode in the last step leave every training loss finite."""
    run = run_of(TINY)
    monkeypatch.setattr(Supervised, "evaluate", lambda *_, **__: {"loss": math.inf, "accuracy": 0.1})
    record = CurveTraining(Retraining(run, tmp_path))((next(run.net.space.enumerate()), 0))
    assert list(record) == ["failure"] and "valid_loss" in record["failure"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--space", "auto"], "Expected --data"),
        (["--data", "digits", "--space", "nb201", "--n", "7000"], "Expected up to 5,044 architectures.* Got 7,000"),
        (["--data", "spirals", "--space", "depth_fc", "--n", "99"], "Expected up to 21 architectures.* Got 99"),
        (["--data", "digits", "--space", "chain", "--n", "all", *LARGE], "Expected a space of at most"),
        (["--data", "digits", "--n", "many"], "Expected --n to be a number"),
        (["--data", "digits", "--n", "0"], "truth.architectures in the command line .*greater than 0"),
        (["--data", "digits", "--seeds", "0"], "truth.seeds"),
        (["--data", "digits", "--epochs", "0"], "retrain.epochs"),
        (["--data", "digits", "--set", "retrain.learning_rate=nan"], "retrain.learning_rate"),
        (
            ["--data", "digits", "--space", "nb201", "--n", "2", "--set", "retrain.learning_rate=1e30"],
            "finite training loss",
        ),
        (["--data", "spirals", "--space", "nb201"], "Expected images"),
        (["--resume"], "Expected a run to resume"),
    ],
)
def test_errors_are_one_sentence(tmp_path: Path, polyarch: Command, options: list[str], sentence: str) -> None:
    out = tmp_path / "run"
    failed = polyarch("truth", "build", "--out", str(out), *options)
    assert failed.returncode == 2, failed.stderr
    assert len(failed.stderr.strip().splitlines()) == 1
    assert re.search(sentence, failed.stderr), failed.stderr
    assert not out.exists()


def test_a_resumed_build_keeps_its_settings(tmp_path: Path, polyarch: Command) -> None:
    command = words({**TINY, "truth.architectures": 1, "truth.seeds": 1}, tmp_path / "run")
    assert polyarch(*command).returncode == 0
    again = polyarch(*command)
    assert again.returncode == 2 and "--resume goes on with it" in again.stderr
    other = polyarch("truth", "build", "--out", str(tmp_path / "run"), "--resume", "--n", "5")
    assert other.returncode == 2 and "Expected the settings of the run" in other.stderr
    bits = arrays(tmp_path / "run")
    said = polyarch("truth", "build", "--out", str(tmp_path / "run"), "--resume").stdout
    assert "Noise between seeds: not measured" in said and "Spearman" not in said  # of one network
    assert {name: values.tobytes() for name, values in arrays(tmp_path / "run").items()} == {
        name: values.tobytes() for name, values in bits.items()
    }


def ranked(folder: Path, values: dict[str, Any]) -> Results:
    tiny = {"train.epochs": 1, "train.batch_size": 32, "rank.estimators": ["params", "val_acc"], "rank.supernets": 1}
    beginning = Beginning(folder, Quiet(), StopRequest(), until="rank")
    return perform(beginning.start(settings({**TINY, **tiny, **values})))


def ranking_of(results: Results) -> RankingRecord:
    found = results.found(OneShotRecord)
    assert found is not None and found.ranking is not None
    return found.ranking


def test_ranking_against_it(
    own: tuple[Path, BuiltTruth], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, polyarch: Command
) -> None:
    folder, found = own
    monkeypatch.chdir(folder.parent)
    results = ranked(tmp_path / "run", {"rank.truth": folder.name})
    ranking = ranking_of(results)
    items = ranking.architectures
    assert [item.architecture for item in items] == [member.to_dict() for member in found.trained]
    assert [item.truth for item in items] == found.accuracies.mean(axis=1).tolist()
    sizes = [found.table.value(member, "parameters") for member in found.trained]
    expected = spearmanr(sizes, found.accuracies.mean(axis=1)).statistic
    assert ranking.quality["params"]["spearman"]["value"] == pytest.approx(expected)
    assert set(ranking.quality) == {"params", "val_acc"}
    assert ranking.reference == "digits nb201, 2 epochs"
    assert results.decisions == ["rank: the 4 architectures of digits nb201, 2 epochs"]
    assert results.settings["rank"]["truth"] == str(folder / "truth.npz")  # resumable from any folder
    monkeypatch.chdir(tmp_path)
    again = polyarch("rank", "--out", "run", "--truth", str(folder), "--resume")
    assert again.returncode == 0, again.stderr
    assert "Spearman with digits nb201" in again.stdout


def test_fewer_of_its_architectures_are_ranked_when_asked_for(own: tuple[Path, BuiltTruth], tmp_path: Path) -> None:
    results = ranked(tmp_path / "run", {"rank.truth": str(own[0]), "rank.architectures": 3})
    assert [item.architecture for item in ranking_of(results).architectures] == [
        member.to_dict() for member in own[1].trained[:3]
    ]


def test_other_metrics_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    values = {**TINY, "task.metric": "balanced_accuracy"}
    with pytest.raises(ConfigError, match=r"the metric accuracy .* Got classification by balanced_accuracy"):
        start_build(Beginning(tmp_path / "run", Quiet(), StopRequest()), settings(values))
    assert not (tmp_path / "run").exists()


def test_findings_in_words() -> None:
    space = Space("three", (Choice("only", ("a", "b", "c")),))
    members = list(space.enumerate())
    accuracies = np.array([[70.0, 72.0], [80.0, 80.0], [90.0, 88.0]])
    table = CurveTable("own", space, [[0], [1], [2]], accuracies.mean(1), columns={"parameters": [1, 3, 2]})
    assert summary_sentences(BuiltTruth(table, members, accuracies, {})) == [
        "Best: c with 89.00 % test accuracy.",
        "Spread of 3 networks: 71.00 to 89.00 %, median 80.00 %, standard deviation 9.00.",
        f"Noise between 2 seeds: standard deviation {math.sqrt((2 + 0 + 2) / 3):.2f}; Spearman of two seeds 1.00.",
        "Spearman of parameters with accuracy: 0.50.",
    ]


def test_a_stopwatch_counts_on_after_a_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    state: FitState = object()  # type: ignore[assignment]
    first, second = Stopwatch(), Stopwatch()
    first.on_start(state)
    now = 107.0
    second.load_state_dict(first.state_dict())
    now = 200.0
    assert second.seconds == 7.0
    second.on_start(state)
    now = 203.0
    assert second.seconds == 10.0
