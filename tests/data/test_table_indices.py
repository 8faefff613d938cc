"""Categories as indices agree with their one-hot encoding."""

from __future__ import annotations

import io

import pandas as pd
import torch
import torch.nn.functional as F

from polyarch.data import TableData, TableEncoding, TableIndices, encode_rows
from polyarch.data.preprocessing import preprocessing_from
from polyarch.data.table_dataset import TableSource, table_dataset

TEXT = """size,colour,age,shape,label
1,red,3,round,a
2,green,,square,b
3,,5,round,a
4,red,6,square,b
5,blue,7,round,a
6,green,8,,b
"""


def data_and_rows() -> tuple[TableIndices, TableEncoding, torch.Tensor]:
    frame = pd.read_csv(io.StringIO(TEXT))
    data = table_dataset("table", TableSource(frame, "table"), TableSource(frame, "table"))
    indices, encoding = (data.preprocessing(data.train, indices=indices) for indices in (True, False))
    assert isinstance(indices, TableIndices) and isinstance(encoding, TableEncoding)
    assert isinstance(data.train, TableData)
    new = encode_rows(pd.DataFrame({"size": [1], "colour": ["pink"], "age": [None], "shape": ["round"]}), data.columns)
    return indices, encoding, torch.cat([data.train.inputs, new])


def test_indices_are_the_places_of_the_one_hot_encoding() -> None:
    indices, encoding, rows = data_and_rows()
    found, expected = indices(rows), encoding(rows)
    sizes = indices.sizes["categories"]
    assert sizes == (4, 3)  # unknown, red, green, blue; unknown, round, square
    places = [F.one_hot(found["categorical"][:, at], size)[:, 1:] for at, size in enumerate(sizes)]
    assert torch.equal(torch.cat([found["numeric"], *places], 1), expected)
    assert found["categorical"].dtype == torch.int64
    assert found["categorical"][2, 0] == 0  # missing
    assert found["categorical"][-1, 0] == 0  # unknown
    assert indices.output_shape((4,)) == {"numeric": (3,), "categorical": (2,)}


def test_codes_that_do_not_exist_are_unknown() -> None:
    """Programs are called with any numbers; an embedding has no place for them."""
    indices, _, rows = data_and_rows()
    rows[:4, 1] = torch.tensor([99.0, -7.0, 3.0, 2.0])
    assert indices(rows)["categorical"][:4, 0].tolist() == [0, 0, 0, 3]


def test_they_are_written_and_read() -> None:
    indices, encoding, _ = data_and_rows()
    assert preprocessing_from(indices.to_dict()) == indices
    assert type(preprocessing_from(encoding.to_dict())) is TableEncoding


def test_a_table_without_categories() -> None:
    frame = pd.DataFrame({"a": [1.0, 2, 3, 4], "label": [0, 1, 0, 1]})
    data = table_dataset("table", TableSource(frame, "table"), TableSource(frame, "table"))
    found = data.preprocessing(data.train, indices=True)(data.train.inputs)  # type: ignore[attr-defined]
    assert found["categorical"].shape == (4, 0) and found["numeric"].shape == (4, 1)
