"""Gates on the channels of layers, inside code that knows nothing of them."""

from __future__ import annotations

import copy
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from polyarch.errors import InvalidInput
from polyarch.nn import ChannelGate, run_gated
from polyarch.nn.channel_gates import install, remove_gates
from polyarch.randomness import generator_at


def normal(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=generator_at(0, "values"))


def with_gate(module: nn.Module, slices: int, side: str = "input") -> nn.Sequential:
    model = nn.Sequential(module).double()
    install(module, ChannelGate("0", "group", slices, side))  # type: ignore[arg-type]
    return model


@pytest.mark.parametrize(
    ("layer", "x", "shape"),
    [
        (nn.Conv1d(3, 2, 2), normal(4, 3, 5), (-1, 3, 1)),
        (nn.Conv2d(3, 2, 2), normal(4, 3, 5, 5), (-1, 3, 1, 1)),
        (nn.Linear(3, 2), normal(4, 3), (-1, 3)),
        (nn.Linear(3, 2), normal(4, 5, 3), (-1, 1, 3)),
    ],
    ids=["1d", "2d", "linear", "sequence"],
)
def test_the_channels_that_a_layer_reads_are_multiplied(layer: nn.Module, x: Tensor, shape: tuple[int, ...]) -> None:
    """For the whole batch and per example, by position and by name."""
    model, plain = with_gate(layer, 3), copy.deepcopy(layer)
    remove_gates(plain)
    plain.double()
    for weights in (torch.rand(3, generator=generator_at(0, "w")), torch.rand(4, 3, generator=generator_at(0, "w"))):
        expected = plain(x * weights.double().view(shape))
        torch.testing.assert_close(run_gated(model, x, {"0": weights}), expected)
        torch.testing.assert_close(run_gated(layer, x, {"0": weights}), expected)
    assert model(x).equal(plain(x))
    assert layer(input=x).equal(plain(x))


def test_the_channels_that_a_module_gives_are_multiplied() -> None:
    pool, x, weights = nn.AvgPool2d(2), normal(4, 3, 4, 4), torch.rand(4, 3, dtype=torch.float64)
    expected = pool(x) * weights[:, :, None, None]
    torch.testing.assert_close(run_gated(with_gate(pool, 3, "output"), x, {"0": weights}), expected)


def test_threads_have_their_own_gates() -> None:
    model, x = with_gate(nn.Linear(3, 2), 3), normal(4, 3)
    rows = [torch.rand(3, generator=generator_at(0, "row", row)) for row in range(20)]
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda row: run_gated(model, x, {"0": row}), rows))
    assert all(one.equal(run_gated(model, x, {"0": row})) for one, row in zip(found, rows, strict=True))


@pytest.mark.parametrize("reentrant", [False, True])
def test_what_is_recomputed_in_the_backward_pass_has_the_gates_of_its_call(reentrant: bool) -> None:
    """Also when other calls have followed."""

    class Checkpointed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 3)
            self.recomputed = True

        def forward(self, x: Tensor) -> Tensor:
            def part(value: Tensor) -> Tensor:
                return torch.tanh(self.layer(value))

            output = checkpoint(part, x, use_reentrant=reentrant) if self.recomputed else part(x)
            assert isinstance(output, Tensor)
            return output

    model = Checkpointed().double()
    install(model.layer, ChannelGate("layer", "group", 3))
    rows = torch.rand(2, 4, 3, dtype=torch.float64, generator=generator_at(0, "rows"))
    gradients = []
    for model.recomputed in (False, True):
        x = normal(4, 3).requires_grad_()
        outputs = [run_gated(model, x, {"layer": row}) for row in rows]
        torch.cat(outputs).square().sum().backward()
        gradients.append(x.grad)
    torch.testing.assert_close(*gradients)


def test_mistakes() -> None:
    layer = nn.Linear(3, 2)
    model = with_gate(layer, 3)
    with pytest.raises(InvalidInput, match="to have no gate yet"):
        install(layer, ChannelGate("0", "group", 3))
    with pytest.raises(InvalidInput, match=r"weights \(2, 3\) for an input of shape \(4, 3\)"):
        run_gated(model, normal(4, 3), {"0": torch.ones(2, 3)})
    with pytest.raises(InvalidInput, match="one channel per weight"):
        run_gated(model, normal(4, 3), {"0": torch.ones(2)})
