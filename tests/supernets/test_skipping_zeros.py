"""Mixed passes that skip options of weight zero: the same numbers, and nothing of those options is run."""

from __future__ import annotations

import copy
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from polyarch.distributions import DrawMode, FactorisedCategorical
from polyarch.nn import ChoiceBlock, InterChoice, Maybe, OneOf, Repeat, skipping_zeros, skips_zeros
from polyarch.randomness import generator_at, global_seed
from polyarch.spaces import DARTS_CELLS, DARTS_EDGES, S2_OPERATIONS, Architecture, Gates
from polyarch.supernets import ChainSupernet, DartsSupernet, NB101Supernet, NB201Supernet, Supernet, from_module
from polyarch.supernets.darts import DartsCell
from polyarch.testing.tools import same_bits, state_of


def layer() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 3, 3, padding=1), nn.BatchNorm2d(3), nn.Tanh())


class OwnNetwork(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = OneOf("first", one=layer(), two=nn.Sequential(layer(), layer()), skip=nn.Identity())
        self.depth = Repeat("depth", [layer() for _ in range(3)], minimum=0)
        self.end = Maybe("end", layer())
        self.head = nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.end(self.depth(self.first(x))).mean((2, 3)))
        return logits


def chain(interchoice: InterChoice | None = None) -> Supernet:
    return ChainSupernet(
        channels=(3, 3, 4), strides=(1, 2, 1), kernels=(3,), expansions=(1, 2), stem_channels=3, head_channels=4,
        interchoice=interchoice,
    )  # fmt: skip


NETS: dict[str, Callable[[], Supernet]] = {
    "cell": lambda: NB201Supernet(channels=2, cells=1, classes=2),
    "partial cell": lambda: NB201Supernet(channels=4, cells=1, classes=2, partial=2),
    "cell with vectors": lambda: NB201Supernet(channels=2, cells=1, classes=2, interchoice=InterChoice("attention")),
    "darts": lambda: DartsSupernet(layers=3, channels=2, classes=2, operations=S2_OPERATIONS),
    "partial darts": lambda: DartsSupernet(layers=3, channels=4, classes=2, operations=S2_OPERATIONS, partial=2),
    "nb101": lambda: NB101Supernet(2, channels=2, cells=1, classes=2),
    "chain": chain,
    "own network": lambda: from_module(OwnNetwork()),
    "own depth": lambda: from_module(nn.Sequential(layer(), Repeat("depth", [layer() for _ in range(3)])), images()),
}
EVERY = pytest.mark.parametrize("name", NETS)


def images(count: int = 4) -> Tensor:
    return torch.randn(count, 3, 8, 8, generator=generator_at(0, "images"))


def make(name: str) -> tuple[Supernet, Tensor]:
    with global_seed(0, name):
        return NETS[name]().double(), images().double()


def run(net: Supernet, x: Tensor, architecture: Architecture | Gates, *, skip: bool) -> tuple[Tensor, set[nn.Module]]:
    """The output in training mode, and the layers (modules without children) that ran."""
    called: set[nn.Module] = set()
    leaves = [module for module in net.modules() if not list(module.children())]
    hooks = [leaf.register_forward_hook(lambda leaf, *_: called.add(leaf)) for leaf in leaves]
    if skip:
        with skipping_zeros():
            output = net.train()(x, architecture)
    else:
        output = net.train()(x, architecture)
    for hook in hooks:
        hook.remove()
    return output, called


@EVERY
def test_one_hot_gates_run_what_the_path_runs(name: str) -> None:
    net, x = make(name)
    for draw in range(4):
        architecture = net.space.sample(generator_at(draw, "architecture"))
        twin = copy.deepcopy(net)
        expected, on_path = run(net, x, architecture, skip=False)
        names = {module: path for path, module in (*net.named_modules(), *twin.named_modules())}
        output, called = run(twin, x, architecture.one_hot(), skip=True)
        torch.testing.assert_close(output, expected)
        assert {names[module] for module in called} == {names[module] for module in on_path}
        torch.testing.assert_close(state_of(twin), state_of(net))  # statistics, too


