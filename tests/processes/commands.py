"""Commands in process groups of their own, started by forking a process that has imported everything."""

from __future__ import annotations

import os
import select
import signal
import socket
from pathlib import Path

from preloaded import begin

KILLED = None
"""The exit code of a command that was killed."""


class Process:
    """A command under way.

    Args:
        address: of the process that has imported everything.
        words: of the command.
        errors: a file for what it writes to standard error; standard output goes nowhere.
    """

    def __init__(self, address: Path, words: list[str], environment: dict[str, str], errors: Path) -> None:
        self._client = socket.socket(socket.AF_UNIX)
        self._errors = errors
        with errors.open("wb") as file, Path(os.devnull).open("rb+") as nothing:
            files = [nothing.fileno(), nothing.fileno(), file.fileno()]
            self._number = begin(self._client, str(address), words, environment, files)

    def ends_within(self, seconds: float) -> bool:
        """Waits for the end of the command, but not longer."""
        return bool(select.select([self._client], [], [], seconds)[0])

    def kill(self) -> None:
        """Kills the command and all processes that it has started."""
        os.killpg(self._number, signal.SIGKILL)

    def wait(self, seconds: float = 900) -> int | None:
        """The exit code, or `KILLED`; a command that takes longer is killed, and the error says where it stood."""
        with self._client:
            if not self.ends_within(seconds):
                os.kill(self._number, signal.SIGUSR1)
                self.ends_within(1)
                self.kill()
                raise AssertionError(f"the command has not ended after {seconds} s:\n{self._errors.read_text()}")
            answer = self._client.recv(1)
        return answer[0] if answer else KILLED
