"""One process at a time works on the folder of a run, or on a study."""

import errno
import fcntl
import json
import os
import socket
import threading
import time
import weakref
from collections.abc import Mapping
from pathlib import Path

from polyarch.errors import ConfigError

LOCK_FILE = ".lock"
HEARTBEAT_SECONDS = 10.0
STALE_SECONDS = 120.0
"""A process on another machine that has not been heard of for so long is taken for dead."""


class RunLock:
    """A lock file with the process id and the host of the process that works on a run.

    The operating system holds the lock and drops it when the process ends, however it ends; child processes do not
    inherit it. Where machines share a folder but not its locks, the host and the heartbeat, which is the time of the
    file, decide: a lock of another host is stale once its heartbeat is old.

    Example:
        >>> import tempfile
        >>> lock = RunLock(Path(tempfile.mkdtemp()))
        >>> lock.acquire()
        >>> lock.close()
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / LOCK_FILE
        self._release: weakref.finalize[..., RunLock] | None = None

    def acquire(self) -> None:
        """Takes the lock, or a stale one over; refuses to work beside another process."""
        if self._release is not None and self._release.alive:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            free = _locked(handle)
            # Where the system's locks work, they know this host's processes best.
            holder, silent = _content(handle), time.time() - os.fstat(handle).st_mtime
            if free is False or is_at_work(holder, silent, look_here=free is None):
                raise ConfigError(
                    f"Expected no other process at work on the run in {self.path.parent}. Found {in_words(holder)}; "
                    "wait for it, stop it or choose another --out."
                )
        except BaseException:
            os.close(handle)
            raise
        os.ftruncate(handle, 0)
        os.pwrite(handle, json.dumps(this_process()).encode(), 0)
        ended = threading.Event()
        threading.Thread(target=_beat, args=(self.path, ended), daemon=True).start()
        self._release = weakref.finalize(self, _released, handle, ended, os.getpid())

    def close(self) -> None:
        """Gives the lock back."""
        if self._release is not None:
            self._release()


def _released(handle: int, ended: threading.Event, pid: int) -> None:
    ended.set()
    if os.getpid() == pid:  # not in a fork, which does not have the lock
        os.ftruncate(handle, 0)
        os.close(handle)


def _beat(path: Path, ended: threading.Event) -> None:
    while not ended.wait(HEARTBEAT_SECONDS):
        try:
            os.utime(path)
        except OSError:  # the folder was removed: whoever writes to it will say so
            return


def _locked(handle: int) -> bool | None:
    """Whether the operating system gave the lock; None if the file system has no locks."""
    try:
        fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return False if error.errno in (errno.EACCES, errno.EAGAIN) else None
    return True


def _content(handle: int) -> dict[str, object]:
    try:
        found = json.loads(os.pread(handle, 1000, 0))
    except ValueError:  # empty: it was given back
        return {}
    return found if isinstance(found, dict) else {}


def worker_at(folder: Path) -> dict[str, object] | None:
    """The process that works on the run in a folder, if there is one; nothing is locked."""
    try:
        handle = os.open(folder / LOCK_FILE, os.O_RDONLY)
    except OSError:
        return None
    try:
        holder, silent = _content(handle), time.time() - os.fstat(handle).st_mtime
    finally:
        os.close(handle)
    is_this = holder == this_process()
    return holder if silent < STALE_SECONDS and (is_this or is_at_work(holder, silent)) else None


def this_process() -> dict[str, object]:
    """What identifies this process to others."""
    return {"pid": os.getpid(), "host": socket.gethostname()}


def is_at_work(process: Mapping[str, object], silent: float, *, look_here: bool = True) -> bool:
    """Whether another process, as `this_process` told of itself, works: alive on this host, or heard of lately.

    Args:
        silent: seconds since its last heartbeat, which decides about processes of other hosts.
        look_here: whether processes of this host count.
    """
    pid, host = process.get("pid"), process.get("host")
    if not isinstance(pid, int) or this_process().items() <= process.items():
        return False
    if host == socket.gethostname():
        return look_here and _is_alive(pid)
    return silent < STALE_SECONDS


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def in_words(process: Mapping[str, object]) -> str:
    """Which process it is."""
    return f"process {process.get('pid', '(unknown)')} on {process.get('host', 'this machine')}"
