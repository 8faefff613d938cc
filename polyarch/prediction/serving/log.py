"""The log of the service: JSON lines of bounded number and length, which never keep a request waiting."""

import json
import logging
import queue
import sys
import threading
import time
import traceback
from datetime import UTC, datetime
from typing import Any, TextIO

from polyarch.prediction.serving.metrics import Metrics

LINES_PER_SECOND = 50.0
BURST = 500
"""The log takes `BURST` lines at once and `LINES_PER_SECOND` in the long run: about 2 MB in two minutes at most."""

MOST_CHARACTERS = 200
TRACEBACK_CHARACTERS = 2000
"""Of one value, and of a traceback its last ones."""

MOST_QUEUED = 1000


class BoundedLog:
    """Writes JSON lines in a thread of its own: who reads the log slowly or not at all does not stop the service.

    A bucket holds up to `BURST` tokens and gains `LINES_PER_SECOND`; a line takes one. Lines without a token, and lines
    that find the queue full, are left out; the next line that is written says how many.
    """

    def __init__(self, metrics: Metrics, stream: TextIO | None = None) -> None:
        self._metrics = metrics
        self._stream = sys.stderr if stream is None else stream
        self._queue: queue.Queue[str | None] = queue.Queue(MOST_QUEUED)
        self._tokens = float(BURST)
        self._filled = time.monotonic()
        self._left_out = 0
        self._guard = threading.Lock()
        self._thread = threading.Thread(target=self._write, name="log", daemon=True)
        self._thread.start()

    def __call__(self, event: str, level: str = "info", *, error: BaseException | None = None, **values: Any) -> None:
        """Writes one line; with the end of its traceback where there is an error."""
        with self._guard:  # torch and the event loop may log at once
            now = time.monotonic()
            self._tokens = min(BURST, self._tokens + (now - self._filled) * LINES_PER_SECOND)
            self._filled = now
            if self._tokens < 1:
                self._leave_out()
                return
            self._tokens -= 1
            line: dict[str, Any] = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "level": level}
            line.update({name: _shortened(value) for name, value in {"event": event, **values}.items()})
            if error is not None:
                line["error"] = _shortened(f"{type(error).__name__}: {error}")
                line["traceback"] = "".join(traceback.format_exception(error))[-TRACEBACK_CHARACTERS:]
            if self._left_out:
                line["lines_left_out"] = self._left_out
            try:
                self._queue.put_nowait(json.dumps(line))
                self._left_out = 0
            except queue.Full:
                self._leave_out()

    def close(self) -> None:
        """Waits a second for what is queued to be written."""
        try:
            self._queue.put(None, timeout=1)
        except queue.Full:
            return
        self._thread.join(1)

    def _leave_out(self) -> None:
        self._left_out += 1
        self._metrics.lines_left_out(1)

    def _write(self) -> None:
        while (line := self._queue.get()) is not None:
            try:
                self._stream.write(line + "\n")
                self._stream.flush()
            except (OSError, ValueError):  # the log is closed or its disk is full: predictions go on
                self._metrics.lines_left_out(1)


class LogHandler(logging.Handler):
    """Hands what other packages log to a `BoundedLog`."""

    def __init__(self, log: BoundedLog) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Writes one line."""
        error = record.exc_info[1] if record.exc_info else None
        self._log(record.getMessage().strip(), record.levelname.lower(), error=error, logger=record.name)


def _shortened(value: Any) -> Any:
    if isinstance(value, str) and len(value) > MOST_CHARACTERS:
        return f"{value[:MOST_CHARACTERS]}..."
    return value
