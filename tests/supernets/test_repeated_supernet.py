"""A network whose only choice is a `Repeat`: all depths from one walk equal every depth alone."""

from __future__ import annotations

import copy
import functools
import io
import pickle
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from module_examples import normal
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from polyarch.errors import InvalidInput
from polyarch.nn import Maybe, OneOf, Repeat
from polyarch.randomness import global_seed
from polyarch.spaces import Architecture, Space
from polyarch.supernets import RepeatSupernet, Supernet, from_module
from polyarch.testing import SupernetContract, same_bits, state_of

X = normal(6, 3)
WIDTH = 4


def block() -> nn.Module:
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH), nn.Tanh())


def head() -> nn.Module:
    return nn.Sequential(nn.BatchNorm1d(WIDTH), nn.ReLU(), nn.Linear(WIDTH, 2))


class Depths(nn.Module):
    """Nothing is chosen but the depth."""

    def __init__(
        self, minimum: int, make_block: Callable[[], nn.Module] = block, make_head: Callable[[], nn.Module] = head
    ) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Flatten(), nn.Linear(3, WIDTH), nn.BatchNorm1d(WIDTH))
        self.body = Repeat("depth", [make_block() for _ in range(3)], minimum=minimum)
        self.head = make_head()

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.body(self.stem(x)))
        return logits


class TestFromDepthZero(SupernetContract):
    minimum = 0

    def make_supernet(self) -> Supernet:
        net = from_module(Depths(self.minimum).double(), self.make_inputs())
        assert isinstance(net, RepeatSupernet)
        return net

    def make_inputs(self) -> Tensor:
        return X

    def make_architectures(self, space: Space) -> list[Architecture]:
        return list(space.enumerate())


class TestFromDepthOne(TestFromDepthZero):
    minimum = 1


def made(
    minimum: int = 0, *, make_head: Callable[[], nn.Module] = head, make_block: Callable[[], nn.Module] = block
) -> RepeatSupernet:
    """In training mode, with averages that differ from depth to depth."""
    with global_seed(0, "net"):
        net = from_module(Depths(minimum, make_block, make_head).double(), X)
    assert isinstance(net, RepeatSupernet)
    for depth in reversed(members(net)):
        net(X + 1, depth)
    return net


def members(net: Supernet) -> list[Architecture]:
    return list(net.space.enumerate())


def close(actual: Tensor | None, expected: Tensor | None) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-10, atol=1e-10)


def gradients(net: nn.Module, loss: Tensor) -> dict[str, Tensor]:
    net.zero_grad(set_to_none=True)
    loss.backward()
    return {name: parameter.grad for name, parameter in net.named_parameters() if parameter.grad is not None}


def norms(network: nn.Module) -> dict[str, nn.BatchNorm1d]:
    return {name: layer for name, layer in network.named_modules() if isinstance(layer, nn.BatchNorm1d)}


def cumulative() -> nn.Module:
    return nn.Sequential(nn.BatchNorm1d(WIDTH, momentum=None), nn.ReLU(), nn.Linear(WIDTH, 2))


def untracked() -> nn.Module:
    return nn.Sequential(nn.BatchNorm1d(WIDTH, track_running_stats=False), nn.Tanh(), nn.Linear(WIDTH, 2))


def linear() -> nn.Module:
    return nn.Linear(WIDTH, 2)


