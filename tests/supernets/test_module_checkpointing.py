"""Activation checkpointing recomputes what was run, whatever was run in between: gradients equal those without it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from polyarch.nn import Maybe, OneOf, Repeat, block_selection
from polyarch.randomness import generator_at, global_seed
from polyarch.spaces import Architecture, Gates
from polyarch.supernets import ModuleSupernet, from_module

WIDTH = 4
REENTRANT = pytest.mark.parametrize("reentrant", [True, False], ids=["reentrant", "not reentrant"])

Remember = Callable[[nn.Module, Tensor], Tensor]


def plainly(module: nn.Module, x: Tensor) -> Tensor:
    return module(x)  # type: ignore[no-any-return]


def again(reentrant: bool) -> Remember:
    """Where there is something to remember: without gradients reentrant checkpoints complain."""

    def run(module: nn.Module, x: Tensor) -> Tensor:
        return checkpoint(module, x, use_reentrant=reentrant) if x.requires_grad else module(x)  # type: ignore[no-any-return]

    return run


def linear() -> nn.Module:
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh())


class Inside(nn.Module):
    """Runs a module the given way."""

    def __init__(self, module: nn.Module, remember: Remember) -> None:
        super().__init__()
        self.module = module
        self.remember = remember

    def forward(self, x: Tensor) -> Tensor:
        return self.remember(self.module, x)


class Network(nn.Module):
    """Two checkpointed parts with nested blocks, the second with a checkpoint inside the checkpoint."""

    def __init__(self, remember: Remember, prefix: str = "") -> None:
        super().__init__()
        inner = OneOf(f"{prefix}inner", one=linear(), two=nn.Sequential(linear(), linear()))
        self.stem, self.head = linear(), nn.Linear(WIDTH, 2)
        self.first = Inside(OneOf(f"{prefix}first", flat=linear(), nested=nn.Sequential(linear(), inner)), remember)
        depth = Repeat(f"{prefix}depth", [linear(), linear(), linear()], minimum=0)
        second = nn.Sequential(Inside(depth, remember), Maybe(f"{prefix}end", linear()))
        self.second = Inside(second, remember)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.second(self.first(self.stem(x))))
        return logits


def made(remember: Remember, prefix: str = "") -> ModuleSupernet:
    with global_seed(0, "net", prefix):
        return from_module(Network(remember, prefix).double())


def inputs(position: int = 0) -> Tensor:
    return torch.randn(3, WIDTH, dtype=torch.float64, generator=generator_at(0, "inputs", position))


def architectures(net: ModuleSupernet, count: int) -> list[Architecture]:
    options = [("flat", "one", "3", "off"), ("nested", "two", "1", "on"), ("nested", "one", "0", "on")]
    rest = (net.space.sample(generator_at(0, "architecture", position)) for position in range(count))
    return [*(net.space.architecture(option) for option in options), *rest][:count]


def gradients(net: nn.Module, loss: Tensor) -> dict[str, Tensor]:
    net.zero_grad(set_to_none=True)
    loss.backward()
    return {name: parameter.grad for name, parameter in net.named_parameters() if parameter.grad is not None}


def assert_same(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert found.keys() == expected.keys()
    for name in expected:
        torch.testing.assert_close(found[name], expected[name], rtol=1e-12, atol=1e-12, msg=name)
    assert not block_selection._notes


@REENTRANT
@pytest.mark.parametrize("count", [1, 2, 3, 6])
def test_several_architectures_in_one_backward_pass(reentrant: bool, count: int) -> None:
    found = []
    for net in (made(plainly), made(again(reentrant))):
        outputs = [net(inputs(position), a) for position, a in enumerate(architectures(net, count))]
        found.append(gradients(net, torch.stack(outputs).square().sum()))
    assert_same(found[1], found[0])


@REENTRANT
def test_backward_passes_in_another_order_than_forward_passes(reentrant: bool) -> None:
    """And one that comes after the weights of others were asked for, twice over the same graph."""
    found = []
    for net in (made(plainly), made(again(reentrant))):
        first, second, third = (net(inputs(), a).square().sum() for a in architectures(net, 3))
        net(inputs(), architectures(net, 6)[-1])
        found.append([gradients(net, loss) for loss in (third, first, second)])
    for part, expected in zip(found[1], found[0], strict=True):
        assert_same(part, expected)


@REENTRANT
def test_the_same_graph_twice(reentrant: bool) -> None:
    net, expected = made(again(reentrant)), made(plainly)
    losses = [each(inputs(), architectures(each, 2)[1]).square().sum() for each in (net, expected)]
    for each, loss in zip((net, expected), losses, strict=True):
        loss.backward(retain_graph=True)
        each(inputs(), architectures(each, 1)[0])
    assert_same(gradients(net, losses[0]), gradients(expected, losses[1]))


@REENTRANT
def test_one_call_feeds_the_next(reentrant: bool) -> None:
    """Two supernets, once with the same names in both."""
    for prefix in ("", "other "):
        found = []
        for remember in (plainly, again(reentrant)):
            nets = nn.ModuleList([made(remember), made(remember, prefix)])
            x = inputs()
            for net, architecture in ((nets[0], 0), (nets[1], 1), (nets[0], 2)):
                assert isinstance(net, ModuleSupernet)
                x = x + net(x, architectures(net, 3)[architecture]).mean()
            found.append(gradients(nets, x.square().sum()))
        assert_same(found[1], found[0])


@REENTRANT
def test_a_supernet_called_inside_another(reentrant: bool) -> None:
    class Outer(nn.Module):
        def __init__(self, remember: Remember) -> None:
            super().__init__()
            self.before = Inside(OneOf("before", a=linear(), b=nn.Sequential(linear(), linear())), remember)
            self.after = Inside(OneOf("after", a=linear(), b=nn.Sequential(linear(), linear())), remember)
            self.inner = [made(remember, "inner ")]  # not a part, a guest

        def forward(self, x: Tensor) -> Tensor:
            x = self.before(x)
            (inner,) = self.inner
            x = x + inner(x, architectures(inner, 2)[1]).mean()
            return self.after(x)  # type: ignore[no-any-return]

    found = []
    for remember in (plainly, again(reentrant)):
        with global_seed(0, "outer"):
            net = from_module(Outer(remember).double())
        x = inputs().requires_grad_()
        found.append(gradients(net, net(x, net.space.architecture(("b", "b"))).square().sum()))
    assert_same(found[1], found[0])


@REENTRANT
def test_a_whole_call_inside_a_checkpoint(reentrant: bool) -> None:
    found = []
    for remember in (plainly, again(reentrant)):
        net = made(remember)
        total = torch.zeros((), dtype=torch.float64)
        x = inputs().requires_grad_()
        for architecture in architectures(net, 3):
            call = Inside(nn.Identity(), lambda _, x, a=architecture, net=net: net(x, a))  # type: ignore[misc]
            total = total + remember(call, x).square().sum()
        found.append(gradients(net, total))
    assert_same(found[1], found[0])


@REENTRANT
def test_gates(reentrant: bool) -> None:
    """Mixed and hard calls in one backward pass; gates that are leaves receive their gradients."""
    found = []
    for net in (made(plainly), made(again(reentrant))):
        gates = {
            choice.name: torch.full((len(choice),), 1 / len(choice), dtype=torch.float64).requires_grad_()
            for choice in net.space.choices
        }
        selections: list[Architecture | Gates] = [gates, architectures(net, 2)[1], gates]
        loss = torch.stack([net(inputs(), selection) for selection in selections]).square().sum()
        learnt = gradients(net, loss)
        assert all(gate.grad is not None for gate in gates.values())
        found.append({**learnt, **{f"gate {name}": gate.grad for name, gate in gates.items() if gate.grad is not None}})
    assert_same(found[1], found[0])


def test_gates_that_are_computed() -> None:
    """Softmax of logits; reentrant checkpoints know only leaves."""
    found = []
    for net in (made(plainly), made(again(reentrant=False))):
        logits = {c.name: torch.arange(len(c), dtype=torch.float64).requires_grad_() for c in net.space.choices}
        output = net(inputs(), {name: value.softmax(-1) for name, value in logits.items()})
        found.append(dict(zip(logits, torch.autograd.grad(output.square().sum(), list(logits.values())), strict=True)))
    assert_same(found[1], found[0])


@REENTRANT
def test_outside_of_supernet_calls_defaults_are_recomputed(reentrant: bool) -> None:
    """Also after a backward pass of a supernet that failed half way."""
    net, expected = made(again(reentrant)), made(plainly)

    def fail(gradient: Tensor) -> None:
        raise ZeroDivisionError

    x = inputs().requires_grad_()
    x.register_hook(fail)
    with pytest.raises(ZeroDivisionError):
        net(x, architectures(net, 2)[1]).sum().backward()
    found = [gradients(each, each.model(inputs().requires_grad_()).square().sum()) for each in (net, expected)]
    assert_same(found[0], found[1])


@REENTRANT
def test_threads(reentrant: bool) -> None:
    def run(net: ModuleSupernet, position: int) -> dict[str, Tensor]:
        outputs = [net(inputs(), a) for a in architectures(net, 12)[position : position + 2]]
        loss = torch.stack(outputs).square().sum()
        if reentrant:  # fills the gradients of the weights, so every thread has its own
            return gradients(net, loss)
        found = torch.autograd.grad(loss, list(net.parameters()), allow_unused=True)
        names = (name for name, _ in net.named_parameters())
        return {name: gradient for name, gradient in zip(names, found, strict=True) if gradient is not None}

    expected = [run(made(plainly), position) for position in range(10)]
    net = made(again(reentrant))
    nets = [made(again(reentrant)) if reentrant else net for _ in range(10)]
    with ThreadPoolExecutor(max_workers=4) as threads:
        found = list(threads.map(run, nets, range(10)))
    for part, wanted in zip(found, expected, strict=True):
        assert_same(part, wanted)


@pytest.mark.filterwarnings("ignore:.*torch.jit.script")  # torch itself uses it for derivatives in forward mode
def test_second_derivatives_without_checkpoints() -> None:
    net = made(plainly).eval()
    architecture = architectures(net, 2)[1]
    assert torch.autograd.gradgradcheck(lambda x: net(x, architecture), (inputs().requires_grad_(),))
    assert torch.autograd.gradcheck(
        lambda x: net(x, architecture), (inputs().requires_grad_(),), check_forward_ad=True, check_batched_grad=True
    )
