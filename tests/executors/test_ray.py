"""The contract of executors on real Ray clusters, on loopback."""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from polyarch.data import Batches, load, stratified_split
from polyarch.errors import ConfigError, UnlikeProcessors, WorkerDied
from polyarch.estimators import Failure, Scoring, ShortRun, SoTL, ValAcc
from polyarch.executors import Executor, Ray, Serial
from polyarch.executors.ray_cluster import LOOPBACK
from polyarch.nn import AdaptedStatistics
from polyarch.randomness import generator_at, global_seed
from polyarch.supernets import NB201Supernet

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'polyarch[ray]'")

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]

HERE = Path(__file__).parent


@pytest.fixture(scope="module", autouse=True)
def ends() -> Iterator[None]:
    yield
    ray.shutdown()


@pytest.fixture
def tasks(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(HERE))
    return importlib.import_module("executor_tasks")


@pytest.fixture
def two() -> Ray:
    """Two workers of a cluster on this machine."""
    return Ray(workers=2)


def leftovers() -> set[Path]:
    return set(Path(tempfile.gettempdir()).glob("polyarch-" + "?" * 32))


def values(executor: Executor, scoring: Scoring, items: list[Any]) -> dict[str, list[float]]:
    found = {}
    with executor.open(scoring) as run:
        for index, scores in run(items):
            assert not isinstance(scores, Failure)
            found[items[index].key] = [score.value for score in scores]
    assert len(found) == len(items)
    return found


def test_same_bits_as_serial_in_any_order(two: Ray) -> None:
    train, valid = stratified_split(load("digits").train.subset(range(160)), 0.5, seed=0)
    with global_seed(0, "weights"):
        net = NB201Supernet(channels=2, cells=1, in_channels=1)
    batches = Batches(train, 16, seed=0)
    accuracy = ValAcc(Batches(valid, 32, shuffle=False), batches, policy=AdaptedStatistics(2))
    scoring = Scoring(net, [SoTL(ShortRun(batches, steps=3, learning_rate=0.1)), accuracy])
    items = [net.space.sample(generator_at(0, "architecture", index)) for index in range(5)]
    before = leftovers()
    serial = values(Serial(), scoring, items)
    assert values(two, scoring, items) == serial
    assert values(two, scoring, items[::-1]) == serial
    assert leftovers() == before


def test_many_small_items_come_back_once(two: Ray) -> None:
    with two.open(abs) as run:
        assert sorted(run(range(-3000, 0))) == [(index, 3000 - index) for index in range(3000)]
        assert list(run([])) == []


def test_items_may_depend_on_results(two: Ray) -> None:
    told: dict[int, int] = {}

    def supply(most: int) -> list[int]:
        return [len(told)] if len(told) < 4 and most else []  # one at a time, each after the one before

    with two.open(abs) as run:
        for index, result in run(supply):
            told.update({index: result})
    assert told == {0: 0, 1: 1, 2: 2, 3: 3}


def test_items_of_dead_workers_are_run_again_and_given_up(two: Ray, tasks: Any, tmp_path: Path) -> None:
    for name in ("once", "always"):
        (tmp_path / name).mkdir()
    with two.open(tasks.Fragile(tmp_path / "once", fatal=2, deaths=1)) as run:
        assert dict(run(range(5))) == {n: n**2 for n in range(5)}
    with (
        pytest.raises(WorkerDied, match=r"item 1 to finish. A worker process died 3 times"),
        two.open(tasks.Fragile(tmp_path / "always", fatal=1, deaths=1000)) as run,
    ):
        list(run(range(3)))
    assert len(list((tmp_path / "always").iterdir())) == 3


def test_errors_come_back_as_raised_and_the_crew_goes_on(two: Ray, tasks: Any) -> None:
    with two.open(tasks.fail) as run:
        for item, kind, message in tasks.ERRORS:
            with pytest.raises(kind) as caught:
                list(run([item]))
            assert str(caught.value) == message
            assert any("in fail" in note for note in caught.value.__notes__)
        assert list(run(["fine"])) == [(0, "fine")]


