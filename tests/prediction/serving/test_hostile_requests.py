"""Whatever a request holds, the answer is one sentence and a status of 400 to 499."""

from __future__ import annotations

import base64
import importlib
import io
import json
import random
import socket
import struct
import zlib
from collections.abc import Iterator
from dataclasses import replace
from types import ModuleType
from typing import Any

import httpx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from torch import Tensor

from polyarch.prediction.predictor import Predictor

Clients = dict[str, httpx.Client]
JSON = {"content-type": "application/json"}
ROW = {"age": 1, "colour": "red", "income": 2, "city": None}


@pytest.fixture(scope="module")
def served() -> ModuleType:
    """The helpers of this folder."""
    return importlib.import_module("served_examples")


@pytest.fixture(scope="module")
def clients(served: ModuleType, predictors: dict[str, Predictor]) -> Iterator[Any]:
    with served.running_all(predictors) as found:
        yield found


def refused(response: httpx.Response, status: int) -> str:
    assert response.status_code == status, response.text
    content = response.json()
    assert list(content) == ["error"]
    sentence: str = content["error"]
    assert sentence.startswith("Expected") and sentence.endswith(".") and "\n" not in sentence and len(sentence) < 400
    assert "Traceback" not in sentence and ".py" not in sentence
    return sentence


def base64_of(content: bytes) -> dict[str, str]:
    return {"image": base64.b64encode(content).decode()}


