"""Calls of a network of one's own: gates and paths, modes of autograd, copies and files."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from module_examples import Images, normal
from torch import Tensor, nn

from polyarch.errors import InvalidInput
from polyarch.nn import Maybe, OneOf
from polyarch.randomness import generator_at, global_seed
from polyarch.supernets import ModuleSupernet, from_module
from polyarch.testing import same_bits, state_of


def made(stream: str = "net") -> ModuleSupernet:
    with global_seed(0, stream):
        return from_module(Images().double().eval())


def test_outside_of_supernet_calls_blocks_run_their_defaults() -> None:
    model = Images().double().eval()
    net = from_module(model)
    x = normal(2, 3, 6, 6)
    assert same_bits(model(x), net(x, net.space.architecture(("conv3", "3", "on"))))
    with pytest.raises(RuntimeError):
        net(normal(2, 7), net.space.architecture(("conv5", "1", "off")))
    assert same_bits(model(x), net(x, net.space.architecture(("conv3", "3", "on"))))


def test_options_off_the_path_get_no_gradient() -> None:
    net = made()
    net(normal(2, 3, 6, 6), net.space.architecture(("conv5", "1", "off"))).sum().backward()
    moved = {name for name, parameter in net.named_parameters() if parameter.grad is not None}
    parts = ("model.stem.options.1.", "model.body.blocks.0.", "model.head.")
    assert moved == {name for name, _ in net.named_parameters() if name.startswith(parts)}


def test_depths_are_mixed_from_one_walk() -> None:
    net = made()
    calls: list[nn.Module] = []
    for block in net.model.get_submodule("body.blocks").children():
        block.register_forward_hook(lambda module, *_: calls.append(module))
    x, weights = normal(2, 3, 6, 6), torch.tensor([0.1, 0.2, 0.3, 0.4])
    architecture = net.space.architecture(("conv3", "3", "on"))
    net(x, {**architecture.one_hot(), "depth": weights})
    assert len(calls) == len(set(calls)) == 3


def test_saved_weights_go_into_another_supernet() -> None:
    net, other = made(), made("other")
    x, architecture = normal(2, 3, 6, 6), net.space.sample(generator_at(0, "architecture"))
    file = io.BytesIO()
    torch.save(net.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=True))
    assert same_bits(other(x, architecture), net(x, architecture))


def test_pickled_and_copied_supernets_are_the_same() -> None:
    with global_seed(0, "net"):
        model = nn.Sequential(
            nn.Linear(4, 4), OneOf("act", tanh=nn.Tanh(), relu=nn.ReLU()), Maybe("end", nn.Linear(4, 4))
        )
    net = from_module(model)
    x = normal(3, 4, dtype=torch.float32)
    for other in (pickle.loads(pickle.dumps(net)), copy.deepcopy(net)):
        assert other.space == net.space
        assert same_bits(state_of(other), state_of(net))
        for architecture in net.space.enumerate():
            assert same_bits(other(x, architecture), net(x, architecture))


def test_a_copied_block_is_the_same_block_again() -> None:
    block = OneOf("block", a=nn.Linear(2, 2), b=nn.Tanh()).train(False)
    other = copy.deepcopy(block)
    assert isinstance(other, OneOf) and other.choice == block.choice and not other.training
    x = normal(3, 2, dtype=torch.float32)
    assert same_bits(other(x), block(x))
    assert not {*map(id, block.parameters())} & {*map(id, other.parameters())}


def test_no_gradient_and_inference_modes() -> None:
    net = made()
    x, gates = normal(2, 3, 6, 6), {c.name: torch.full((len(c),), 1 / len(c)) for c in net.space.choices}
    expected = net(x, gates)
    for mode in (torch.no_grad(), torch.inference_mode()):
        with mode:
            output = net(x, gates)
        assert not output.requires_grad
        assert same_bits(output, expected)


def test_outputs_may_be_changed_in_place() -> None:
    net = made()
    x, architecture = normal(2, 3, 6, 6), net.space.architecture(("conv5", "1", "off"))
    output = net(x, architecture)
    expected = 2 * output.detach()
    output *= 2
    assert same_bits(output, expected)
    output.sum().backward()


def test_function_transforms() -> None:
    """Gradients per example with `torch.func`, for a path and for gates."""
    net = made()
    x, architecture = normal(3, 3, 6, 6), net.space.architecture(("conv5", "1", "off"))
    weights = dict(net.named_parameters())

    def loss(weights: Mapping[str, Tensor], example: Tensor, selection: Any) -> Tensor:
        output: Tensor = torch.func.functional_call(net, dict(weights), (example[None], selection))
        return output.square().sum()

    for selection in (architecture, architecture.one_hot()):
        found = torch.func.vmap(torch.func.grad(lambda w, e, s=selection: loss(w, e, s)), (None, 0))(weights, x)
        for position, example in enumerate(x):
            expected = torch.autograd.grad(loss(weights, example, selection), list(weights.values()), allow_unused=True)
            for gradient, wanted in zip(found.values(), expected, strict=True):
                torch.testing.assert_close(
                    gradient[position], torch.zeros_like(gradient[0]) if wanted is None else wanted
                )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"depth": None}, r"gates \(4,\) or \(batch, 4\) for 'depth'. Got nothing"),
        ({"gate": torch.ones(3)}, r"\(2,\) or \(batch, 2\) for 'gate'. Got shape \(3,\)"),
        ({"gate": torch.ones(1, 1, 2)}, r"Got shape \(1, 1, 2\)"),
        ({"stem": torch.ones(3, 3)}, r"one row of gates per example of 'stem'. Got 3 rows for an output of shape \(2,"),
    ],
)
def test_gates_that_do_not_fit(change: dict[str, Tensor | None], message: str) -> None:
    net = made()
    gates = {**net.space.architecture(("conv5", "1", "off")).one_hot(), **change}
    with pytest.raises(InvalidInput, match=message):
        net(normal(2, 3, 6, 6), {name: gate for name, gate in gates.items() if gate is not None})
