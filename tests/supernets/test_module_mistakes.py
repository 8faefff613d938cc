"""What cannot work in a network of one's own is said in one sentence that names the block."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from polyarch.errors import InvalidInput
from polyarch.nn import Maybe, OneOf, Repeat
from polyarch.randomness import global_seed
from polyarch.supernets import ChainSupernet, from_module
from polyarch.testing import same_bits, state_of

X = torch.ones(2, 8, 16, 16)
CONV = nn.Conv2d(8, 8, 3, padding=1)
TANH: Any = nn.Tanh()


class Pieces(nn.Module):
    """Blocks that ``forward`` runs in a way of its own."""

    def __init__(self, forward: Callable[[Any, Tensor], Any], **modules: nn.Module) -> None:
        super().__init__()
        for name, module in modules.items():
            self.add_module(name, module)
        self.run = forward

    def forward(self, x: Tensor) -> Any:
        return self.run(self, x)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: OneOf("block1"), "one or more distinct options for 'block1'. Got []."),
        (lambda: OneOf("", a=TANH), "a choice to have a name"),
        (lambda: OneOf(TANH, a=TANH), "the name of a block first. Got Tanh."),
        (lambda: OneOf("block1", **{"a|b": TANH}), "options without '|' for choice 'block1'. Got ['a|b']."),
        (lambda: OneOf("block1", a=nn.ReLU), "option 'a' of 'block1' to be a module. Got type."),  # type: ignore[arg-type]
        (lambda: OneOf("block1", a=None), "option 'a' of 'block1' to be a module. Got NoneType."),  # type: ignore[arg-type]
        (lambda: Repeat("depth", []), "'depth' to have one or more blocks"),
        (lambda: Repeat("depth", [TANH], minimum=2), "Got 1 blocks, minimum=2."),
        (lambda: Repeat("depth", [TANH], minimum=-1), "Got 1 blocks, minimum=-1."),
        (lambda: Repeat("depth", [TANH, 3]), "block 1 of 'depth' to be a module. Got int."),  # type: ignore[list-item]
        (lambda: Maybe("se", torch.ones(2)), "the block of 'se' to be a module. Got Tensor."),  # type: ignore[arg-type]
        (
            lambda: from_module(nn.Sequential(TANH)),
            "OneOf, Repeat or Maybe, or an elastic layer with Sizes, among the submodules of Sequential. Got none.",
        ),
        (lambda: from_module(torch.tanh), "a torch module to make a supernet of. Got builtin"),  # type: ignore[arg-type]
        (
            lambda: from_module(nn.Sequential(TANH, ChainSupernet(channels=(4,)))),
            "a network without a supernet inside. Got ChainSupernet at '1'.",
        ),
        (
            lambda: from_module(nn.Sequential(Maybe("a", TANH), OneOf("b", c=Maybe("a", TANH)))),
            "every block to have its own name. Got 'a' at '0' and '1.options.0'.",
        ),
        (
            lambda: from_module(nn.Sequential(*(copy.deepcopy(Maybe("a", TANH)) for _ in range(2)))),
            "Got 'a' at '0' and '1'.",
        ),
    ],
)
def test_impossible_networks(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        make()
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            OneOf("block1", conv3=CONV, conv5=nn.Conv2d(8, 8, 5, padding=2), pool=nn.MaxPool2d(2)),
            "Expected all options of 'block1' to return outputs of one shape. "
            "Got conv3: (2, 8, 16, 16), pool: (2, 8, 8, 8).",
        ),
        (
            Repeat("depth", [CONV, nn.Conv2d(8, 4, 1)]),
            "Expected all options of 'depth' to return outputs of one shape. Got 1: (2, 8, 16, 16), 2: (2, 4, 16, 16).",
        ),
        (
            Repeat("depth", [nn.Flatten(), nn.Linear(2048, 2048)], minimum=0),
            "Expected all options of 'depth' to return outputs of one shape. Got 0: (2, 8, 16, 16), 1: (2, 2048).",
        ),
        (
            Maybe("se", nn.AdaptiveAvgPool2d(1)),
            "Expected all options of 'se' to return outputs of one shape. Got off: (2, 8, 16, 16), on: (2, 8, 1, 1).",
        ),
        (
            OneOf("block1", a=TANH, b=nn.MaxPool2d(3, 1, 1, return_indices=True)),
            "Expected all options of 'block1' to return outputs of one shape. "
            "Got a: (2, 8, 16, 16), b: ((2, 8, 16, 16), (2, 8, 16, 16)).",
        ),
        (
            OneOf("block1", a=TANH, b=Pieces(lambda _, x: x.double())),
            "Expected all options of 'block1' to return outputs of one dtype. Got a: torch.float32, b: torch.float64.",
        ),
        (
            OneOf("outer", a=TANH, b=nn.Sequential(CONV, OneOf("inner", c=TANH, d=nn.Conv2d(7, 8, 1)))),
            "Expected option 'd' of 'inner' to run on an input of shape (2, 8, 16, 16). Got RuntimeError: Given",
        ),
        (
            Pieces(lambda self, x: self.a(x), a=Maybe("a", TANH), b=Maybe("b", TANH)),
            "Expected the network to use its block 'b'. Got a pass that never reached it.",
        ),
        (
            Pieces(lambda self, x: Maybe("b", TANH)(self.a(x)), a=Maybe("a", TANH)),
            "Expected 'b' to be a submodule of the network that runs it. Got a block from outside.",
        ),
    ],
    ids=["one of", "depth", "depth 0", "maybe", "structure", "dtype", "raises inside", "never reached", "outside"],
)
def test_an_example_shows_what_does_not_fit(model: nn.Module, message: str) -> None:
    from_module(model)  # cannot know
    with pytest.raises(InvalidInput) as caught:
        from_module(model, X)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)
    assert Maybe("alone", nn.AdaptiveAvgPool2d(1))(X).shape == (2, 8, 1, 1)  # the trial is over


class Moving(nn.Module):
    """Writes into its buffers and its input, and puts another buffer in place, also in evaluation mode."""

    seen: Tensor
    mean: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))
        self.register_buffer("mean", torch.zeros(8), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        self.seen += 1
        self.mean = 0.9 * self.mean + x.mean((0, 2, 3))
        return x.add_(1)


def test_a_trial_leaves_everything_as_it_was() -> None:
    """Modes that differ from part to part, buffers, gradients and the example itself."""
    norm = nn.BatchNorm2d(8).eval()
    model = nn.Sequential(Moving(), OneOf("norm", batch=norm, moving=Moving()), nn.Dropout())
    example, before, buffers = X.clone(), state_of(model), dict(model.named_buffers())
    net = from_module(model, example)
    assert same_bits(state_of(model), before)
    assert same_bits(example, X)
    assert all(buffer is buffers[name] and buffer.any() == ("var" in name) for name, buffer in model.named_buffers())
    with pytest.raises(InvalidInput):
        from_module(nn.Sequential(model, OneOf("bad", a=TANH, b=nn.Flatten())), example)
    assert same_bits(state_of(model), before)
    assert net.training


def test_a_trial_gives_lazy_layers_their_shape() -> None:
    net = from_module(nn.Sequential(OneOf("conv", a=nn.LazyConv2d(4, 1), b=nn.LazyConv2d(4, 3, padding=1))), X)
    assert [net.parameter_count(architecture) for architecture in net.space.enumerate()] == [36, 8 * 4 * 9 + 4]


def test_errors_outside_of_blocks_are_the_users_own() -> None:
    model = nn.Sequential(Maybe("a", TANH), nn.Linear(3, 3)).eval()
    with pytest.raises(RuntimeError, match="mat1 and mat2"):
        from_module(model, X)


def test_mixing_without_a_trial() -> None:
    """The same sentence; a hard path needs no agreement."""
    net = from_module(OneOf("block1", conv3=CONV, pool=nn.MaxPool2d(2)))
    conv, pool = net.space.enumerate()
    assert [net(X, architecture).shape[-1] for architecture in (conv, pool)] == [16, 8]
    with pytest.raises(InvalidInput) as caught:
        net(X, pool.one_hot())
    assert str(caught.value) == (
        "Expected all options of 'block1' to return outputs of one shape. "
        "Got conv3: (2, 8, 16, 16), pool: (2, 8, 8, 8)."
    )


def test_mixing_wholes() -> None:
    net = from_module(OneOf("which", a=Pieces(lambda _, x: x.long()), b=Pieces(lambda _, x: x.long())), X)
    architecture = next(net.space.enumerate())
    assert net(X, architecture).dtype == torch.int64
    with pytest.raises(InvalidInput, match=r"outputs of 'which' that can be mixed. Got one of torch.int64"):
        net(X, architecture.one_hot())


@pytest.mark.parametrize("inference", [False, True])
def test_options_that_change_their_input(inference: bool) -> None:
    """One option alone may do that, as in the user's own network; the others would see it when they are mixed."""
    with global_seed(0, "net"):
        linear = nn.Linear(4, 4)
    block = OneOf("block1", relu=nn.Sequential(nn.ReLU(inplace=True), linear), linear=linear)
    net = from_module(block, -torch.ones(2, 4))
    relu, _ = net.space.enumerate()
    with torch.inference_mode(inference):
        assert net(-torch.ones(2, 4), relu).equal(linear(torch.zeros(2, 4)))
        with pytest.raises((InvalidInput, RuntimeError), match=r"block1|nference tensor"):
            net(-torch.ones(2, 4), relu.one_hot())


def test_the_last_to_run_may_change_its_input() -> None:
    net = from_module(nn.Sequential(nn.Linear(4, 4), Maybe("relu", nn.ReLU(inplace=True))))
    x = torch.linspace(-1, 1, 8).view(2, 4)
    off, on = net.space.enumerate()
    with torch.no_grad():
        half = net(x, {"relu": torch.tensor([0.5, 0.5])})
        torch.testing.assert_close(half, (net(x, off) + net(x, on)) / 2)


def test_blocks_print_their_name_and_options() -> None:
    assert repr(OneOf("block1", a=TANH, b=TANH)).startswith("OneOf(\n  'block1', options=['a', 'b']")
