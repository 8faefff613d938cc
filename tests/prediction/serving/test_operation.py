"""What an operator sees of the service, and who may ask it."""

from __future__ import annotations

import importlib
import io
import json
import re
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import httpx
import pytest
import torch
from torch import Tensor

from polyarch.errors import InvalidInput
from polyarch.prediction.predictor import Predictor
from polyarch.prediction.serving.log import BURST, BoundedLog
from polyarch.prediction.serving.metrics import LATENCIES, Metrics
from polyarch.prediction.serving.token import read_token

TOKEN = "0123456789abcdef-secret"
ONE = {"instances": [[0, 0]]}


@pytest.fixture(scope="module")
def served() -> ModuleType:
    """The helpers of this folder."""
    return importlib.import_module("served_examples")


class TestToken:
    def test_only_health_is_open(self, served: ModuleType, predictors: dict[str, Predictor]) -> None:
        with served.running(predictors["vector"], token=TOKEN) as client:
            assert client.get("/health").status_code == 200
            for wrong in ("", "Bearer", f"Basic {TOKEN}", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", TOKEN):
                for answer in (
                    client.post("/predict", json=ONE, headers={"authorization": wrong}),
                    client.get("/metrics", headers={"authorization": wrong}),
                    client.get("/docs", headers={"authorization": wrong}),
                    client.get("/nowhere", headers={"authorization": wrong}),
                ):
                    assert answer.status_code == 401
                    assert answer.headers["www-authenticate"] == "Bearer"
                    assert TOKEN not in answer.text and answer.json()["error"].startswith("Expected")
            assert client.post("/predict", json=ONE).status_code == 401
            right = {"authorization": f"bearer {TOKEN}"}
            assert client.post("/predict", json=ONE, headers=right).status_code == 200
            assert client.get("/metrics", headers=right).status_code == 200

    def test_files(self, tmp_path: Path) -> None:
        (tmp_path / "right").write_text(f"{TOKEN}\n")
        assert read_token(tmp_path / "right") == TOKEN
        for name, content in {"empty": "", "short": "abc", "two": f"{TOKEN}\n{TOKEN}", "é": "é" * 20}.items():
            (tmp_path / name).write_text(content)
            with pytest.raises(InvalidInput, match="Expected a file with a token"):
                read_token(tmp_path / name)
        for missing in (tmp_path, tmp_path / "none", tmp_path / "right" / "below"):
            with pytest.raises(InvalidInput, match="Expected a file with a token"):
                read_token(missing)


class TestRequests:
    def test_identity_and_log(self, served: ModuleType, predictors: dict[str, Predictor]) -> None:
        log = io.StringIO()
        with served.running(predictors["vector"], log) as client:
            answer = client.post("/predict", json={"instances": [[0, 0]] * 3}, headers={"x-request-id": "mine-1.a_B"})
            assert answer.headers["x-request-id"] == "mine-1.a_B"
            hostile = client.get("/nowhere" + "/" * 3000, headers={"x-request-id": 'a"},\t{"level": "x'})
            assert re.fullmatch("[0-9a-f]{32}", hostile.headers["x-request-id"])
            assert len({client.get("/health").headers["x-request-id"] for _ in range(5)}) == 5
        lines = [json.loads(line) for line in log.getvalue().splitlines()]
        first, second = lines[:2]
        assert first.pop("seconds") > 0 and re.match(r"\d{4}-\d\d-\d\dT.*\+00:00$", first.pop("time"))
        assert first == {
            "level": "info", "event": "request", "id": "mine-1.a_B", "client": "127.0.0.1", "method": "POST",
            "path": "/predict", "status": 200, "examples": 3,
        }  # fmt: skip
        assert second["status"] == 404 and len(second["path"]) < 210
        assert second["id"] == hostile.headers["x-request-id"] and len(lines) == 7

    def test_a_defect_is_one_line_and_500(self, served: ModuleType, predictors: dict[str, Predictor]) -> None:
        def run(inputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            raise RuntimeError("inside")

        log = io.StringIO()
        with served.running(replace(predictors["vector"], forward=run), log) as client:
            answer = client.post("/predict", json=ONE)
            assert answer.status_code == 500
            assert answer.json() == {"error": "Expected to answer. Found a defect of the service."}
            assert client.get("/health").status_code == 200
        defect, request, _ = (json.loads(line) for line in log.getvalue().splitlines())
        assert defect["error"] == "RuntimeError: inside" and "in run" in defect["traceback"]
        assert defect["id"] == request["id"] == answer.headers["x-request-id"] and request["status"] == 500

    def test_requests_under_way_are_finished(self, served: ModuleType, predictors: dict[str, Predictor]) -> None:
        begun, answers = threading.Event(), []

        def run(inputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            begun.set()
            time.sleep(0.5)
            return torch.full((len(inputs), 2), 0.5), torch.zeros(len(inputs)), torch.zeros(len(inputs))

        with served.running(replace(predictors["vector"], forward=run)) as client:
            address = client.base_url.join("/predict")

            def ask() -> None:
                answers.append(httpx.post(address, json=ONE, timeout=30, trust_env=False).status_code)

            threads = [threading.Thread(target=ask) for _ in range(3)]
            for thread in threads:
                thread.start()
            assert begun.wait(20)
            time.sleep(0.3)  # the others wait for their turn
        for thread in threads:
            thread.join(20)
        assert answers == [200] * 3


class TestMetrics:
    def test_text(self, served: ModuleType, predictors: dict[str, Predictor]) -> None:
        with served.running(predictors["vector"]) as client:
            client.post("/predict", json={"instances": [[0, 0]] * 5})
            client.post("/predict", json={"instances": []})
            client.get("/nowhere")
            answer = client.get("/metrics")
        assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
        lines = answer.text.splitlines()
        for line in lines:  # the grammar of the format
            assert re.fullmatch(r'# (HELP|TYPE) \w+ .+|\w+(\{\w+="[^"]+"\})? -?[0-9.]+', line), line
        assert 'polyarch_requests_total{status="200"} 1' in lines
        assert 'polyarch_requests_total{status="422"} 1' in lines
        assert 'polyarch_requests_total{status="404"} 1' in lines
        assert "polyarch_examples_total 5" in lines
        assert "polyarch_requests_in_flight 1" in lines  # this one
        assert "polyarch_request_seconds_count 3" in lines
        buckets = [float(line.split()[1]) for line in lines if line.startswith("polyarch_request_seconds_bucket")]
        assert len(buckets) == len(LATENCIES) and buckets == sorted(buckets) and buckets[-1] == 3

    def test_workers_add_up(self) -> None:
        first = Metrics(workers=2)
        second = Metrics(2, 1, first.memory)
        for metrics, seconds in ((first, 0.005), (second, 0.0051), (second, 99.0)):
            metrics.request_began()
            metrics.request_ended(200, seconds, 2)
        second.request_began()
        text = first.text()
        assert 'polyarch_requests_total{status="200"} 3' in text and "polyarch_examples_total 6" in text
        assert 'seconds_bucket{le="0.005"} 1' in text and 'seconds_bucket{le="10"} 2' in text
        assert "polyarch_requests_in_flight 1" in text
        Metrics(2, 1, first.memory)  # replaces a worker that died
        assert "polyarch_requests_in_flight 0" in first.text() and 'status="200"} 3' in first.text()


class TestLog:
    def test_a_flood_is_cut_and_counted(self) -> None:
        stream, metrics = io.StringIO(), Metrics()
        log = BoundedLog(metrics, stream)
        for number in range(20 * BURST):
            log("request", number=number, path="/" * 100_000)
            if number % 200 == 0:
                time.sleep(0.002)  # the writer keeps up
        time.sleep(0.1)  # gives a few more tokens
        log("last")
        log.close()
        lines = [json.loads(line) for line in stream.getvalue().splitlines()]
        assert BURST <= len(lines) < 3 * BURST and max(map(len, stream.getvalue().splitlines())) < 500
        assert lines[-1]["event"] == "last"
        left_out = sum(line.get("lines_left_out", 0) for line in lines)
        assert left_out == 20 * BURST + 1 - len(lines)
        assert f"polyarch_log_lines_left_out_total {left_out}" in metrics.text()

    def test_a_log_that_nobody_reads_blocks_nothing(self, served: ModuleType, predictors: dict[str, Predictor]) -> None:
        class Stuck(io.StringIO):
            free = threading.Event()

            def write(self, text: str) -> int:
                self.free.wait(30)
                return len(text)

        log = Stuck()
        with served.running(predictors["vector"], log) as client:
            begin = time.monotonic()
            for _ in range(20):
                assert client.get("/health").status_code == 200
            assert time.monotonic() - begin < 5
            log.free.set()
