"""`polyarch serve` as a process of its own, under attack, killed and stopped."""

from __future__ import annotations

import http.client
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from statistics import median

import httpx
import pytest

pytestmark = pytest.mark.slow

ONE = {"instances": [[0.5, -0.5]]}
ATTACKERS = Path(__file__).parent / "attackers.py"


class Service:
    """A running service and what it wrote."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, log: Path) -> None:
        self.process = process
        self.port = port
        self.log = log
        self.seconds: list[float] = []

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=30)

    def client(self) -> httpx.Client:
        return httpx.Client(base_url=f"http://127.0.0.1:{self.port}", trust_env=False, timeout=30)

    @property
    def quantile(self) -> float:
        """The seconds that 99 % of the answers took at most; a machine that others use may hold up a few."""
        return sorted(self.seconds)[int(0.99 * len(self.seconds))]

    def described(self) -> str:
        about = (
            f"median {median(self.seconds):.3f} s, 99 % within {self.quantile:.3f} s, slowest {max(self.seconds):.3f} s"
        )
        return f"{len(self.seconds)} times /health, {about}"

    def watch_health(self, seconds: float) -> None:
        """Asks for /health ten times a second, each time over a new connection, and keeps the times."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            begin = time.monotonic()
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)  # httpx takes longer than serve
            connection.request("GET", "/health", headers={"connection": "close"})
            assert connection.getresponse().status == 200
            connection.close()
            self.seconds.append(time.monotonic() - begin)
            time.sleep(0.1)


Serving = Callable[..., AbstractContextManager[Service]]


@pytest.fixture
def serving(folders: dict[str, Path], environment: dict[str, str], tmp_path: Path) -> Serving:
    """Starts services that may open so many files."""

    @contextmanager
    def start(*options: str, files: int = 256) -> Iterator[Service]:
        command = [sys.executable, "-m", "polyarch.cli", "serve", str(folders["vector"]), "--port", "0", *options]
        log = tmp_path / "log"
        with log.open("wb") as errors:
            process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**environment, "PYTHONUNBUFFERED": "1"},
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (files, files)),
            )
        try:
            assert process.stdout is not None
            announced = process.stdout.readline().decode()
            found = re.search(r"http://127\.0\.0\.1:(\d+)", announced)
            assert found, announced + log.read_text()
            yield Service(process, int(found[1]), log)
        finally:
            process.kill()
            process.communicate()

    return start


@contextmanager
def attack(name: str, port: int) -> Iterator[None]:
    """In a process of its own, so that its work does not slow down what is measured here."""
    process = subprocess.Popen([sys.executable, str(ATTACKERS), name, str(port)], stdout=subprocess.PIPE)
    try:
        yield
    finally:
        process.kill()
        answered = process.communicate()[0].split()
        print(f"{name}: {len(answered) * 500} requests were answered")


@pytest.mark.parametrize("kind", ["headers", "bodies"])
def test_500_requests_that_are_never_finished(kind: str, serving: Serving) -> None:
    """Held for 75 seconds, and opened again when they are dropped, 100 in a second: there is room for 128."""
    with serving(files=256) as service, attack(kind, service.port):
        time.sleep(2)
        with service.client() as client:
            answers = [
                client.post("/predict", json=ONE, headers={"connection": "close"}).status_code for _ in range(20)
            ]
        assert answers == [200] * 20
        service.watch_health(75)
        size = service.log.stat().st_size
        print(f"{kind}: {service.described()}, log {size} bytes")
        assert service.quantile < 1
        assert size < 2_000_000


def test_a_flood_of_requests_that_are_logged(serving: Serving) -> None:
    """Two minutes of bad requests, as fast as they are answered, over four connections at a time."""
    with serving() as service, attack("flood", service.port):
        service.watch_health(120)
        size = service.log.stat().st_size
        print(f"flood: {service.described()}, log {size} bytes")
        assert service.quantile < 1
        assert size < 4_000_000
        for line in service.log.read_text().splitlines()[:-1]:
            json.loads(line)


def test_sigterm_finishes_what_is_under_way(serving: Serving) -> None:
    with serving() as service, service.connect() as connection:
        whole = json.dumps(ONE).encode()
        head = "POST /predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        connection.sendall(f"{head}Content-Length: {len(whole)}\r\n\r\n".encode() + whole[:5])
        time.sleep(0.5)
        service.process.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        connection.sendall(whole[5:])
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")
        assert service.process.wait(20) == 0


def test_workers_share_the_port_and_are_replaced(serving: Serving) -> None:
    with serving("--workers", "2") as service:
        first = workers_of(service.process.pid)
        assert len(first) == 2
        for _ in range(20):
            with service.client() as client:
                assert client.post("/predict", json=ONE).status_code == 200
        with service.client() as client:  # either of them answers for both
            assert "polyarch_examples_total 20" in client.get("/metrics").text
        os.kill(first[0], signal.SIGKILL)
        deadline = time.monotonic() + 60
        while len(workers_of(service.process.pid)) < 2 or first[0] in workers_of(service.process.pid):
            assert time.monotonic() < deadline
            with service.client() as client:  # the other one answers meanwhile
                assert client.post("/predict", json=ONE, headers={"connection": "close"}).status_code == 200
            time.sleep(0.1)
        print("resident megabytes:", [resident(process) for process in workers_of(service.process.pid)])
        service.process.send_signal(signal.SIGTERM)
        assert service.process.wait(60) == 0


def test_workers_end_with_the_process_that_started_them(serving: Serving) -> None:
    with serving("--workers", "2") as service:
        workers = workers_of(service.process.pid)
        service.process.kill()
        deadline = time.monotonic() + 30
        while any(Path(f"/proc/{worker}").exists() for worker in workers):
            assert time.monotonic() < deadline
            time.sleep(0.1)


def workers_of(process: int) -> list[int]:
    """The processes that the fork server of this process has started."""
    servers = children(process)
    return sorted(worker for server in servers for worker in children(server))


def children(process: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def resident(process: int) -> dict[str, int]:
    """Memory in megabytes: all of it, and what no other process shares."""
    text = Path(f"/proc/{process}/smaps_rollup").read_text()
    kilobytes = {name: int(value) for name, value in re.findall(r"(\w+):\s+(\d+) kB", text)}
    return {
        "resident": kilobytes["Rss"] // 1024,
        "alone": (kilobytes["Private_Clean"] + kilobytes["Private_Dirty"]) // 1024,
    }
