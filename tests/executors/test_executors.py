from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from polyarch.data import Batches, load, stratified_split
from polyarch.errors import InvalidInput, PolyarchError, WorkerDied
from polyarch.estimators import Failure, Scoring, ShortRun, SoTL, ValAcc
from polyarch.executors import Executor, Processes, Serial, one_thread
from polyarch.nn import AdaptedStatistics
from polyarch.randomness import generator_at, global_seed
from polyarch.spaces import Architecture
from polyarch.supernets import NB201Supernet

HERE = Path(__file__).parent


@pytest.fixture
def tasks(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module of tasks, under a name that worker processes can import too."""
    monkeypatch.syspath_prepend(str(HERE))
    return importlib.import_module("executor_tasks")


def wait_until(condition: Callable[[], bool], seconds: float = 60.0) -> bool:
    """Whether the condition came true in time."""
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return condition()


def alive(process: int) -> bool:
    """Whether a process runs; one that only waits to be buried does not."""
    try:
        status = Path(f"/proc/{process}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] not in ("Z", "X")


def workers_at(folder: Path, seconds: float) -> list[int]:
    """The processes that sleep for so long, as `Sleeper` noted them."""
    return [int(path.name.split("-")[0]) for path in folder.glob(f"*-{seconds:g}")]


def squares(executor: Executor, task: Callable[[int], int], count: int) -> dict[int, int]:
    with executor.open(task) as run:
        return dict(run(list(range(count))))


class TestSameBits:
    @pytest.fixture
    def scoring(self) -> Scoring:
        train, valid = stratified_split(load("digits").train.subset(range(160)), 0.5, seed=0)
        with global_seed(0, "weights"):
            net = NB201Supernet(channels=2, cells=1, in_channels=1)
        batches = Batches(train, 16, seed=0)
        accuracy = ValAcc(Batches(valid, 32, shuffle=False), batches, policy=AdaptedStatistics(2))
        return Scoring(net, [SoTL(ShortRun(batches, steps=3, learning_rate=0.1)), accuracy])

    @pytest.fixture
    def architectures(self, scoring: Scoring) -> list[Architecture]:
        return [scoring.net.space.sample(generator_at(0, "architecture", index)) for index in range(5)]

    def values(self, executor: Executor, scoring: Scoring, items: list[Architecture]) -> dict[str, list[float]]:
        found = {}
        with executor.open(scoring) as run:
            for index, scores in run(items):
                assert not isinstance(scores, Failure)
                found[items[index].key] = [score.value for score in scores]
        assert len(found) == len(items)
        return found

    def test_serial_and_processes_in_any_order(self, scoring: Scoring, architectures: list[Architecture]) -> None:
        before = {name: tensor.clone() for name, tensor in scoring.net.state_dict().items()}
        serial = self.values(Serial(), scoring, architectures)
        assert len(set(map(tuple, serial.values()))) > 1
        assert self.values(Serial(), scoring, architectures[::-1]) == serial
        assert self.values(Processes(2), scoring, architectures[::-1]) == serial
        assert all(torch.equal(before[name], tensor) for name, tensor in scoring.net.state_dict().items())

    def test_serial_runs_with_one_thread(self) -> None:
        threads = torch.get_num_threads()
        torch.set_num_threads(2)
        try:
            with Serial().open(lambda item: torch.get_num_threads()) as run:
                assert list(run([0, 1])) == [(0, 1), (1, 1)]
            assert torch.get_num_threads() == 2
            with pytest.raises(RuntimeError), one_thread():
                raise RuntimeError
            assert torch.get_num_threads() == 2
        finally:
            torch.set_num_threads(threads)


class TestWorkersThatDie:
    def test_item_is_run_again(self, tasks: Any, tmp_path: Path) -> None:
        assert squares(Processes(2), tasks.Fragile(tmp_path, fatal=2, deaths=1), 5) == {n: n**2 for n in range(5)}
        assert len(list(tmp_path.iterdir())) == 1

    def test_item_that_always_kills_is_given_up(self, tasks: Any, tmp_path: Path) -> None:
        with pytest.raises(WorkerDied, match=r"item 1 to finish. A worker process died 3 times"):
            squares(Processes(1), tasks.Fragile(tmp_path, fatal=1, deaths=1000), 3)
        assert len(list(tmp_path.iterdir())) == 3

    @pytest.mark.slow
    def test_the_fork_server_dies_as_well(self, tasks: Any, tmp_path: Path) -> None:
        dying = tasks.Fragile(tmp_path, fatal=2, deaths=1, server=True)
        assert squares(Processes(2), dying, 5) == {n: n**2 for n in range(5)}
        with pytest.raises(WorkerDied, match=r"item 1 to finish. A worker process died 3 times"):
            squares(Processes(1), tasks.Fragile(tmp_path, fatal=1, deaths=1000, server=True), 3)


class TestErrors:
    @pytest.mark.parametrize("executor", [Serial(), Processes(1)], ids=["serial", "processes"])
    def test_come_back_with_type_and_message_and_the_crew_goes_on(self, tasks: Any, executor: Executor) -> None:
        with executor.open(tasks.fail) as run:
            for item, kind, message in tasks.ERRORS:
                with pytest.raises(kind) as caught:
                    list(run([item]))
                assert str(caught.value) == message
                assert isinstance(caught.value, PolyarchError) == (item != "other")
            assert list(run(["fine"])) == [(0, "fine")]

    @pytest.mark.parametrize("workers", [0, -1])
    def test_no_workers(self, workers: int) -> None:
        with pytest.raises(InvalidInput, match=f"1 or more workers. Got {workers}"):
            Processes(workers)

    def test_as_many_workers_as_cores_by_default(self) -> None:
        assert Processes().workers == len(os.sched_getaffinity(0))


def test_writes_stay_in_their_worker(tasks: Any) -> None:
    counter = tasks.Counter(torch.zeros(()))
    seen: dict[int, list[float]] = defaultdict(list)
    with Processes(2).open(counter) as run:
        while len(seen) < 2:
            for _, (process, before) in run(list(range(6))):
                seen[process].append(before)
    for counts in seen.values():
        assert counts == list(range(len(counts)))  # every worker counts its own calls only, from 0
    assert counter.calls.item() == 0


def test_error_in_the_block_does_not_wait_for_running_items(tasks: Any, tmp_path: Path) -> None:
    class Enough(Exception):
        pass

    with pytest.raises(Enough), Processes(2).open(tasks.Sleeper(tmp_path)) as run:
        assert next(run([0.0, 600.0])) == (0, 0.0)
        assert wait_until(lambda: len(workers_at(tmp_path, 600)) == 1)
        raise Enough
    assert not any(map(alive, workers_at(tmp_path, 600)))


@pytest.mark.slow
def test_workers_end_with_a_killed_parent(tasks: Any, tmp_path: Path) -> None:
    folder = tmp_path / "workers"
    folder.mkdir()
    parent = subprocess.Popen(
        [sys.executable, str(HERE / "executor_tasks.py"), str(folder)], env={**os.environ, "TMPDIR": str(tmp_path)}
    )
    try:
        assert wait_until(lambda: len(workers_at(folder, 600)) == 2)
        workers = workers_at(folder, 600)
        assert all(map(alive, workers))
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        assert wait_until(lambda: not any(map(alive, workers)), seconds=20)
    finally:
        parent.kill()
        parent.wait()
        for worker in filter(alive, workers_at(folder, 600)):
            os.kill(worker, signal.SIGKILL)


def test_workers_start_for_a_program_from_standard_input(tmp_path: Path) -> None:
    program = "import math\nfrom polyarch.executors import Processes\n"
    program += "with Processes(2).open(math.sqrt) as run:\n    print(sorted(dict(run([4.0, 9.0])).values()))\n"
    done = subprocess.run([sys.executable, "-"], input=program, text=True, capture_output=True, cwd=tmp_path)
    assert done.stdout == "[2.0, 3.0]\n", done.stderr
