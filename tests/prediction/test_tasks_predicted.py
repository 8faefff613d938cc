"""Numbers, labels and a user's own outputs: from an artifact to tensors, tables, metrics and messages."""

from __future__ import annotations

import csv
import importlib
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor

from polyarch.data import Column
from polyarch.errors import InvalidInput
from polyarch.export import Artifact, Program, write_artifact
from polyarch.prediction.inputs import read_inputs
from polyarch.prediction.outputs import PredictionSummary, write_predictions
from polyarch.prediction.predictor import Predictor
from polyarch.prediction.rows import columns_of, messages_of
from polyarch.tasks import Calibration, OwnTask, Regression

COLUMNS = (Column("a", None), Column("b", None))


def own_artifact(examples: ModuleType) -> Artifact:
    """The same networks as of two numbers, whose four outputs mean something else."""
    task = OwnTask(lambda outputs, targets: (outputs - targets).square().sum(1), size=4)
    artifact: Artifact = examples.numbers_artifact(2)
    return replace(artifact, task=task, calibration=Calibration(threshold=0.2))


@pytest.fixture(scope="module")
def artifacts(examples: ModuleType) -> dict[str, Artifact]:
    return {
        "numbers": examples.numbers_artifact(2),
        "labels": examples.labels_artifact(2),
        "own": own_artifact(examples),
    }


@pytest.fixture(scope="module")
def found(artifacts: dict[str, Artifact], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Predictor]:
    folder = tmp_path_factory.mktemp("tasks")
    for kind, artifact in artifacts.items():
        write_artifact(folder / kind, artifact)
    return {kind: Predictor.load(folder / kind) for kind in artifacts}


@pytest.mark.parametrize("kind", ["numbers", "labels", "own"])
def test_a_predictor_reads_what_the_program_returns(
    kind: str, artifacts: dict[str, Artifact], found: dict[str, Predictor], examples: ModuleType
) -> None:
    inputs = examples.vectors(300)  # more than a batch
    predictions = found[kind](inputs)
    with torch.no_grad():
        expected = Program.of(artifacts[kind])(inputs)
    assert list(predictions.values) == list(artifacts[kind].task.readouts)
    for name, value in zip(predictions.values, expected, strict=True):
        torch.testing.assert_close(getattr(predictions, name), value)
    torch.testing.assert_close(predictions.uncertainty, artifacts[kind].task.uncertainty(expected))
    assert torch.equal(predictions.flagged, predictions.uncertainty > artifacts[kind].calibration.threshold)
    assert 0 < int(predictions.flagged.sum()) < 300
    assert found[kind].classes == () and found[kind].sets is None
    nothing = found[kind](torch.empty(0, 2))
    assert [value.shape[1:] for value in nothing.values.values()] == [value.shape[1:] for value in expected]
    with pytest.raises(AttributeError, match=r"Expected one of .* Got 'nonsense'"):
        _ = predictions.nonsense


def test_what_is_predicted_in_plain_values(found: dict[str, Predictor], examples: ModuleType) -> None:
    inputs = examples.vectors(5)
    assert found["numbers"].predict(inputs) == found["numbers"](inputs).mean.tolist()
    labels = found["labels"].predict(inputs)
    present = found["labels"].predict_proba(inputs) >= 0.5
    assert [len(row) for row in labels] == present.sum(1).tolist() and {name for row in labels for name in row}
    assert found["own"].predict(inputs) == found["own"](inputs).outputs.tolist()


def test_intervals_are_those_of_the_calibration(found: dict[str, Predictor], examples: ModuleType) -> None:
    predictions = found["numbers"](examples.vectors(50))
    corrections = torch.tensor(examples.INTERVALS["corrections"])
    torch.testing.assert_close(predictions.high - predictions.mean, corrections * predictions.std, rtol=1e-4, atol=0.05)
    torch.testing.assert_close(
        predictions.std.square(), predictions.noise_std.square() + predictions.disagreement_std.square()
    )


def test_messages(found: dict[str, Predictor], examples: ModuleType) -> None:
    inputs = examples.vectors(3)
    number, label, own = (messages_of(found[kind](inputs), found[kind])[1] for kind in ("numbers", "labels", "own"))
    assert list(number) == [*Regression.readouts, "flagged"]
    assert list(number["mean"]) == ["weight", "=price"]
    assert number["mean"]["=price"] == float(found["numbers"](inputs).mean[1, 1])
    assert list(label) == ["labels", "probabilities", "entropy", "mutual_information", "flagged"]
    assert label["labels"] == [name for name, p in label["probabilities"].items() if p >= 0.5]
    assert list(own) == ["outputs", "disagreement", "flagged"] and len(own["outputs"]) == 4


def test_the_service_answers(found: dict[str, Predictor], examples: ModuleType) -> None:
    served = importlib.import_module("served_examples")
    inputs = examples.vectors(2)
    for kind, schema in (("numbers", "NumberPrediction"), ("labels", "LabelPrediction"), ("own", "OutputPrediction")):
        with served.running(found[kind]) as client:
            answer = client.post("/predict", json={"instances": inputs.tolist()}).json()["predictions"]
            health, api = client.get("/health").json(), client.get("/openapi.json").json()
            assert client.get("/docs").status_code == 200
        assert answer == messages_of(found[kind](inputs), found[kind])
        assert set(answer[0]) == set(api["components"]["schemas"][schema]["properties"])
        assert (health["task"], health["classes"]) == (found[kind].task.kind, [])
        assert health["names"] == list(found[kind].task.names)


