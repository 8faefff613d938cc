"""Supernets with tokens and several inputs keep the contract and are called by name."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from named_examples import DeepPair, PlainPair, Sentences, TwoTowers, image_and_table, sentences, table_and_tokens
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from polyarch.data import NamedInputs
from polyarch.errors import InvalidInput
from polyarch.estimators import Latency, MACs
from polyarch.nn import OneOf, multiply_accumulates
from polyarch.supernets import GatedSupernet, ModuleSupernet, RepeatSupernet, Supernet, from_module, gate
from polyarch.testing import SupernetContract


class TestTowers(SupernetContract):
    def make_supernet(self) -> Supernet:
        return from_module(TwoTowers().double(), image_and_table())

    def make_inputs(self) -> NamedInputs:
        return image_and_table()


class TestSentences(SupernetContract):
    def make_supernet(self) -> Supernet:
        return from_module(Sentences().double(), sentences())

    def make_inputs(self) -> NamedInputs:
        return sentences()


class TestDepth(SupernetContract):
    def make_supernet(self) -> Supernet:
        return from_module(DeepPair().double(), table_and_tokens())

    def make_inputs(self) -> NamedInputs:
        return table_and_tokens()


def test_what_is_searched_stays_the_users_network() -> None:
    model, inputs = TwoTowers().double(), image_and_table()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    net = from_module(model, inputs)
    network = net.extract(net.space.architecture(["conv1", "deep"]))
    assert type(network) is TwoTowers and set(before) == set(model.state_dict())
    plain = network(inputs["image"], table=inputs["table"])
    assert torch.equal(network(inputs), plain) and torch.equal(copy.deepcopy(network)(inputs), plain)


def test_a_block_alone_can_be_the_network() -> None:
    class Sum(nn.Module):
        def forward(self, left: Tensor, right: Tensor) -> Tensor:
            return left + right

    class Product(nn.Module):
        def forward(self, left: Tensor, right: Tensor) -> Tensor:
            return left * right

    inputs = NamedInputs({"left": torch.rand(3, 2), "right": torch.rand(3, 2)})
    net = from_module(OneOf("how", sum=Sum(), product=Product()), inputs)
    for name, expected in (("sum", inputs["left"] + inputs["right"]), ("product", inputs["left"] * inputs["right"])):
        architecture = net.space.architecture([name])
        assert torch.equal(net(inputs, architecture), expected)
        assert torch.equal(net.extract(architecture)(inputs), expected)


def test_depths_of_several_inputs_share_one_pass() -> None:
    net = from_module(DeepPair(), table_and_tokens(dtype=torch.float32))
    assert isinstance(net, RepeatSupernet)


def test_a_tower_around_the_repeat_gives_a_plain_supernet() -> None:
    class Around(DeepPair):
        def forward(self, table: Tensor, tokens: Tensor) -> Tensor:
            logits: Tensor = self.head(self.body(self.left(table)) + self.right(tokens).mean(1))
            return logits

    net = from_module(Around(), table_and_tokens(dtype=torch.float32))
    assert type(net) is ModuleSupernet


def test_checkpointing_sees_named_inputs() -> None:
    class Checkpointed(TwoTowers):
        def forward(self, image: Tensor, table: Tensor) -> Any:
            return checkpoint(super().forward, image, table, use_reentrant=False)

    inputs = image_and_table()
    torch.manual_seed(0)
    plain = from_module(TwoTowers().double(), inputs)
    torch.manual_seed(0)
    again = from_module(Checkpointed().double(), inputs)
    architecture = plain.space.architecture(["conv1", "deep"])
    gradients = []
    for net in (plain, again):
        net(inputs, net.space.architecture(list(architecture.names))).sum().backward()
        gradients.append({name: p.grad for name, p in net.named_parameters() if p.grad is not None})
    assert gradients[0].keys() == gradients[1].keys()
    assert all(torch.equal(gradients[0][name], gradients[1][name]) for name in gradients[0])


class TestGates:
    def net(self) -> GatedSupernet:
        return gate(PlainPair().double(), image_and_table())

    def test_both_towers_get_gates(self) -> None:
        """All but the first layer that runs: the table's layer reads its columns through a gate."""
        assert [one.name for one in self.net().gates] == ["conv", "row", "joint", "head"]

    def test_the_smaller_network_computes_the_same(self) -> None:
        net, inputs = self.net().eval(), image_and_table()
        generator = torch.Generator().manual_seed(0)
        for _ in range(4):
            architecture = net.space.sample(generator)
            network = net.extract(architecture).eval()
            torch.testing.assert_close(network(inputs), net(inputs, architecture))
            torch.testing.assert_close(copy.deepcopy(network)(dict(inputs.items())), net(inputs, architecture))
            assert net.mac_count(architecture, inputs) == multiply_accumulates(network, inputs)

    def test_examples_follow_to_another_precision(self) -> None:
        net = self.net().float()
        for one in (net, copy.deepcopy(net)):
            assert isinstance(one.example, NamedInputs) and one.example["image"].dtype == torch.float32

    def test_tokens(self) -> None:
        class Words(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.embedding, self.one = nn.Embedding(7, 4), nn.Linear(4, 6)
                self.two, self.head = nn.Linear(6, 6), nn.Linear(6, 2)

            def forward(self, tokens: Tensor) -> Any:
                return self.head(self.two(self.one(self.embedding(tokens)).relu()).relu().mean(1))

        tokens = sentences()["tokens"]
        net = gate(Words().double(), tokens).eval()
        architecture = net.space.sample(torch.Generator().manual_seed(0))
        torch.testing.assert_close(net.extract(architecture).eval()(tokens), net(tokens, architecture))


class TestCosts:
    def test_macs_of_both_towers(self) -> None:
        """conv1: 4 outputs of 1 channel on 25 pixels; the row: 3 x 4; the head: 8 x 2."""
        inputs = image_and_table(dtype=torch.float32)
        net = from_module(TwoTowers(), inputs)
        assert MACs(inputs).score(net, net.space.architecture(["conv1", "plain"])) == 4 * 25 + 3 * 4 + 8 * 2
        assert MACs(inputs).score(net, net.space.architecture(["conv3", "plain"])) == 9 * 4 * 25 + 3 * 4 + 8 * 2

    def test_macs_of_tokens(self) -> None:
        """Of five tokens: 4 x 4 each, and the head; looking up embeddings multiplies nothing."""
        inputs = sentences()
        net = from_module(Sentences(), inputs)
        assert MACs(inputs).score(net, net.space.architecture(["plain"])) == 5 * 4 * 4 + 4 * 2

    def test_latency_repeats_the_examples(self) -> None:
        seen: list[int] = []

        class Noting(Sentences):
            def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
                seen.append(len(tokens))
                return super().forward(tokens, mask)

        inputs = sentences(rows=2)
        net = from_module(Noting(), inputs)
        seen.clear()
        assert Latency(inputs, batch_size=5, rounds=2).score(net, net.space.architecture(["plain"])) > 0
        assert seen == [5] * 5


def test_a_missing_input_is_named() -> None:
    with pytest.raises(InvalidInput, match="image"):
        gate(PlainPair(), NamedInputs({"table": torch.rand(2, 3)}))
