"""Predictors behind real HTTP."""

from __future__ import annotations

import importlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import pytest
import uvicorn

from polyarch.export import write_artifact
from polyarch.jobs.prediction import Predictor
from polyarch.serving import create_application


@pytest.fixture(scope="session")
def examples() -> ModuleType:
    """The small artifacts of the tests of exports."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "export"))
    try:
        return importlib.import_module("artifact_examples")
    finally:
        sys.path.pop(0)


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


@pytest.fixture(scope="session")
def predictors(examples: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Predictor]:
    found = {}
    for kind in ("image", "table", "vector"):
        folder = tmp_path_factory.mktemp(kind)
        write_artifact(folder, getattr(examples, f"{kind}_artifact")(2))
        found[kind] = Predictor.load(folder)
    return found


@pytest.fixture(scope="session")
def clients(predictors: dict[str, Predictor]) -> Iterator[dict[str, httpx.Client]]:
    """One server for every kind of data, with small limits."""
    limits: dict[str, Any] = {"max_bytes": 200_000, "max_instances": 8, "max_pixels": 1_000_000}
    with (
        running(predictors["image"], **limits) as image,
        running(predictors["table"], **limits) as table,
        running(predictors["vector"], **limits) as vector,
    ):
        yield {"image": image, "table": table, "vector": vector}


@pytest.fixture(scope="session")
def start() -> Callable[..., Any]:
    return running
