"""Ctrl-C that loses nothing: the first asks for a stop at the next safe point, the second stops at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from polyarch.errors import Interrupted


class StopRequest:
    """Whether the user asked to stop.

    Args:
        goes_on: what the user is told to go on with.
    """

    def __init__(self, goes_on: str = "--resume") -> None:
        self.goes_on = goes_on
        self.asked = False
        self._raises = False

    def ask(self) -> None:
        """Asks for a stop; raises `Interrupted` right here inside `at_once`."""
        self.asked = True
        if self._raises:
            self.check()

    def check(self) -> None:
        """Raises `Interrupted` if a stop was asked for; called where everything needed is on disk."""
        if self.asked:
            raise Interrupted(f"Stopped as asked; nothing is lost, and {self.goes_on} goes on from here.")

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """For blocks in which every finished item is on disk already: nothing has to be waited for."""
        self.check()
        self._raises = True
        try:
            yield
        finally:
            self._raises = False


@contextmanager
def stop_on_signal(goes_on: str = "--resume") -> Iterator[StopRequest]:
    """Turns SIGINT and SIGTERM into a request for the duration of the block (main thread only)."""
    request = StopRequest(goes_on)
    if threading.current_thread() is not threading.main_thread():
        yield request
        return

    def ask(number: int, frame: FrameType | None) -> None:
        if request.asked:
            raise KeyboardInterrupt
        request.ask()

    previous = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield request
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
