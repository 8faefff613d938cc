"""Elastic layers against layers that were sliced by hand, finite differences and mixtures of hard paths."""

from __future__ import annotations

import copy
import doctest
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import polyarch.nn.sizes
from polyarch.errors import InvalidInput
from polyarch.nn import (
    ElasticBatchNorm1d,
    ElasticBatchNorm2d,
    ElasticConv2d,
    ElasticLayer,
    ElasticLayerNorm,
    ElasticLinear,
    Sizes,
)
from polyarch.nn.block_selection import OptionWeights, SelectedOptions, running
from polyarch.randomness import generator_at


def normal(*shape: int, stream: str = "inputs") -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=generator_at(0, stream))


def trained(layer: Any) -> Any:
    """In double precision, with weights and statistics that differ everywhere."""
    layer = layer.double()
    with torch.no_grad():
        for name, value in [*layer.named_parameters(), *layer.named_buffers()]:
            if value.is_floating_point():
                value.copy_(normal(*value.shape, stream=name).abs() + 0.1)
    return layer


def run(layer: nn.Module, x: Tensor, **selections: int | Tensor) -> Tensor:
    found = {k: s if isinstance(s, int) else OptionWeights(s, range(s.shape[-1])) for k, s in selections.items()}
    with running(SelectedOptions(found)):
        return layer(x)  # type: ignore[no-any-return]


def by_hand(layer: ElasticConv2d, width: int, size: int, inputs: int) -> Tensor:
    """The kernel of 3, 5 or 7, entry by entry, from the kernel of 7."""
    kernel: Tensor = layer.weight[:width, :inputs]
    for smaller in (5, 3):
        if size <= smaller:
            centre = kernel[:, :, 1:-1, 1:-1].reshape(width, inputs, -1)
            transform = getattr(layer, f"transform{smaller}")
            kernel = (centre + torch.einsum("ij,ocj->oci", transform, centre)).view(width, inputs, smaller, smaller)
    return kernel


WIDTH, KERNEL, BEFORE = (2, 3, 5), (3, 5, 7), (3, 4)


def convolution(memory_format: torch.memory_format = torch.contiguous_format) -> ElasticConv2d:
    layer = ElasticConv2d(Sizes("before", *BEFORE), Sizes("width", *WIDTH), Sizes("kernel", *KERNEL), 2, padding=3)
    return trained(layer).to(memory_format=memory_format)  # type: ignore[no-any-return]


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_convolutions_and_their_gradients_are_those_of_slices(memory_format: torch.memory_format) -> None:
    layer = convolution(memory_format)
    for before in range(2):
        x = normal(2, BEFORE[before], 9, 8).contiguous(memory_format=memory_format)
        for width in range(3):
            for kernel in range(3):
                expected = F.conv2d(
                    x,
                    by_hand(layer, WIDTH[width], KERNEL[kernel], BEFORE[before]),
                    layer.bias[: WIDTH[width]],  # type: ignore[index]
                    stride=2,
                    padding=kernel + 1,
                )
                output = run(layer, x, before=before, width=width, kernel=kernel)
                torch.testing.assert_close(output, expected, rtol=1e-12, atol=1e-12)
                weights = normal(*output.shape, stream="weights")
                of_layer, of_hand = (
                    torch.autograd.grad((y * weights).sum(), list(layer.parameters()), allow_unused=True)
                    for y in (output, expected)
                )
                for actual, wanted in zip(of_layer, of_hand, strict=True):
                    assert (actual is None) == (wanted is None)
                    if actual is not None:
                        torch.testing.assert_close(actual, wanted, rtol=1e-12, atol=1e-12)


def test_gradients_of_slices_are_differences_of_the_output() -> None:
    """First and second order, for all weights, the transforms and the input."""
    layer = convolution()
    names = [name for name, _ in layer.named_parameters()]
    x = normal(1, 3, 5, 5).requires_grad_()

    def output(x: Tensor, *weights: Tensor) -> Tensor:
        selected = SelectedOptions({"before": 0, "width": 1, "kernel": 0})
        with running(selected):
            found: Tensor = torch.func.functional_call(layer, dict(zip(names, weights, strict=True)), (x,))
            return found.square()

    inputs = (x, *(value.detach().clone().requires_grad_() for value in layer.parameters()))
    assert torch.autograd.gradcheck(output, inputs, fast_mode=True)
    assert torch.autograd.gradgradcheck(output, inputs, fast_mode=True)


