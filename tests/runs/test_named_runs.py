"""Networks that read tokens, several inputs or categories as indices, from `search` to programs, files and HTTP."""

from __future__ import annotations

import csv
import importlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pandas as pd
import pytest
import torch
from named_examples import PlainPair, Sentences, TwoTowers
from stopping import Stopping
from torch import Tensor, nn

import polyarch
from polyarch.data import load
from polyarch.errors import ConfigError, DataError, Interrupted, InvalidInput
from polyarch.nn import OneOf, Repeat
from polyarch.prediction.inputs import read_inputs
from polyarch.prediction.outputs import write_predictions
from polyarch.prediction.predictor import Predictor
from polyarch.runs.display import Quiet
from polyarch.runs.settings import RunSettings, with_overrides
from polyarch.runs.stage import perform
from polyarch.runs.start import Beginning
from polyarch.training import StopRequest

ROWS = 60
TINY = {
    "train.epochs": 2,
    "train.batch_size": 16,
    "scores.steps": 2,
    "rank.architectures": 0,
    "search.budget": 2,
    "retrain.epochs": 1,
    "retrain.seeds": 1,
    "retrain.members": 1,
    "retrain.random_architectures": 0,
}


def labels() -> np.ndarray:
    return np.arange(ROWS) % 2


def ragged() -> list[list[int]]:
    """Sentences whose last token tells the class."""
    generator = np.random.default_rng(0)
    return [[*generator.integers(1, 5, row % 4).tolist(), 5 + row % 2] for row in range(ROWS)]


def towers() -> dict[str, Any]:
    generator = np.random.default_rng(0)
    image, table = generator.integers(0, 256, (ROWS, 5, 5), dtype=np.uint8), generator.normal(size=(ROWS, 3))
    table[:, 1] += 3 * labels()
    return {"image": image, "table": table}


def as_tensors(values: dict[str, Any]) -> dict[str, Tensor]:
    """As networks get them: channels first, single precision."""
    return {"image": torch.from_numpy(values["image"])[:, None], "table": torch.from_numpy(values["table"]).float()}


def build_words(vocabulary: dict[str, int], classes: int) -> nn.Module:
    return Sentences(vocabulary["tokens"], classes)


def build_towers(input_shape: dict[str, tuple[int, ...]], classes: int) -> nn.Module:
    return TwoTowers(input_shape["image"][0], input_shape["table"][0], classes)


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> polyarch.SearchResult:
    folder = tmp_path_factory.mktemp("words") / "run"
    settings = {**TINY, "programs": ["onnx"]}
    return polyarch.search((ragged(), labels()), module=build_words, out=folder, quiet=True, settings=settings)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> polyarch.SearchResult:
    folder = tmp_path_factory.mktemp("towers") / "run"
    return polyarch.search((towers(), labels()), module=build_towers, out=folder, quiet=True, settings=TINY)


def metadata_of(result: polyarch.SearchResult) -> Any:
    return json.loads((result.folder / "artifact" / "metadata.json").read_text())