def test_writes_stay_in_their_worker(two: Ray, tasks: Any) -> None:
    counter = tasks.Counter(torch.zeros(()))
    seen: dict[int, list[float]] = defaultdict(list)
    with two.open(counter) as run:
        while len(seen) < 2:
            for _, (process, before) in run(list(range(6))):
                seen[process].append(before)
    for counts in seen.values():
        assert sorted(counts) == list(range(len(counts)))
    assert counter.calls.item() == 0


def test_an_error_in_the_block_does_not_wait_for_running_items(two: Ray, tasks: Any, tmp_path: Path) -> None:
    started = time.monotonic()
    with pytest.raises(ZeroDivisionError), two.open(tasks.Sleeper(tmp_path)) as run:
        assert next(run([0.0, 600.0])) == (0, 0.0)
        raise ZeroDivisionError
    assert time.monotonic() - started < 60


def test_ctrl_c_ends_in_seconds(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from executor_tasks import Sleeper; from polyarch.executors import Ray\n"
        "with Ray(workers=1).open(Sleeper(Path(sys.argv[1]))) as run:\n    list(run([600.0]))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], env={**os.environ, "PYTHONPATH": str(HERE)}, text=True,
        stderr=subprocess.PIPE,
    )  # fmt: skip
    deadline = time.monotonic() + 120
    while not list(tmp_path.iterdir()):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert "KeyboardInterrupt" in errors


def test_other_processors_are_told(two: Ray, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polyarch.executors.ray_cluster.processor_bits", lambda: "another one")
    monkeypatch.setattr("polyarch.executors.ray_cluster.platform.node", lambda: "driver")
    with pytest.warns(UnlikeProcessors, match="driver another one"), two.open(abs) as run:
        list(run([1]))


def test_an_item_that_fits_nowhere(two: Ray) -> None:
    assert two.workers == 2
    with pytest.raises(ConfigError, match=r"with 1000 CPUs and 0 GPUs for an item\. Found none"):
        _ = Ray(cpus=1000).workers


def test_a_node_that_dies_with_items_under_way(tasks: Any, tmp_path: Path) -> None:
    from ray.cluster_utils import Cluster

    ray.shutdown()
    head = {"num_cpus": 1, "include_dashboard": False, "node_ip_address": LOOPBACK}
    cluster: Any = Cluster(initialize_head=True, head_node_args=head)
    try:
        second = cluster.add_node(num_cpus=1, node_ip_address=LOOPBACK)
        executor = Ray(cluster.address)
        assert executor.workers == 2
        with executor.open(tasks.Sleeper(tmp_path)) as run:
            results = run([6.0, 6.5, 0.1, 0.2])
            deadline = time.monotonic() + 120
            told = {}
            for place, (index, seconds) in enumerate(results):
                told[index] = seconds
                if place == 0:
                    assert time.monotonic() < deadline
                    cluster.remove_node(second, allow_graceful=False)
        assert told == {0: 6.0, 1: 6.5, 2: 0.1, 3: 0.2}
        assert len(list(tmp_path.iterdir())) >= 4  # the note of an item has the process in its name
    finally:
        ray.shutdown()
        cluster.shutdown()


def test_a_whole_search_has_the_results_of_processes(
    tiny_options: list[str], environment: dict[str, str], tmp_path: Path
) -> None:
    found = {}
    for executor in ("processes", "ray"):
        words = ["search", "--data", "digits", "--workers", "2", "--executor", executor, *tiny_options]
        command = [sys.executable, "-c", "from polyarch.cli import main; main()", *words]
        folder = tmp_path / executor
        done = subprocess.run(
            [*command, "--out", str(folder)], env=environment, capture_output=True, text=True, timeout=500
        )
        assert done.returncode == 0, done.stderr
        results = json.loads((folder / "results.json").read_text())
        found[executor] = {key: results[key] for key in results if key not in ("seconds", "settings", "provenance")}
    assert found["ray"] == found["processes"]
    assert (tmp_path / "ray" / "study.journal").exists() and (tmp_path / "processes" / "study.db").exists()
