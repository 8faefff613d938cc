"""Clients that send or read slowly, or too much at once, do not keep others waiting."""

from __future__ import annotations

import importlib
import re
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from types import ModuleType

import httpx
import pytest

from polyarch.prediction.predictor import Predictor

HEAD = b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n"
CONNECTIONS = "polyarch.prediction.serving.connections"


@pytest.fixture(scope="module")
def served() -> ModuleType:
    """The helpers of this folder."""
    return importlib.import_module("served_examples")


@pytest.fixture
def client(served: ModuleType, predictors: dict[str, Predictor]) -> Iterator[httpx.Client]:
    with served.running(predictors["vector"]) as found:
        yield found


def connect(client: httpx.Client) -> socket.socket:
    return socket.create_connection(("127.0.0.1", client.base_url.port or 0), timeout=20)


def counted(client: httpx.Client, name: str) -> float:
    found = re.search(rf"^{re.escape(name)} (\S+)$", client.get("/metrics").text, re.MULTILINE)
    assert found, name
    return float(found[1])


def seconds_of_health(client: httpx.Client) -> float:
    begin = time.monotonic()
    assert client.get("/health", headers={"connection": "close"}).status_code == 200
    return time.monotonic() - begin


def trickle(connection: socket.socket, most: float = 10) -> float:
    """Sends a byte now and then until the service ends the connection; the seconds that took."""
    begin = time.monotonic()
    connection.setblocking(False)
    while time.monotonic() < begin + most:
        try:
            connection.send(b"a")
            if connection.recv(1 << 20) == b"":
                break
        except BlockingIOError:
            pass
        except ConnectionError:
            break
        time.sleep(0.02)
    return time.monotonic() - begin


@pytest.mark.parametrize("begin", [b"G", b"GET /hea", b"GET /health HTTP/1.1\r\nHost: x\r\nX-Long: "])
def test_headers_that_never_end(begin: bytes, client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{CONNECTIONS}.HEADER_SECONDS", 0.3)
    with connect(client) as connection:
        connection.sendall(begin)
        assert connection.recv(100) == b""
    with connect(client) as connection:
        connection.sendall(begin)
        assert 0.2 < trickle(connection) < 5  # bytes that arrive do not give it more time
    assert counted(client, 'polyarch_connections_dropped_total{reason="slow_headers"}') == 2


def test_a_body_after_the_answer(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """An address that reads no body answers at once; the rest of the request cannot hold the connection."""
    monkeypatch.setattr(f"{CONNECTIONS}.HEADER_SECONDS", 0.3)
    with connect(client) as connection:
        connection.sendall(HEAD.replace(b"application/json", b"text/plain"))
        assert connection.recv(65536).startswith(b"HTTP/1.1 415")
        assert trickle(connection) < 5


def test_answers_that_nobody_reads(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{CONNECTIONS}.ANSWER_SECONDS", 0.3)
    with connect(client) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(1)
        begin = time.monotonic()
        with pytest.raises(ConnectionError):
            while time.monotonic() < begin + 10:
                with suppress(TimeoutError):
                    connection.sendall(b"GET /docs HTTP/1.1\r\nHost: x\r\n\r\n" * 500)
    assert counted(client, 'polyarch_connections_dropped_total{reason="unread_answer"}') == 1


def test_more_connections_than_there_is_room_for(
    served: ModuleType, predictors: dict[str, Predictor], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has waited longest for the rest of a header makes room; a request that was sent is answered."""
    monkeypatch.setattr("polyarch.prediction.serving.connections.MOST_CONNECTIONS", 8)
    with served.running(predictors["vector"]) as client, ExitStack() as stack:
        uploading = stack.enter_context(connect(client))
        uploading.sendall(HEAD + b" " * 50_000)
        held = [stack.enter_context(connect(client)) for _ in range(60)]
        for number, connection in enumerate(held):
            connection.sendall(b"GET /health HTTP/1.1\r\n")
            if number % 20 == 0:
                assert seconds_of_health(client) < 1
        assert counted(client, "polyarch_connections") <= 13  # half as many more, and this one
        assert held[0].recv(100) == b""
        uploading.sendall(b" " * 50_000)
        assert uploading.recv(65536).startswith(b"HTTP/1.1 422")
        assert counted(client, 'polyarch_connections_dropped_total{reason="too_many"}') >= 50


def test_slow_bodies_make_room_for_others(
    served: ModuleType, predictors: dict[str, Predictor], monkeypatch: pytest.MonkeyPatch
) -> None:
    """40 bodies that hardly arrive: others are answered at once, and a body that does arrive keeps its place."""
    monkeypatch.setattr(f"{CONNECTIONS}.MOST_CONNECTIONS", 36)
    with served.running(predictors["vector"]) as client, ExitStack() as stack:
        arriving = stack.enter_context(connect(client))
        arriving.sendall(HEAD + b" " * 90_000)
        slow = [stack.enter_context(connect(client)) for _ in range(40)]
        for connection in slow:
            connection.sendall(HEAD + b" ")
        begin = time.monotonic()
        for _ in range(10):
            assert client.post("/predict", json={"instances": [[0, 0]]}).status_code == 200
        assert time.monotonic() - begin < 2
        answer = slow[0].recv(65536)
        assert answer.startswith(b"HTTP/1.1 408") and b"at a faster pace while others wait" in answer
        arriving.sendall(b" " * 10_000)
        assert arriving.recv(65536).startswith(b"HTTP/1.1 422")  # spaces alone are no JSON


def test_bodies_share_the_memory(
    served: ModuleType, predictors: dict[str, Predictor], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Together they hold as much as so many whole requests; whoever has stopped sending makes room."""
    monkeypatch.setattr("polyarch.prediction.serving.routes.MOST_WAITING", 2)
    with served.running(predictors["vector"], max_bytes=100_000) as client, ExitStack() as stack:
        stuck = [stack.enter_context(connect(client)) for _ in range(3)]
        for connection in stuck[:2]:
            connection.sendall(HEAD + b" " * 90_000)
        time.sleep(0.3)
        stuck[2].sendall(HEAD + b" " * 90_000)
        assert stuck[0].recv(65536).startswith(b"HTTP/1.1 408")
        stuck[2].sendall(b" " * 10_000)
        assert stuck[2].recv(65536).startswith(b"HTTP/1.1 422")


@pytest.mark.parametrize("rest", [b"zz\r\n\x00\x01", b"5\r\nhello\r\nzz\r\n"])
@pytest.mark.parametrize("kind", [b"application/json", b"text/plain"])
def test_garbage_in_a_body_is_no_defect(
    rest: bytes,
    kind: bytes,
    served: ModuleType,
    predictors: dict[str, Predictor],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Before an answer and after one, in which case there must be no second."""
    path = tmp_path_factory.mktemp("log") / "log"
    with path.open("w") as log, served.running(predictors["vector"], log) as client:
        for _ in range(5):
            with connect(client) as connection:
                head = b"POST /predict HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Type: " + kind
                connection.sendall(head + b"\r\n\r\n")
                time.sleep(0.05)
                connection.sendall(rest)
                answer = b"".join(iter(lambda: connection.recv(65536), b""))
                assert answer.startswith(b"HTTP/1.1 4") and answer.count(b"HTTP/1.1 4") == 1
        assert client.get("/health").status_code == 200
    assert "raceback" not in path.read_text()
