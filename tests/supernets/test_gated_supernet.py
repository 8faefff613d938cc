"""Networks whose channels are kept or dropped keep the contract; what is gated, counted and extracted."""

from __future__ import annotations

import doctest
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from gated_contract import GatedContract
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm

import polyarch.supernets.gated
from polyarch.errors import InvalidInput
from polyarch.estimators import Latency
from polyarch.nn import NetworkCost, multiply_accumulates
from polyarch.randomness import generator_at
from polyarch.spaces import Architecture, Space
from polyarch.supernets import GatedSupernet, Supernet, gate


class Branches(nn.Module):
    """A residual addition, a concatenation with a pooling branch, and statistics in both."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(2, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU(inplace=True))
        self.left = nn.Sequential(nn.Conv2d(4, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4))
        self.right = nn.Conv2d(4, 3, 1)
        self.pool = nn.AvgPool2d(3, 1, 1)
        self.merge = nn.Conv2d(7, 4, 1)
        self.head = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        x = torch.relu(x + self.left(x))
        x = self.merge(torch.cat([self.right(x), self.pool(x)], dim=1))
        logits: Tensor = self.head(x.mean((2, 3)))
        return logits


GROUPS = {"convolutions": ["left.0", "right"], "pool": ["pool"], "merge": ["merge"], "head": ["head"]}


def branches() -> GatedSupernet:
    return gate(Branches().double(), images(), groups=GROUPS)


def images(batch: int = 6) -> Tensor:
    return torch.randn(batch, 2, 5, 5, dtype=torch.float64, generator=generator_at(0, "images"))


class TestBranches(GatedContract):
    def make_supernet(self) -> Supernet:
        return branches()

    def make_inputs(self) -> Tensor:
        return images()

    def make_architectures(self, space: Space) -> list[Architecture]:
        """One that drops the whole residual branch and the pooling, and one that keeps everything, besides draws."""
        dropped = {name: "drop" if name.startswith(("left", "pool")) else "keep" for name in space.choice_names}
        kept = dict.fromkeys(space.choice_names, "keep")
        return [space.architecture(dropped), space.architecture(kept), *super().make_architectures(space)[:3]]


class TestTables(GatedContract):
    """Linear layers, and statistics between them."""

    def make_supernet(self) -> Supernet:
        first = [nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Tanh()]
        layers = nn.Sequential(*first, nn.Linear(5, 4, bias=False), nn.ReLU(), nn.Linear(4, 3))
        return gate(layers.double(), self.make_inputs())

    def make_inputs(self) -> Tensor:
        return torch.randn(6, 4, dtype=torch.float64, generator=generator_at(0, "rows"))


def test_the_example_of_the_documentation() -> None:
    assert doctest.testmod(polyarch.supernets.gated).failed == 0


def test_all_layers_but_the_first_that_runs_are_gated_by_default() -> None:
    class Backwards(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.last = nn.Linear(4, 2)
            self.first = nn.Linear(3, 4)
            self.idle = nn.Linear(9, 9)

        def forward(self, x: Tensor) -> Any:
            return self.last(self.first(x))

    net = gate(Backwards(), torch.zeros(2, 3))
    assert [(gate.name, gate.group, gate.slices, gate.side) for gate in net.gates] == [("last", "last", 4, "input")]
    assert net.space.choice_names == ("last[0]", "last[1]", "last[2]", "last[3]")


def test_layers_without_slices_of_their_own_are_not_gated_by_default() -> None:
    """Those inside of a larger layer of torch, and kernels that are made of other parameters."""
    body = [nn.Linear(6, 8), nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), nn.Sequential(nn.Linear(8, 4))]
    net = gate(nn.Sequential(*body, weight_norm(nn.Linear(4, 4)), nn.Flatten(), nn.Linear(12, 2)), torch.randn(4, 3, 6))
    assert [gate.name for gate in net.gates] == ["2.0", "5"]
    architecture = net.space.architecture(["drop", "keep"] * 10)
    x = torch.randn(3, 3, 6, generator=generator_at(0, "x"))
    torch.testing.assert_close(net.eval().extract(architecture)(x), net(x, architecture))
    with pytest.raises(InvalidInput, match="Expected '3' to be a convolution, but no depthwise one"):
        gate(nn.Sequential(*body, weight_norm(nn.Linear(4, 4))), torch.randn(4, 3, 6), groups={"all": ["3"]})


def test_the_batch_is_not_taken_for_a_sequence() -> None:
    """Whatever the size of the example: here the length of a sequence is that, and comes first for a while."""

    class Sequences(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(4, 6), nn.Linear(6, 2)

        def forward(self, x: Tensor) -> Tensor:
            first = self.first(x).transpose(0, 1)  # (length, batch, 6)
            logits: Tensor = self.second(first.reshape(first.size(0) * first.size(1), 6))
            return logits.view(first.size(0), first.size(1), 2).mean(0)

    for rows in (2, 5):
        net = gate(Sequences(), torch.randn(rows, rows, 4)).eval()
        x = torch.randn(7, rows, 4, generator=generator_at(0, "x"))
        torch.testing.assert_close(net.extract(net.whole())(x), net(x, net.whole()))


def test_costs_of_slices_of_a_layer_of_ones_own() -> None:
    class Own(nn.Linear):
        pass

    net = gate(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), Own(4, 2)), torch.randn(2, 3))
    parameters, macs = net.slice_costs()
    assert parameters.tolist() == macs.tolist() == [2.0] * 4


def test_nothing_left_costs_nothing() -> None:
    net = gate(nn.Sequential(nn.Linear(3, 4, bias=False), nn.ReLU(), nn.Linear(4, 2, bias=False)), torch.randn(2, 3))
    nothing = net.space.architecture(["drop"] * 4)
    assert multiply_accumulates(net.extract(nothing), (3,)) == 0 == net.cost(nothing).parameters
    assert Latency((3,), rounds=1).score(net, nothing) > 0


def test_groups_by_predicate() -> None:
    net = gate(Branches(), images().float(), groups=lambda name, module: "all" if name in ("merge", "pool") else None)
    assert {gate.name: (gate.group, gate.slices, gate.side) for gate in net.gates} == {
        "pool": ("all", 4, "output"),
        "merge": ("all", 7, "input"),
    }
    assert {group: len(names) for group, names in net.groups.items()} == {"all": 11}


def test_a_dropped_slice_is_a_slice_of_the_kernel_set_to_zero() -> None:
    net = branches().eval()
    x = images()
    architecture = net.space.architecture(
        {name: "drop" if name in ("left.0[1]", "merge[0]") else "keep" for name in net.space.choice_names}
    )
    found = net(x, architecture)
    with torch.no_grad():
        net.model.get_submodule("left.0").get_parameter("weight")[:, 1] = 0
        net.model.get_submodule("merge").get_parameter("weight")[:, 0] = 0
    torch.testing.assert_close(found, net.model(x))


def test_square_norms_and_counts() -> None:
    net = branches()
    weights = {name: net.model.get_submodule(name).get_parameter("weight") for name in ("left.0", "right", "merge")}
    norms = dict(zip(net.groups, net.square_norms(), strict=True))
    torch.testing.assert_close(norms["convolutions"], weights["left.0"].norm() ** 2 + weights["right"].norm() ** 2)
    # four channels, each as dear as a slice of the layer that reads them
    torch.testing.assert_close(norms["pool"], 4 * weights["merge"].norm() ** 2 / 7)
    alone = gate(model := Branches(), images().float(), groups={"all": ["pool"]}).square_norms()
    torch.testing.assert_close(alone, 4 * model.merge.weight.detach().norm()[None] ** 2 / 7)
    everything = sum(parameter.numel() for parameter in net.model.parameters())
    options = {name: "drop" if name in ("left.0[1]", "merge[0]") else "keep" for name in net.space.choice_names}
    # nobody else reads the first output of ``right``, so its row and bias go, too
    assert net.parameter_count(net.space.architecture(options)) == everything - 4 * 9 - 4 - 5


def test_costs_are_those_of_the_extracted_network_also_after_a_move() -> None:
    net = branches()
    for position in range(3):
        architecture = net.space.sample(generator_at(0, "cost", position))
        network = net.extract(architecture)
        expected = NetworkCost(sum(p.numel() for p in network.parameters()), multiply_accumulates(network, (2, 5, 5)))
        assert net.cost(architecture) == expected
        assert net.mac_count(architecture, (2, 5, 5)) == expected.macs
        network = net.float().extract(architecture)
        assert {parameter.dtype for parameter in network.parameters()} == {torch.float32}
        net.double()


def test_costs_for_inputs_of_another_size() -> None:
    net = branches().float()
    architecture = net.space.architecture(dict.fromkeys(net.space.choice_names, "keep"))
    found = net.mac_count(architecture, (2, 7, 7))
    assert found == multiply_accumulates(net.extract(architecture), (2, 7, 7)) > net.cost(architecture).macs


def test_costs_of_slices() -> None:
    parameters, macs = branches().slice_costs()
    # left.0: 4 slices of 4x9 at 5x5 pixels, right: 4 of 3, pool: 4 of nothing, merge: 7 of 4, head: 4 of 3 at one pixel
    assert parameters.tolist() == [36.0] * 4 + [3.0] * 4 + [0.0] * 4 + [4.0] * 7 + [3.0] * 4
    assert macs.tolist() == [900.0] * 4 + [75.0] * 4 + [0.0] * 4 + [100.0] * 7 + [3.0] * 4


def test_extraction_takes_the_weights_of_the_moment() -> None:
    net, x = branches().eval(), images()
    architecture = net.space.sample(generator_at(0, "now"))
    net.extract(architecture)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(0.1)
    torch.testing.assert_close(net.extract(architecture)(x), net(x, architecture))


def test_slices_as_one_tensor_are_the_gates() -> None:
    net = branches().eval()
    x = images()
    keep = torch.rand(len(x), len(net.space.choices), generator=generator_at(0, "keep"))
    columns = zip(net.space.choice_names, keep.T, strict=True)
    gates = {name: torch.stack([1 - column, column], -1) for name, column in columns}
    assert net.forward_slices(x, keep).equal(net(x, gates))


def test_outside_of_calls_the_network_is_the_one_it_was() -> None:
    model = Branches().double().eval()
    before = model(images())
    net = gate(model, images())
    with pytest.raises(InvalidInput):
        net(images(), {})
    assert model(images()).equal(before)
    assert not model.training


def test_a_supernet_survives_pickling() -> None:
    net = branches().eval()
    architecture = net.space.sample(generator_at(0, "pickled"))
    again = pickle.loads(pickle.dumps(net))
    assert again(images(), again.space.architecture(architecture.names)).equal(net(images(), architecture))


class PooledTwice(nn.Module):
    """One pooling on values of other widths."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last, self.pool = nn.Conv2d(2, 4, 1), nn.Conv2d(4, 3, 1), nn.AvgPool2d(3, 1, 1)

    def forward(self, x: Tensor) -> Any:
        return self.pool(self.last(self.pool(self.first(x))))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: gate(Branches(), images().float(), groups={"a": ["lef"]}), "out of"),
        (lambda: gate(Branches(), images().float(), groups={"a": ["left.1"]}), "without parameters. Got BatchNorm2d"),
        (lambda: gate(Branches(), images().float(), groups={"a": ["pool"], "b": ["pool"]}), "in one group"),
        (lambda: gate(Branches(), images().float(), groups={"a": "pool"}), "list of modules"),
        (lambda: gate(nn.Linear(2, 2), torch.zeros(2, 2)), "two or more layers"),
        (lambda: gate(branches().model, images()), "to have no gate yet"),
        (lambda: gate(Branches(), (images(),)), r"batch of one example or more.* Got tuple\."),  # type: ignore[arg-type]
        (lambda: gate(Branches(), images()[:0]), r"batch of one example or more.* Got shape \(0, 2, "),
        (lambda: gate(Branches(), images().float()[:, :1]), r"Expected Branches to run on an input of shape .*Error: "),
        (lambda: gate(PooledTwice(), images().float(), groups={"a": ["pool"]}), "fixed number of channels"),
        (lambda: gate(nn.TransformerEncoderLayer(8, 2, 16), torch.zeros(2, 3, 8)), "two or more layers"),
        (lambda: branches().forward_slices(images(), torch.ones(3)), "weights of 23 slices"),
        (lambda: branches().forward_slices(images(), torch.ones(2, 23)), "one row per example"),
    ],
)
def test_mistakes(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        make()
