"""Runs the web application on a socket, within the limits of the machine."""

import asyncio
import gc
import logging
import signal
import socket
from collections.abc import Callable
from functools import partial
from typing import Any

import uvicorn
from fastapi import FastAPI

from polyarch.errors import InvalidInput
from polyarch.prediction.serving.connections import HEADER_SECONDS, BoundedProtocol, Crowd, most_connections
from polyarch.prediction.serving.log import BoundedLog, LogHandler
from polyarch.prediction.serving.metrics import Metrics

GRACE_SECONDS = 30.0
"""For requests under way when the service is asked to stop."""

QUEUE = 1024
"""Connections that the kernel keeps for the service until it accepts them."""


def listen(host: str, port: int) -> socket.socket:
    """A socket that is bound before anything is announced."""
    if not 0 <= port <= 65535:  # larger ones would be cut to 16 bits without a word
        raise InvalidInput(f"Expected a port 0..65535. Got {port}.")
    problem = "Expected a free port and an address of this machine"
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        raise InvalidInput(f"{problem}. Got {host}:{port}: {error}.") from None
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "TCP_DEFER_ACCEPT"):  # Linux hands over connections that have sent something: when there is
            # no room left, nobody is dropped between the connection and a header that is already on its way
            listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, int(HEADER_SECONDS))
        listening.bind(address)
        listening.listen(QUEUE)  # before the address is announced: a client may come at once
    except OSError as error:
        listening.close()
        raise InvalidInput(f"{problem}. Got {host}:{port}: {error.strerror}.") from None
    return listening


class Service(uvicorn.Server):
    """A server whose connections cannot be held and whose log cannot be flooded.

    asyncio accepts up to ``backlog`` connections before any of them can be counted, so that this is a small part of the
    files that are not for connections.

    Args:
        ready: called once the service accepts connections.
        until: a file descriptor that can be read from once the service shall stop.
    """

    def __init__(
        self,
        application: FastAPI,
        metrics: Metrics,
        log: BoundedLog,
        *,
        ready: Callable[[], None] = lambda: None,
        until: int | None = None,
    ) -> None:
        most = most_connections()
        protocol: Any = partial(BoundedProtocol, crowd=Crowd(most, metrics))
        config = uvicorn.Config(
            application,
            http=protocol,
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            backlog=max(1, most // 16),
            timeout_graceful_shutdown=int(GRACE_SECONDS),
        )
        super().__init__(config)
        self._log = log
        self._ready = ready
        self._until = until

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Starts to accept connections."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._unforeseen)
        if self._until is not None:
            loop.add_reader(self._until, self._stop)
        await super().startup(sockets)
        for listening in sockets or []:
            listening.listen(QUEUE)  # asyncio set it to the number of connections it accepts at once
        self._ready()

    def _stop(self) -> None:
        assert self._until is not None
        asyncio.get_running_loop().remove_reader(self._until)
        self.should_exit = True

    def _unforeseen(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self._log(context["message"], "error", error=context.get("exception"), logger="asyncio")


def run(service: Service, listening: socket.socket, log: BoundedLog) -> None:
    """Serves until SIGINT or SIGTERM; then finishes the requests under way."""
    gc.collect()
    gc.freeze()  # going through all that torch has loaded would stop the service for a good part of a second each time
    handler = LogHandler(log)
    logging.getLogger("uvicorn").addHandler(handler)
    terminated = signal.signal(signal.SIGTERM, lambda number, frame: None)
    try:  # uvicorn raises the signals that it was stopped by again once it has stopped
        service.run(sockets=[listening])
    except KeyboardInterrupt:
        pass
    finally:
        signal.signal(signal.SIGTERM, terminated)
        logging.getLogger("uvicorn").removeHandler(handler)
        log.close()
        gc.unfreeze()
