"""Connections that cannot be held: uvicorn limits neither the time of headers nor the number of connections."""

import asyncio
import resource
from dataclasses import dataclass, field
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from polyarch.prediction.serving.metrics import Metrics

HEADER_SECONDS = 10.0
"""For a connection to send the whole header of a request, counted from its beginning or from the last answer."""

ANSWER_SECONDS = 30.0
"""For a client to read an answer."""


MOMENT = 0.1
"""Seconds in which what has arrived is read even if there is much else to do."""

MOST_CONNECTIONS = 1024
"""Of one worker, where the limit on open files allows for twice as many."""


def most_connections() -> int:
    """The number of connections at a time: half of the files that the process may open."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return MOST_CONNECTIONS if files == resource.RLIM_INFINITY else max(2, min(MOST_CONNECTIONS, files // 2))


@dataclass
class Crowd:
    """All connections of a worker; those that wait for a header stand in the order in which they began to wait.

    Args:
        most: connections at a time. There may be half as many more for a moment, and all must be below the limit on
            open files, because a process that cannot accept cannot refuse either.
        waiting: connection -> since when.
    """

    most: int
    metrics: Metrics
    waiting: "dict[BoundedProtocol, float]" = field(default_factory=dict)

    def make_room(self, now: float, connections: int) -> None:
        """Drops whoever has waited longest for the rest of a header; nobody who has sent one is dropped for others.

        Whoever has just come is spared, too: a header may have arrived with the connection and not been read yet.
        """
        oldest, since = next(iter(self.waiting.items()))
        settled = now - since > MOMENT
        if connections > self.most and (settled or connections > self.most * 3 // 2):
            oldest.drop("too_many")


class BoundedProtocol(H11Protocol):
    """HTTP/1.1 with limits on the time of headers and answers and on the number of connections.

    A connection is *busy* from a whole header to the end of the answer: the application limits the time of that. All
    other time counts against `HEADER_SECONDS`, whatever arrives, so that nobody holds a connection by sending a byte
    now and then.
    """

    def __init__(self, *arguments: Any, crowd: Crowd, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._crowd = crowd
        self._header_timer: asyncio.TimerHandle | None = None
        self._answer_timer: asyncio.TimerHandle | None = None

    @property
    def busy(self) -> bool:
        """Whether the application works on a request."""
        return self.cycle is not None and not self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Takes a connection in, and drops another if there are too many."""
        super().connection_made(transport)
        self._crowd.metrics.connections(+1)
        self._wait()
        self._crowd.make_room(self.loop.time(), len(self.connections))

    def connection_lost(self, exc: Exception | None) -> None:
        """Forgets a connection."""
        self._stop_waiting()
        self._stop_answer_timer()
        self._crowd.metrics.connections(-1)
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """Stops the clock once a header is whole."""
        super().handle_events()
        if self.busy:
            self._stop_waiting()

    def on_response_complete(self) -> None:
        """Starts the clock for the next header."""
        super().on_response_complete()
        if not self.busy:
            self._wait()

    def pause_writing(self) -> None:
        """Starts the clock for a client that reads more slowly than the answer is written."""
        super().pause_writing()
        self._answer_timer = self.loop.call_later(ANSWER_SECONDS, self.drop, "unread_answer")

    def resume_writing(self) -> None:
        """Stops that clock."""
        super().resume_writing()
        self._stop_answer_timer()
        if not self.busy:
            self._wait()

    def send_400_response(self, msg: str) -> None:
        """Answers what is not HTTP with one sentence, or only closes the connection if an answer has begun."""
        self._crowd.metrics.dropped("not_http")
        if self.cycle is not None:
            self.cycle.disconnected = True  # the application may still be about to answer, and h11 would not let it
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            content = b'{"error": "Expected a request in HTTP/1.1. Got other bytes or a header that is too large."}'
            headers = [("content-type", "application/json"), ("connection", "close")]
            headers.append(("content-length", str(len(content))))
            for event in (h11.Response(status_code=400, headers=headers), h11.Data(data=content), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def drop(self, reason: str) -> None:
        """Closes the connection at once and throws away what its client has not read."""
        self._stop_waiting()
        self._crowd.metrics.dropped(reason)
        self.transport.abort()

    def _wait(self) -> None:
        self._stop_waiting()
        if not self.flow.write_paused:  # else it is the other clock that runs
            self._crowd.waiting[self] = self.loop.time()
            self._header_timer = self.loop.call_later(HEADER_SECONDS, self.drop, "slow_headers")

    def _stop_waiting(self) -> None:
        self._crowd.waiting.pop(self, None)
        if self._header_timer:
            self._header_timer.cancel()
            self._header_timer = None

    def _stop_answer_timer(self) -> None:
        if self._answer_timer:
            self._answer_timer.cancel()
            self._answer_timer = None