class TestTokens:
    def test_the_program_alone_predicts_the_same(self, words: polyarch.SearchResult) -> None:
        by_module, by_program = words.predictor(), Predictor.load(words.folder / "artifact")
        sentences = ragged()
        expected = by_module(sentences).probabilities
        torch.testing.assert_close(by_program({"tokens": sentences}).probabilities, expected, rtol=0, atol=1e-5)

    def test_metadata(self, words: polyarch.SearchResult) -> None:
        metadata = metadata_of(words)
        assert metadata["inputs"] == [
            {"name": "tokens", "shape": [4], "dtype": "int64", "mask": "mask"},
            {"name": "mask", "shape": [4], "dtype": "bool", "mask": None},
        ]
        assert metadata["preprocessing"]["inputs"]["tokens"] == {"kind": "identity", "vocabulary": 7}
        assert set(metadata["exports"]) == {"model.onnx"}

    def test_one_sentence_does_not_depend_on_its_padding(self, words: polyarch.SearchResult) -> None:
        predictor = words.predictor()
        tokens = torch.tensor([[1, 5, 0, 0], [1, 5, 3, 2]])
        mask = torch.tensor([[True, True, False, False]] * 2)
        found = predictor({"tokens": tokens, "mask": mask}).probabilities
        torch.testing.assert_close(found[0], found[1])
        torch.testing.assert_close(predictor([[1, 5]]).probabilities[0], found[0])

    def test_a_file_of_tokens(self, words: polyarch.SearchResult, tmp_path: Path) -> None:
        predictor = words.predictor()
        np.savez(tmp_path / "new.npz", tokens=np.array([[1, 5], [2, 6]]))
        found = predictor(next(read_inputs(tmp_path / "new.npz", predictor).batches))
        torch.testing.assert_close(found.probabilities, predictor([[1, 5], [2, 6]]).probabilities)
        np.savez(tmp_path / "new.npz", tokens=np.array([[0.5, 1]]))
        with pytest.raises(DataError, match="integers in 'tokens' of"):
            read_inputs(tmp_path / "new.npz", predictor)

    @pytest.mark.parametrize("module", [True, False])
    def test_unknown_tokens_are_refused(self, words: polyarch.SearchResult, module: bool) -> None:
        predictor = words.predictor() if module else Predictor.load(words.folder / "artifact")
        with pytest.raises(DataError, match="tokens that the network has embeddings for"):
            predictor([[1, 99]])
        with pytest.raises(DataError, match="0 or more"):
            predictor([[1, -1]])
        with pytest.raises(DataError, match=r"up to 4 tokens in 'tokens'\. Found 5"):
            predictor([[1, 2, 3, 4, 5]])

    def test_over_http(self, words: polyarch.SearchResult) -> None:
        predictor = words.predictor()
        expected = predictor([[1, 2, 5], [6]]).probabilities
        with importlib.import_module("served_examples").running(predictor) as client:
            assert client.get("/health").json()["inputs"] == metadata_of(words)["inputs"]
            assert '{"tokens": [0, 0, 0, 0]}' in client.get("/docs").text.replace("&#34;", '"')
            for instances in ([[1, 2, 5], [6]], [{"tokens": [1, 2, 5]}, {"tokens": [6]}]):
                answer = client.post("/predict", json={"instances": instances})
                assert answer.status_code == 200, answer.text
                rows = [list(one["probabilities"].values()) for one in answer.json()["predictions"]]
                torch.testing.assert_close(torch.tensor(rows), expected, rtol=0, atol=1e-6)
            for instance, words_of_error in (
                ([1, 2, 3, 4, 5], "a list of up to 4 tokens in instances[0].tokens. Got 5."),
                ([1, -2], "Expected numbers 0.."),
                ([1, 0.5], "Got a fraction."),
                ([1, True], "Got a truth value."),
                ([1, 99], "Expected tokens that the network has embeddings for."),
                ("words", "Expected an object with tokens in instances[0]. Got a text."),
                ({"words": [1]}, "Got 'words'."),
                ({"tokens": [1, 2, 3, 4], "mask": [True, True, 1, False]}, "true or false in instances[0].mask[2]"),
            ):
                answer = client.post("/predict", json={"instances": [instance]})
                assert answer.status_code == 422 and words_of_error in answer.json()["error"], answer.text