def test_mixed_convolutions_are_mixtures_of_hard_ones() -> None:
    """For one gate per option or per example; missing channels count as zeros."""
    layer = convolution()
    x = normal(4, 4, 6, 6)
    for rows in ((), (4,)):
        gates = {"width": normal(*rows, 3, stream="g").softmax(-1), "kernel": normal(*rows, 3, stream="h").softmax(-1)}
        expected = torch.zeros(4, 5, 3, 3, dtype=torch.float64)
        for width in range(3):
            for kernel in range(3):
                part = F.pad(run(layer, x, before=1, width=width, kernel=kernel), [0, 0, 0, 0, 0, 5 - WIDTH[width]])
                weight = gates["width"][..., width] * gates["kernel"][..., kernel]
                expected += weight.reshape(-1, 1, 1, 1) * part
        torch.testing.assert_close(run(layer, x, before=1, **gates), expected, rtol=1e-12, atol=1e-12)


def test_options_that_do_not_run_are_not_computed() -> None:
    """As inside `skipping_zeros`: the output is as wide as the widest option with a weight."""
    layer = convolution()
    x = normal(2, 4, 6, 6)
    first = OptionWeights(torch.tensor([1.0, 0, 0]), [0])
    with running(SelectedOptions({"before": 1, "width": first, "kernel": first})):
        output = layer(x)
    assert output.shape[1] == 2
    torch.testing.assert_close(output, run(layer, x, before=1, width=0, kernel=0), rtol=1e-12, atol=1e-12)


def test_grouped_convolutions_have_fewer_groups_of_the_same_size() -> None:
    width = Sizes("width", 4, 8)
    depthwise = trained(ElasticConv2d(width, width, Sizes("kernel", 3, 5), padding=2, groups=width))
    pairs = trained(ElasticConv2d(width, width * 2, 3, groups=4, bias=False))
    x = normal(2, 8, 6, 6)
    assert depthwise.extracted({"width": 0, "kernel": 0}, {}).groups == 4
    assert pairs.extracted({"width": 0}, {}).groups == 2
    expected = F.conv2d(x[:, :4], by_hand_depthwise(depthwise)[:4], depthwise.bias[:4], padding=1, groups=4)
    torch.testing.assert_close(run(depthwise, x[:, :4], width=0, kernel=0), expected)
    expected = F.conv2d(x[:, :4], pairs.weight[:8], groups=2)
    torch.testing.assert_close(run(pairs, x[:, :4], width=0), expected)
    torch.testing.assert_close(run(pairs, x, width=1)[:, :8], expected)  # the narrow layer is a part of the wide one


def by_hand_depthwise(layer: ElasticConv2d) -> Tensor:
    centre = layer.weight[:, :, 1:4, 1:4].reshape(-1, 9)
    return (centre + centre @ layer.get_parameter("transform3").t()).view(-1, 1, 3, 3)


def test_linear_layers_follow_flattened_channels() -> None:
    width = Sizes("width", 2, 3)
    layer = trained(ElasticLinear(width * 4, Sizes("out", 1, 5)))
    x = normal(6, 2, 2, 2)
    expected = F.linear(x.flatten(1), layer.weight[:1, :8], layer.bias[:1])
    torch.testing.assert_close(run(layer, x.flatten(1), width=0, out=0), expected)
    full = F.pad(x, [0, 0, 0, 0, 0, 1]).flatten(1)
    gates = {"width": torch.tensor([1.0, 0.0]), "out": torch.tensor([1.0, 0.0])}
    torch.testing.assert_close(run(layer, full, **gates), F.pad(expected, [0, 4]))


