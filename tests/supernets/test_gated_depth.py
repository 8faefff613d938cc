"""Networks with a choice of depth and of channels: the contract, every depth, costs, and slices."""

from __future__ import annotations

import copy
import doctest
import pickle
from collections.abc import Callable

import pytest
import torch
from gated_contract import GatedContract
from torch import Tensor, nn

import polyarch.supernets.gated_depth
from polyarch.errors import InvalidInput
from polyarch.nn import NetworkCost, multiply_accumulates
from polyarch.randomness import generator_at, global_seed
from polyarch.spaces import Architecture, Space
from polyarch.supernets import ConvolutionalDepth, FullyConnectedDepth, GatedDepthSupernet, Supernet

SHAPES = {"rows": (3,), "images": (1, 8, 8), "biased": (1, 8, 8)}
KINDS = pytest.mark.parametrize("kind", SHAPES)


def inputs(kind: str, batch: int = 6) -> Tensor:
    return torch.randn(batch, *SHAPES[kind], dtype=torch.float64, generator=generator_at(0, kind))


def supernet(kind: str) -> GatedDepthSupernet:
    """In evaluation mode, with running statistics that differ from depth to depth; no ReLU hides a channel for good."""
    with global_seed(0, kind):
        if kind == "rows":
            net = GatedDepthSupernet(
                FullyConnectedDepth(features=3, classes=2, max_depth=3, width=4).double(), inputs(kind)
            )
        else:
            blocks = {"max_depth": 2, "channels": 4, "inner_channels": 3, "classes": 3}
            net = GatedDepthSupernet(ConvolutionalDepth(**blocks, bias=kind == "biased").double(), inputs(kind))
    with torch.no_grad():
        for module in net.depths.blocks.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.bias.fill_(1.0)
        for position in range(3):
            net.depths.train().forward_many(inputs(kind) * (1 + position), net.depths.space.members)
    return net.eval()


def some(net: GatedDepthSupernet, seed: int) -> list[Architecture]:
    """Every depth with everything, with nothing, and with other draws of channels."""
    count = len(net.slice_space.choices)
    found = []
    for depth in range(len(net.depths.blocks) + 1):
        drawn = (torch.rand(count, generator=generator_at(seed, "channels", depth)) < 0.6).int().tolist()
        found += [Architecture(net.space, (depth, *slices)) for slices in ([1] * count, [0] * count, drawn)]
    return found


class TestRows(GatedContract):
    def make_supernet(self) -> Supernet:
        return supernet("rows")

    def make_inputs(self) -> Tensor:
        return inputs("rows")


class TestImages(GatedContract):
    def make_supernet(self) -> Supernet:
        return supernet("images")

    def make_inputs(self) -> Tensor:
        return inputs("images")

    def make_architectures(self, space: Space) -> list[Architecture]:
        """One that has everything, and one of every depth."""
        drawn = super().make_architectures(space)[:3]
        whole = space.architecture([choice.options[-1] for choice in space.choices])
        return [whole, *(one.replace(depth=str(depth)) for depth, one in enumerate(drawn))]


def test_the_example_of_the_documentation() -> None:
    found = doctest.testmod(polyarch.supernets.gated_depth)
    assert found.attempted > 0 and found.failed == 0


@KINDS
def test_the_choices(kind: str) -> None:
    """The depth first; then every channel that a layer of a block reads. Stem and heads have no gates."""
    net = supernet(kind)
    assert net.space.choices == (*net.depths.space.choices, *net.slice_space.choices)
    gates = {
        "rows": [(f"depths.blocks.{block}.0", 4) for block in range(3)],
        "images": [(f"depths.blocks.{b}.{place}", k) for b in range(2) for place, k in ((2, 4), (5, 3), (8, 3))],
    }["images" if kind == "biased" else kind]
    assert [(gate.name, gate.slices) for gate in net.gates] == gates
    assert list(net.groups) == [name for name, _ in gates]
    names = [f"{name}[{k}]" for name, slices in gates for k in range(slices)]
    assert [name for group in net.groups.values() for name in group] == list(net.slice_space.choice_names) == names


