"""The service answers what the predictor says."""

from __future__ import annotations

import base64
import importlib
import io
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from types import ModuleType
from typing import Any

import httpx
import pytest
import torch
from PIL import Image
from torch import Tensor

from polyarch.errors import InvalidInput, MissingExtra
from polyarch.prediction.predictor import Predictor
from polyarch.prediction.serving import create_application

Clients = dict[str, httpx.Client]
Predictors = dict[str, Predictor]


@pytest.fixture(scope="module")
def served() -> ModuleType:
    """The helpers of this folder."""
    return importlib.import_module("served_examples")


@pytest.fixture(scope="module")
def clients(served: ModuleType, predictors: dict[str, Predictor]) -> Iterator[Any]:
    with served.running_all(predictors) as found:
        yield found


def ask(client: httpx.Client, instances: list[Any]) -> list[dict[str, Any]]:
    response = client.post("/predict", json={"instances": instances})
    assert response.status_code == 200, response.text
    found: list[dict[str, Any]] = response.json()["predictions"]
    return found


def assert_same(found: list[dict[str, Any]], predictor: Predictor, inputs: Tensor) -> None:
    expected = predictor(inputs)
    sets = predictor.sets(expected.probabilities) if predictor.sets else None
    assert len(found) == len(inputs)
    for row, answer in enumerate(found):
        probabilities = expected.probabilities[row].tolist()
        assert list(answer["probabilities"]) == list(predictor.classes)
        assert list(answer["probabilities"].values()) == pytest.approx(probabilities, abs=1e-6)
        assert answer["class"] == predictor.classes[int(expected.probabilities[row].argmax())]
        assert answer["probability"] == pytest.approx(max(probabilities), abs=1e-6)
        assert answer["entropy"] == pytest.approx(float(expected.entropy[row]), abs=1e-5)
        assert answer["mutual_information"] == pytest.approx(float(expected.mutual_information[row]), abs=1e-5)
        assert answer["flagged"] is bool(expected.flagged[row])
        assert ("set" in answer) == (sets is not None)
        if sets is not None:
            assert answer["set"] == [predictor.classes[index] for index in sets[row].nonzero().flatten().tolist()]


def test_nested_lists(clients: Clients, predictors: Predictors, examples: ModuleType) -> None:
    images = examples.images(3)
    assert_same(ask(clients["image"], images.tolist()), predictors["image"], images)
    vectors = examples.vectors(5)
    assert_same(ask(clients["vector"], vectors.tolist()), predictors["vector"], vectors)
    assert_same(ask(clients["vector"], [[1, -2]]), predictors["vector"], torch.tensor([[1.0, -2.0]]))
    assert_same(ask(clients["vector"], [[10**20, -(10**20)]]), predictors["vector"], torch.tensor([[1e20, -1e20]]))


@pytest.mark.parametrize("kind", ["PNG", "WEBP"])
def test_encoded_images(kind: str, clients: Clients, predictors: Predictors, examples: ModuleType) -> None:
    images = examples.images(3)
    instances = [{"image": encoded(image, kind)} for image in images]
    assert_same(ask(clients["image"], instances), predictors["image"], images)
    mixed = [instances[0], images[1].tolist()]
    assert_same(ask(clients["image"], mixed), predictors["image"], images[:2])


def test_photographs(clients: Clients, predictors: Predictors, examples: ModuleType) -> None:
    from polyarch.data.decoding import decode_image

    pixels = examples.images(1)[0].repeat(1, 9, 7)
    content = encoded(pixels, "JPEG")
    expected = decode_image(base64.b64decode(content), (3, 8, 8)).unsqueeze(0)
    assert_same(ask(clients["image"], [{"image": content}]), predictors["image"], expected)