@pytest.mark.parametrize("momentum", [0.1, None])
@pytest.mark.parametrize("kind", [ElasticBatchNorm1d, ElasticBatchNorm2d])
def test_batch_norm_uses_and_updates_the_channels_that_arrive(kind: Any, momentum: float | None) -> None:
    layer = trained(kind(Sizes("width", 2, 5), momentum=momentum))
    plain = layer.extracted({"width": 0}, {})
    before = layer.running_mean.clone()
    x = normal(6, 2, *([3, 3] if kind is ElasticBatchNorm2d else []))
    for _ in range(2):
        torch.testing.assert_close(run(layer, x, width=0), plain(x))
    for name in ("running_mean", "running_var"):
        torch.testing.assert_close(getattr(layer, name)[:2], getattr(plain, name))
    assert layer.running_mean[2:].equal(before[2:]) and not layer.running_mean[:2].equal(before[:2])
    torch.testing.assert_close(run(layer.eval(), x, width=0), plain.eval()(x))


def test_mixed_batch_norm_in_training_is_the_mixture_of_widths() -> None:
    """Its input comes weighted by what it weighs its output with; only the epsilon of the variance tells."""
    layer = trained(ElasticBatchNorm2d(Sizes("width", 2, 4), eps=1e-12))
    x, gates = normal(6, 4, 3, 3), torch.tensor([0.3, 0.7], dtype=torch.float64)
    mask = torch.tensor([1.0, 1.0, 0.7, 0.7], dtype=torch.float64).view(1, 4, 1, 1)
    torch.testing.assert_close(run(layer, mask * x, width=gates), mask * run(layer, x, width=1))


def test_layer_norm_normalises_the_features_that_arrive() -> None:
    layer = trained(ElasticLayerNorm(Sizes("width", 2, 4)))
    x = normal(3, 5, 4)
    narrow = F.layer_norm(x[..., :2], (2,), layer.weight[:2], layer.bias[:2])
    torch.testing.assert_close(run(layer, x[..., :2], width=0), narrow)
    wide = run(layer, x, width=1)
    gates = torch.tensor([0.3, 0.7], dtype=torch.float64)
    torch.testing.assert_close(run(layer, x, width=gates), 0.3 * F.pad(narrow, [0, 2]) + 0.7 * wide)
    per_example = torch.eye(2, dtype=torch.float64)[[0, 1, 0]]
    output = run(layer, x, width=per_example)
    torch.testing.assert_close(output[1], wide[1])
    torch.testing.assert_close(output[0], F.pad(narrow, [0, 2])[0])


LAYERS: list[Callable[[], ElasticLayer]] = [
    lambda: ElasticLinear(Sizes("before", 2, 3), Sizes("width", 4, 6)),
    lambda: ElasticLinear(3, Sizes("width", 4, 6), bias=False),
    lambda: ElasticConv2d(Sizes("before", 2, 3), Sizes("width", 4, 6), Sizes("kernel", 1, 3), padding=1, dilation=1),
    lambda: ElasticConv2d(3, Sizes("width", 4, 6), 3, stride=2, bias=False),
    lambda: ElasticBatchNorm1d(Sizes("width", 4, 6)),
    lambda: ElasticBatchNorm2d(Sizes("width", 4, 6), affine=False, momentum=None),
    lambda: ElasticBatchNorm2d(Sizes("width", 4, 6), track_running_stats=False, eps=0.1),
    lambda: ElasticLayerNorm(Sizes("width", 4, 6)),
    lambda: ElasticLayerNorm(Sizes("width", 4, 6), bias=False, eps=0.1),
]


@pytest.mark.parametrize("make", LAYERS)
@pytest.mark.parametrize("index", [0, 1])
def test_extracted_layers_are_plain_and_counted(make: Callable[[], ElasticLayer], index: int) -> None:
    layer = trained(make())
    layer.train(index == 0)
    for parameter in list(layer.parameters())[:1]:
        parameter.requires_grad_(False)
    indices = dict.fromkeys(layer.names, index)
    torch.manual_seed(0)
    state = torch.get_rng_state()
    plain = layer.extracted(indices, {})
    assert torch.get_rng_state().equal(state)  # nothing is drawn
    assert type(plain).__module__.startswith("torch.nn") and "Elastic" + type(plain).__name__ == type(layer).__name__
    assert layer.parameter_count(indices) == sum(parameter.numel() for parameter in plain.parameters())
    assert plain.training == layer.training
    for name, parameter in plain.named_parameters():
        assert parameter.requires_grad == layer.get_parameter(name).requires_grad
        assert parameter.dtype == torch.float64
    x = normal(5, layer.inputs.extent(indices), *([7, 7] if "2d" in type(layer).__name__ else []))
    torch.testing.assert_close(run(layer, x, **indices), plain(x), rtol=1e-12, atol=1e-12)


