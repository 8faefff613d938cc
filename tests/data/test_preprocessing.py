from __future__ import annotations

import json
import math
import os
import subprocess
import sys

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from polyarch.data import Column, Normalisation, TableData, TableEncoding, TensorData, preprocessing_from
from polyarch.errors import CorruptFile, DataError

COLUMNS = (Column("a"), Column("colour", ("red", "green")), Column("b"))
NAN = math.nan
ROWS = torch.tensor([[1.0, 0, 10], [3, 1, NAN], [NAN, -1, 30], [4, NAN, 50]])


def table(rows: Tensor) -> TableData:
    return TableData(rows, torch.arange(len(rows)) % 2, 2)


def encoded_in_numpy(
    train: npt.NDArray[np.float64], rows: npt.NDArray[np.float64], columns: tuple[Column, ...]
) -> npt.NDArray[np.float64]:
    """Column by column, cell by cell."""
    numbers, marks, places = [], [], []
    for index, column in enumerate(columns):
        values = rows[:, index]
        if column.categories is None:
            known = train[~np.isnan(train[:, index]), index]
            median = float(np.median(known)) if len(known) else 0.0
            filled = np.where(np.isnan(train[:, index]), median, train[:, index])
            std = filled.std() or 1.0
            numbers.append([((median if np.isnan(v) else v) - filled.mean()) / std for v in values])
            if len(known) < len(train):
                marks.append([float(np.isnan(v)) for v in values])
        else:
            places += [[float(v == category) for v in values] for category in range(len(column.categories))]
    return np.array(numbers + marks + places).T


class TestTableEncoding:
    def test_by_hand(self) -> None:
        encoding = TableEncoding.of(table(ROWS), COLUMNS)
        assert (encoding.medians, encoding.means) == ((3, 30), (2.75, 30))
        assert encoding.marked == (0, 1)
        assert encoding.output_shape((3,)) == (6,)
        features = encoding(ROWS)
        std_b = math.sqrt(200)
        assert features[:, 1].tolist() == pytest.approx([-20 / std_b, 0, 0, 20 / std_b])
        assert features[:, 2:].tolist() == [[0, 0, 1, 0], [0, 1, 0, 1], [1, 0, 0, 0], [0, 0, 0, 0]]

    @settings(max_examples=80)
    @given(st.data())
    def test_equals_a_plain_reference(self, data: st.DataObject) -> None:
        kinds = data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=5), "categories per column, 0 for numbers")
        columns = tuple(
            Column(f"c{i}", tuple(f"v{j}" for j in range(kind)) if kind else None) for i, kind in enumerate(kinds)
        )
        number = st.floats(-1e6, 1e6, width=32).map(lambda value: round(value, 2)) | st.just(NAN)
        cells = [number if kind == 0 else st.sampled_from([NAN, *map(float, range(-1, kind))]) for kind in kinds]
        rows = st.lists(st.tuples(*cells), min_size=1, max_size=12)
        train, other = (torch.tensor(data.draw(rows), dtype=torch.float32) for _ in range(2))
        encoding = TableEncoding.of(table(train), columns)
        expected = encoded_in_numpy(train.double().numpy(), other.double().numpy(), columns)
        got = encoding(other)
        assert tuple(got.shape[1:]) == encoding.output_shape((len(columns),))
        # float32 of a value far away from a narrow training column: relative to the value, not to zero
        np.testing.assert_allclose(got.numpy(), expected, rtol=1e-4, atol=1e-3 * max(1.0, np.abs(expected).max()))
        assert preprocessing_from(json.loads(json.dumps(encoding.to_dict()))) == encoding

    def test_training_features_have_mean_zero_and_deviation_one(self) -> None:
        features = TableEncoding.of(table(ROWS), COLUMNS)(ROWS)[:, :2].double()
        assert features.mean(0).tolist() == pytest.approx([0, 0], abs=1e-6)
        assert features.std(0, correction=0).tolist() == pytest.approx([1, 1])

    def test_column_that_is_empty_or_constant_in_this_part(self) -> None:
        rows = torch.tensor([[NAN, 5.0], [NAN, 5.0]])
        encoding = TableEncoding.of(table(rows), (Column("a"), Column("b")))
        assert encoding(torch.tensor([[1.0, 7.0], [NAN, NAN]])).tolist() == [[1, 2, 0], [0, 0, 1]]

    @pytest.mark.parametrize("value", [0.1, 1e-42, 1e30])
    def test_constant_column_is_only_moved(self, value: float) -> None:
        rows = torch.full((7, 1), value)
        encoding = TableEncoding.of(table(rows), (Column("a"),))
        assert encoding.stds == (1.0,)
        assert encoding(rows + 2).flatten().tolist() == pytest.approx((rows + 2 - rows).flatten().tolist())

    def test_rows_of_another_width(self) -> None:
        with pytest.raises(DataError, match=r"rows of 3 columns. Got examples of shape \(4,\)"):
            TableEncoding.of(table(ROWS), COLUMNS).output_shape((4,))


