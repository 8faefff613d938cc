"""A second process is refused while one works on a run; locks of dead processes are taken over."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from polyarch import locks as lock_module
from polyarch.errors import ConfigError
from polyarch.locks import LOCK_FILE, RunLock
from polyarch.runs.display import Quiet
from polyarch.runs.settings import RunSettings, with_overrides
from polyarch.runs.stage import perform
from polyarch.runs.start import Beginning
from polyarch.training import StopRequest

HOLD = """
import sys, time
from pathlib import Path
from polyarch.locks import RunLock
lock = RunLock(Path(sys.argv[1]))
lock.acquire()
print("taken", flush=True)
time.sleep(100)
"""


def holder(folder: Path) -> subprocess.Popen[str]:
    """A process that has the lock."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(folder)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "taken\n"
    return process


def write_lock(folder: Path, pid: int, host: str, *, age: float = 0.0) -> None:
    (folder / LOCK_FILE).write_text(json.dumps({"pid": pid, "host": host}))
    then = time.time() - age
    os.utime(folder / LOCK_FILE, (then, then))


def test_a_second_process_is_refused_until_the_first_is_dead(tmp_path: Path) -> None:
    asked = RunSettings.parse(
        with_overrides({}, {"method": "one-shot", "space.kind": "mlp", "data.limit": 40, "train.epochs": 1}), "the test"
    )
    perform(Beginning(tmp_path / "run", Quiet(), StopRequest(), until="train").start(asked))
    with holder(tmp_path / "run") as process:
        try:
            found = rf"process {process.pid} on {socket.gethostname()}"
            with pytest.raises(ConfigError, match=f"no other process .* Found {found}") as caught:
                Beginning(tmp_path / "run", Quiet(), StopRequest(), until="train").resume(None, {}, "the test")
            assert "\n" not in str(caught.value)
        finally:
            process.kill()
    (tmp_path / "run" / "checkpoints" / ".polyarch-left").touch()
    Beginning(tmp_path / "run", Quiet(), StopRequest(), until="train").resume(None, {}, "the test").workspace.log("x")
    assert not (tmp_path / "run" / "checkpoints" / ".polyarch-left").exists()


def test_a_new_run_is_refused_where_another_begins(tmp_path: Path) -> None:
    write_lock(tmp_path, 1, "elsewhere")
    content = {"method": "one-shot", "data": {"name": "spirals"}, "space": {"kind": "mlp"}}
    with pytest.raises(ConfigError, match="no other process"):
        Beginning(tmp_path, Quiet(), StopRequest(), until="train").start(RunSettings.parse(content, "the test"))
    assert [path.name for path in tmp_path.iterdir()] == [LOCK_FILE]


@pytest.mark.parametrize(
    ("host", "age", "is_held"),
    [(socket.gethostname(), 0.0, False), ("elsewhere", 0.0, True), ("elsewhere", 1000.0, False)],
)
def test_dead_processes_here_and_old_heartbeats_elsewhere_are_taken_over(
    tmp_path: Path, host: str, age: float, is_held: bool
) -> None:
    write_lock(tmp_path, 12345, host, age=age)
    lock = RunLock(tmp_path)
    if is_held:
        with pytest.raises(ConfigError, match="process 12345 on elsewhere"):
            lock.acquire()
        return
    lock.acquire()
    assert json.loads((tmp_path / LOCK_FILE).read_text())["pid"] == os.getpid()
    lock.close()
    assert (tmp_path / LOCK_FILE).read_text() == ""


def test_without_locks_of_the_file_system_the_process_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr("polyarch.locks.fcntl.lockf", unsupported)
    write_lock(tmp_path, os.getppid(), socket.gethostname())
    with pytest.raises(ConfigError, match="no other process"):
        RunLock(tmp_path).acquire()
    with subprocess.Popen([sys.executable, "-c", ""]) as dead:
        dead.wait()
    write_lock(tmp_path, dead.pid, socket.gethostname())
    RunLock(tmp_path).acquire()


def test_the_heart_beats_until_the_lock_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock_module, "HEARTBEAT_SECONDS", 0.01)
    lock = RunLock(tmp_path)
    lock.acquire()
    os.utime(tmp_path / LOCK_FILE, (0, 0))
    deadline = time.monotonic() + 20
    while (tmp_path / LOCK_FILE).stat().st_mtime == 0:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    lock.close()