@EVERY
@pytest.mark.parametrize("mode", ["mean", "soft", "chosen"])
def test_skipping_changes_neither_outputs_nor_gradients(name: str, mode: str) -> None:
    """Options were dropped, or a draw's gradient goes to the drawn option alone."""
    net, x = make(name)
    generator = generator_at(0, "logits")
    logits = {c.name: torch.randn(len(c), generator=generator).double() for c in net.space.choices}
    q = FactorisedCategorical(net.space, logits)
    for choice in net.space.choices:
        kept = torch.randperm(len(choice), generator=generator)[: (len(choice) + 1) // 2]
        q.keep(choice.name, kept.tolist())
    results = []
    for skip in (False, True):
        draw: DrawMode = "chosen" if mode == "chosen" else "soft"
        drawn = q.rsample(temperature=1.0, mode=draw, generator=generator_at(0, "draw"))
        output, called = run(net, x, q.mean() if mode == "mean" else drawn, skip=skip)
        weights = torch.randn(output.shape, generator=generator_at(0, "loss")).to(output)
        learnt = [*q.parameters(), *net.parameters()]
        gradients = torch.autograd.grad((output * weights).sum(), learnt, materialize_grads=True)
        results.append((output.detach(), gradients, called))
    (expected, all_gradients, everything), (output, gradients, called) = results
    assert called <= everything and (called < everything or name == "own depth")  # all are below the deepest
    torch.testing.assert_close(output, expected)
    torch.testing.assert_close(gradients, all_gradients)
    assert any(gradient.any() for gradient in gradients[: len(net.space.choices)])


@EVERY
def test_an_option_is_run_where_one_example_needs_it(name: str) -> None:
    net, x = make(name)
    members = [net.space.sample(generator_at(row, "architecture")) for row in (0, 0, 0, 1)]
    gates = {choice: torch.stack([member.one_hot()[choice] for member in members]) for choice in net.space.choice_names}
    outputs = [run(net, x, gates, skip=skip)[0] for skip in (False, True)]
    torch.testing.assert_close(*outputs)


def test_copies_by_the_choice_before_are_skipped() -> None:
    with global_seed(0, "split"):
        net, x = chain(InterChoice("split")).double(), images().double()
    for module in net.modules():
        if isinstance(module, ChoiceBlock) and module.interchoice is not None:
            module.interchoice.split(module.operations)  # type: ignore[operator]
    architecture = net.space.sample(generator_at(0, "architecture"))
    expected, on_path = run(net, x, architecture, skip=False)
    output, called = run(net, x, architecture.one_hot(), skip=True)
    torch.testing.assert_close(output, expected)
    assert called == on_path


def test_a_block_without_any_weight_gives_zeros_of_the_right_shape() -> None:
    block = ChoiceBlock("edge", [None, nn.Conv2d(2, 3, 1, stride=2), nn.AvgPool2d(2)])
    with skipping_zeros():
        output = block(torch.ones(2, 2, 4, 4), torch.tensor([1.0, 0.0, 0.0]))
    assert output.shape == (2, 3, 2, 2) and not output.any()


@pytest.mark.parametrize("size", [8, 7])
def test_a_node_of_a_cell_that_no_edge_feeds_is_zero(size: int) -> None:
    with global_seed(0, "cells"):
        net = DartsSupernet(layers=3, channels=2, operations=S2_OPERATIONS)
    x = torch.randn(2, 3, size, size, generator=generator_at(0, "x"))
    weights = {edge: torch.full((2,), 0.5 * (edge[1] != 3)) for edge in DARTS_EDGES}
    selections = dict.fromkeys(DARTS_CELLS, weights)
    expected = net.forward_edges(x, selections)
    ran: list[nn.Module] = []
    for cell in net.cells:
        assert isinstance(cell, DartsCell)
        for source in range(3):
            cell.edges[f"{source}->3"].register_forward_hook(lambda module, *_: ran.append(module))
    with skipping_zeros():
        torch.testing.assert_close(net.forward_edges(x, selections), expected)
    assert not ran


def test_the_switch_belongs_to_a_thread_and_ends_with_its_block() -> None:
    with ThreadPoolExecutor(max_workers=1) as thread:
        with skipping_zeros():
            assert skips_zeros() and not thread.submit(skips_zeros).result()
        assert not skips_zeros()
    with pytest.raises(KeyError), skipping_zeros():
        raise KeyError
    assert not skips_zeros()


class Checkpointed(nn.Module):
    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = checkpoint(self.module, x, use_reentrant=False)
        return output


def test_a_recomputation_runs_what_its_call_ran() -> None:
    """The backward pass comes after the switch is off, and after a call in which all options ran."""
    with global_seed(0, "checkpointed"):
        block = OneOf("first", one=layer(), two=layer(), three=layer())
        net = from_module(nn.Sequential(nn.Conv2d(3, 3, 1), Checkpointed(block)))
    gates = {"first": torch.tensor([0.4, 0.0, 0.6], requires_grad=True)}
    with skipping_zeros():
        output = net(images(), gates)
    net(images(), {"first": torch.full((3,), 1 / 3)})
    before = state_of(block.options[1])
    calls: list[int] = []
    for index, option in enumerate(block.options):
        option.register_forward_hook(lambda *_, index=index: calls.append(index))
    output.sum().backward()
    assert calls == [0, 2]
    assert same_bits(state_of(block.options[1]), before)
    assert block.options[1][0].weight.grad is None  # type: ignore[index]