@KINDS
def test_extracted_networks_are_the_masked_ones_at_every_depth(kind: str) -> None:
    """In evaluation mode, and in training mode if nothing is folded."""
    net, x = supernet(kind), inputs(kind)
    assert not all(net.folds(architecture) for architecture in some(net, 0))
    for architecture in some(net, 0):
        network = net.extract(architecture)
        torch.testing.assert_close(network(x), net(x, architecture), rtol=1e-10, atol=1e-10)
        if not net.folds(architecture):
            expected = copy.deepcopy(net).train()(x, architecture)
            torch.testing.assert_close(network.train()(x), expected, rtol=1e-10, atol=1e-10)


@KINDS
def test_costs_are_those_of_the_extracted_network(kind: str) -> None:
    net = supernet(kind)
    for architecture in some(net, 1):
        network = net.extract(architecture)
        expected = NetworkCost(
            sum(p.numel() for p in network.parameters()), multiply_accumulates(network, SHAPES[kind])
        )
        assert net.cost(architecture) == expected
        assert net.parameter_count(architecture) == expected.parameters
        assert net.mac_count(architecture, SHAPES[kind]) == expected.macs


@KINDS
def test_with_all_channels_it_is_the_depth_network(kind: str) -> None:
    """Outputs and parameters; deeper networks with the same channels are larger."""
    net, x = supernet(kind), inputs(kind)
    whole = [a for a in some(net, 0) if all(a.indices[1:])]
    sizes = [net.parameter_count(architecture) for architecture in whole]
    assert sizes == [net.depths.parameter_count(depth) for depth in net.depths.space.members]
    assert sizes == sorted(set(sizes))
    for architecture, depth in zip(whole, net.depths.space.members, strict=True):
        torch.testing.assert_close(net(x, architecture), net.depths(x, depth), rtol=1e-12, atol=1e-12)
    assert net.whole() == whole[-1]


def test_channels_of_blocks_that_are_not_reached_do_not_matter() -> None:
    net, x = supernet("rows"), inputs("rows")
    first = net.space.architecture(dict.fromkeys(net.slice_space.choice_names, "keep") | {"depth": "1"})
    beyond = {name: "drop" for name in net.slice_space.choice_names if not name.startswith("depths.blocks.0.")}
    second = first.replace(**beyond)
    assert net(x, first).equal(net(x, second))
    assert net.cost(first) == net.cost(second)


def test_rows_by_hand() -> None:
    """a_1 = a_0 + BN(ReLU(W (keep * a_0) + b)) with the stem a_0, and the head on top."""
    net, x = supernet("rows"), inputs("rows")
    keep = [1, 0, 0, 1]
    architecture = Architecture(net.space, (1, *keep, *[1] * 8))
    stem, head = net.depths.get_submodule("stem.1"), net.depths.get_submodule("head")
    linear, norm = (net.depths.blocks[0].get_submodule(name) for name in ("0", "2"))
    assert isinstance(linear, nn.Linear)
    features = stem(x)
    features = features + norm(torch.relu(linear.weight[:, [0, 3]] @ features[:, [0, 3]].T + linear.bias[:, None]).T)
    torch.testing.assert_close(net(x, architecture), head(features), rtol=1e-12, atol=1e-12)
    # everything else reads all four channels of the stem, so that only two columns of the block are gone
    assert net.parameter_count(architecture) == (3 * 4 + 4) + (4 * 2 + 4 + 2 * 4) + (4 * 2 + 2)
    assert net.cost(architecture).macs == 3 * 4 + 4 * 2 + 4 * 2


def test_costs_of_slices_by_hand() -> None:
    parameters, macs = supernet("rows").slice_costs()
    assert parameters.tolist() == macs.tolist() == [4.0] * 12
    parameters, macs = supernet("images").slice_costs()
    # a block of 2x2 pixels: 4 slices of 3 numbers, 3 slices of 3x9, 3 slices of 4
    assert parameters.tolist() == ([3.0] * 4 + [27.0] * 3 + [4.0] * 3) * 2
    assert macs.tolist() == ([12.0] * 4 + [108.0] * 3 + [16.0] * 3) * 2