class Steps(nn.Module):
    """Runs on a longer batch than that of the exits: every example becomes two, side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.out = nn.BatchNorm1d(WIDTH), nn.Linear(WIDTH, 2)

    def forward(self, x: Tensor) -> Tensor:
        steps = torch.stack([x, x.flip(-1)], 1)  # (B, 2, width)
        logits: Tensor = self.out(self.norm(steps.flatten(0, 1)).unflatten(0, (-1, 2)).mean(1))
        return logits


HEADS = [head, cumulative, untracked, linear, Steps]


@pytest.mark.parametrize("minimum", [0, 1])
@pytest.mark.parametrize("make_head", HEADS)
def test_training_together_equals_every_depth_alone(minimum: int, make_head: Callable[[], nn.Module]) -> None:
    """From the same state: outputs, gradients summed over the depths, averages of the head per depth."""
    net = made(minimum, make_head=make_head)
    depths = members(net)
    state = copy.deepcopy(net.state_dict())
    weights = normal(len(depths), len(X), 2)
    together = net.forward_many(X, depths)
    found = gradients(net, (together * weights).sum())
    extracted = [net.extract(depth) for depth in depths]
    expected: dict[str, Tensor] = {}
    for index, depth in enumerate(depths):
        net.load_state_dict(state)
        network = net.extract(depth)
        alone = network(X)
        close(together[index], alone)
        close(together[index], net(X, depth))
        (alone * weights[index]).sum().backward()
        for (name, layer), (_, other) in zip(norms(network).items(), norms(extracted[index]).items(), strict=True):
            for buffer in ("running_mean", "running_var", "num_batches_tracked"):
                close(getattr(other, buffer), getattr(layer, buffer))
            assert not name.startswith("head") or other.momentum == layer.momentum
        for name, parameter in network.named_parameters():
            name = f"model.{name.replace('body.', 'body.blocks.')}"
            assert parameter.grad is not None
            expected[name] = expected.get(name, torch.zeros(())) + parameter.grad
    assert found.keys() == expected.keys()
    for name in found:
        close(found[name], expected[name])


def test_averages_of_blocks_move_once_per_walk_and_those_of_the_head_once_per_depth() -> None:
    net = made()
    before = {name: layer.num_batches_tracked.clone() for name, layer in norms(net).items()}  # type: ignore[union-attr]
    (_, statistics), *_ = net.statistics_of(net.model)
    counts, means = statistics.batches.clone(), statistics.means.clone()
    net.forward_many(X, [members(net)[index] for index in (2, 0, 2)])
    assert (statistics.batches - counts).tolist() == [1, 0, 2, 0]
    assert (statistics.means != means).any(1).tolist() == [True, False, True, False]
    moved = {name: int(layer.num_batches_tracked - before[name]) for name, layer in norms(net).items()}  # type: ignore[operator]
    assert [moved[f"model.body.blocks.{position}.1"] for position in range(3)] == [1, 1, 0]
    own = net.model.get_submodule("head.0")
    assert isinstance(own, nn.BatchNorm1d) and own.running_mean is not None
    assert not own.running_mean.any()


@pytest.mark.parametrize("make_head", HEADS)
def test_evaluation_equals_extraction(make_head: Callable[[], nn.Module]) -> None:
    net = made(make_head=make_head).eval()
    depths = members(net)
    for depth, logits in zip(depths, net.forward_many(X, depths), strict=True):
        close(logits, net.extract(depth)(X))
        close(net(X, depth), logits)


@pytest.mark.parametrize("order", [(3, 1), (0, 0, 2, 0), (2,), (1, 3, 0, 2)])
def test_any_order_and_repetitions(order: Sequence[int]) -> None:
    net = made()
    depths = [members(net)[index] for index in order]
    for mode in (True, False):
        net.train(mode)
        together = net.forward_many(X, depths)
        assert together.shape == (len(order), len(X), 2)
        close(together, torch.stack([net(X, depth) for depth in depths]))


def test_only_blocks_up_to_the_deepest_are_run_and_each_once() -> None:
    net = made()
    calls: list[str] = []
    for name, module in net.model.named_modules():
        module.register_forward_hook(lambda *_, name=name: calls.append(name))
    net.forward_many(X, [members(net)[index] for index in (2, 1, 2)])
    blocks = [name for name in calls if name.startswith("body.blocks.") and name.count(".") == 2]
    assert blocks == ["body.blocks.0", "body.blocks.1"]
    assert calls.count("head") == calls.count("body") == calls.count("") == 1


@pytest.mark.parametrize("per_example", [False, True])
def test_gates_mix_the_logits_of_the_exits(per_example: bool) -> None:
    net = made()
    gates = normal(len(X), 4) if per_example else normal(4)
    for mode in (False, True):
        net.train(mode)
        logits = net.forward_many(X, members(net))
        expected = sum(gates[..., index, None] * logits[index] for index in range(4))
        assert isinstance(expected, Tensor)
        close(net(X, {"depth": gates}), expected)


def test_gates_of_another_batch_are_refused() -> None:
    with pytest.raises(InvalidInput, match=r"one row of gates per example of 'depth'. Got 5 rows for 6 examples."):
        made()(X, {"depth": normal(5, 4)})


def test_threads_do_not_disturb_each_other() -> None:
    net = made().eval()
    orders = [(3, 1), (0,), (2, 2, 0), (1, 3)] * 4

    def run(order: Sequence[int]) -> Tensor:
        return net.forward_many(X, [members(net)[index] for index in order]).detach()

    serial = [run(order) for order in orders]
    with ThreadPoolExecutor(max_workers=4) as threads:
        assert same_bits(list(threads.map(run, orders)), serial)


def test_copies_and_files_keep_the_averages_of_all_depths() -> None:
    net = made().eval()
    expected = net.forward_many(X, members(net))
    file = io.BytesIO()
    torch.save(net.state_dict(), file)
    file.seek(0)
    with global_seed(1, "other"):
        other = from_module(Depths(0).double(), X).eval()
    other.load_state_dict(torch.load(file, weights_only=True))
    for same in (other, copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert same_bits(same.forward_many(X, members(net)), expected)
    copied = copy.deepcopy(net).train()
    copied.forward_many(X + 1, members(net))
    assert same_bits(net.forward_many(X, members(net)), expected)
    single = copy.deepcopy(net).float()
    found = single.forward_many(X.float(), members(net))
    torch.testing.assert_close(found, expected.float(), rtol=1e-4, atol=1e-4)
    assert {value.dtype for name, value in single.state_dict().items() if name.endswith("means")} == {torch.float32}


def test_making_it_changes_nothing() -> None:
    """Neither modes, weights, statistics and gradients of the network, nor torch's generator, nor the example."""

    model = Depths(0, make_head=lambda: nn.Sequential(nn.Dropout(), head())).double()
    model.head.eval()
    before, modes = state_of(model), [module.training for module in model.modules()]
    state, example = torch.random.get_rng_state(), X.clone()
    net = from_module(model, example)
    assert isinstance(net, RepeatSupernet) and net.model is model
    assert same_bits(state_of(model), before) and same_bits(example, X)
    assert same_bits(torch.random.get_rng_state(), state)
    assert [module.training for module in model.modules()] == modes
    assert all(parameter.grad is None for parameter in model.parameters())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_function_transforms() -> None:
    """Gradients per example with `torch.func`."""
    net = made().eval()
    weights = dict(net.named_parameters())

    def loss(weights: Mapping[str, Tensor], example: Tensor) -> Tensor:
        output: Tensor = torch.func.functional_call(net, dict(weights), (example[None], members(net)[2]))
        return output.square().sum()

    found = torch.func.vmap(torch.func.grad(loss), (None, 0))(weights, X)
    for position, example in enumerate(X):
        expected = torch.autograd.grad(loss(weights, example), list(weights.values()), allow_unused=True)
        for gradient, wanted in zip(found.values(), expected, strict=True):
            close(gradient[position], torch.zeros_like(gradient[0]) if wanted is None else wanted)


