"""Weights that differ from example to example: every operation runs on its own examples, with their statistics."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from polyarch.nn import ChoiceBlock, InterChoice, InterChoiceKind, SplitCopies, dependent_weights, skipping_zeros
from polyarch.nn.operations import relu_conv_bn
from polyarch.randomness import generator_at, global_seed
from polyarch.spaces import Architecture, per_example_gates
from polyarch.supernets import (
    ChainSupernet,
    DartsSupernet,
    MacroSupernet,
    MLPSupernet,
    NB101Supernet,
    NB201Supernet,
    Supernet,
)
from polyarch.supernets.nb201 import Cell, live_steps
from polyarch.testing.tools import same_bits, state_of

NONE, SKIP, POINTWISE, SQUARE, POOL = range(5)
assert_equal = partial(torch.testing.assert_close, rtol=1e-11, atol=1e-11)


def numbers(*shape: int, stream: str = "x") -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=generator_at(0, stream))


def make_block() -> ChoiceBlock:
    """Nothing, identity, two convolutions with statistics that are no longer those of their creation, pooling."""
    with global_seed(0, "block"):
        convolutions = [relu_conv_bn(2, 2, kernel) for kernel in (1, 3)]
        block = ChoiceBlock("edge", [None, nn.Identity(), *convolutions, nn.AvgPool2d(3, 1, 1)]).double()
    for index in (POINTWISE, SQUARE):
        block.operation(index)(numbers(8, 2, 4, 4, stream=f"statistics {index}"))
    return block


def one_hot(*options: int, count: int = 5) -> Tensor:
    return torch.eye(count, dtype=torch.float64)[list(options)]


def rows_drawing(options: Sequence[int], option: int) -> list[int]:
    return [row for row, drawn in enumerate(options) if drawn == option]


def gradients(output: Tensor, inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
    upstream = torch.randn(output.shape, generator=generator_at(0, "upstream")).to(output)
    return torch.autograd.grad((output * upstream).sum(), inputs, materialize_grads=True)


def batch_sizes(*modules: nn.Module) -> list[int]:
    """A list to which every call of the modules will add how many examples it got."""
    sizes: list[int] = []
    for module in modules:
        module.register_forward_pre_hook(lambda _, inputs: sizes.append(len(inputs[0])))
    return sizes


weights_of_examples = st.lists(
    st.lists(st.sampled_from([0.0, 0.0, 1.0, -0.5, 0.3]), min_size=5, max_size=5), min_size=1, max_size=6
)


@given(weights_of_examples, st.booleans())
def test_in_evaluation_mode_it_is_the_mixture(rows: list[list[float]], shortcut: bool) -> None:
    """Outputs and gradients are those of all operations on all examples, but for gradients of weights that are zero."""
    block = make_block().eval()
    weights = torch.tensor(rows, dtype=torch.float64, requires_grad=True)
    x = numbers(len(rows), 2, 4, 4).requires_grad_()
    expected = block(x, weights, shortcut=shortcut)
    with skipping_zeros(per_example=True):
        output = block(x, weights, shortcut=shortcut)
        assert_equal(block(x, weights.detach(), shortcut=shortcut), expected)
    assert_equal(output, expected)
    (found_weights, *found), (slope, *slopes) = (
        gradients(value, [weights, x, *block.parameters()]) for value in (output, expected)
    )
    assert_equal(found, slopes)
    assert_equal(found_weights[weights != 0], slope[weights != 0])


@given(st.lists(st.integers(0, 4), min_size=1, max_size=8).filter(any))
def test_in_training_mode_every_operation_has_a_batch_of_its_own(options: list[int]) -> None:
    """Outputs, gradients and running statistics are those of the sub-batches, one by one."""
    options = options * 2  # nobody is alone
    block, x = make_block(), numbers(len(options), 2, 4, 4).requires_grad_()
    twin = copy.deepcopy(block)
    with skipping_zeros(per_example=True):
        output = block(x, one_hot(*options))
    expected = torch.zeros_like(x)
    for option in sorted(set(options) - {NONE}):
        rows = rows_drawing(options, option)
        expected = expected.index_copy(0, torch.tensor(rows), twin.operation(option)(x[rows]))
    assert_equal(output, expected)
    assert_equal(state_of(block), state_of(twin))
    found, by_hand = (gradients(value, [x, *used.parameters()]) for value, used in ((output, block), (expected, twin)))
    assert_equal(found, by_hand)


def test_an_operation_sees_no_other_examples() -> None:
    block = make_block()
    options = [SQUARE, NONE, POOL, SQUARE, POINTWISE, SKIP, POINTWISE, SQUARE]
    sizes = batch_sizes(*(block.operation(index) for index in block.passing))
    with skipping_zeros(per_example=True):
        block(numbers(len(options), 2, 4, 4), one_hot(*options))
    assert sizes == [1, 2, 3, 1]


@pytest.mark.parametrize("shape", [(3,), (3, 1, 1), (3, 4, 4)])
def test_an_example_alone_is_normalised_with_all(shape: tuple[int, ...]) -> None:
    """One vector or pixel has no variance, and torch refuses it; operations without statistics do not mind."""

    def operation() -> nn.Module:
        norm = nn.BatchNorm1d(3) if len(shape) == 1 else nn.BatchNorm2d(3)
        return nn.Sequential(norm, nn.Tanh()).double()

    block, x = ChoiceBlock("layer", [operation(), operation(), nn.Tanh()]), numbers(5, *shape).requires_grad_()
    twin, weights = copy.deepcopy(block), one_hot(0, 1, 0, 2, 0, count=3)
    sizes = batch_sizes(*(block.operation(index) for index in range(3)))
    with skipping_zeros(per_example=True):
        output = block(x, weights)
    assert sizes == [3, 5, 1]
    many, alone = twin.operation(0)(x[[0, 2, 4]]), twin.operation(1)(x)[1]
    expected = torch.stack([many[0], alone, many[1], x[3].tanh(), many[2]])
    assert_equal(output, expected)
    assert_equal(gradients(output, [x]), gradients(expected, [x]))
    assert_equal(state_of(block), state_of(twin))
    sizes.clear()
    with skipping_zeros(per_example=True):
        assert_equal(block.eval()(x, weights), twin.eval()(x, weights))
    assert sizes == [3, 1, 1]


def test_examples_that_draw_nothing_get_zeros() -> None:
    """Also where the shape changes, and where nobody draws anything."""
    with global_seed(0, "strided"):
        block = ChoiceBlock("edge", [None, nn.Conv2d(2, 3, 1, stride=2), nn.MaxPool2d(2)]).double()
    x = numbers(4, 2, 4, 4)
    with skipping_zeros(per_example=True):
        some = block(x, one_hot(0, 1, 0, 1, count=3))
        none = block(x, one_hot(0, 0, 0, 0, count=3))
    assert some.shape == none.shape == (4, 3, 2, 2)
    assert not none.any() and not some[[0, 2]].any()
    assert_equal(some[[1, 3]], block.operation(1)(x[[1, 3]]))


def test_a_shortcut_passes_examples_on() -> None:
    block, x = make_block(), numbers(4, 2, 4, 4)
    with skipping_zeros(per_example=True):
        output = block(x, one_hot(NONE, SKIP, NONE, POOL), shortcut=True)
        assert block(x, one_hot(NONE, NONE, NONE, NONE), shortcut=True) is x
    assert_equal(output, torch.stack([x[0], 2 * x[1], x[2], (x + block.operation(POOL)(x))[3]]))


@pytest.mark.parametrize("layout", [torch.channels_last, torch.contiguous_format])
def test_images_stay_as_they_lie_in_memory(layout: torch.memory_format) -> None:
    """On the way into operations and out of them, and in the gradient; also a part of the channels does."""
    block, wide = make_block(), numbers(6, 4, 5, 3).contiguous(memory_format=layout)
    met: list[Tensor] = []
    for index in block.passing:
        block.operation(index).register_forward_hook(lambda _, inputs, output: met.extend([inputs[0], output]))
    for x in (wide[:, :2], wide[:, :2].contiguous(memory_format=layout).requires_grad_()):
        with skipping_zeros(per_example=True):
            met.append(block(x, one_hot(SKIP, SQUARE, POOL, SQUARE, NONE, POOL)))
        assert all(value.is_contiguous(memory_format=layout) for value in met)
        if x.requires_grad:
            met[-1].retain_grad()
            met[-1].square().sum().backward()
            assert x.grad is not None and x.grad.is_contiguous(memory_format=layout)


def test_grouping_ends_with_its_block() -> None:
    """Inside a plain `skipping_zeros`, and outside, operations see all examples."""
    block, x = make_block(), numbers(4, 2, 4, 4)
    sizes = batch_sizes(block.operation(SQUARE)[-1])  # type: ignore[index]
    with skipping_zeros(per_example=True):
        block(x, one_hot(SQUARE, SQUARE, SKIP, SKIP))
        with skipping_zeros():
            block(x, one_hot(SQUARE, SQUARE, SKIP, SKIP))
        block(x, one_hot(SQUARE)[0])  # weights for all examples
    block(x, one_hot(SQUARE, SQUARE, SKIP, SKIP))
    assert sizes == [2, 4, 4, 4]


NETS: dict[str, Callable[[], Supernet]] = {
    "cell": lambda: NB201Supernet(channels=2, cells=1, classes=3),
    "partial cell": lambda: NB201Supernet(channels=4, cells=1, classes=3, partial=2),
    "chain": lambda: ChainSupernet(
        channels=(3, 3, 4), strides=(1, 2, 1), kernels=(3,), expansions=(1, 2), stem_channels=3, head_channels=4
    ),
    "macro": lambda: MacroSupernet(channels=2, head_channels=4, classes=3),
    "nb101": lambda: NB101Supernet(2, channels=2, cells=1, classes=3),
    "mlp": lambda: MLPSupernet(features=3 * 8 * 8, classes=3, width=4, max_depth=2, inner_widths=(2, 3)),
    "darts": lambda: DartsSupernet(layers=3, channels=2, classes=3),
}


@pytest.mark.parametrize("name", NETS)
def test_every_example_has_the_network_of_its_architecture(name: str) -> None:
    """In evaluation mode: outputs of the paths one by one, and gradients of all operations on all examples."""
    with global_seed(0, name):
        net = NETS[name]().double()
    x, drawn = numbers(6, 3, 8, 8), [net.space.sample(generator_at(row, "architecture")) for row in range(6)]
    drawn[4] = drawn[0]
    gates = per_example_gates(drawn)
    with skipping_zeros(per_example=True):
        net.train()(x, gates)  # images of 8x8 end as single pixels
    net.eval()
    with skipping_zeros(per_example=True):
        output = net(x, gates)
    alone = torch.stack([net(x, architecture)[row] for row, architecture in enumerate(drawn)])
    assert_equal(output, alone)
    expected, parameters = net(x, gates), list(net.parameters())
    assert_equal(gradients(output, parameters), gradients(expected, parameters))


@pytest.mark.parametrize("draw", range(12))
@pytest.mark.parametrize("partial", [1, 2])
def test_cells_of_a_batch_train_as_if_they_were_alone(draw: int, partial: int) -> None:
    """Where two cells have no operation in common, dead ends and all, each half of a batch is a batch of its own."""
    space = NB201Supernet(channels=4, cells=1).space
    first = space.sample(generator_at(draw, "cell")) if draw else Architecture(space, (POOL,) * 6)  # then nothing
    second = Architecture(space, tuple((option + 1) % 5 for option in first.indices))
    with global_seed(0, "cell"):
        cell = Cell(4, space.choices[0].options, affine=True, partial=partial).double()
    twin, x = copy.deepcopy(cell), numbers(6, 4, 4, 4).requires_grad_()
    with skipping_zeros(per_example=True):
        output, _ = cell(x, per_example_gates([first, second] * 3))
    passing = (False, *[True] * 4)
    halves = [twin(x[row::2], live_steps(one.indices, passing))[0] for row, one in enumerate((first, second))]
    expected = torch.stack(halves, 1).flatten(0, 1)
    assert_equal(output, expected)
    assert_equal(state_of(cell), state_of(twin))
    found, by_hand = (gradients(value, [x, *used.parameters()]) for value, used in ((output, cell), (expected, twin)))
    assert_equal(found, by_hand)


@pytest.mark.parametrize("kind", ["bias", "attention", "split"])
@pytest.mark.parametrize("shortcut", [False, True])
def test_operations_with_weights_of_other_choices_see_all_examples(kind: InterChoiceKind, shortcut: bool) -> None:
    with global_seed(0, "interchoice"):
        operations = [None, nn.Identity(), relu_conv_bn(2, 2, 3)]
        weights = dependent_weights(InterChoice(kind), operations, channels=2, previous=[3])
        block = ChoiceBlock("edge", operations, weights).double()
    if isinstance(weights, SplitCopies):
        weights.split(block.operations)
    twin, x = copy.deepcopy(block), numbers(4, 2, 4, 4)
    gates, previous = one_hot(2, 1, 0, 2, count=3), [one_hot(0, 1, 2, 1, count=3)]
    with skipping_zeros(per_example=True):
        output = block(x, gates, previous, shortcut=shortcut)
    with skipping_zeros():
        assert output.equal(twin(x, gates, previous, shortcut=shortcut))
    assert same_bits(state_of(block), state_of(twin))
