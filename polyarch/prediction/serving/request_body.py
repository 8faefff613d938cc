"""Reads the body of a request within limits."""

import asyncio

from starlette.requests import ClientDisconnect, Request

READING_SECONDS = 30.0
"""The time limit for a body; a slow client keeps others waiting."""


class RefusedRequest(Exception):
    """The request is refused with a status of 400 to 499 and one sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence


async def read_body(request: Request, most: int) -> bytes:
    """The body of a JSON request, counted while it arrives: the stated length may be missing or wrong."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise RefusedRequest(415, "Expected content of type application/json. Got another type.")
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise RefusedRequest(415, "Expected content that is not compressed. Got a content encoding.")
    too_large = RefusedRequest(413, f"Expected at most {most} bytes. Got more.")
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
        raise RefusedRequest(408, f"Expected the request within {READING_SECONDS:g} seconds. Got a part.") from None
    except ClientDisconnect:
        raise RefusedRequest(400, "Expected the whole request. Got a part before the connection ended.") from None
    return bytes(body)