def test_images_in_channels_last_and_an_example_of_zeros() -> None:
    """A convolutional head, in single precision."""
    with global_seed(0, "net"):
        body = Repeat("depth", [nn.Sequential(nn.Conv2d(3, 3, 3, padding=1), nn.BatchNorm2d(3)) for _ in range(3)])
        tail = [nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
        net = from_module(nn.Sequential(body, *tail, nn.Linear(4, 2)), torch.zeros(2, 3, 5, 5))
    assert isinstance(net, RepeatSupernet) and net.norms == ("2",)
    images = normal(4, 3, 5, 5, dtype=torch.float32).contiguous(memory_format=torch.channels_last)
    for mode in (True, False):
        net.train(mode)
        together = net.forward_many(images, members(net))
        for depth, logits in zip(members(net), together, strict=True):
            torch.testing.assert_close(net(images, depth), logits, rtol=1e-4, atol=1e-4)


def test_whole_numbers_as_inputs() -> None:
    model = nn.Sequential(nn.Embedding(9, 4), Repeat("depth", [nn.Linear(4, 4), nn.Tanh()]), nn.Flatten())
    net = from_module(model, torch.zeros(2, 3, dtype=torch.long))
    assert isinstance(net, RepeatSupernet)
    assert net.forward_many(torch.arange(6).view(2, 3), members(net)).shape == (2, 2, 12)


def test_a_repeat_alone() -> None:
    net = from_module(Repeat("depth", [nn.Linear(3, 3), nn.Tanh()], minimum=0).double(), X)
    assert isinstance(net, RepeatSupernet)
    close(net.forward_many(X, members(net))[0], X)


def test_an_empty_batch() -> None:
    net = made().eval()
    assert net.forward_many(X[:0], members(net)).shape == (4, 0, 2)


class Own(nn.Module):
    """A stem, a depth and a head that ``run`` puts together in a way of its own."""

    def __init__(self, run: Callable[[Any, Tensor], Tensor]) -> None:
        super().__init__()
        self.stem, self.body = nn.Linear(3, WIDTH), Repeat("depth", [block() for _ in range(2)])
        self.norm, self.other, self.head = nn.BatchNorm1d(WIDTH), nn.BatchNorm1d(WIDTH), nn.Linear(WIDTH, 2)
        self.run = run

    def forward(self, x: Tensor) -> Tensor:
        return self.run(self, x)


def transposed(net: Any, x: Tensor) -> Tensor:
    """What is flattened before the norm layer is not in the order of the depths."""
    x = net.body(net.stem(x))
    pairs = torch.stack([x, x.flip(-1)]).flatten(0, 1)  # (2 * B, width)
    return net.head(net.norm(pairs).unflatten(0, (2, -1)).sum(0))  # type: ignore[no-any-return]


def in_parts(net: Any, x: Tensor) -> Tensor:
    """Statistics of three examples at a time when training."""
    x = net.body(net.stem(x))
    return net.head(torch.cat([net.norm(part) for part in x.split(3)]) if net.training else net.norm(x))  # type: ignore[no-any-return]


def centred(net: Any, x: Tensor) -> Tensor:
    """Examples know each other when training, without a batch norm layer."""
    x = net.body(net.stem(x))
    return net.head(x - x.mean(0) if net.training else x)  # type: ignore[no-any-return]


FALLBACKS: dict[str, Callable[[Any, Tensor], Tensor]] = {
    "skip": lambda net, x: net.head(net.stem(x) + net.body(net.stem(x))),
    "twice": lambda net, x: net.head(net.body(net.body(net.stem(x)))),
    "batch size": lambda net, x: net.head(net.body(net.stem(x)).view(len(x), -1)),
    "norm before and after": lambda net, x: net.head(net.norm(net.body(net.norm(net.stem(x))))),
    "norm inside and after": lambda net, x: net.head(net.body.blocks[0][1](net.body(net.stem(x)))),
    "other examples": lambda net, x: net.head(net.body(net.stem(x)).softmax(0)),
    "other examples when training": centred,
    "transposed": transposed,
    "transposed, with chance": lambda net, x: nn.functional.dropout(transposed(net, x), training=net.training),
    "in parts": in_parts,
    "a tuple": lambda net, x: (net.head(net.body(net.stem(x))),),  # type: ignore[dict-item, return-value]
    "another norm when training": lambda net, x: net.head(
        (net.norm if net.training else net.other)(net.body(net.stem(x)))
    ),
    "norm checkpointed": lambda net, x: net.head(checkpoint(net.norm, net.body(net.stem(x)), use_reentrant=False)),
    "norm checkpointed, reentrant": lambda net, x: net.head(
        checkpoint(net.norm, net.body(net.stem(x)), use_reentrant=True)
        if torch.is_grad_enabled()
        else net.norm(net.body(net.stem(x)))
    ),
    "depth checkpointed when training": lambda net, x: net.head(
        checkpoint(net.body, net.stem(x), use_reentrant=False) if net.training else net.body(net.stem(x))
    ),
}


@pytest.mark.parametrize("example", [X, X[:1], torch.zeros_like(X)], ids=["noise", "one", "zeros"])
@pytest.mark.parametrize("run", FALLBACKS.values(), ids=FALLBACKS.keys())
def test_exits_that_cannot_share_a_batch(run: Callable[[Any, Tensor], Tensor], example: Tensor) -> None:
    for mode in (torch.enable_grad(), torch.no_grad()):
        with mode:
            net = from_module(Own(run).double(), example)
        assert not isinstance(net, RepeatSupernet)


def test_examples_that_prove_nothing() -> None:
    """All depths give zeros for zeros, chance forbids to compare in training mode, and one example can be broadcast."""

    class Deceiving(nn.Module):
        def __init__(self, run: Callable[[Any, Tensor], Tensor]) -> None:
            super().__init__()
            self.body = Repeat("depth", [nn.Linear(3, 3, bias=False) for _ in range(2)])
            self.drop = nn.Dropout()
            self.run = run

        def forward(self, x: Tensor) -> Tensor:
            return self.run(self, x)

    runs: list[Callable[[Any, Tensor], Tensor]] = [
        lambda net, x: net.drop(net.body(x)),
        lambda net, x: net.drop(net.body(x).roll(1, 0)),
        lambda net, x: net.drop(x + net.body(x)),
    ]
    for example in (torch.zeros_like(X), X[:1]):
        found = [isinstance(from_module(Deceiving(run).double(), example), RepeatSupernet) for run in runs]
        assert found == [True, False, False]


def test_exits_that_the_next_block_changes_in_place() -> None:
    with global_seed(0, "blocks"):  # weights with which there is something for the ReLU to change
        blocks = [nn.Sequential(nn.ReLU(inplace=True), nn.Linear(3, 3)) for _ in range(2)]
        model = nn.Sequential(nn.Linear(3, 3), Repeat("depth", blocks)).double()
    assert not isinstance(from_module(model, X), RepeatSupernet)


def test_other_choices_and_no_example() -> None:
    repeat = Repeat("depth", [nn.Linear(3, 3), nn.Tanh()])
    for model in (
        nn.Sequential(repeat, Maybe("end", nn.Tanh())),
        Repeat("depth", [nn.Tanh(), OneOf("act", a=nn.Tanh(), b=nn.ReLU())]),
        OneOf("act", a=nn.Tanh(), b=nn.ReLU()),
    ):
        assert not isinstance(from_module(model.double(), X), RepeatSupernet)
    assert not isinstance(from_module(repeat.double()), RepeatSupernet)
    assert isinstance(from_module(repeat, X), RepeatSupernet)


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpointed_blocks_and_heads_without_batch_norm(reentrant: bool) -> None:
    class Checkpointed(nn.Module):
        def __init__(self, module: nn.Module) -> None:
            super().__init__()
            self.module = module

        def forward(self, x: Tensor) -> Tensor:
            if not x.requires_grad:  # without gradients reentrant checkpoints complain
                return self.module(x)  # type: ignore[no-any-return]
            return checkpoint(self.module, x, use_reentrant=reentrant)  # type: ignore[no-any-return]

    def tail(wrap: Callable[[nn.Module], nn.Module]) -> nn.Module:
        return nn.Sequential(nn.BatchNorm1d(WIDTH), wrap(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh())), linear())

    def loss(net: RepeatSupernet) -> Tensor:
        alone: Tensor = net(X, members(net)[1])
        return net.forward_many(X, members(net)).square().sum() + alone.square().sum()

    plain = made(make_head=lambda: tail(nn.Sequential), make_block=lambda: nn.Sequential(block()))
    net = made(make_head=lambda: tail(Checkpointed), make_block=lambda: Checkpointed(block()))
    expected = gradients(plain, loss(plain))
    for found, wanted in zip(gradients(net, loss(net)).values(), expected.values(), strict=True):
        close(found, wanted)


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_whole_call_inside_a_checkpoint(reentrant: bool) -> None:
    net = made().eval()
    found = []
    for remember in (False, True):
        x = X.clone().requires_grad_()
        losses = []
        for depths in (members(net), members(net)[:2]):
            call = functools.partial(net.forward_many, architectures=depths)
            logits: Tensor = checkpoint(call, x, use_reentrant=reentrant) if remember else call(x)
            losses.append(logits.square().sum())
        found.append(gradients(net, torch.stack(losses).sum()))
    for name in found[0]:
        close(found[1][name], found[0][name])