def png(width: int, height: int, data: bytes = b"") -> bytes:
    """A small file that claims any size."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b"")


def gif() -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8)).save(buffer, "GIF")
    return buffer.getvalue()


@pytest.mark.parametrize("kind", ["image", "table", "vector"])
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"not json",
        b"\xff\xfe\x00",
        b"null",
        b"3",
        b'"instances"',
        b"[]",
        b"{}",
        b'{"instances": null}',
        b'{"instances": {}}',
        b'{"instances": []}',
        b'{"instances": [null]}',
        b'{"instances": ["a"]}',
        b'{"instances": [1]}',
        b'{"instances": [true]}',
        b'{"instances": [[]]}',
        b'{"instances": [{}]}',
        b'{"instances": [[NaN, 1]]}',
        b'{"instances": [[Infinity, 1]]}',
        b'{"instances": [[-Infinity, 1]]}',
        b'{"instances": [[1e999, 1]]}',
        b'{"instances": [[-1e999, 1]]}',
        b'{"instances": [["1", "2"]]}',
        b'{"instances": [[true, false]]}',
        b'{"instances": [[[1], [2]]]}',
        b'{"instances": [[1]]}',
        b'{"instances": [[1, 2, 3]]}',
        b'{"instances": [[1, 1' + b"0" * 400 + b"]]}",
        b'{"instances": [[1, 1' + b"0" * 9000 + b"]]}",
        b'{"instances": [[1, 1e39]]}',
        b'{"instances": [{"image": "AAAA"}], "other": 1}',
        b'{"instances": [{"\\ud800": 1}]}',
        b'{"instances": [{"' + b"x" * 10_000 + b'": 1}]}',
        b'{"instances": ' + b"[" * 100_000 + b"]" * 90_000,
        b'{"instances": [' + b"[" * 90_000 + b"]" * 90_000 + b"]}",
        b'{"instances": [' + b'{"a":' * 20_000 + b"1" + b"}" * 20_000 + b"]}",
        b'{"instances": [[0, 0]' + b", [0, 0]" * 8 + b"]}",
    ],
    ids=lambda body: repr(body[:30])[2:-1],
)
def test_wrong_bodies(kind: str, body: bytes, clients: Clients) -> None:
    refused(clients[kind].post("/predict", content=body, headers=JSON), 422)


@pytest.mark.parametrize(
    ("instance", "words"),
    [
        ({**ROW, "age": "old"}, "number in column 'age' of instances"),
        ({**ROW, "age": [1]}, "number in column 'age'"),
        ({**ROW, "age": 1e39}, "below 3.4e38"),
        ({**ROW, "age": 10**400}, "below 3.4e38"),
        ({**ROW, "colour": {"a": 1}}, "Got an object"),
        ({**ROW, "colour": True}, "Got a truth value"),
        ({**ROW, "colour": 10**400}, "below 3.4e38"),
        ({**ROW, "size": 3}, "Got 'size'"),
        ({"age": 1}, "'colour' in instances"),
        ([1, "red", 2], "Expected 4 values"),
        ([1, 2, 3, 4, 5], "Expected 4 values"),
        (["red", 1, 2, 3], "number in column 'age'"),
        ({"image": "AAAA"}, "columns of the table"),
    ],
)
def test_wrong_rows(instance: Any, words: str, clients: Clients) -> None:
    assert words in refused(clients["table"].post("/predict", json={"instances": [ROW, instance]}), 422)


@pytest.mark.parametrize(
    ("instance", "words"),
    [
        ({"image": "no base64!"}, "base64"),
        ({"image": "AAA"}, "base64"),
        ({"image": "ä"}, "base64"),
        ({"image": ""}, "PNG, JPEG or WebP"),
        ({"image": None}, "another object"),
        ({"image": [1]}, "another object"),
        ({"image": "AAAA", "more": 1}, "another object"),
        ({"photo": "AAAA"}, "another object"),
        (base64_of(b"not an image"), "PNG, JPEG or WebP"),
        (base64_of(gif()), "PNG, JPEG or WebP"),
        (base64_of(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n"), "PNG, JPEG or WebP"),
        (base64_of(b"<svg xmlns='http://www.w3.org/2000/svg'/>"), "PNG, JPEG or WebP"),
        (base64_of(png(8, 8)), "readable image"),
        (base64_of(png(2000, 2000)), "fewer pixels"),
        (base64_of(png(30_000, 30_000)), "fewer pixels"),
        (base64_of(png(10_000, 10_000)), "fewer pixels"),
        (base64_of(png(2**31 - 1, 2**31 - 1)), "Expected"),
        (base64_of(png(0, 0)), "Expected"),
        (base64_of(png(8, 8)[:30]), "Expected"),
        ([[[0] * 8] * 8] * 2, "list of 3"),
        ([[[0] * 8] * 7] * 3, "list of 8"),
        ([[[0] * 8] * 7 + [[0] * 9]] * 3, "list of 8"),
        ([[[0] * 8] * 7 + [8]] * 3, "nested lists of shape 8"),
        ([[[256] * 8] * 8] * 3, "0..255"),
        ([[[-1] * 8] * 8] * 3, "0..255"),
        ([[[0.5] * 8] * 8] * 3, "whole numbers"),
        ([[["0"] * 8] * 8] * 3, "Got a text"),
        ([[[None] * 8] * 8] * 3, "Got null"),
        ([[[True] * 8] * 8] * 3, "Got a truth value"),
        ([[[[0]] * 8] * 8] * 3, "Got a list"),
    ],
)
def test_wrong_images(instance: Any, words: str, clients: Clients) -> None:
    assert words in refused(clients["image"].post("/predict", json={"instances": [instance]}), 422)


def test_many_large_images_are_counted_together(clients: Clients) -> None:
    width, height = 600, 600
    instance = base64_of(png(width, height, b"\x00" * (3 * width + 1) * height))
    assert clients["image"].post("/predict", json={"instances": [instance] * 2}).status_code == 200
    sentence = refused(clients["image"].post("/predict", json={"instances": [instance] * 3}), 422)
    assert "instances[2]" in sentence


def test_too_many_bytes(clients: Clients) -> None:
    client = clients["vector"]
    small, large = b'{"instances": [[0, 0]]}', b" " * 200_001

    def pieces(count: int) -> Iterator[bytes]:
        for _ in range(count):
            yield b" " * 10_000

    assert client.post("/predict", content=small + b" " * (200_000 - len(small)), headers=JSON).status_code == 200
    refused(client.post("/predict", content=large, headers=JSON), 413)
    refused(client.post("/predict", content=large * 100, headers=JSON), 413)
    refused(client.post("/predict", content=pieces(21), headers=JSON), 413)  # chunked: no length is stated
    refused(client.post("/predict", content=pieces(3000), headers=JSON), 413)
    assert client.post("/predict", content=small, headers=JSON).status_code == 200


@pytest.mark.parametrize("length", ["999999999999", "9" * 100, "-5", "abc", "5"])
def test_lies_about_the_length(length: str, clients: Clients) -> None:
    """Over a bare socket, because no client would send this."""
    client = clients["vector"]
    head = f"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", client.base_url.port or 0), timeout=30) as connection:
        connection.sendall(head.encode() + b'{"instances": [[0, 0]]}')
        connection.shutdown(socket.SHUT_WR)
        answer = connection.recv(65536).decode()
    assert answer.startswith("HTTP/1.1 4") or answer == ""  # nothing, where the rest never came
    assert client.get("/health").status_code == 200


def test_chunks_without_end(clients: Clients) -> None:
    client = clients["vector"]
    head = "POST /predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    with socket.create_connection(("127.0.0.1", client.base_url.port or 0), timeout=30) as connection:
        connection.sendall(head.encode())
        for _ in range(30):
            connection.sendall(b"2710\r\n" + b" " * 10_000 + b"\r\n")
        answer = connection.recv(65536).decode()
    assert answer.startswith("HTTP/1.1 413")


def test_slow_requests_are_given_up(clients: Clients, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polyarch.prediction.serving.request_body.READING_SECONDS", 0.3)
    client = clients["vector"]
    head = "POST /predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
    with socket.create_connection(("127.0.0.1", client.base_url.port or 0), timeout=30) as connection:
        connection.sendall(head.encode())
        assert connection.recv(65536).decode().startswith("HTTP/1.1 408")


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"content-type": ""},
        {"content-type": "text/plain"},
        {"content-type": "application/x-www-form-urlencoded"},
        {"content-type": "multipart/form-data; boundary=x"},
        {**JSON, "content-encoding": "gzip"},
    ],
)
def test_other_kinds_of_content(headers: dict[str, str], clients: Clients) -> None:
    refused(clients["vector"].post("/predict", content=b'{"instances": [[0, 0]]}', headers=headers), 415)


def test_other_addresses_and_methods(clients: Clients) -> None:
    client = clients["vector"]
    refused(client.get("/predict"), 405)
    refused(client.delete("/health"), 405)
    for path in ("/", "/favicon.ico", "/../../etc/passwd", "/predict/x", "/%00", "/redoc"):
        refused(client.get(path), 404)
    kinds = {"content-type": "Application/JSON; charset=utf-8"}
    assert client.post("/predict", content=b'{"instances": [[0, 0]]}', headers=kinds).status_code == 200


def test_what_networks_make_not_a_number_of(
    predictor_of_nothing: Predictor, served: ModuleType, clients: Clients
) -> None:
    answer = clients["vector"].post("/predict", json={"instances": [[3.4e38, -3.4e38]]})
    assert answer.status_code == 200 or "too large for the network" in refused(answer, 422)
    with served.running(predictor_of_nothing) as client:
        sentence = refused(client.post("/predict", json={"instances": [[0, 0]]}), 422)
    assert "Found NaN for example 0" in sentence


@pytest.fixture
def predictor_of_nothing(predictors: dict[str, Predictor]) -> Predictor:
    def run(inputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        nothing = torch.full((len(inputs),), torch.nan)
        return torch.full((len(inputs), 2), torch.nan), nothing, nothing

    return replace(predictors["vector"], forward=run)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just("red"),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["age", "colour", "income", "city", "image", "x"]), inner, max_size=4)
    ),
    max_leaves=12,
)


@settings(max_examples=150)
@given(instances=st.lists(VALUES, max_size=3), kind=st.sampled_from(["image", "table", "vector"]))
def test_random_json(instances: list[Any], kind: str, clients: Clients) -> None:
    body = json.dumps({"instances": instances})
    assert clients[kind].post("/predict", content=body.encode(), headers=JSON).status_code in (200, 422)


@settings(max_examples=60)
@given(
    row=st.fixed_dictionaries({name: st.none() | st.floats() | st.integers() | st.text(max_size=5) for name in ROW}),
    as_list=st.booleans(),
)
def test_random_rows(row: dict[str, Any], as_list: bool, clients: Clients) -> None:
    body = json.dumps({"instances": [list(row.values()) if as_list else row]})
    assert clients["table"].post("/predict", content=body.encode(), headers=JSON).status_code in (200, 422)


def test_random_bytes(clients: Clients, examples: ModuleType) -> None:
    generator = random.Random(0)
    body = json.dumps({"instances": [ROW, list(ROW.values())]}).encode()
    for _ in range(150):
        damaged = bytearray(body)
        for _ in range(generator.randrange(1, 4)):
            damaged[generator.randrange(len(damaged))] = generator.randrange(256)
        answer = clients["table"].post("/predict", content=bytes(damaged), headers=JSON)
        assert answer.status_code in (200, 422)


def test_random_damage_to_images(clients: Clients, examples: ModuleType) -> None:
    generator = random.Random(0)
    for kind in ("PNG", "JPEG", "WEBP"):
        buffer = io.BytesIO()
        Image.fromarray(examples.images(1)[0].permute(1, 2, 0).numpy()).resize((40, 40)).save(buffer, kind)
        for _ in range(60):
            damaged = bytearray(buffer.getvalue())
            for _ in range(generator.randrange(1, 6)):
                damaged[generator.randrange(len(damaged))] = generator.randrange(256)
            answer = clients["image"].post("/predict", json={"instances": [base64_of(bytes(damaged))]})
            assert answer.status_code in (200, 422)