class Encoder(nn.Module):
    def __init__(self, encoding: TableEncoding) -> None:
        super().__init__()
        self.encoding = encoding

    def forward(self, rows: Tensor) -> Tensor:
        return self.encoding(rows)


class TestExport:
    def test_exported_program_takes_any_number_of_rows(self) -> None:
        encoding = TableEncoding.of(table(ROWS), COLUMNS)
        shapes = {"rows": {0: torch.export.Dim("batch")}}
        program = torch.export.export(Encoder(encoding), (ROWS,), dynamic_shapes=shapes).module()
        for rows in (ROWS, ROWS[:1], ROWS.repeat(5, 1)):
            assert torch.equal(program(rows), encoding(rows))

    @pytest.mark.slow
    def test_onnx_program_computes_the_same(self) -> None:
        """In a process of its own: the exporter warns of itself."""
        pytest.importorskip("onnxscript")
        pytest.importorskip("onnxruntime")
        code = """
import io, math, torch, onnxruntime
from polyarch.data import Column, TableData, TableEncoding
rows = torch.tensor([[1.0, 0, 10], [3, 1, math.nan], [math.nan, -1, 30], [4, math.nan, 50]])
columns = (Column("a"), Column("colour", ("red", "green")), Column("b"))
encoding = TableEncoding.of(TableData(rows, torch.arange(4) % 2, 2), columns)
class Encoder(torch.nn.Module):
    def forward(self, rows):
        return encoding(rows)
program = torch.onnx.export(Encoder(), (rows,), dynamo=True, dynamic_shapes={"rows": {0: torch.export.Dim("batch")}})
session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
for given in (rows, rows[:1], rows.repeat(5, 1)):
    got, = session.run(None, {session.get_inputs()[0].name: given.numpy()})
    torch.testing.assert_close(torch.from_numpy(got), encoding(given))
"""
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stderr


def test_normalisation_comes_back_from_a_file() -> None:
    normalisation = Normalisation((0.5, 0.25), (1.0, 2.0))
    assert preprocessing_from(json.loads(json.dumps(normalisation.to_dict()))) == normalisation


def test_unknown_kind() -> None:
    with pytest.raises(CorruptFile, match=r"known kind of preprocessing\. Found 'whitening'"):
        preprocessing_from({"kind": "whitening"})


class TestTableData:
    def test_missing_values_are_allowed_and_kept_in_subsets(self) -> None:
        part = table(ROWS).subset([2, 1])
        assert isinstance(part, TableData)
        assert torch.equal(part.inputs, ROWS[[2, 1]]) or bool(part.inputs.isnan().any())

    @pytest.mark.parametrize(
        ("rows", "complaint"),
        [
            (torch.tensor([[1.0, 2], [3, math.inf]]), "infinity in example 1, column 1"),
            (torch.zeros(2, 3, 4), r"\(N, columns\) of float32"),
            (torch.zeros(2, 3, dtype=torch.float64), "float32. Got torch.float64"),
        ],
    )
    def test_what_is_no_table(self, rows: Tensor, complaint: str) -> None:
        with pytest.raises(DataError, match=complaint):
            table(rows)

    def test_other_data_still_refuses_missing_values(self) -> None:
        with pytest.raises(DataError, match="example 1"):
            TensorData(ROWS, torch.arange(4) % 2, 2)
