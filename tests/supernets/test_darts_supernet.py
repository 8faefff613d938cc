"""The DARTS supernet: published parameter counts, weights per edge, and what gates mean."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from polyarch.errors import InvalidInput
from polyarch.nn.operations import FactorizedReduce
from polyarch.randomness import generator_at, global_seed
from polyarch.spaces import DARTS_EDGES, S2_OPERATIONS, Architecture, Space, darts_edges, parse_darts
from polyarch.supernets import DartsSupernet, Supernet
from polyarch.supernets.darts import DartsCell, EdgeOperations, edge_weights
from polyarch.testing import SupernetContract

DARTS_V1 = (
    "Genotype(normal=[('sep_conv_3x3', 1), ('sep_conv_3x3', 0), ('skip_connect', 0), ('sep_conv_3x3', 1), "
    "('skip_connect', 0), ('sep_conv_3x3', 1), ('sep_conv_3x3', 0), ('skip_connect', 2)], normal_concat=[2, 3, 4, 5], "
    "reduce=[('max_pool_3x3', 0), ('max_pool_3x3', 1), ('skip_connect', 2), ('max_pool_3x3', 0), "
    "('max_pool_3x3', 0), ('skip_connect', 2), ('skip_connect', 2), ('avg_pool_3x3', 0)], reduce_concat=[2, 3, 4, 5])"
)
DARTS_V2 = (
    "Genotype(normal=[('sep_conv_3x3', 0), ('sep_conv_3x3', 1), ('sep_conv_3x3', 0), ('sep_conv_3x3', 1), "
    "('sep_conv_3x3', 1), ('skip_connect', 0), ('skip_connect', 0), ('dil_conv_3x3', 2)], normal_concat=[2, 3, 4, 5], "
    "reduce=[('max_pool_3x3', 0), ('max_pool_3x3', 1), ('skip_connect', 2), ('max_pool_3x3', 1), "
    "('max_pool_3x3', 0), ('skip_connect', 2), ('skip_connect', 2), ('max_pool_3x3', 1)], reduce_concat=[2, 3, 4, 5])"
)


class TestDartsSupernet(SupernetContract):
    """With a grey channel, an odd width and sides that do not halve."""

    def make_supernet(self) -> Supernet:
        operations = ("skip_connect", "dil_conv_5x5", "max_pool_3x3")
        return DartsSupernet(layers=3, channels=3, in_channels=1, classes=2, operations=operations).double()

    def make_inputs(self) -> Tensor:
        return torch.randn(4, 1, 7, 5, dtype=torch.float64)

    def make_architectures(self, space: Space) -> list[Architecture]:
        return super().make_architectures(space)[:2]


def test_published_networks_have_the_published_sizes() -> None:
    """The DARTS code prints 3.349342 MB for DARTS_V2; DARTS_V1 has 3.17 million."""
    operations = ("skip_connect", "sep_conv_3x3", "dil_conv_3x3", "max_pool_3x3", "avg_pool_3x3")
    with torch.device("meta"):
        net = DartsSupernet(layers=20, channels=36, operations=operations, affine=True)
    assert net.parameter_count(parse_darts(DARTS_V2, net.space)) == 3_349_342
    assert net.parameter_count(parse_darts(DARTS_V1, net.space)) == 3_169_414


def test_evaluation_networks_are_what_is_extracted() -> None:
    net = DartsSupernet(layers=4, channels=4, affine=True).eval()
    x = torch.randn(2, 3, 8, 8, generator=generator_at(0, "x"))
    generator = generator_at(0, "space")
    for _ in range(2):
        architecture = net.space.sample(generator)
        extracted = net.extract(architecture)
        assert net.parameter_count(architecture) == sum(weight.numel() for weight in extracted.parameters())
        torch.testing.assert_close(extracted(x), net(x, architecture))


def test_search_networks_have_no_scale_and_shift_in_cells_and_normalise_poolings() -> None:
    for affine in (False, True):
        net = DartsSupernet(layers=3, channels=2, operations=("max_pool_3x3", "sep_conv_3x3"), affine=affine)
        norms = [module for module in net.cells.modules() if isinstance(module, nn.BatchNorm2d)]
        assert {norm.affine for norm in norms} == {affine}
        pooling = net.get_submodule("cells.0.edges.0->2.operations.0")
        assert isinstance(pooling, nn.MaxPool2d) == affine


@pytest.mark.parametrize("layers", [3, 8, 20])
def test_reduction_cells_stand_at_one_and_two_thirds(layers: int) -> None:
    with torch.device("meta"):
        net = DartsSupernet(layers=layers, channels=2, operations=S2_OPERATIONS)
    kinds = [cell.kind for cell in net.cells if isinstance(cell, DartsCell)]
    assert [layer for layer, kind in enumerate(kinds) if kind == "reduce"] == [layers // 3, 2 * layers // 3]


def test_unselected_operations_get_no_gradient() -> None:
    net = DartsSupernet(layers=3, channels=2)
    architecture = parse_darts(DARTS_V1, net.space)
    net(torch.randn(2, 3, 8, 8, generator=generator_at(0, "x")), architecture).sum().backward()
    names = net.space["normal2_first"].options
    for cell in net.cells:
        assert isinstance(cell, DartsCell)
        chosen = darts_edges(architecture, cell.kind)
        for edge, block in zip(DARTS_EDGES, cell.edges.values(), strict=True):
            assert isinstance(block, EdgeOperations)
            for name, operation in zip(names, block.operations, strict=True):
                if chosen.get(edge) != name:
                    assert all(weight.grad is None for weight in operation.parameters())


def test_gates_give_an_edge_its_expected_operation() -> None:
    """With independent choices, the weight of an edge and operation is the probability that both are chosen."""
    space = DartsSupernet(layers=3, channels=2, operations=S2_OPERATIONS).space
    generator = generator_at(0, "gates")
    gates = {c.name: torch.rand(len(c), generator=generator, dtype=torch.float64) for c in space.choices}
    gates = {name: gate / gate.sum() for name, gate in gates.items()}
    names = [f"normal4_{end}" for end in ("inputs", "first", "second")]
    expected = {(source, 4): torch.zeros(2, dtype=torch.float64) for source in range(4)}
    for pair, option in enumerate(space["normal4_inputs"].options):
        for first in range(2):
            for second in range(2):
                probability = gates[names[0]][pair] * gates[names[1]][first] * gates[names[2]][second]
                for source, index in zip(map(int, option.split(",")), (first, second), strict=True):
                    expected[source, 4][index] += probability
    weights = edge_weights(gates, "normal")
    assert set(weights) == set(DARTS_EDGES)
    for edge, weight in expected.items():
        torch.testing.assert_close(weights[edge], weight)


def test_edges_can_be_selected_one_by_one() -> None:
    """One softmax per edge over the operations and ``none``, whose weight is left out: what DARTS searches with."""
    net = DartsSupernet(layers=3, channels=2, operations=S2_OPERATIONS).double().eval()
    x = torch.randn(2, 3, 8, 8, generator=generator_at(0, "x"), dtype=torch.float64)
    alpha = torch.zeros(len(DARTS_EDGES), 3, dtype=torch.float64, requires_grad=True)
    edges = {edge: row[1:] for edge, row in zip(DARTS_EDGES, alpha.softmax(-1), strict=True)}
    output = net.forward_edges(x, {"normal": edges, "reduce": edges})
    (gradient,) = torch.autograd.grad(output.square().sum(), alpha)
    assert output.shape == (2, 10) and gradient.abs().sum(-1).all()
    architecture = net.space.sample(generator_at(0, "space"))
    chosen = {
        cell: {edge: S2_OPERATIONS.index(name) for edge, name in darts_edges(architecture, cell).items()}
        for cell in ("normal", "reduce")
    }
    assert net.forward_edges(x, chosen).equal(net(x, architecture))


@pytest.mark.parametrize("size", [(8, 8), (7, 5)])
def test_factorized_reduce_reads_even_and_odd_pixels(size: tuple[int, int]) -> None:
    """As in the DARTS code for even sizes; a row and a column of zeros completes odd ones."""
    with global_seed(0, "reduce"):
        reduce = FactorizedReduce(2, 4, affine=False).double().eval()
    x = torch.rand(3, 2, *size, generator=generator_at(0, "x"), dtype=torch.float64)
    padded = nn.functional.pad(x, (0, 1, 0, 1))[:, :, 1:, 1:]
    expected = torch.cat([reduce.even(x), reduce.odd(padded)], dim=1) / (1 + reduce.norm.eps) ** 0.5
    torch.testing.assert_close(reduce(x), expected)
    if size == (8, 8):
        assert reduce.odd(padded).equal(reduce.odd(x[:, :, 1:, 1:]))


@pytest.mark.parametrize("settings", [{"layers": 2}, {"channels": 1}, {"in_channels": 0}, {"classes": 1}])
def test_impossible_settings_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="Expected 3 or more layers"):
        DartsSupernet(**settings)