def test_passes_that_are_not_like_the_trial() -> None:
    """A network whose ``forward`` changes its mind."""
    decide = {"times": 1}

    def run(net: Any, x: Tensor) -> Tensor:
        x = net.stem(x)
        for _ in range(decide["times"]):
            x = net.body(x)
        return net.head(x)  # type: ignore[no-any-return]

    net = from_module(Own(run).double(), X)
    assert isinstance(net, RepeatSupernet)
    for times, message in ((0, "every pass to run 'depth'. Got one that did not."), (2, "to run 'depth' once.")):
        decide["times"] = times
        with pytest.raises(InvalidInput, match=message):
            net.forward_many(X, members(net))


def test_batch_norm_of_a_part_of_the_exits_is_refused() -> None:
    parts = {"now": False}

    def run(net: Any, x: Tensor) -> Tensor:
        x = net.body(net.stem(x))
        return net.head(torch.cat([net.norm(part) for part in x.split(4)]) if parts["now"] else net.norm(x))  # type: ignore[no-any-return]

    net = from_module(Own(run).double(), X)
    parts["now"] = True
    with pytest.raises(InvalidInput, match=r"of all 12 examples at once. Got 4."):
        net.forward_many(X, members(net))


def test_the_space_is_the_depths() -> None:
    for minimum, options in ((0, ("0", "1", "2", "3")), (2, ("2", "3"))):
        net = made(minimum)
        (choice,) = net.space.choices
        assert (choice.name, choice.options, net.space.name) == ("depth", options, "Depths")
        assert net.space == from_module(Depths(minimum)).space
        network = net.extract(members(net)[-1])
        assert net.parameter_count(members(net)[-1]) == sum(parameter.numel() for parameter in network.parameters())
