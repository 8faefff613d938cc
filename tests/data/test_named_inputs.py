"""Named inputs: what they refuse, how rows are taken, and that torch sees through them."""

from __future__ import annotations

import copy
import doctest
import pickle
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

import polyarch.data.named_inputs
from polyarch.data import Batches, Identity, NamedData, NamedInputs, NamedPreprocessing, Normalisation, load
from polyarch.data.named_inputs import call_by_name, call_plainly, cycled, joined, mapped, shape_of, type_of
from polyarch.data.preprocessing import preprocessing_from
from polyarch.errors import DataError, InvalidInput


def pair(rows: int = 4) -> NamedInputs:
    return NamedInputs(
        {"table": torch.arange(3.0 * rows).view(rows, 3), "tokens": torch.arange(rows * 2).view(rows, 2)}
    )


class Sum(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, table: Tensor, tokens: Tensor) -> Tensor:
        return self.scale * table.sum(-1) + tokens.sum(-1)


def test_the_example_in_the_docstring() -> None:
    assert doctest.testmod(polyarch.data.named_inputs).failed == 0


def test_rows_and_names() -> None:
    inputs = pair()
    assert len(inputs) == 4 and list(inputs.keys()) == ["table", "tokens"]
    for rows in (torch.tensor([2, 0]), [2, 0]):
        taken = inputs[rows]
        assert torch.equal(taken["tokens"], inputs["tokens"][[2, 0]]) and len(taken) == 2
    assert [len(part) for part in inputs.split(3)] == [3, 1]
    assert shape_of(inputs) == {"table": (3,), "tokens": (2,)}
    assert type_of(inputs) == {"table": torch.float32, "tokens": torch.int64}
    assert torch.equal(cycled(inputs, 6)["table"][4:], inputs["table"][:2])
    assert torch.equal(joined([inputs[:1], inputs[1:]])[torch.arange(4)]["tokens"], inputs["tokens"])


@pytest.mark.parametrize(
    ("tensors", "words"),
    [
        ({}, "one named input or more"),
        ({"a": torch.zeros(2, 1), "b": torch.zeros(3, 1)}, "as many examples in every input. Got 2 in 'a', 3 in 'b'"),
        ({"a b": torch.zeros(2, 1)}, "arguments of a forward. Got 'a b'"),
        ({"class": torch.zeros(2, 1)}, "Got 'class'"),
        ({"self": torch.zeros(2, 1)}, "Got 'self'"),
        ({3: torch.zeros(2, 1)}, "Got 3"),
    ],
)
def test_what_cannot_be_named_inputs(tensors: dict[Any, Tensor], words: str) -> None:
    with pytest.raises(DataError, match=words):
        NamedInputs(tensors)


class TestTorch:
    def test_networks_take_them_by_name(self) -> None:
        network, inputs = Sum(), pair()
        expected = network(**inputs)
        call_by_name(network)
        call_by_name(network)
        assert torch.equal(network(inputs), expected) and torch.equal(network(**inputs), expected)
        for again in (copy.deepcopy(network), pickle.loads(pickle.dumps(network))):
            assert torch.equal(again(inputs), expected)
        call_plainly(network)
        assert b"polyarch.data" not in pickle.dumps(network._forward_pre_hooks)
        with pytest.raises(TypeError):
            network(inputs)

    def test_functional_calls_and_vmap(self) -> None:
        network, inputs = Sum(), pair()
        call_by_name(network)
        doubled = functional_call(network, {"scale": torch.tensor(4.0)}, (inputs,))
        assert torch.equal(doubled, 4 * inputs["table"].sum(1) + inputs["tokens"].sum(1))
        per_row = vmap(lambda one: functional_call(network, {"scale": torch.tensor(4.0)}, (one,)))(inputs)
        assert torch.equal(per_row, doubled)

    def test_they_travel(self) -> None:
        again = pickle.loads(pickle.dumps(pair()))
        assert repr(again) == repr(pair()) and torch.equal(again["table"], pair()["table"])


def images_and_rows(rows: int = 30) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(0)
    return {
        "image": torch.randint(0, 256, (rows, 1, 4, 4), dtype=torch.uint8, generator=generator),
        "table": 3 + 2 * torch.randn(rows, 2, generator=generator),
        "tokens": torch.randint(0, 9, (rows, 5), generator=generator),
        "mask": torch.rand(rows, 5, generator=generator) < 0.5,
    }


class TestData:
    def test_every_input_has_its_preprocessing(self) -> None:
        data = load((images_and_rows(), [0, 1, 2] * 10))
        assert isinstance(data.train, NamedData) and isinstance(data.test, NamedData)
        preprocessing = data.preprocessing(data.train)
        assert isinstance(preprocessing, NamedPreprocessing)
        inputs = data.train.inputs
        largest = max(int(side.inputs["tokens"].max()) for side in (data.train, data.test))
        assert preprocessing.parts["tokens"] == Identity(largest + 1) and preprocessing.parts["mask"] == Identity()
        assert preprocessing.sizes == {"vocabulary": {"tokens": largest + 1}}
        found = preprocessing(inputs)
        assert torch.equal(found["tokens"], inputs["tokens"]) and torch.equal(found["mask"], inputs["mask"])
        assert torch.equal(found["table"], Normalisation.of(inputs["table"])(inputs["table"]))
        for name in ("image", "table"):
            assert abs(float(found[name].mean())) < 1e-5 and abs(float(found[name].std(correction=0)) - 1) < 1e-4
        assert preprocessing_from(preprocessing.to_dict()) == preprocessing
        assert preprocessing.output_shape({"image": (1, 4, 4), "table": (2,), "tokens": (5,), "mask": (5,)}) == {
            **{"image": (1, 4, 4), "table": (2,)},
            **{"tokens": (5,), "mask": (5,)},
        }

    def test_batches(self) -> None:
        """The same rows of every input, by (seed, epoch, position); without preprocessing tokens stay tokens."""
        data = load((images_and_rows(), [0, 1, 2] * 10)).train
        assert isinstance(data, NamedData)
        batches = Batches(data, 8, seed=3)
        first, again = list(batches.epoch(2)), list(batches.epoch(2, start=1))
        assert torch.equal(first[1].inputs["tokens"], again[0].inputs["tokens"])
        one = first[0].inputs
        assert isinstance(one, NamedInputs)
        rows = [int((data.inputs["table"] == row).all(1).nonzero()) for row in one["table"]]
        assert torch.equal(one["tokens"], data.inputs["tokens"][rows])
        assert torch.equal(one["image"], data.inputs["image"][rows].float())
        assert torch.equal(first[0].targets, data.targets[rows])
        assert type_of(one) == {
            **{"image": torch.float32, "table": torch.float32},
            **{"tokens": torch.int64, "mask": torch.bool},
        }

    def test_they_are_not_augmented(self) -> None:
        data = load((images_and_rows(), [0, 1, 2] * 10)).train
        with pytest.raises(InvalidInput, match="one input to augment"):
            next(Batches(data, 8, augmentations=[lambda inputs, generator: inputs]).epoch(0))

    def test_infinity_is_refused(self) -> None:
        values = images_and_rows()
        values["table"][3, 1] = torch.inf
        with pytest.raises(DataError, match=r"finite numbers in 'table' of X\. Found NaN or infinity in example 3"):
            load((values, [0, 1, 2] * 10))


def test_mapped_works_on_one_tensor() -> None:
    assert torch.equal(mapped(torch.neg, torch.ones(2)), -torch.ones(2))