class TestSeveralInputs:
    def test_programs_have_one_named_input_each(self, pair: polyarch.SearchResult) -> None:
        inputs = as_tensors(towers())
        expected = pair.predictor()(inputs).probabilities
        torch.testing.assert_close(
            Predictor.load(pair.folder / "artifact")(inputs).probabilities, expected, rtol=0, atol=1e-5
        )
        program = torch.export.load(pair.folder / "artifact" / "model.pt2").module()
        with torch.no_grad():
            torch.testing.assert_close(program(table=inputs["table"], image=inputs["image"])[0], expected)
        session = onnxruntime.InferenceSession(pair.folder / "artifact" / "model.onnx")
        assert [(one.name, one.shape[1:]) for one in session.get_inputs()] == [("image", [1, 5, 5]), ("table", [3])]

    def test_every_input_is_preprocessed_by_its_kind(self, pair: polyarch.SearchResult) -> None:
        metadata = metadata_of(pair)
        assert [(one["name"], one["dtype"]) for one in metadata["inputs"]] == [("image", "uint8"), ("table", "float32")]
        table = metadata["preprocessing"]["inputs"]["table"]
        assert table["kind"] == "normalisation" and len(table["mean"]) == 3

    def test_the_architecture_is_of_both_towers(self, pair: polyarch.SearchResult) -> None:
        artifact = pair.results.artifact
        assert artifact is not None and set(artifact["architecture"]) == {"picture", "row"}
        assert pair.results.data["input_shape"] == {"image": [1, 5, 5], "table": [3]}
        assert '"table": torch.zeros(1, 3, dtype=torch.float32)' in (pair.folder / "report.html").read_text()

    def test_a_file_of_arrays(self, pair: polyarch.SearchResult, tmp_path: Path) -> None:
        predictor, values = pair.predictor(), towers()
        np.savez(tmp_path / "new.npz", **values, other=np.zeros(1))
        inputs = read_inputs(tmp_path / "new.npz", predictor)
        write_predictions(tmp_path / "out.csv", predictor, inputs, lambda *_: None)
        with (tmp_path / "out.csv").open() as file:
            rows = list(csv.DictReader(file))
        found = torch.tensor([[float(row["p:0"]), float(row["p:1"])] for row in rows])
        torch.testing.assert_close(found, predictor(as_tensors(values)).probabilities, rtol=0, atol=1e-5)
        np.savez(tmp_path / "new.npz", image=values["image"])
        with pytest.raises(DataError, match=r"an array 'table' in .* Found image of the inputs"):
            read_inputs(tmp_path / "new.npz", predictor)

    def test_over_http(self, pair: polyarch.SearchResult) -> None:
        predictor, values = pair.predictor(), towers()
        image, table = values["image"][0].tolist(), values["table"][0].tolist()
        with importlib.import_module("served_examples").running(predictor) as client:
            answer = client.post("/predict", json={"instances": [{"table": table, "image": [image]}]})
            assert answer.status_code == 200, answer.text
            expected = predictor({name: one[:1] for name, one in as_tensors(values).items()}).probabilities[0]
            found = list(answer.json()["predictions"][0]["probabilities"].values())
            torch.testing.assert_close(torch.tensor(found), expected, rtol=0, atol=1e-6)
            answer = client.post("/predict", json={"instances": [{"table": table}]})
            assert answer.json()["error"] == "Expected 'image' in instances[0]. Got none of that name."

    def test_what_does_not_fit_is_refused(self, pair: polyarch.SearchResult) -> None:
        predictor, inputs = pair.predictor(), as_tensors(towers())
        with pytest.raises(InvalidInput, match=r"inputs image, table\. Got image"):
            predictor({"image": inputs["image"]})
        with pytest.raises(InvalidInput, match=r"by name\. Got Tensor"):
            predictor(inputs["image"])
        with pytest.raises(InvalidInput, match="Expected examples of shape"):
            predictor({**inputs, "table": inputs["table"][:, :2]})


def test_a_resumed_run_ends_with_the_same_bits(tmp_path: Path) -> None:
    asked = RunSettings.parse(
        with_overrides({}, {"space.kind": "module", "space.module": "<given>", "programs": [], "workers": 1, **TINY}),
        "the test",
    )

    def beginning(out: str, at: int | None = None) -> Beginning:
        request = StopRequest()
        display = Quiet() if at is None else Stopping(at, request)
        return Beginning(tmp_path / out, display, request, data=load((towers(), labels())), builder=build_towers)

    whole = perform(beginning("whole").start(asked))
    with pytest.raises(Interrupted):
        perform(beginning("stopped", at=3).start(asked))
    resumed = perform(beginning("stopped").resume(None, {}, "the test"))
    assert _bits(whole) == _bits(resumed)
    weights = [(tmp_path / out / "artifact" / "weights.safetensors").read_bytes() for out in ("whole", "stopped")]
    assert weights[0] == weights[1]


def _bits(results: Any) -> Any:
    return {name: value for name, value in results.model_dump(mode="json").items() if name != "seconds"}


class Embedding(nn.Module):
    """Embeds every categorical column beside the numbers."""

    def __init__(self, numbers: int, categories: tuple[int, ...], classes: int) -> None:
        super().__init__()
        self.embeddings = nn.ModuleList(nn.Embedding(size, 2, padding_idx=0) for size in categories)
        width = numbers + 2 * len(categories)
        self.body = OneOf("body", plain=nn.Linear(width, 4), deep=nn.Sequential(nn.Linear(width, 4), nn.ReLU()))
        self.head = nn.Linear(4, classes)

    def forward(self, numeric: Tensor, categorical: Tensor) -> Tensor:
        embedded = [table(codes) for table, codes in zip(self.embeddings, categorical.unbind(1), strict=True)]
        logits: Tensor = self.head(self.body(torch.cat([numeric, *embedded], 1)))
        return logits