@KINDS
def test_one_walk_gives_all_depths(kind: str) -> None:
    """(D+1, B, classes), for every example with its own channels; as gates say, logits are mixed."""
    net, x = supernet(kind), inputs(kind)
    depths = len(net.depths.blocks) + 1
    keep = (torch.rand(6, len(net.slice_space.choices), generator=generator_at(0, "keep")) < 0.5).double()
    found = net.forward_slices(x, keep)
    assert found.shape[:2] == (depths, 6)
    for row, slices in enumerate(keep.int().tolist()):
        for depth in range(depths):
            expected = net(x[row : row + 1], Architecture(net.space, (depth, *slices)))
            torch.testing.assert_close(found[depth, row : row + 1], expected, rtol=1e-10, atol=1e-10)
    columns = zip(net.slice_space.choice_names, keep.T, strict=True)
    gates = {name: torch.stack([1 - column, column], -1) for name, column in columns}
    weights = torch.softmax(torch.randn(6, depths, generator=generator_at(0, "depths"), dtype=torch.float64), -1)
    expected = torch.stack([weights[row] @ found[:, row] for row in range(6)])
    torch.testing.assert_close(net(x, {**gates, "depth": weights}), expected, rtol=1e-10, atol=1e-10)
    expected = torch.tensordot(weights[0], found, 1)
    torch.testing.assert_close(net(x, {**gates, "depth": weights[0]}), expected, rtol=1e-10, atol=1e-10)


COPIES: list[Callable[[GatedDepthSupernet], GatedDepthSupernet]] = [
    copy.deepcopy,
    lambda net: pickle.loads(pickle.dumps(net)),
]


@KINDS
@pytest.mark.parametrize("again", COPIES, ids=["deepcopy", "pickle"])
def test_copies(kind: str, again: Callable[[GatedDepthSupernet], GatedDepthSupernet]) -> None:
    """Before and after graphs were written down; a copy has weights of its own in what it extracts, too."""
    net, x = supernet(kind), inputs(kind)
    architectures = some(net, 2)
    for _ in range(2):
        copied = again(net)
        with torch.no_grad():
            for parameter in copied.parameters():
                parameter.mul_(1.5)
        for architecture in architectures:
            theirs = Architecture(copied.space, architecture.indices)
            torch.testing.assert_close(copied.extract(theirs)(x), copied(x, theirs), rtol=1e-10, atol=1e-10)
            assert not torch.allclose(copied(x, theirs), net(x, architecture))
            assert copied.cost(theirs) == net.cost(architecture)
            torch.testing.assert_close(net.extract(architecture)(x), net(x, architecture), rtol=1e-10, atol=1e-10)


def test_extraction_takes_the_weights_and_the_precision_of_the_moment() -> None:
    net, x = supernet("images"), inputs("images")
    architectures = some(net, 3)
    for architecture in architectures:
        net.extract(architecture)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(0.1)
    for architecture in architectures:
        torch.testing.assert_close(net.extract(architecture)(x), net(x, architecture), rtol=1e-10, atol=1e-10)
    net.float()
    network = net.extract(architectures[-1])
    assert {parameter.dtype for parameter in network.parameters()} == {torch.float32}
    torch.testing.assert_close(network(x.float()), net(x.float(), architectures[-1]), rtol=1e-4, atol=1e-5)


def test_mistakes() -> None:
    net, x = supernet("rows"), inputs("rows")
    with pytest.raises(InvalidInput, match="weights of 12 slices"):
        net.forward_slices(x, torch.ones(13))
    with pytest.raises(InvalidInput, match=r"gates \(2,\) or \(batch, 2\) for 'depths.blocks.0.0\[0\]'. Got nothing"):
        net(x, {"depth": torch.ones(4)})
    with pytest.raises(InvalidInput, match="to have no gate yet"):
        GatedDepthSupernet(net.depths, x)
    with pytest.raises(InvalidInput, match="Expected an architecture of"):
        net(x, net.depths.space.members[0])
