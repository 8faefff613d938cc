"""The NAS-Bench-201 supernet against brute force and published numbers."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from polyarch.errors import InvalidInput
from polyarch.estimators import MACs
from polyarch.nn import ChoiceBlock
from polyarch.randomness import generator_at
from polyarch.spaces import NB201_EDGES, NB201_OPERATIONS, edge_name, nb201_space, parse_nb201
from polyarch.supernets import NB201Supernet
from polyarch.supernets.nb201 import Cell, live_steps

ROUTES = [[(0, 3)], [(0, 1), (1, 3)], [(0, 2), (2, 3)], [(0, 1), (1, 2), (2, 3)]]
"""All ways through a cell from its input, node 0, to its output, node 3."""


def test_live_steps_are_the_edges_on_some_open_route() -> None:
    passing = tuple(name != "none" for name in NB201_OPERATIONS)
    for cell in nb201_space().enumerate():
        is_open = {edge: cell.option(edge_name(*edge)) != "none" for edge in NB201_EDGES}
        live = {edge for route in ROUTES if all(is_open[edge] for edge in route) for edge in route}
        steps = live_steps(cell.indices, passing)
        assert {(source, target) for _, source, target, *_ in steps} == live
        assert len(steps) == len(live)
        ready = {0}
        for position, (edge, source, target, option, previous) in enumerate(steps):
            assert NB201_EDGES[edge] == (source, target)
            assert option == cell.indices[edge] and previous == ()
            assert source in ready
            if all(later[2] != target for later in steps[position + 1 :]):
                ready.add(target)


def test_literature_supernet_has_the_published_size() -> None:
    net = NB201Supernet(channels=16, cells=2)
    assert sum(parameter.numel() for parameter in net.parameters()) == 718_426


@pytest.mark.parametrize(
    "text",
    [
        "|nor_conv_3x3~0|+|nor_conv_3x3~0|nor_conv_3x3~1|+|nor_conv_3x3~0|nor_conv_3x3~1|nor_conv_3x3~2|",
        "|nor_conv_1x1~0|+|skip_connect~0|avg_pool_3x3~1|+|none~0|nor_conv_3x3~1|skip_connect~2|",
        "|nor_conv_3x3~0|+|none~0|none~1|+|skip_connect~0|none~1|nor_conv_3x3~2|",
        "|none~0|+|none~0|none~1|+|none~0|none~1|none~2|",
    ],
)
@pytest.mark.parametrize("cells", [1, 2])
def test_multiply_accumulates_by_hand(text: str, cells: int) -> None:
    channels, size, classes = 4, 8, 5
    net = NB201Supernet(channels=channels, cells=cells, classes=classes)
    cell = parse_nb201(text, net.space)
    is_open = {edge: cell.option(edge_name(*edge)) != "none" for edge in NB201_EDGES}
    live = {edge for route in ROUTES if all(is_open[edge] for edge in route) for edge in route}
    taps = sum({"nor_conv_1x1": 1, "nor_conv_3x3": 9}.get(cell.option(edge_name(*edge)), 0) for edge in live)
    expected = 3 * channels * 9 * size**2 + 4 * channels * classes  # stem and head
    for stage in range(3):
        width, side = channels * 2**stage, size // 2**stage
        expected += cells * taps * width**2 * side**2
        if stage:
            expected += (9 * width // 2 * width + 9 * width**2 + width // 2 * width) * side**2  # reduction
    assert MACs((3, size, size)).score(net, cell) == expected


def test_parameter_count_is_that_of_the_extracted_network() -> None:
    net = NB201Supernet(channels=4, cells=2, affine=True)
    generator = generator_at(0, "cells")
    for _ in range(20):
        cell = net.space.sample(generator)
        extracted = sum(parameter.numel() for parameter in net.extract(cell).parameters())
        assert extracted == net.parameter_count(cell)


def test_dead_operations_do_not_count() -> None:
    net = NB201Supernet(channels=4, cells=1)
    cell = parse_nb201("|nor_conv_3x3~0|+|none~0|none~1|+|skip_connect~0|none~1|none~2|", net.space)
    without = parse_nb201("|none~0|+|none~0|none~1|+|skip_connect~0|none~1|none~2|", net.space)
    assert cell.canonical() == without.canonical()
    assert net.parameter_count(cell) == net.parameter_count(without)


def test_only_live_edges_run_and_get_gradients() -> None:
    net = NB201Supernet(channels=3, cells=1)
    cell = parse_nb201("|nor_conv_3x3~0|+|none~0|none~1|+|nor_conv_1x1~0|nor_conv_3x3~1|nor_conv_3x3~2|", net.space)
    ran: list[tuple[str, str]] = []
    for layer in net.layers:
        if isinstance(layer, Cell):
            for block in layer.edges:
                assert isinstance(block, ChoiceBlock)
                for index, operation in block.operations.items():
                    operation.register_forward_hook(
                        lambda *_, choice=block.choice, index=index: ran.append((choice, NB201_OPERATIONS[int(index)]))
                    )
    net(torch.randn(4, 3, 8, 8, generator=generator_at(0, "images")), cell).sum().backward()
    expected = [("0->1", "nor_conv_3x3"), ("0->3", "nor_conv_1x1"), ("1->3", "nor_conv_3x3")]
    assert ran == 3 * expected
    for layer in net.layers:
        if isinstance(layer, Cell):
            for edge, block in enumerate(layer.edges):
                for parameter_name, parameter in block.named_parameters():
                    option = NB201_OPERATIONS[int(parameter_name.split(".")[1])]
                    live = (edge_name(*NB201_EDGES[edge]), option) in expected
                    assert (parameter.grad is not None) == live


def test_a_cell_sums_its_edges() -> None:
    """The all-skip cell: nodes 1 = x, 2 = 2 x, 3 = 4 x."""
    cell = Cell(2, ("skip_connect",), affine=False)
    x = torch.randn(1, 2, 4, 4, generator=generator_at(0, "images"))
    torch.testing.assert_close(cell(x, live_steps((0,) * 6, (True,)))[0], 4 * x)
    halves = {edge_name(*edge): torch.tensor([0.5]) for edge in NB201_EDGES}
    torch.testing.assert_close(cell(x, halves)[0], (0.5 + 0.25 + 0.5 * 0.75) * x)


def test_affine_is_a_switch_for_normalisation_inside_cells() -> None:
    for affine in (False, True):
        net = NB201Supernet(channels=2, cells=1, affine=affine)
        inside = [m for m in net.layers[0].modules() if isinstance(m, nn.BatchNorm2d)]
        assert inside and all(norm.affine == affine for norm in inside)


@pytest.mark.parametrize("settings", [{"channels": 0}, {"cells": 0}, {"in_channels": 0}, {"classes": 0}])
def test_impossible_sizes_are_refused(settings: dict[str, int]) -> None:
    with pytest.raises(InvalidInput, match=f"{next(iter(settings))}="):
        NB201Supernet(**settings)  # type: ignore[arg-type]