def test_rows_by_name_and_in_order(clients: Clients, predictors: Predictors) -> None:
    nan = torch.nan
    inputs = torch.tensor([[31.5, 2.0, 10.0, 0.0], [nan, -1.0, 30.0, nan], [1.0, nan, nan, -1.0]])
    by_name: list[dict[str, Any]] = [
        {"income": 10, "age": 31.5, "colour": " blue ", "city": "=A"},
        {"age": None, "colour": "violet", "income": 30.0, "city": None},
        {"age": True, "colour": "NA", "income": None, "city": 7},
    ]
    order = [column.name for column in predictors["table"].columns]
    assert_same(ask(clients["table"], by_name), predictors["table"], inputs)
    in_order = [[row[name] for name in order] for row in by_name]
    assert_same(ask(clients["table"], in_order), predictors["table"], inputs)


def test_images_of_floats(predictors: Predictors, served: ModuleType, examples: ModuleType) -> None:
    """Encoded images become 0..1 where the artifact was trained on floats."""
    seen: list[Tensor] = []

    def run(inputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        seen.append(inputs)
        return torch.full((len(inputs), 5), 0.2), torch.zeros(len(inputs)), torch.zeros(len(inputs))

    image = examples.images(1)[0]
    with served.running(replace(predictors["image"], forward=run, input_dtype=torch.float32)) as client:
        ask(client, [{"image": encoded(image, "PNG")}])
    assert torch.equal(seen[0][0], image.float() / 255)


def test_health_and_documents_work_offline(clients: Clients) -> None:
    health = clients["table"].get("/health").json()
    assert health["status"] == "ok" and health["classes"] == health["names"] == ["low", "=high", "-"]
    assert health["task"] == "classification"
    assert health["input"]["shape"] == [4] and health["input"]["dtype"] == "float32"
    assert health["input"]["columns"][1] == {"name": "colour", "categories": ["red", "green", "blue"]}
    for kind, client in clients.items():
        api = client.get("/openapi.json").json()
        assert set(api["paths"]) == {"/health", "/predict"}
        assert "class" in api["components"]["schemas"]["ClassPrediction"]["properties"]
        assert "instances" in json.dumps(api["paths"]["/predict"]["post"]["requestBody"])
        page = client.get("/docs")
        assert page.status_code == 200 and "/predict" in page.text
        assert "http" not in page.text.replace(f"{client.base_url}".rstrip("/"), "")  # nothing comes from elsewhere
        assert {"image": "BASE64", "table": "colour", "vector": "[0.0, 0.0]"}[kind] in page.text


def test_one_prediction_at_a_time_and_health_meanwhile(predictors: Predictors, served: ModuleType) -> None:
    running = most = 0
    guard, go_on = threading.Lock(), threading.Event()

    def run(inputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        nonlocal running, most
        with guard:
            running += 1
            most = max(most, running)
        go_on.wait(20)
        with guard:
            running -= 1
        return torch.full((len(inputs), 2), 0.5), torch.zeros(len(inputs)), torch.zeros(len(inputs))

    with served.running(replace(predictors["vector"], forward=run)) as client:
        answers: list[int] = []

        def post() -> None:
            answers.append(client.post("/predict", json={"instances": [[0, 0]]}).status_code)

        threads = [threading.Thread(target=post) for _ in range(40)]
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + 20
        while len(answers) < 8 and time.monotonic() < deadline:  # more than may wait are sent away at once
            time.sleep(0.02)
        begin = time.monotonic()
        assert client.get("/health").status_code == 200
        assert time.monotonic() - begin < 2
        assert answers == [429] * 8
        go_on.set()
        for thread in threads:
            thread.join(30)
    assert most == 1
    assert sorted(answers) == [200] * 32 + [429] * 8


def test_limits_and_packages_are_checked(predictors: Predictors, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidInput, match="max_bytes of 1 or more"):
        create_application(predictors["vector"], max_bytes=0)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"Serving predictions needs .* 'polyarch\[serve\]'"):
        create_application(predictors["vector"])


def encoded(pixels: Tensor, kind: str) -> str:
    """(3, H, W) bytes as a file in base64."""
    buffer = io.BytesIO()
    options = {"lossless": True} if kind == "WEBP" else {}
    Image.fromarray(pixels.permute(1, 2, 0).numpy()).save(buffer, kind, **options)
    return base64.b64encode(buffer.getvalue()).decode()
