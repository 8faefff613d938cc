"""Predictors behind real HTTP, for the tests of this folder."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TextIO

import httpx

from polyarch.prediction.predictor import Predictor
from polyarch.prediction.serving import create_application
from polyarch.prediction.serving.log import BoundedLog
from polyarch.prediction.serving.metrics import Metrics
from polyarch.prediction.serving.server import Service, listen


@contextmanager
def running(predictor: Predictor, log: TextIO | None = None, **options: Any) -> Iterator[httpx.Client]:
    """A client of a server in a thread, on a free port."""
    metrics = Metrics()
    written = BoundedLog(metrics, log or io.StringIO())
    application = create_application(predictor, metrics=metrics, log=written, **options)
    started = threading.Event()
    with listen("127.0.0.1", 0) as listening:
        server = Service(application, metrics, written, ready=started.set)
        port = listening.getsockname()[1]
        thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
        thread.start()
        assert started.wait(30)
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60, trust_env=False) as client:
                yield client
        finally:
            server.should_exit = True
            thread.join(10)
            written.close()


@contextmanager
def running_all(predictors: dict[str, Predictor]) -> Iterator[dict[str, httpx.Client]]:
    """One server for every kind of data, with small limits."""
    limits: dict[str, Any] = {"max_bytes": 200_000, "max_instances": 8, "max_pixels": 1_000_000}
    with ExitStack() as stack:
        yield {kind: stack.enter_context(running(predictor, **limits)) for kind, predictor in predictors.items()}
