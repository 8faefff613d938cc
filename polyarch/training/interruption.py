"""Ctrl-C without losses: the first requests a stop at the next safe point, the second stops immediately."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from polyarch.errors import Interrupted


class StopRequest:
    """The user's request to stop, if any; ``resume_with`` is the option or command that the error recommends."""

    def __init__(self, resume_with: str = "--resume") -> None:
        self.resume_with = resume_with
        self.asked = False
        self._raises = False

    def ask(self) -> None:
        """Requests a stop; inside `at_once` it raises `Interrupted` immediately."""
        self.asked = True
        if self._raises:
            self.check()

    def check(self) -> None:
        """Raises `Interrupted` if a stop was requested; called where everything needed to resume is on disk."""
        if self.asked:
            raise Interrupted(f"Stopped as requested; nothing is lost, and {self.resume_with} continues from here.")

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """For blocks that may stop at any time because every finished item is already on disk."""
        self.check()
        self._raises = True
        try:
            yield
        finally:
            self._raises = False


@contextmanager
def stop_on_signal(resume_with: str = "--resume") -> Iterator[StopRequest]:
    """Turns SIGINT and SIGTERM into stop requests during the block (main thread only)."""
    request = StopRequest(resume_with)
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
