"""What targets are taken for, what they become, and what says otherwise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from table_examples import written
from torch.utils.data import TensorDataset

from polyarch.data import TensorData, load, stratified_split
from polyarch.data.targets import LabelTargets, NumericTargets, TargetKind, check_kind, recognised
from polyarch.errors import DataError, InvalidInput

RANDOM = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("values", "in_array", "in_table"),
    [
        (np.arange(200) % 2, "classification", "classification"),
        (np.arange(200) % 20, "classification", "classification"),
        (np.arange(200) % 21, "regression", "classification"),  # 200 / 21 is less than ten of each
        (np.arange(210) % 21, "classification", "classification"),
        (np.arange(5000) % 50, "classification", "classification"),
        (np.arange(5000) % 51, "classification", "regression"),
        (np.arange(200), "regression", "regression"),
        ((np.arange(200) % 51).astype(float), "regression", "regression"),  # whole numbers, however they are stored
        (np.arange(200) % 20 / 4, "classification", "classification"),
        (np.arange(200) % 21 / 4, "regression", "regression"),
        (np.array([str(number) for number in range(200)]), "classification", "classification"),
        (np.arange(200) % 2 == 0, "classification", "classification"),
        (np.eye(3), "multi-label", "multi-label"),
        (np.eye(3) > 0, "multi-label", "multi-label"),
        (2 * np.eye(3), "regression", "regression"),
        (np.arange(200)[:, None], "regression", "regression"),
    ],
)
def test_what_targets_look_like(values: Any, in_array: TargetKind, in_table: TargetKind) -> None:
    assert recognised(values, in_table=False) == in_array
    assert recognised(values, in_table=True) == in_table


class TestEncodings:
    def test_numbers(self) -> None:
        one, two = NumericTargets(("a",)), NumericTargets(("a", "b"))
        assert one.encode(np.array([1, 2, 3]), "y").tolist() == [[1], [2], [3]]
        assert two.encode(np.array([[1.5, 2], [3, 4]]), "y").dtype == torch.float32

    def test_labels(self) -> None:
        for values in (np.eye(2), np.eye(2, dtype=int), np.eye(2) > 0):
            assert LabelTargets(("a", "b")).encode(values, "y").tolist() == [[True, False], [False, True]]

    @pytest.mark.parametrize(
        ("encoding", "values", "complaint"),
        [
            (NumericTargets(("a",)), np.array(["x"]), "numbers as targets of a regression in y. Found <U1"),
            (NumericTargets(("a",)), np.array([1, np.nan]), r"every example of y\. Found \[nan\] in row 2"),
            (NumericTargets(("a",)), np.array([1e60]), r"finite number .* Found \[1e\+60\] in row 1"),
            (NumericTargets(("a",)), np.zeros((3, 2)), "Expected 1 targets per example in y. Found 2"),
            (LabelTargets(("a", "b")), np.array([[0, 1], [2, 1]]), r"0 or 1 .* in y\. Found \[2, 1\] in row 2"),
            (LabelTargets(("a", "b")), np.array([["no", "yes"]]), "0 or 1 for every label"),
            (LabelTargets(("a", "b")), np.zeros((3, 3)), "Expected 2 targets per example in y. Found 3"),
        ],
    )  # fmt: skip
    def test_what_does_not_fit(self, encoding: NumericTargets | LabelTargets, values: Any, complaint: str) -> None:
        with pytest.raises(DataError, match=complaint):
            encoding.encode(values, "y", "row")


class TestTensors:
    @pytest.mark.parametrize(
        ("targets", "kind"),
        [
            (torch.tensor([0, 1, 1]), "classification"),
            (torch.rand(3, 1), "regression"),
            (torch.rand(3, 2, dtype=torch.float64), "regression"),
            (torch.rand(3, 2) > 0.5, "multi-label"),
        ],
    )
    def test_kinds(self, targets: torch.Tensor, kind: TargetKind) -> None:
        assert check_kind(targets) == kind
        data = TensorData(torch.zeros(3, 4), targets, 2 if kind == "classification" else 0)
        assert torch.equal(data.subset([2, 0]).targets, targets[[2, 0]])

    def test_numbers_are_finite(self) -> None:
        with pytest.raises(DataError, match=r"finite targets\. Found NaN or infinity"):
            TensorData(torch.zeros(2, 4), torch.tensor([[0.0], [torch.inf]]))

    @pytest.mark.parametrize("targets", [torch.rand(10, 2), torch.rand(10, 2) > 0.5])
    def test_what_has_no_classes_is_split_at_random(self, targets: torch.Tensor) -> None:
        data = TensorData(torch.arange(10.0)[:, None], targets)
        rest, part = stratified_split(data, 0.3, seed=0)
        assert sorted([*rest.inputs.flatten().tolist(), *part.inputs.flatten().tolist()]) == list(range(10))
        assert (len(rest), len(part)) == (7, 3)
        with pytest.raises(DataError, match=r"two or more examples to split\. Got 1"):
            stratified_split(data.subset([3]), 0.3, seed=0)


class TestSources:
    def test_torch_data_sets(self) -> None:
        inputs = torch.rand(30, 4)
        numbers = load(TensorDataset(inputs, inputs[:, :1]))
        assert (numbers.kind, numbers.target_names) == ("regression", ("target",))
        labels = load(TensorDataset(inputs, inputs[:, :2] > 0.5))
        assert (labels.kind, labels.target_names) == ("multi-label", ("target 0", "target 1"))
        whole = TensorDataset(inputs, torch.arange(30) % 2)
        assert (load(whole).kind, load(whole, task="regression").kind) == ("classification", "regression")

    def test_a_table(self, tmp_path: Path) -> None:
        """Says that it took a column for numbers, and takes it for something else when told to."""
        rows = "".join(f"{row},{row % 60}\n" for row in range(240))
        path = written(tmp_path, f"a,price\n{rows}", "houses.csv")
        data = load(path, target="price")
        assert (data.kind, data.target_names, data.classes) == ("regression", ("price",), 0)
        assert data.notes[0].startswith("Column 'price' has 60 different numbers: a regression; --task classification")
        assert load(path, task="regression").notes == ()
        assert load(path, task="classification").classes == 60

    def test_several_columns(self, tmp_path: Path) -> None:
        rows = "".join(f"{row},{row / 7},{2 * row},{row % 2},{row % 3 > 0}\n" for row in range(40))
        path = written(tmp_path, f"a,width,height,wet,hot\n{rows}", "things.csv")
        data = load(path, target="width, height")
        assert (data.kind, data.target_names) == ("regression", ("width", "height"))
        assert [column.name for column in data.columns] == ["a", "wet", "hot"]
        assert data.notes[0].startswith("Columns 'width', 'height' are numbers: a regression")
        torch.testing.assert_close(data.test.targets[:, 1], 14 * data.test.targets[:, 0])
        assert load(path, target="wet,hot").kind == "multi-label"
        with pytest.raises(DataError, match="the target 'wet,wet'"):
            load(path, target="wet,wet")

    def test_data_of_another_task(self) -> None:
        with pytest.raises(InvalidInput, match=r"data for the task regression\. Got 'digits', whose task is class"):
            load("digits", task="regression")
