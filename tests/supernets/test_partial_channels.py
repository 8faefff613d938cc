"""Operations that see a part of the channels: contracts, the formula of PC-DARTS, and what closes an edge."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from polyarch.errors import InvalidInput
from polyarch.nn import ChoiceBlock, InterChoice, PartialChannels
from polyarch.randomness import generator_at, global_seed
from polyarch.spaces import DARTS_EDGES, S2_OPERATIONS, Architecture, Space, edge_name, parse_nb201
from polyarch.supernets import DartsSupernet, NB201Supernet, Supernet
from polyarch.supernets.darts import DartsCell, EdgeOperations
from polyarch.supernets.nb201 import Cell
from polyarch.testing import SupernetContract

CELLS = (
    "|nor_conv_3x3~0|+|nor_conv_1x1~0|skip_connect~1|+|avg_pool_3x3~0|nor_conv_3x3~1|nor_conv_1x1~2|",
    "|nor_conv_3x3~0|+|none~0|none~1|+|none~0|nor_conv_3x3~1|nor_conv_3x3~2|",  # node 2 is fed by nothing
    "|nor_conv_3x3~0|+|nor_conv_1x1~0|none~1|+|none~0|none~1|none~2|",  # nothing reaches the output
)


def images(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=generator_at(0, "images"))


class TestPartialNB201Supernet(SupernetContract):
    def make_supernet(self) -> Supernet:
        return NB201Supernet(channels=4, cells=1, classes=3, partial=4).double()

    def make_inputs(self) -> Tensor:
        return torch.randn(5, 3, 8, 8, dtype=torch.float64)

    def make_architectures(self, space: Space) -> list[Architecture]:
        return [parse_nb201(text, space) for text in CELLS]


class TestPartialDartsSupernet(SupernetContract):
    """With sides that do not halve."""

    def make_supernet(self) -> Supernet:
        operations = ("skip_connect", "sep_conv_3x3", "max_pool_3x3")
        return DartsSupernet(layers=3, channels=8, in_channels=1, classes=2, operations=operations, partial=4).double()

    def make_inputs(self) -> Tensor:
        return torch.randn(4, 1, 7, 5, dtype=torch.float64)

    def make_architectures(self, space: Space) -> list[Architecture]:
        return super().make_architectures(space)[:2]


def shuffled(x: Tensor, groups: int) -> Tensor:
    """As in the code of PC-DARTS."""
    batch, channels, height, width = x.shape
    x = x.view(batch, groups, channels // groups, height, width)
    return torch.transpose(x, 1, 2).contiguous().view(batch, -1, height, width)


@pytest.mark.parametrize("stride", [1, 2])
def test_an_edge_is_that_of_pc_darts_where_weights_sum_to_one(stride: int) -> None:
    with global_seed(0, "edge"):
        edge = EdgeOperations(8, S2_OPERATIONS, stride=stride, affine=False, partial=4).double()
    x, weights = images(3, 8, 6, 6), torch.tensor([0.3, 0.7]).double()
    mixed = sum(weight * operation(x[:, :2]) for weight, operation in zip(weights, edge.operations, strict=True))
    assert isinstance(mixed, Tensor)
    past = x[:, 2:] if stride == 1 else F.max_pool2d(x[:, 2:], 2, 2)
    torch.testing.assert_close(edge(x, weights), shuffled(torch.cat([mixed, past], 1), 4))
    assert edge(x, 1).equal(shuffled(torch.cat([edge.operations[1](x[:, :2]), past], 1), 4))


def test_a_mixture_is_the_sum_of_its_options_and_none_closes_the_edge() -> None:
    """net(x, gates) of one edge is linear in its gates, the bypass included."""
    with global_seed(0, "cell"):
        cell = Cell(4, ("none", "skip_connect", "nor_conv_1x1"), affine=False, partial=2).double()
    x, last = images(2, 4, 5, 5), torch.tensor([0.2, 0.5, 0.3]).double()
    closed = {edge_name(*edge): torch.tensor([1.0, 0.0, 0.0]).double() for edge in [(0, 1), (0, 2), (1, 2)]}
    closed |= {edge_name(*edge): torch.tensor([1.0, 0.0, 0.0]).double() for edge in [(1, 3), (2, 3)]}
    outputs = [cell(x, {**closed, "0->3": torch.eye(3).double()[option]})[0] for option in range(3)]
    assert not outputs[0].any()
    torch.testing.assert_close(outputs[1], shuffled(x, 2))
    torch.testing.assert_close(cell(x, {**closed, "0->3": last})[0], 0.5 * outputs[1] + 0.3 * outputs[2])


def test_operations_are_as_wide_as_what_they_see() -> None:
    cells, darts = NB201Supernet(channels=8, cells=1, partial=4), DartsSupernet(layers=3, channels=8, partial=4)
    widths = [
        module.operation(3)[1].weight.shape  # type: ignore[index]
        for module in cells.modules()
        if isinstance(module, ChoiceBlock)
    ]
    assert widths == [(width, width, 3, 3) for width in (2, 4, 8) for _ in range(6)]
    cell = darts.cells[0]
    assert isinstance(cell, DartsCell) and len(cell.edges) == len(DARTS_EDGES)
    assert darts.get_submodule("cells.0.edges.0->2.operations.1.1").weight.shape == (2, 1, 3, 3)


@pytest.mark.parametrize(
    "net",
    [
        NB201Supernet(channels=4, cells=1, operations=("nor_conv_1x1", "nor_conv_3x3"), affine=True, partial=2),
        DartsSupernet(layers=3, channels=4, affine=True, partial=2),
    ],
    ids=["cell", "darts"],
)
def test_parameters_are_those_of_the_extracted_network(net: Supernet) -> None:
    architecture = net.space.sample(generator_at(0, "architecture"))
    extracted = sum(weight.numel() for weight in net.extract(architecture).parameters())
    assert net.parameter_count(architecture) == extracted


@pytest.mark.parametrize("make", [NB201Supernet, DartsSupernet])
def test_operations_that_see_all_channels_have_nothing_around_them(make: type[Supernet]) -> None:
    assert not any(isinstance(module, PartialChannels) for module in make().modules())  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: NB201Supernet(channels=6, partial=4), "Got partial=4 of 6 channels"),
        (lambda: NB201Supernet(channels=6, partial=0), "Got partial=0 of 6 channels"),
        (lambda: DartsSupernet(channels=16, partial=3), "Got partial=3 of 16 channels"),
        (lambda: DartsSupernet(channels=4, partial=4), "2 or more in each. Got partial=4 of 4 channels"),
        (lambda: NB201Supernet(channels=4, partial=2, interchoice=InterChoice("bias")), "no inter-choice weights"),
    ],
)
def test_impossible_parts_are_refused(make: Callable[[], nn.Module], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        make()
