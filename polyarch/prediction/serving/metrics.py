"""Counts what the service does, for Prometheus."""

import math
from bisect import bisect_left
from multiprocessing.sharedctypes import RawArray
from typing import Any

import numpy as np

LATENCIES = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, math.inf)
"""Upper ends of the histogram's buckets in seconds."""

DROPPED = ("slow_headers", "too_many", "unread_answer", "not_http")
"""Why connections were closed without an answer of the application."""

_STATUSES = 600
_COLUMNS = _STATUSES + len(LATENCIES) + len(DROPPED) + 5


class Metrics:
    """The counters of all workers, one row of shared memory each: any worker can answer for all of them.

    A row is written by its own worker only, in the thread of its event loop, so that nothing has to be locked.

    Args:
        workers: how many rows there are.
        worker: the row to write to.
        memory: of the metrics that another process made.
    """

    def __init__(self, workers: int = 1, worker: int = 0, memory: Any = None) -> None:
        self.memory = RawArray("d", workers * _COLUMNS) if memory is None else memory
        self._rows = np.frombuffer(self.memory, np.float64).reshape(workers, _COLUMNS)  # (workers, columns)
        parts = np.split(self._rows, np.cumsum([_STATUSES, len(LATENCIES), len(DROPPED)]), axis=1)
        self._statuses, self._latencies, self._dropped, self._others = (part[worker] for part in parts)
        self._others[:2] = 0  # a worker that died had requests and connections; the one that replaces it has none

    def request_began(self) -> None:
        """Counts a request that is in flight."""
        self._others[0] += 1

    def request_ended(self, status: int, seconds: float, examples: int) -> None:
        """Counts a request that was answered."""
        self._others[0] -= 1
        self._statuses[status] += 1
        self._latencies[bisect_left(LATENCIES, seconds)] += 1
        self._others[2] += seconds
        self._others[3] += examples

    def connections(self, change: int) -> None:
        """Counts connections that are open."""
        self._others[1] += change

    def dropped(self, reason: str) -> None:
        """Counts a connection that was closed without an answer of the application, for one of `DROPPED`."""
        self._dropped[DROPPED.index(reason)] += 1

    def lines_left_out(self, lines: int) -> None:
        """Counts lines that the log had no room for."""
        self._others[4] += lines

    def text(self) -> str:
        """The sums over all workers in Prometheus' text format."""
        total = self._rows.sum(0)
        statuses, latencies, dropped, others = np.split(
            total, np.cumsum([_STATUSES, len(LATENCIES), len(DROPPED)])
        )  # (600,), (buckets,), (reasons,), (5,)
        in_flight, connections, seconds, examples, lines = others.tolist()
        name = "polyarch_request_seconds"
        buckets = zip(LATENCIES, np.cumsum(latencies).tolist(), strict=True)
        histogram = [f'{name}_bucket{{le="{_end(end)}"}} {count:.0f}' for end, count in buckets]
        histogram += [f"{name}_sum {seconds:.6f}", f"{name}_count {latencies.sum():.0f}"]
        codes = statuses.nonzero()[0].tolist()
        reasons = zip(DROPPED, dropped.tolist(), strict=True)
        parts = [
            _metric(
                "polyarch_requests_total",
                "counter",
                "Requests that were answered, by status.",
                [f'polyarch_requests_total{{status="{code}"}} {statuses[code]:.0f}' for code in codes],
            ),
            _metric(name, "histogram", "Seconds from a request to the end of its answer.", histogram),
            _value("polyarch_examples_total", "counter", "Examples that were predicted.", examples),
            _value("polyarch_requests_in_flight", "gauge", "Requests that wait for their answer.", in_flight),
            _value("polyarch_connections", "gauge", "Open connections.", connections),
            _metric(
                "polyarch_connections_dropped_total",
                "counter",
                "Connections that were closed without an answer, by reason.",
                [f'polyarch_connections_dropped_total{{reason="{reason}"}} {count:.0f}' for reason, count in reasons],
            ),
            _value("polyarch_log_lines_left_out_total", "counter", "Lines that the log had no room for.", lines),
        ]
        return "".join(parts)


def _metric(name: str, kind: str, help: str, lines: list[str]) -> str:
    return "\n".join([f"# HELP {name} {help}", f"# TYPE {name} {kind}", *lines]) + "\n"


def _value(name: str, kind: str, help: str, value: float) -> str:
    return _metric(name, kind, help, [f"{name} {value:.0f}"])


def _end(seconds: float) -> str:
    return "+Inf" if seconds == math.inf else f"{seconds:g}"