def test_outside_a_supernet_the_largest_size_runs_and_plain_weights_load() -> None:
    layer = ElasticConv2d(3, Sizes("width", 4, 6), 3)
    plain = nn.Conv2d(3, 6, 3)
    layer.load_state_dict(plain.state_dict())
    x = torch.randn(2, 3, 5, 5)
    assert layer(x).equal(plain(x))
    assert isinstance(layer, nn.Conv2d) and layer.out_channels == 6
    assert "outputs=Sizes('width': 4, 6)" in repr(layer)


def test_copies_of_a_layer_share_its_choice() -> None:
    layer = ElasticLinear(3, Sizes("width", 4, 6))
    other = copy.deepcopy(layer)
    assert other.sources[0] is layer.sources[0] and other.weight is not layer.weight


def test_sizes_can_be_computed_with() -> None:
    width, expansion = Sizes("width", 4, 8), Sizes("expansion", 2, 3)
    hidden = width * expansion
    assert [hidden.extent({"width": w, "expansion": e}) for w in (0, 1) for e in (0, 1)] == [8, 12, 16, 24]
    assert (2 * hidden // 4).table == (4, 6, 8, 12) and (width * width).table == (16, 64)
    assert hidden.largest == 24 and Sizes.of(5).extent({}) == 5 and hidden.extent({"width": 0}) == 12
    assert doctest.testmod(polyarch.nn.sizes).failed == 0


def test_masks_of_computed_sizes_are_products() -> None:
    hidden = Sizes("width", 1, 2) * Sizes("expansion", 1, 2)
    gates = {name: OptionWeights(torch.tensor([0.25, 0.75]), range(2)) for name in ("width", "expansion")}
    masked = hidden.masked(torch.ones(1, 4), gates, -1)
    sizes = [(1, 0.25 * 0.25), (2, 0.25 * 0.75), (2, 0.75 * 0.25), (4, 0.75 * 0.75)]
    expected = [sum(weight for size, weight in sizes if size > channel) for channel in range(4)]
    torch.testing.assert_close(masked, torch.tensor([expected]))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Sizes("width"), "one or more distinct options for 'width'"),
        (lambda: Sizes(4, 8), "the name of a choice of sizes first. Got int."),  # type: ignore[arg-type]
        (lambda: Sizes("width", 8, 4), r"ascending sizes of 1 or more for 'width'. Got \[8, 4\]."),
        (lambda: Sizes("width", 0, 4), "ascending sizes of 1 or more"),
        (lambda: Sizes("width", 2, 4) // 4, r"Expected sizes of 1 or more. Got \[0, 1\]."),
        (lambda: ElasticConv2d(3, 4, Sizes("kernel", 3, 5)), "padding of 1 or more for .* Got 0."),
        (lambda: ElasticConv2d(3, 4, Sizes("kernel", 2, 3), padding=1), "all odd or all even"),
        (
            lambda: ElasticConv2d(4, Sizes("width", 4, 8), 3, groups=4),
            "groups of 1 input and 2 output channels at every size. Got 4 inputs and 4 outputs.",
        ),
    ],
)
def test_impossible_layers(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        make()


def test_another_width_than_expected() -> None:
    layer = ElasticLinear(Sizes("width", 4, 6), 2)
    with pytest.raises(InvalidInput, match=r"Expected 4 input channels of ElasticLinear.*Got 6 in shape \(2, 6\)"):
        run(layer, torch.zeros(2, 6), width=0)
    gates = torch.full((3, 2), 0.5)
    with pytest.raises(InvalidInput, match=r"one row of gates per example of 'width'\. Got 3 rows"):
        run(ElasticLinear(4, Sizes("width", 4, 6)), torch.zeros(2, 4), width=gates)