class TestCategories:
    def frame(self) -> pd.DataFrame:
        generator = np.random.default_rng(0)
        colour = generator.choice(["red", "green", "blue"], ROWS)
        size = np.where(generator.random(ROWS) < 0.1, np.nan, generator.normal(size=ROWS))
        shape = generator.choice(["round", "square"], ROWS)
        return pd.DataFrame({"size": size, "colour": colour, "shape": shape, "label": (colour == "red").astype(int)})

    def test_a_function_that_asks_for_categories_gets_indices(self, tmp_path: Path) -> None:
        offered: list[Any] = []

        def build(input_shape: dict[str, tuple[int, ...]], categories: tuple[int, ...], classes: int) -> nn.Module:
            offered.append((input_shape, categories))
            return Embedding(input_shape["numeric"][0], categories, classes)

        self.frame().to_csv(tmp_path / "table.csv", index=False)
        result = polyarch.search(
            tmp_path / "table.csv", module=build, out=tmp_path / "run", quiet=True, report=False,
            settings={**TINY, "programs": ["onnx"]},
        )  # fmt: skip
        assert offered[0] == ({"numeric": (2,), "categorical": (2,)}, (4, 3))  # a number and its mark
        by_module, by_program = result.predictor(), Predictor.load(result.folder / "artifact")
        self.frame().drop(columns="label").assign(colour="pink").to_csv(tmp_path / "new.csv", index=False)
        rows = next(read_inputs(tmp_path / "new.csv", by_module).batches)
        torch.testing.assert_close(by_program(rows).probabilities, by_module(rows).probabilities, rtol=0, atol=1e-5)

    def test_a_network_asks_by_the_arguments_of_its_forward(self, tmp_path: Path) -> None:
        self.frame().to_csv(tmp_path / "table.csv", index=False)
        settings = {**TINY, "programs": []}
        network = Embedding(2, (4, 3), 2)
        polyarch.search(
            tmp_path / "table.csv", module=network, out=tmp_path / "run", quiet=True, report=False, settings=settings
        )

    def test_other_data_have_no_categories(self, tmp_path: Path) -> None:
        def build(categories: tuple[int, ...], classes: int) -> nn.Module:
            return Embedding(2, categories, classes)

        with pytest.raises(InvalidInput, match="Expected a table for a network that asks for categories"):
            polyarch.search((towers()["table"], labels()), module=build, out=tmp_path / "run", quiet=True)


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        (lambda: np.arange(3 * ROWS).reshape(ROWS, 3), "integer tokens: bring a network of your own with --module"),
        (towers, "several inputs, image, table: bring a network of your own with --module"),
    ],
)
@pytest.mark.parametrize("method", [None, "darts", "variational-depth", "stochastic", "posterior-guided"])
def test_built_in_spaces_say_what_to_bring(
    inputs: Callable[[], Any], words: str, method: str | None, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=words):
        polyarch.search((inputs(), labels()), out=tmp_path / "run", method=method, quiet=True)
    assert not (tmp_path / "run").exists()


class DeepTowers(TwoTowers):
    """The depth of the joint body is the only choice."""

    def __init__(self, channels: int, columns: int, classes: int) -> None:
        super().__init__(channels, columns, classes)
        self.picture, self.row = nn.Conv2d(channels, 4, 3), nn.Linear(columns, 4)  # type: ignore[assignment]
        self.head = nn.Sequential(  # type: ignore[assignment]
            Repeat("depth", [nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.BatchNorm1d(8)) for _ in range(3)]),
            nn.Linear(8, classes),
        )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "build"),
    [
        ("darts", build_towers),
        ("sotl-darts", build_towers),
        ("gdas", build_towers),
        ("variational-depth", lambda classes: DeepTowers(1, 3, classes)),
        ("deterministic-depth", lambda classes: DeepTowers(1, 3, classes)),
        ("stochastic", build_towers),
        ("posterior-guided", lambda classes: PlainPair(classes)),
    ],
)
def test_every_method_takes_several_inputs(method: str, build: Any, tmp_path: Path) -> None:
    """To the programs, which agree with the networks (or they would not be written)."""
    settings: dict[str, Any] = {"train.epochs": 2, "retrain.epochs": 1, "retrain.seeds": 1}
    if method == "posterior-guided":
        settings |= {"guided.candidates": 4, "guided.random_candidates": 2}
    result = polyarch.search(
        (towers(), labels()), module=build, method=method, out=tmp_path / "run", quiet=True, settings=settings
    )
    assert result.results.default is not None
    folder = result.folder / result.results.default
    assert (folder / "model.pt2").exists() and (folder / "model.onnx").exists()
    inputs = as_tensors(towers())
    found = Predictor.load(folder)(inputs).probabilities
    torch.testing.assert_close(result.predictor()(inputs).probabilities, found, rtol=0, atol=1e-5)
