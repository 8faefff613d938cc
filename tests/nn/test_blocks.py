"""Choice blocks, operations and residual blocks."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from polyarch.errors import InvalidInput
from polyarch.nn import ChoiceBlock, ReductionBlock, bottleneck, call, record
from polyarch.nn.operations import NARROW, inverted_residual, nb201_operation, pointwise
from polyarch.randomness import generator_at, global_seed
from polyarch.spaces import NB201_OPERATIONS


def count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def images(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=generator_at(0, "images"))


@pytest.mark.parametrize("size", [1, 2, 5, 8])
@pytest.mark.parametrize("inputs", [3, NARROW])
def test_a_strided_pointwise_convolution_picks_pixels(inputs: int, size: int) -> None:
    with global_seed(0, "weights"):
        layer = pointwise(inputs, 4, stride=2).double()
    x = images(2, inputs, size, size).requires_grad_()
    (weight,) = layer.parameters()
    expected = nn.functional.conv2d(x, weight, stride=2)
    torch.testing.assert_close(layer(x), expected)
    upstream = torch.randn(expected.shape, dtype=torch.float64, generator=generator_at(0, "upstream"))
    found = torch.autograd.grad(layer(x), (x, weight), upstream)
    torch.testing.assert_close(found, torch.autograd.grad(expected, (x, weight), upstream))


@pytest.fixture
def block() -> ChoiceBlock:
    with global_seed(0, "block"):
        return ChoiceBlock("edge", [None, nn.Identity(), nn.Conv2d(2, 2, 1)]).double()


def test_a_choice_block_mixes_its_operations(block: ChoiceBlock) -> None:
    x = images(4, 2, 3, 3)
    convolved = block.operation(2)(x)
    assert block.passing == [1, 2]
    assert block(x, 1).equal(x) and block(x, 2).equal(convolved)
    torch.testing.assert_close(block(x, torch.tensor([0.2, 0.5, 0.3])), 0.5 * x + 0.3 * convolved)
    per_example = torch.tensor([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0.5, 0.5]])
    expected = torch.stack([torch.zeros_like(x[0]), x[1], convolved[2], 0.5 * (x[3] + convolved[3])])
    torch.testing.assert_close(block(x, per_example), expected)


def test_a_choice_block_has_no_module_for_nothing(block: ChoiceBlock) -> None:
    with pytest.raises(InvalidInput, match="option of 'edge' with a module"):
        block(images(1, 2, 3, 3), 0)


@pytest.mark.parametrize("name", NB201_OPERATIONS)
def test_cell_operations_keep_the_shape(name: str) -> None:
    operation = nb201_operation(name, 4, affine=True)
    assert (operation is None) == (name == "none")
    if operation is not None:
        assert operation.double()(images(2, 4, 5, 7)).shape == (2, 4, 5, 7)


def test_average_pooling_counts_only_what_is_there() -> None:
    pool = nb201_operation("avg_pool_3x3", 1, affine=True)
    assert pool is not None
    torch.testing.assert_close(pool(torch.ones(1, 1, 4, 4)), torch.ones(1, 1, 4, 4))


@pytest.mark.parametrize("size", [(8, 8), (7, 5), (4, 9)])
def test_reduction_halves_any_size(size: tuple[int, int]) -> None:
    reduction = ReductionBlock(2, 4).double()
    x = images(3, 2, *size)
    output = reduction(x)
    assert output.shape == (3, 4, -(-size[0] // 2), -(-size[1] // 2))
    torch.testing.assert_close(output, reduction.body(x) + reduction.shortcut(x))


def test_residual_branches_have_the_published_sizes() -> None:
    branch = bottleneck(64, 32)
    assert count(branch) == 64 * 32 * 2 + 32 * 32 * 9 + 2 * (64 + 2 * 32)
    assert branch.double()(images(2, 64, 5, 5)).shape == (2, 64, 5, 5)
    inverted = inverted_residual(4, 6, kernel=5, expansion=3, stride=2)
    assert sum(parameter.numel() for parameter in inverted.parameters()) == 4 * 12 + 12 * 25 + 12 * 6 + 2 * (
        12 + 12 + 6
    )
    assert inverted.double()(images(2, 4, 7, 7)).shape == (2, 6, 4, 4)


def test_recording_keeps_only_what_the_path_uses() -> None:
    network = nn.ModuleDict({"used": nn.Sequential(nn.Linear(2, 2), nn.ReLU()), "unused": nn.Linear(2, 2)}).double()
    plain = record(network, lambda x: x + call(network["used"], x))
    x = images(3, 2)
    torch.testing.assert_close(plain(x), x + network["used"](x))
    assert {name for name, _ in plain.named_parameters()} == {"used.0.weight", "used.0.bias"}
