"""What is known of every request: its number, what became of it and how long that took."""

import re
import time
import uuid

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from polyarch.prediction.serving.log import BoundedLog
from polyarch.prediction.serving.metrics import Metrics

_IDENTITY = re.compile(r"[A-Za-z0-9._-]{1,64}")
NOT_ANSWERED = 499
"""The status in the log and the metrics where the service stopped before it could answer."""


class Observation:
    """Gives every request an identity, counts it, logs it, and answers 500 where something went wrong inside.

    The identity is the client's own ``X-Request-ID`` if it is harmless, or a new one, and comes back as that header.
    """

    def __init__(self, application: ASGIApp, metrics: Metrics, log: BoundedLog | None) -> None:
        self._application = application
        self._metrics = metrics
        self._log = log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        identity = _identity(scope)
        begin = time.perf_counter()
        status = NOT_ANSWERED

        async def observed(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), (b"x-request-id", identity.encode())]
            await send(message)

        self._metrics.request_began()
        try:
            await self._application(scope, receive, observed)
        except Exception as error:
            if self._log:
                self._log("defect", "error", error=error, id=identity)
            if status == NOT_ANSWERED:
                answer = JSONResponse({"error": "Expected to answer. Found a defect of the service."}, 500)
                await answer(scope, receive, observed)
        finally:
            seconds = time.perf_counter() - begin
            examples = scope.get("state", {}).get("examples", 0)
            self._metrics.request_ended(status, seconds, examples)
            if self._log:
                client = (scope.get("client") or ("", 0))[0]
                about = {"client": client, "method": scope["method"], "path": scope["path"], "status": status}
                self._log("request", id=identity, **about, seconds=round(seconds, 6), examples=examples)


def _identity(scope: Scope) -> str:
    for name, value in scope["headers"]:
        if name == b"x-request-id" and _IDENTITY.fullmatch(value.decode("latin-1")):
            return str(value.decode())
    return uuid.uuid4().hex
