"""DARTS networks as they are trained alone: what is dropped, what the auxiliary classifier reads, what is shared."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Generator, nn

from polyarch.nn.drop_path import DropPath
from polyarch.spaces import darts_edges
from polyarch.supernets import DartsSupernet, taught_network
from polyarch.supernets.darts_teaching import auxiliary_classifier

OPERATIONS = ("skip_connect", "sep_conv_3x3", "max_pool_3x3")


@pytest.fixture
def net() -> DartsSupernet:
    return DartsSupernet(layers=5, channels=4, classes=3, operations=OPERATIONS, affine=True).double()


def images(side: int = 16) -> torch.Tensor:
    return torch.randn(4, 3, side, side, dtype=torch.float64, generator=Generator().manual_seed(1))


def size(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


@pytest.mark.parametrize("seed", range(3))
def test_in_evaluation_mode_the_first_classifier_is_the_network(net: DartsSupernet, seed: int) -> None:
    architecture = net.space.sample(Generator().manual_seed(seed))
    network, taught = taught_network(net, architecture)
    next(layer for layer in taught.modules() if isinstance(layer, DropPath)).p = 0.7
    taught.eval()
    outputs, auxiliary = taught(images())
    assert torch.equal(outputs, network(images())) and not torch.equal(outputs, auxiliary)
    torch.testing.assert_close(outputs, net.eval()(images(), architecture), rtol=0, atol=1e-12)


def test_weights_are_shared_and_the_network_has_no_auxiliary_ones(net: DartsSupernet) -> None:
    architecture = net.space.sample(Generator().manual_seed(0))
    network, taught = taught_network(net, architecture)
    plain = net.extract(architecture)
    assert list(network.state_dict()) == list(plain.state_dict())
    assert size(taught) - size(network) == size(auxiliary_classifier(net.widths[net.reductions[1]], 3))
    mine = {weight.data_ptr() for weight in network.parameters()}
    assert mine < {weight.data_ptr() for weight in taught.parameters()}
    assert mine.isdisjoint(weight.data_ptr() for weight in net.parameters())
    assert not any(isinstance(layer, DropPath) for layer in network.modules())


def test_all_operations_but_identities_are_dropped(net: DartsSupernet) -> None:
    architecture = net.space.sample(Generator().manual_seed(2))
    _, taught = taught_network(net, architecture)
    assert isinstance(taught, torch.fx.GraphModule)
    found = sum(node.target == "drop_path" for node in taught.graph.nodes)
    count = {}
    for cell, reduces in (("normal", False), ("reduce", True)):
        edges = darts_edges(architecture, cell)
        identities = [edge for edge, name in edges.items() if name == "skip_connect" and not (reduces and edge[0] < 2)]
        count[cell] = len(edges) - len(identities)
    assert found == 3 * count["normal"] + 2 * count["reduce"] and found < 5 * 8


def test_a_dropped_path_passes_nothing_on(net: DartsSupernet) -> None:
    """With all of them dropped for every example, only identities are left."""
    architecture = net.space.architecture(
        {choice.name: "sep_conv_3x3" if "sep_conv_3x3" in choice.options else choice.options[0]
         for choice in net.space.choices}
    )  # fmt: skip
    _, taught = taught_network(net, architecture)
    taught.eval()
    layer = next(layer for layer in taught.modules() if isinstance(layer, DropPath))
    layer.p, layer.training = 1.0, True
    outputs = taught(images())[0]
    assert torch.equal(outputs, outputs[:1].expand_as(outputs))  # the bias of the classifier


def test_the_auxiliary_classifier_reads_the_second_reduction_cell(net: DartsSupernet) -> None:
    architecture = net.space.sample(Generator().manual_seed(3))
    _, taught = taught_network(net, architecture)
    taught.eval()
    seen: list[torch.Tensor] = []
    head = taught.get_submodule("auxiliary.0")
    head.register_forward_hook(lambda module, inputs, output: seen.append(inputs[0]))
    taught(images(32))
    expected = net.eval().cell_outputs(images(32), net.chosen(architecture))[net.reductions[1]]
    torch.testing.assert_close(seen[0], expected, rtol=0, atol=1e-12)
    assert seen[0].shape == (4, 4 * 16, 8, 8)


@pytest.mark.parametrize(
    ("side", "pooled"), [(8, lambda x: x), (2, lambda x: x.repeat_interleave(4, -1).repeat_interleave(4, -2))]
)
def test_pooling_of_the_auxiliary_classifier(side: int, pooled: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """DARTS' own on maps of 8x8: windows of 5x5 pixels, 3 apart."""
    maps = torch.rand(2, 3, side, side, dtype=torch.float64)
    found = auxiliary_classifier(3, 10)[:3](maps)
    whole = pooled(maps)
    windows = [whole[:, :, top : top + 5, left : left + 5].mean((2, 3)) for top in (0, 3) for left in (0, 3)]
    torch.testing.assert_close(found.flatten(2), torch.stack(windows, -1), rtol=0, atol=1e-12)