def written(path: Path, predictor: Predictor, frame: pd.DataFrame) -> tuple[list[dict[str, str]], PredictionSummary]:
    """The rows of predictions.csv for a table."""
    frame.to_csv(path.with_name("inputs.csv"), index=False)
    inputs = read_inputs(path.with_name("inputs.csv"), predictor)
    summary = write_predictions(path, predictor, inputs, lambda done, total, text: None)
    with path.open(newline="") as file:
        return list(csv.DictReader(file)), summary


def as_table(predictor: Predictor) -> Predictor:
    """The same for a table of two columns."""
    return replace(predictor, columns=COLUMNS)


def frame_of(inputs: Tensor) -> pd.DataFrame:
    return pd.DataFrame(inputs.numpy(), columns=["a", "b"])


def test_tables_of_numbers(found: dict[str, Predictor], examples: ModuleType, tmp_path: Path) -> None:
    predictor, inputs = as_table(found["numbers"]), examples.vectors(20)
    predictions = predictor(inputs)
    targets = torch.tensor([3.0, 5e5]) + torch.tensor([0.1, 1e5]) * torch.randn(20, 2, generator=torch.Generator())
    frame = frame_of(inputs).assign(
        weight=targets[:, 0].numpy(), **{"=price": targets[:, 1].numpy()}, ID=[f"x{i}" for i in range(20)]
    )
    rows, summary = written(tmp_path / "out.csv", predictor, frame)
    measures = ("prediction", "std", "noise_std", "disagreement_std", "low", "high")
    assert list(rows[0]) == ["id", *(f"{one}:{name}" for name in ("weight", "=price") for one in measures), "flag"]
    assert [row["id"] for row in rows] == [f"x{i}" for i in range(20)]
    assert [float(row["high:=price"]) for row in rows] == pytest.approx(predictions.high[:, 1].tolist(), rel=1e-6)
    assert [row["flag"] for row in rows] == [str(int(flag)) for flag in predictions.flagged]
    relative = ((predictions.mean - targets) / torch.tensor([0.1, 1e5])).double()
    assert summary.metrics == pytest.approx(
        {"RMSE": float(relative.square().mean(0).sqrt().mean()), "MAE": float(relative.abs().mean())}, rel=1e-5
    )
    assert written(tmp_path / "out.csv", predictor, frame.drop(columns="weight"))[1].metrics == {}
    frame.loc[3, "weight"] = np.nan
    assert written(tmp_path / "out.csv", predictor, frame)[1].metrics == {}


def test_a_table_of_one_number(examples: ModuleType, tmp_path: Path) -> None:
    """Metrics are in the units of the number."""

    def forward(inputs: Tensor) -> tuple[Tensor, ...]:
        mean = inputs[:, :1]
        return (mean, torch.full_like(mean, 20.0), *(torch.zeros_like(mean) for _ in range(2)), mean - 1, mean + 1)

    task = Regression(("price",), (100.0,), (10.0,))
    predictor = Predictor(forward, task, COLUMNS, (2,), torch.float32, threshold=1.5)
    frame = frame_of(examples.vectors(4)).assign(price=lambda one: one["a"] + np.array([3, -1, 1, 1]))
    rows, summary = written(tmp_path / "out.csv", predictor, frame)
    assert list(rows[0]) == ["id", "prediction", "std", "noise_std", "disagreement_std", "low", "high", "flag"]
    assert summary.metrics == pytest.approx({"RMSE": 3**0.5, "MAE": 1.5}, rel=1e-5)
    assert summary.flagged == 4  # 20 is two standard deviations of the prices


def test_tables_of_labels(found: dict[str, Predictor], examples: ModuleType, tmp_path: Path) -> None:
    predictor, inputs = as_table(found["labels"]), examples.vectors(20)
    present = predictor(inputs).probabilities >= 0.5
    truth = present.clone()
    truth[:10, 0] = ~truth[:10, 0]  # ten of sixty labels
    frame = frame_of(inputs).assign(**{name: truth[:, i].numpy() for i, name in enumerate(predictor.task.names)})
    rows, summary = written(tmp_path / "out.csv", predictor, frame)
    names = predictor.task.names
    assert list(rows[0]) == ["id", *columns_of(predictor)]
    assert columns_of(predictor)[-3:] == ["p:hot", "p:=wet", "p:loud"]
    for row, inside in zip(rows, present.tolist(), strict=True):
        expected = "|".join(name for name, is_in in zip(names, inside, strict=True) if is_in)
        assert row["prediction"] == (f"'{expected}" if expected.startswith("=") else expected)
    assert summary.metrics == pytest.approx({"Label accuracy": 5 / 6})


def test_own_outputs_in_a_file(found: dict[str, Predictor], examples: ModuleType, tmp_path: Path) -> None:
    predictor, inputs = as_table(found["own"]), examples.vectors(4)
    rows, summary = written(tmp_path / "out.csv", predictor, frame_of(inputs))
    assert list(rows[0]) == ["id", "output:0", "output:1", "output:2", "output:3", "disagreement", "flag"]
    assert [float(row["output:2"]) for row in rows] == pytest.approx(predictor(inputs).outputs[:, 2].tolist(), rel=1e-5)
    assert summary.metrics == {}


def test_only_classes_leave_early(examples: ModuleType, tmp_path: Path) -> None:
    """The confidence is a probability of a class."""
    artifact = examples.shared_vector_artifact()
    task = Regression(("y",), (0.0,), (1.0,))  # as many outputs as there are classes
    assert task.outputs == 2
    write_artifact(tmp_path, replace(artifact, task=task, exit_confidence=None))
    assert Predictor.load(tmp_path)(examples.vectors(3)).mean.shape == (3, 1)
    with pytest.raises(InvalidInput, match=r"Expected classes for early exit\. Got the task regression"):
        Predictor.load(tmp_path, early_exit=0.9)
