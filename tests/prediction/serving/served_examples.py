"""Predictors behind real HTTP, for the tests of this folder."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import httpx
import uvicorn

from polyarch.prediction.predictor import Predictor
from polyarch.prediction.serving import create_application


@contextmanager
def running(predictor: Predictor, **limits: int) -> Iterator[httpx.Client]:
    """A client of a server in a thread, on a free port."""
    config = uvicorn.Config(create_application(predictor, **limits), port=0, ws="none", log_level="error")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60, trust_env=False) as client:
            yield client
    finally:
        server.should_exit = True
        thread.join(10)


@contextmanager
def running_all(predictors: dict[str, Predictor]) -> Iterator[dict[str, httpx.Client]]:
    """One server for every kind of data, with small limits."""
    limits = {"max_bytes": 200_000, "max_instances": 8, "max_pixels": 1_000_000}
    with ExitStack() as stack:
        yield {kind: stack.enter_context(running(predictor, **limits)) for kind, predictor in predictors.items()}
