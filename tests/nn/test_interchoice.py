"""Inter-choice weights of one block, against sums written out."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor, nn

from polyarch.errors import InvalidInput
from polyarch.nn import ChoiceBlock, InterChoice, InterChoiceKind, SplitCopies, dependent_weights
from polyarch.nn.choice_vectors import Attention, ChoiceVectors, JointBias, SharedBias
from polyarch.nn.operations import nb201_operation
from polyarch.randomness import generator_at, global_seed
from polyarch.spaces import NB201_OPERATIONS

OWN, PREVIOUS, CHANNELS = (1, 2), (3, 2), 4


def disturbed(module: nn.Module) -> nn.Module:
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator_at(0, "noise", name)))
    return module.double()


def images(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=generator_at(0, "images"))


def gates(batch: int | None, options: int, name: str) -> Tensor:
    shape = (options,) if batch is None else (batch, options)
    return torch.randn(*shape, dtype=torch.float64, generator=generator_at(0, name)).softmax(-1)


def make_block(kind: InterChoiceKind, previous: Sequence[int] = (5,)) -> ChoiceBlock:
    with global_seed(0, "block"):
        operations = [nb201_operation(name, 2, affine=False) for name in NB201_OPERATIONS]
        interchoice = InterChoice(kind, previous=len(previous))
        weights = dependent_weights(interchoice, operations, channels=2, previous=previous)
        block = ChoiceBlock("edge", operations, weights).double()
    if isinstance(weights, SplitCopies):
        weights.split(block.operations)
    disturbed(block)
    return block


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"kind": "biased"}, "inter-choice weights out of .* Got 'biased'"),
        ({"kind": "bias", "previous": 0}, "1 to 3 previous choices. Got 0"),
        ({"kind": "bias", "previous": 4}, "1 to 3 previous choices. Got 4"),
        ({"kind": "split", "previous": 2}, "split by 1 previous choice. Got 2"),
        ({"kind": "bias", "predecessors": "tree"}, "predecessors by .* Got 'tree'"),
    ],
)
def test_what_does_not_fit_is_refused(settings: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        InterChoice(**settings)  # type: ignore[arg-type]


def test_predecessors_are_the_last_before() -> None:
    two = InterChoice("bias", previous=2)
    assert [two.before(position, ()) for position in range(4)] == [(), (0,), (0, 1), (1, 2)]
    graph = InterChoice("bias", previous=2, predecessors="graph")
    assert graph.before(5, [1, 3, 4]) == (3, 4) and graph.before(5, [2]) == (2,) and graph.before(5, []) == ()


def test_a_choice_without_predecessors_has_no_extra_weights() -> None:
    for kind in ("bias", "shared_bias", "split", "attention", "deep_attention"):
        assert dependent_weights(InterChoice(kind), [nn.Identity()], channels=2, previous=()) is None
    assert dependent_weights(None, [nn.Identity()], channels=2, previous=(3,)) is None


def test_a_joint_bias_has_a_row_for_every_combination() -> None:
    bias = JointBias(CHANNELS, OWN, PREVIOUS)
    assert {tuple(row.shape) for row in bias.parameters()} == {(CHANNELS, 1, 1)}
    assert len(list(bias.parameters())) == len(OWN) * 3 * 2
    assert not any(row.any() for row in bias.parameters())
    rows = {
        combination: bias.vector(combination[0], combination[1:])
        for combination in itertools.product(OWN, range(3), range(2))
    }
    assert len({id(row) for row in rows.values()}) == len(rows)


def test_a_shared_bias_has_a_row_for_every_option_and_sums_them() -> None:
    bias = disturbed(SharedBias(CHANNELS, OWN, PREVIOUS))
    assert isinstance(bias, SharedBias)
    assert len(list(bias.parameters())) == len(OWN) + 3 + 2
    rows = bias.single.rows
    torch.testing.assert_close(bias.vector(2, (0, 1)), rows["own-2"] + rows["0-0"] + rows["1-1"])
    assert not any(row.any() for row in SharedBias(CHANNELS, OWN, PREVIOUS).parameters())


@pytest.mark.parametrize("hidden", [None, 6])
def test_attention_is_a_linear_network_on_one_hots(hidden: int | None) -> None:
    with global_seed(0, "attention"):
        attention = Attention(CHANNELS, OWN, PREVIOUS, hidden).double()
    rows = attention.single.rows
    names = ["own-1", "own-2", "0-0", "0-1", "0-2", "1-0", "1-1"]
    layers: list[nn.Module] = [nn.Linear(7, hidden or CHANNELS)]
    if hidden is not None:
        layers += [nn.ReLU(), nn.Linear(hidden, CHANNELS)]
    network = nn.Sequential(*layers, nn.Sigmoid()).double()
    first, last = network[0], network[-2]
    assert isinstance(first, nn.Linear) and isinstance(last, nn.Linear)
    with torch.no_grad():
        first.weight.copy_(torch.stack([rows[name].flatten() for name in names], dim=1))
        first.bias.copy_(attention.shift.flatten())
        if attention.weight is not None:
            last.weight.copy_(attention.weight)
            last.bias.copy_(attention.bias)
    one_hots = torch.tensor([0, 1, 0, 0, 1, 1, 0], dtype=torch.float64)
    scale = attention.vector(2, (2, 0))
    assert scale.shape == (CHANNELS, 1, 1) and scale.min() > 0 and scale.max() < 1
    torch.testing.assert_close(scale.flatten(), network(one_hots))
    soft = torch.tensor([[0, 1, 0.2, 0.3, 0.5, 0.6, 0.4]], dtype=torch.float64).expand(5, -1)
    mixed = attention.vector(2, (soft[0, 2:5], soft[:, 5:]))
    torch.testing.assert_close(mixed.flatten(1), network(soft))


@pytest.mark.parametrize("batches", [(None, None), (None, 5), (5, None), (5, 5)])
@pytest.mark.parametrize("make", [JointBias, SharedBias])
def test_gates_give_the_mean_vector(make: type[JointBias | SharedBias], batches: tuple[int | None, ...]) -> None:
    bias = disturbed(make(CHANNELS, OWN, PREVIOUS))
    assert isinstance(bias, ChoiceVectors)
    first, second = gates(batches[0], 3, "first"), gates(batches[1], 2, "second")
    expected = sum(
        (first[..., p] * second[..., q]).reshape(-1, 1, 1, 1) * bias.vector(2, (p, q))
        for p, q in itertools.product(range(3), range(2))
    )
    assert isinstance(expected, Tensor)
    found = bias.vector(2, (first, second))
    assert found.shape == ((CHANNELS, 1, 1) if batches == (None, None) else (5, CHANNELS, 1, 1))
    torch.testing.assert_close(found.expand_as(expected), expected)


@pytest.mark.parametrize("shortcut", [False, True])
@pytest.mark.parametrize("batch", [None, 6])
def test_a_block_mixes_operations_with_vectors_of_their_own(batch: int | None, shortcut: bool) -> None:
    block, x = make_block("bias", (5, 3)).eval(), images(6, 2, 4, 4)
    own, before = gates(batch, 5, "own"), (gates(batch, 5, "before"), gates(None, 3, "second"))
    assert isinstance(block.interchoice, JointBias)
    expected = x.clone() if shortcut else torch.zeros_like(x)
    for option in block.passing:
        vector = block.interchoice.vector(option, before)
        output = block.operation(option)(x + vector) + (vector if shortcut else 0)
        expected += own[..., option].reshape(-1, 1, 1, 1) * output
    torch.testing.assert_close(block(x, own, before, shortcut=shortcut), expected)


@pytest.mark.parametrize("kind", ["bias", "shared_bias", "attention", "deep_attention", "split"])
@pytest.mark.parametrize("shortcut", [False, True])
def test_an_index_is_a_one_hot_gate(kind: InterChoiceKind, shortcut: bool) -> None:
    block, x = make_block(kind).eval(), images(3, 2, 4, 4)
    hot = torch.eye(5, dtype=torch.float64)
    outputs = {}
    for option, before in itertools.product(block.passing, range(5)):
        outputs[option, before] = block(x, option, (before,), shortcut=shortcut)
        soft = block(x, hot[option], (hot[before],), shortcut=shortcut)
        torch.testing.assert_close(soft, outputs[option, before])
    convolution = NB201_OPERATIONS.index("nor_conv_3x3")
    assert len({outputs[convolution, before].sum().item() for before in range(5)}) == 5  # each has its own weights


@pytest.mark.parametrize("kind", ["bias", "shared_bias"])
def test_the_addend_is_what_a_block_adds(kind: InterChoiceKind) -> None:
    block, x = make_block(kind).eval(), images(3, 2, 4, 4)
    for option, before in itertools.product(block.passing, range(5)):
        vector = block.addend(x, option, (before,))
        torch.testing.assert_close(block.between(x, vector, option, None), block(x, option, (before,)))


@pytest.mark.parametrize("kind", ["split", "attention"])
def test_other_weights_add_nothing(kind: InterChoiceKind) -> None:
    assert make_block(kind).addend(images(3, 2, 4, 4), 1, (0,)) is None


def test_operations_that_keep_constants_are_known() -> None:
    block, x, shift = make_block("bias").eval(), images(3, 2, 4, 4), images(2, 1, 1)
    assert {NB201_OPERATIONS[option] for option in block.keeping} == {"skip_connect", "avg_pool_3x3"}
    for option in block.passing:
        change = block.between(x, shift, option, None) - block.between(x, None, option, None)
        assert torch.allclose(change, shift.expand_as(x)) == (option in block.keeping)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("affine", [False, True])
def test_a_normalisation_layer_adds_a_shift(affine: bool, training: bool) -> None:
    """The same sum, statistics and count of batches."""
    operation = nb201_operation("nor_conv_3x3", 2, affine=affine)
    assert operation is not None
    block = ChoiceBlock("edge", [None, disturbed(operation)]).train(training)
    assert block.normalising == (1,)
    expected_block = copy.deepcopy(block)
    x, before, after = images(3, 2, 4, 4), images(2, 1, 1), images(2, 1, 1) + 1
    expected = expected_block.between(x, before, 1, None) + after
    torch.testing.assert_close(block.between(x, before, 1, after), expected)
    torch.testing.assert_close(dict(block.named_buffers()), dict(expected_block.named_buffers()))


def test_a_bias_reaches_training_only_through_a_shortcut() -> None:
    """A constant in front of a 1x1 convolution and batch statistics cancels."""
    operation = nn.Sequential(nn.Conv2d(2, 2, 1, bias=False), nn.BatchNorm2d(2)).double()
    block = ChoiceBlock("layer", [operation], JointBias(2, [0], [1])).double()
    x = images(6, 2, 3, 3)
    before = {shortcut: block(x, 0, (0,), shortcut=shortcut) for shortcut in (False, True)}
    disturbed(block.interchoice)  # type: ignore[arg-type]
    torch.testing.assert_close(block(x, 0, (0,)), before[False])
    change = block(x, 0, (0,), shortcut=True) - before[True]
    assert isinstance(block.interchoice, JointBias)
    torch.testing.assert_close(change, block.interchoice.vector(0, (0,)).detach().expand_as(x))


def test_copies_start_from_one_snapshot_and_go_their_own_ways() -> None:
    with global_seed(0, "block"):
        operations = [nb201_operation(name, 2, affine=True) for name in NB201_OPERATIONS]
        copies = SplitCopies(operations, 3)
        block = ChoiceBlock("edge", operations, copies)
    assert set(copies.copies) == {"2", "3"}  # what has no weights needs no copies
    x = torch.randn(4, 2, 5, 5, generator=generator_at(0, "images"))
    block(x, 3, (2,))  # training moves the statistics of the operation itself
    disturbed(block.operations).float()
    snapshot = block.operation(3).state_dict()
    assert all(copies.serving(block.operation(3), 3) == (block.operation(3),) for _ in range(3))
    pairs = copies.split(block.operations)
    assert len(pairs) == 2 * 2 * 3  # two convolutions, two copies, weight, scale and shift
    assert all(first.equal(second) and first is not second for first, second in pairs)
    for twin in copies.of(3):
        assert all(value.equal(snapshot[name]) for name, value in twin.state_dict().items())
    block(x, 3, (2,))
    means = [serving[2].running_mean for serving in copies.serving(block.operation(3), 3)]  # type: ignore[index]
    assert means[0].equal(means[1]) and not means[0].equal(means[2])
    assert snapshot["2.num_batches_tracked"] == 1 and copies.of(3)[1].state_dict()["2.num_batches_tracked"] == 2


def test_the_split_is_part_of_the_state() -> None:
    blocks = [make_block("split") for _ in range(2)]
    first, second = (block.interchoice for block in blocks)
    assert isinstance(first, SplitCopies) and isinstance(second, SplitCopies)
    first.is_split = False
    second.load_state_dict(first.state_dict())
    assert not second.is_split
    first.is_split = True
    second.load_state_dict(first.state_dict())
    assert second.is_split
