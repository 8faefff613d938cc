"""Requests that schemathesis makes of the service's own description of itself."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from polyarch.prediction.predictor import Predictor

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]


@pytest.mark.parametrize("kind", ["vector", "table", "image"])
def test_no_request_is_a_defect(kind: str, predictors: dict[str, Predictor]) -> None:
    schemathesis = pytest.importorskip("schemathesis")
    served = importlib.import_module("served_examples")
    with served.running_all({kind: predictors[kind]}) as clients:
        url = str(clients[kind].base_url).rstrip("/")
        schema = schemathesis.openapi.from_url(f"{url}/openapi.json")
        operations = [found.ok() for found in schema.get_all_operations()]
        assert {operation.path for operation in operations} >= {"/predict", "/health"}
        statuses: list[int] = []
        for operation in operations:

            @settings(max_examples=200, suppress_health_check=list(HealthCheck))
            @given(case=operation.as_strategy())
            def run(case: Any) -> None:
                response = case.call(timeout=30)
                statuses.append(response.status_code)
                assert response.status_code < 500, (case, response.text)
                if response.status_code >= 400:
                    assert list(response.json()) == ["error"], response.text

            run()
        print(f"{kind}: {len(statuses)} requests, {sorted(set(statuses))}")
        assert clients[kind].get("/health").status_code == 200
