"""Who may ask: whoever knows the token."""

import hmac
import re
from pathlib import Path

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from polyarch.errors import InvalidInput

OPEN = ("/health",)
"""Paths that need no token: load balancers ask them."""

_TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]{16,1024}")


def read_token(path: Path) -> str:
    """Reads the token of a service from the only line of a file, so that it is in no list of processes."""
    wanted = "Expected a file with a token of 16 to 1024 letters, digits and -._~+/="
    try:
        with path.open("rb") as file:
            content = file.read(2000)
    except OSError as error:
        raise InvalidInput(f"{wanted}. Got {path}: {error.strerror}.") from None
    token = content.decode("latin-1").strip()
    if not _TOKEN.fullmatch(token):
        raise InvalidInput(f"{wanted}. Got other content in {path}.")
    return token


class BearerToken:
    """Answers 401 to requests without ``Authorization: Bearer TOKEN``, before their body is read."""

    def __init__(self, application: ASGIApp, token: str) -> None:
        self._application = application
        self._token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        if scope["type"] != "http" or scope["path"] in OPEN or self._allows(scope):
            await self._application(scope, receive, send)
            return
        sentence = "Expected the header Authorization: Bearer with the token of this service. Got none or another."
        await JSONResponse({"error": sentence}, 401, {"WWW-Authenticate": "Bearer"})(scope, receive, send)

    def _allows(self, scope: Scope) -> bool:
        for name, value in scope["headers"]:
            if name == b"authorization":
                kind, _, token = value.partition(b" ")
                # The time of the comparison does not depend on how much of the token is right.
                return bool(kind.lower() == b"bearer" and hmac.compare_digest(token.strip(), self._token))
        return False
