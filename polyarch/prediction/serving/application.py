"""Creates the web application if the optional packages are installed."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

from polyarch.errors import InvalidInput, MissingExtra
from polyarch.prediction.predictor import Predictor
from polyarch.prediction.serving.instances import RequestLimits

if TYPE_CHECKING:
    from fastapi import FastAPI


def create_application(
    predictor: Predictor, *, max_bytes: int = 10_000_000, max_instances: int = 256, max_pixels: int = 50_000_000
) -> FastAPI:
    """Serves GET /health, POST /predict, GET /docs and GET /openapi.json for one artifact.

    Every request is answered with a prediction or with ``{"error": "one sentence"}`` and a status of 400 to 499. One
    prediction runs at a time, in a thread, so that /health stays responsive.

    Args:
        max_bytes: per request, counted while it arrives.
        max_instances: examples per request.
        max_pixels: of all encoded images of a request together.
    """
    for name, value in (("max_bytes", max_bytes), ("max_instances", max_instances), ("max_pixels", max_pixels)):
        if value < 1:
            raise InvalidInput(f"Expected {name} of 1 or more. Got {value}.")
    if importlib.util.find_spec("fastapi") is None:
        raise MissingExtra("Serving predictions", "serve")
    from polyarch.prediction.serving.routes import build

    return build(predictor, RequestLimits(max_bytes, max_instances, max_pixels))
