"""Reads the bodies of requests within limits, so that slow clients do not keep others waiting."""

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from starlette.requests import ClientDisconnect, Request

READING_SECONDS = 30.0
"""The time limit for a body."""

CREDIT = 10_000.0
"""The bytes that a body counts as having received when it begins."""


class RefusedRequest(Exception):
    """The request is refused with a status of 400 to 499 and one sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence


@dataclass(eq=False)
class Reader:
    """A body that is being read.

    Its pace r forgets with a time constant of one second: r(t) = r(s) exp(s - t), plus the bytes of every piece.
    """

    deadline: asyncio.Timeout
    time: float
    held: int = 0
    recent: float = CREDIT
    displaced: bool = False

    def pace(self, now: float) -> float:
        """The bytes of about the last second."""
        return self.recent * math.exp(self.time - now)

    def take(self, piece: bytes, now: float) -> None:
        """Counts a piece."""
        self.recent, self.time = self.pace(now) + len(piece), now
        self.held += len(piece)


class Readers:
    """Shares out the places and the memory for bodies that are being read: the slowest makes room for others.

    Whoever comes gets a place at once, however many slow clients hold the others.

    Args:
        most: bodies at a time.
        most_bytes: of all of them together.
    """

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._reading: set[Reader] = set()  # without those that were displaced
        self._held = 0

    @asynccontextmanager
    async def place(self) -> AsyncIterator[Reader]:
        """A place for one body, and the time to read it in; raises `RefusedRequest` when that is over."""
        now = asyncio.get_running_loop().time()
        if len(self._reading) >= self._most:
            self._displace(self._reading, now)
        reader = Reader(asyncio.timeout_at(now + READING_SECONDS), now)
        self._reading.add(reader)
        try:
            async with reader.deadline:
                yield reader
        except TimeoutError:
            limit = "at a faster pace while others wait" if reader.displaced else f"within {READING_SECONDS:g} seconds"
            raise RefusedRequest(408, f"Expected the request {limit}. Got a part.") from None
        finally:
            self._reading.discard(reader)
            self._held -= reader.held

    def take(self, reader: Reader, piece: bytes) -> None:
        """Counts a piece of a body; if all of them hold too much, the slowest of those that hold any goes."""
        now = asyncio.get_running_loop().time()
        reader.take(piece, now)
        self._held += len(piece)
        if self._held > self._most_bytes:
            self._displace({one for one in self._reading if one.held}, now)

    def _displace(self, readers: set[Reader], now: float) -> None:
        if not readers:  # those that hold memory are all on their way out
            return
        slowest = min(readers, key=lambda reader: reader.pace(now))
        self._reading.discard(slowest)
        if not slowest.deadline.expired():
            slowest.displaced = True
            slowest.deadline.reschedule(now)


async def read_body(request: Request, most: int, readers: Readers) -> bytes:
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
        async with readers.place() as reader:
            async for piece in request.stream():
                body += piece
                readers.take(reader, piece)
                if len(body) > most:
                    raise too_large
    except ClientDisconnect:
        raise RefusedRequest(400, "Expected the whole request. Got a part before the connection ended.") from None
    return bytes(body)
