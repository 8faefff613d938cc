"""Creates the web application if the optional packages are installed."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

from polyarch.errors import InvalidInput, MissingExtra
from polyarch.prediction.predictor import Predictor
from polyarch.prediction.serving.instances import RequestLimits
from polyarch.prediction.serving.log import BoundedLog
from polyarch.prediction.serving.metrics import Metrics

if TYPE_CHECKING:
    from fastapi import FastAPI


def create_application(
    predictor: Predictor,
    *,
    max_bytes: int = 10_000_000,
    max_instances: int = 256,
    max_pixels: int = 50_000_000,
    token: str | None = None,
    metrics: Metrics | None = None,
    log: BoundedLog | None = None,
) -> FastAPI:
    """Serves GET /health, POST /predict, GET /docs, GET /metrics and GET /openapi.json for one artifact.

    Every request is answered with a prediction or with ``{"error": "one sentence"}`` and a status of 400 to 499. One
    prediction runs at a time, in a thread, so that /health stays responsive. The limits on connections are those of the
    server: `polyarch serve` has them.

    Args:
        max_bytes: per request, counted while it arrives.
        max_instances: examples per request.
        max_pixels: of all encoded images of a request together.
        token: what requests other than GET /health have to know.
        metrics: what GET /metrics shows; of this application alone by default.
        log: has one line per request; none by default.
    """
    for name, value in (("max_bytes", max_bytes), ("max_instances", max_instances), ("max_pixels", max_pixels)):
        if value < 1:
            raise InvalidInput(f"Expected {name} of 1 or more. Got {value}.")
    require_packages()
    from polyarch.prediction.serving.routes import build

    limits = RequestLimits(max_bytes, max_instances, max_pixels)
    return build(predictor, limits, token=token, metrics=metrics or Metrics(), log=log)


def require_packages(purpose: str = "Serving predictions") -> None:
    """Raises `MissingExtra` if the optional packages are not installed."""
    if any(importlib.util.find_spec(name) is None for name in ("fastapi", "uvicorn")):
        raise MissingExtra(purpose, "serve")
