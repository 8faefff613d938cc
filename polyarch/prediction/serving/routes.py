"""The routes of the web application."""

import asyncio
from functools import lru_cache
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

import polyarch
from polyarch.errors import PolyarchError
from polyarch.prediction.predictor import Predictor
from polyarch.prediction.rows import messages_of
from polyarch.prediction.serving import messages
from polyarch.prediction.serving.connections import most_connections
from polyarch.prediction.serving.docs_page import render
from polyarch.prediction.serving.instances import RequestLimits, parse_instances
from polyarch.prediction.serving.log import BoundedLog
from polyarch.prediction.serving.metrics import Metrics
from polyarch.prediction.serving.observation import Observation
from polyarch.prediction.serving.request_body import Readers, RefusedRequest, read_body
from polyarch.prediction.serving.token import BearerToken

MOST_WAITING = 32
"""Whole requests that wait for their turn, each of up to ``max_bytes``; bodies being read hold as much together."""

REFUSALS: dict[int | str, dict[str, Any]] = {
    401: {"model": messages.Error, "description": "The service has a token, and the request does not."},
    408: {"model": messages.Error, "description": "The request arrived too slowly."},
    413: {"model": messages.Error, "description": "Too many bytes."},
    415: {"model": messages.Error, "description": "Not application/json."},
    422: {"model": messages.Error, "description": "Not JSON, or instances that the artifact cannot take."},
    429: {"model": messages.Error, "description": "Too many requests are waiting."},
}


def build(
    predictor: Predictor, limits: RequestLimits, *, token: str | None, metrics: Metrics, log: BoundedLog | None
) -> FastAPI:
    """Builds the application for one predictor."""
    application = FastAPI(
        title="polyarch",
        version=polyarch.__version__,
        description="Predictions with their uncertainty.",
        docs_url=None,  # FastAPI's pages load scripts from other servers; ours works offline
        redoc_url=None,
    )
    if token is not None:
        application.add_middleware(BearerToken, token=token)
    application.add_middleware(Observation, metrics=metrics, log=log)  # the last one added comes first
    readers = Readers(most_connections() * 7 // 8, MOST_WAITING * limits.max_bytes)

    @lru_cache(maxsize=8)  # rendering takes milliseconds, in which nothing else is answered
    def page(address: str) -> str:
        return render(application.openapi(), _health(predictor), limits, address)

    turn = asyncio.Lock()
    waiting = 0

    @application.get("/health", response_model=messages.Health, response_model_exclude_defaults=True)
    async def health() -> Any:
        """Whether the service is up, and what it takes and returns."""
        return _health(predictor)

    @application.post(
        "/predict",
        response_model=messages.response_of(predictor.task),
        responses=REFUSALS,
        openapi_extra={
            "requestBody": {
                "required": True,
                "content": {"application/json": {"schema": messages.Request.model_json_schema()}},
            }
        },
    )
    async def predict(request: Request) -> JSONResponse:
        """What is predicted for one or more examples, with its uncertainty."""
        nonlocal waiting
        too_many = RefusedRequest(429, f"Expected at most {MOST_WAITING} requests at a time. Got more.")
        if waiting >= MOST_WAITING:  # before a body is read that nobody would predict
            raise too_many
        body = await read_body(request, limits.max_bytes, readers)
        if waiting >= MOST_WAITING:
            raise too_many
        waiting += 1
        try:
            async with turn:
                content = await run_in_threadpool(_answer, body, predictor, limits)
        finally:
            waiting -= 1
        request.state.examples = len(content["predictions"])
        return JSONResponse(content)

    @application.get("/metrics", include_in_schema=False)
    async def count() -> PlainTextResponse:
        """What Prometheus asks for."""
        return PlainTextResponse(metrics.text(), media_type="text/plain; version=0.0.4")

    @application.get("/docs", response_class=HTMLResponse, include_in_schema=False)
    async def docs(request: Request) -> str:
        """The documentation page."""
        host, port = request.scope.get("server") or ("127.0.0.1", 8000)
        return page(f"http://{host}:{port}/predict")

    @application.exception_handler(RefusedRequest)
    async def refused(request: Request, error: RefusedRequest) -> JSONResponse:
        slow = {"connection": "close"} if error.status == 408 else None  # the rest is not worth waiting for
        return JSONResponse({"error": error.sentence}, error.status, slow)

    @application.exception_handler(HTTPException)
    async def no_such_address(request: Request, error: HTTPException) -> JSONResponse:
        sentence = "Expected GET /health, POST /predict, GET /docs, GET /metrics or GET /openapi.json. Got another."
        return JSONResponse({"error": sentence}, error.status_code, headers=error.headers)

    return application


def _answer(body: bytes, predictor: Predictor, limits: RequestLimits) -> dict[str, Any]:
    """Predicts in a thread, one request at a time."""
    try:
        inputs = parse_instances(body, predictor, limits)
        return {"predictions": messages_of(predictor(inputs), predictor)}
    except PolyarchError as error:  # `NotFiniteError`, for example, if networks turn finite inputs into NaN
        raise RefusedRequest(422, str(error)) from None


def _health(predictor: Predictor) -> dict[str, Any]:
    shapes, dtypes = predictor.input_shape, predictor.input_dtype
    found: dict[str, Any] = {
        "status": "ok",
        "task": predictor.task.kind,
        "names": list(predictor.task.names),
        "classes": list(predictor.classes),
    }
    if isinstance(shapes, dict) and isinstance(dtypes, dict):
        found["inputs"] = [
            {"name": name, "shape": list(shape), "dtype": _name(dtypes[name]), "mask": predictor.masks.get(name)}
            for name, shape in shapes.items()
        ]
    else:
        columns = [column.to_dict() for column in predictor.columns]
        found["input"] = {"shape": list(shapes), "dtype": _name(dtypes), "columns": columns}
    return found


def _name(dtype: object) -> str:
    return str(dtype).removeprefix("torch.")
