"""Reading the body of a request within limits."""

from __future__ import annotations

import asyncio

from starlette.requests import ClientDisconnect, Request

READING_SECONDS = 30.0
"""For a whole body; a client that takes longer keeps others from their turn."""


class Refused(Exception):
    """A request that is not looked at any further: a status of 400 to 499 and one sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence


async def read_body(request: Request, most: int) -> bytes:
    """The body of a JSON request, counted while it arrives: its stated length may be absent or a lie."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise Refused(415, "Expected content of type application/json. Got another type.")
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise Refused(415, "Expected content that is not compressed. Got a content encoding.")
    too_large = Refused(413, f"Expected at most {most} bytes. Got more.")
    stated = request.headers.get("content-length", "")
    if stated.isdecimal() and len(stated) < 20 and int(stated) > most:
        raise too_large
    body = bytearray()
    try:
        async with asyncio.timeout(READING_SECONDS):
            async for piece in request.stream():
                body += piece
                if len(body) > most:
                    raise too_large
    except TimeoutError:
        raise Refused(408, f"Expected the whole request within {READING_SECONDS:g} seconds. Got a part.") from None
    except ClientDisconnect:
        raise Refused(400, "Expected the whole request. Got a part before the connection ended.") from None
    return bytes(body)
