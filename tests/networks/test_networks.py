"""Plain networks whose channels can be gated: sizes, gates, and what is left when channels are removed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from gated_contract import GatedContract
from torch import Tensor, nn

from polyarch.errors import InvalidInput
from polyarch.networks import DenseNet, EnasNetwork, InflatedResNet, MultiBranchResNet, ResidualMLP
from polyarch.randomness import generator_at, global_seed
from polyarch.spaces import Architecture, Space
from polyarch.supernets import GatedSupernet, Supernet, gate

TINY: dict[str, Callable[[], Any]] = {
    "multi-branch": lambda: MultiBranchResNet(width=3, stages=2, stem_channels=2, in_channels=2, classes=3),
    "multi-branch, inflated": lambda: MultiBranchResNet(
        width=3, stages=2, kernels=(1, 3), stem_channels=2, in_channels=2, classes=3
    ),
    "enas": lambda: EnasNetwork(width=2, stages=2, in_channels=2, classes=3),
    "enas, one stage": lambda: EnasNetwork(width=2, stages=1, in_channels=2, classes=3),
    "enas, inflated": lambda: EnasNetwork(width=2, stages=2, inflated=True, in_channels=2, classes=3),
    "resnet": lambda: InflatedResNet(width=3, blocks=(1, 1), expansion=2, in_channels=2, classes=3),
    "resnet, concatenated": lambda: InflatedResNet(
        width=3, blocks=(1, 1), kernels=(1, 3, 5), concatenated=True, expansion=2, in_channels=2, classes=3
    ),
    "densenet": lambda: DenseNet(growth=2, layers=(2, 1), bottleneck=2, in_channels=2, classes=3),
    "mlp": lambda: ResidualMLP(features=6, width=4, depth=2, inner=5, classes=3),
}
FAMILIES = pytest.mark.parametrize("family", TINY)


def inputs(family: str, batch: int = 6) -> Tensor:
    shape = (batch, 6) if family == "mlp" else (batch, 2, 6, 6)
    return torch.rand(shape, dtype=torch.float64, generator=generator_at(0, "inputs"))


@cache
def supernet(family: str) -> GatedSupernet:
    """Tests that do not change it share one: how its channels flow is recorded once."""
    return fresh_supernet(family)


def fresh_supernet(family: str) -> GatedSupernet:
    """In evaluation mode all values in it are positive: no ReLU hides a channel."""
    with global_seed(0, family), torch.no_grad():
        model = TINY[family]().double()
        for parameter in model.parameters():
            parameter.copy_(parameter.abs() + 0.3 * torch.rand(parameter.shape))
    return gate(model.eval(), inputs(family), groups=model.gate_groups())


def dropping(net: GatedSupernet, drops: Callable[[str], bool]) -> Architecture:
    """Without the slices of which this is true."""
    return net.space.architecture({name: "drop" if drops(name) else "keep" for name in net.space.choice_names})


def extracted(net: GatedSupernet, architecture: Architecture, family: str) -> nn.Module:
    """After a check that it computes what the masked one computes, in training mode, too, if nothing is folded."""
    network, x = net.extract(architecture), inputs(family)
    states = [{name: value.clone() for name, value in module.state_dict().items()} for module in (net, network)]
    with torch.no_grad():
        for mode in (False,) if net.folds(architecture) else (False, True):
            expected = net.train(mode)(x, architecture)
            torch.testing.assert_close(network.train(mode)(x), expected, rtol=1e-9, atol=1e-9)
    for module, state in zip((net, network), states, strict=True):  # training has changed the statistics
        module.eval().load_state_dict(state)
    return network


def count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


class Tiny(GatedContract):
    """The contract of a family; of its architectures, one is everything and one has lost its first block."""

    family: str

    def make_supernet(self) -> Supernet:
        return fresh_supernet(self.family)

    def make_inputs(self) -> Tensor:
        return inputs(self.family)

    def make_architectures(self, space: Space) -> list[Architecture]:
        kept = dict.fromkeys(space.choice_names, "keep")
        first = {name: "drop" for name in space.choice_names if name.startswith(("blocks.0.", "cells.0."))}
        return [space.architecture(kept), space.architecture(kept | first), *super().make_architectures(space)[:1]]


class TestMultiBranch(Tiny):
    family = "multi-branch, inflated"


class TestEnas(Tiny):
    family = "enas, one stage"


class TestResNet(Tiny):
    family = "resnet"


class TestDenseNet(Tiny):
    family = "densenet"


class TestResidualMLP(Tiny):
    family = "mlp"


@FAMILIES
def test_outputs_and_gates(family: str) -> None:
    """Every layer but the stem and the classifier is gated on what it reads, poolings and identities on what they give.

    A network takes images of any size, also an odd one.
    """
    model = TINY[family]().double().eval()
    assert model(inputs(family)).shape == (6, 3)
    if family != "mlp":
        assert model(inputs(family)[..., :5]).shape == (6, 3)
    groups = model.gate_groups()
    net = gate(model, inputs(family), groups=groups)
    assert groups == {one.name: [one.name] for one in net.gates} == {name: [name] for name in net.groups}
    layers = [m for m in model.modules() if isinstance(m, nn.Linear) or (isinstance(m, nn.Conv2d) and m.groups == 1)]
    on_inputs = [model.get_submodule(one.name) for one in net.gates if one.side == "input"]
    assert len(on_inputs) == len(layers) - 2 and set(on_inputs) < set(layers)
    on_outputs = [type(model.get_submodule(one.name)) for one in net.gates if one.side == "output"]
    normal = Counter({nn.AvgPool2d: 2, nn.Identity: 2})
    three_cells = normal + Counter({nn.AvgPool2d: 1, nn.MaxPool2d: 2}) + normal
    expected = {"enas": three_cells, "enas, inflated": three_cells, "enas, one stage": normal}
    assert Counter(on_outputs) == expected.get(family, Counter())


@FAMILIES
def test_what_is_left_is_what_matters(family: str) -> None:
    """Of any mask: the output depends on every row and every column of every kernel that is left."""
    net = supernet(family)
    weights = torch.randn(3, dtype=torch.float64, generator=generator_at(0, "loss"))
    constant = 0
    for seed in range(3):
        network = extracted(net, random_mask(net, seed), family)
        (network(inputs(family, batch=40)) * weights).sum().backward()
        kernels = {name: weight.grad for name, weight in network.named_parameters() if weight.dim() > 1}
        constant += not kernels
        assert not kernels or "classifier.weight" in kernels
        for name, gradient in kernels.items():
            assert gradient is not None, name
            assert gradient.flatten(1).any(1).all(), f"a row of {name} is of no use"
            assert gradient.transpose(0, 1).flatten(1).any(1).all(), f"a column of {name} is of no use"
    assert constant < 3  # a mask may leave nothing that depends on the input


def random_mask(net: GatedSupernet, seed: int) -> Architecture:
    """Some gates keep everything, some nothing, others some channels."""
    generator = generator_at(seed, "mask")
    kept = []
    for one in net.gates:
        rate = (0.3, 0.6, 0.0, 1.0)[int(torch.randint(4, (), generator=generator))]
        kept.append(torch.rand(one.slices, generator=generator) >= rate)
    slices = dict(zip(net.space.choice_names, torch.cat(kept).tolist(), strict=True))
    return dropping(net, lambda name: not slices[name])


def of_channel(channel: int, *layers: str) -> set[str]:
    return {f"{layer}[{channel}]" for layer in layers}


@pytest.mark.parametrize(
    ("family", "drops", "lost"),
    [
        # what the second convolution of a branch does not read: 2 inputs times 9
        ("multi-branch", of_channel(1, "blocks.0.branches.0.4.kernel3"), {
            "blocks.0.branches.0.4.kernel3.weight": 3 * 9,
            "blocks.0.branches.0.1.kernel3.weight": 2 * 9, "blocks.0.branches.0.2.weight": 1,
            "blocks.0.branches.0.2.bias": 1,
        }),
        # a channel of the stream between two blocks: what halves the resolution has four readers of its own
        ("multi-branch", of_channel(
            0, "blocks.1.shortcut.even.1", "blocks.1.shortcut.odd.1",
            *(f"blocks.1.branches.{branch}.1.kernel3" for branch in (0, 1)),
        ), {
            "blocks.1.shortcut.even.1.weight": 3, "blocks.1.shortcut.odd.1.weight": 3,
            **{f"blocks.1.branches.{branch}.1.kernel3.weight": 6 * 9 for branch in (0, 1)},
            **{f"blocks.0.branches.{branch}.4.kernel3.weight": 3 * 9 for branch in (0, 1)},
            **{f"blocks.0.branches.{branch}.5.{name}": 1 for branch in (0, 1) for name in ("weight", "bias")},
            "blocks.0.shortcut.1.weight": 2, "blocks.0.shortcut.2.weight": 1, "blocks.0.shortcut.2.bias": 1,
        }),
        ("multi-branch, inflated", of_channel(
            1, "blocks.0.branches.0.4.kernel1", "blocks.0.branches.0.4.kernel3"
        ), {
            "blocks.0.branches.0.4.kernel1.weight": 3, "blocks.0.branches.0.4.kernel3.weight": 3 * 9,
            "blocks.0.branches.0.1.kernel1.weight": 2, "blocks.0.branches.0.1.kernel3.weight": 2 * 9,
            "blocks.0.branches.0.2.weight": 1, "blocks.0.branches.0.2.bias": 1,
        }),
        # only one of two readers drops it
        ("multi-branch, inflated", of_channel(1, "blocks.0.branches.0.4.kernel3"), {
            "blocks.0.branches.0.4.kernel3.weight": 3 * 9,
        }),
        # node 2 of the first cell, a pooling and a separable convolution; read by the last cell, at half the resolution
        ("enas", of_channel(0, "cells.1.previous.1", "cells.2.earlier.even.1", "cells.2.earlier.odd.1"), {
            "cells.1.previous.1.weight": 4, "cells.2.earlier.even.1.weight": 2, "cells.2.earlier.odd.1.weight": 2,
            "cells.0.operations.1.4.kernel3.1.weight": 2,
            "cells.0.operations.1.5.weight": 1, "cells.0.operations.1.5.bias": 1,
        }),
        # between a depthwise and a 1x1 convolution, and back to the first of the two separable convolutions
        ("enas", of_channel(0, "cells.0.operations.1.4.kernel3.1"), {
            "cells.0.operations.1.4.kernel3.1.weight": 2, "cells.0.operations.1.4.kernel3.0.weight": 9,
            "cells.0.operations.1.2.weight": 1, "cells.0.operations.1.2.bias": 1,
            "cells.0.operations.1.1.kernel3.1.weight": 2,
        }),
        ("enas, inflated", of_channel(
            0, "cells.0.operations.1.4.kernel3.1", "cells.0.operations.1.4.kernel5.1"
        ), {
            "cells.0.operations.1.4.kernel3.1.weight": 2, "cells.0.operations.1.4.kernel5.1.weight": 2,
            "cells.0.operations.1.4.kernel3.0.weight": 9, "cells.0.operations.1.4.kernel5.0.weight": 25,
            "cells.0.operations.1.2.weight": 1, "cells.0.operations.1.2.bias": 1,
            "cells.0.operations.1.1.kernel3.1.weight": 2, "cells.0.operations.1.1.kernel5.1.weight": 2,
        }),
        ("resnet", of_channel(2, "blocks.0.branch.3.kernel3", "blocks.0.branch.3.kernel5"), {
            "blocks.0.branch.3.kernel3.weight": 3 * 9, "blocks.0.branch.3.kernel5.weight": 3 * 25,
            "blocks.0.branch.0.weight": 3, "blocks.0.branch.1.weight": 1, "blocks.0.branch.1.bias": 1,
        }),
        # a channel of the stream, whose readers are the next branch and the shortcut that picks pixels
        ("resnet", of_channel(4, "blocks.1.branch.0", "blocks.1.shortcut.0.1"), {
            "blocks.1.branch.0.weight": 6, "blocks.1.shortcut.0.1.weight": 12,
            "blocks.0.branch.6.weight": 3, "blocks.0.branch.7.weight": 1, "blocks.0.branch.7.bias": 1,
            "blocks.0.shortcut.0.weight": 3, "blocks.0.shortcut.1.weight": 1, "blocks.0.shortcut.1.bias": 1,
        }),
        # a channel of the stem, which both layers of the first block and the transition could read
        ("densenet", of_channel(3, "blocks.0.branch.2", "blocks.1.branch.2", "blocks.2.2"), {
            "blocks.0.branch.2.weight": 4, "blocks.0.branch.0.weight": 1, "blocks.0.branch.0.bias": 1,
            "blocks.1.branch.2.weight": 4, "blocks.1.branch.0.weight": 1, "blocks.1.branch.0.bias": 1,
            "blocks.2.2.weight": 4, "blocks.2.0.weight": 1, "blocks.2.0.bias": 1,
            "stem.0.weight": 2 * 9, "stem.1.weight": 1, "stem.1.bias": 1,
        }),
        ("mlp", of_channel(0, "blocks.0.branch.3"), {
            "blocks.0.branch.3.weight": 4, "blocks.0.branch.1.weight": 4, "blocks.0.branch.1.bias": 1,
        }),
    ],
)  # fmt: skip
def test_removal_reaches_the_producers(family: str, drops: set[str], lost: Mapping[str, int]) -> None:
    """Dropped slices of kernels, and all that only they would have read, counted one by one."""
    net = supernet(family)
    assert drops <= set(net.space.choice_names)
    network = extracted(net, dropping(net, drops.__contains__), family)
    left = {name: parameter.numel() for name, parameter in network.named_parameters()}
    before = {name: parameter.numel() for name, parameter in net.model.named_parameters()}
    assert {name: size - left[name] for name, size in before.items() if size != left[name]} == lost


@pytest.mark.parametrize(
    ("family", "branches"),
    [
        ("multi-branch", ["blocks.1.branches.0", "blocks.1.shortcut"]),
        ("multi-branch, inflated", ["blocks.0.branches.1.1.kernel3"]),
        # poolings, an identity, one that halves the resolution, and an input
        ("enas", [*(f"cells.{place}" for place in ("0.operations.0", "1.operations.2", "0.operations.2")),
                  "cells.1.operations.7", "cells.2.earlier"]),
        ("enas, inflated", ["cells.0.operations.3.1.kernel5"]),
        ("resnet", ["blocks.1.branch", "blocks.1.branch.3.kernel5"]),
        ("densenet", ["blocks.1.branch"]),
        ("mlp", ["blocks.0.branch"]),
    ],
)  # fmt: skip
def test_whole_branches_disappear(family: str, branches: list[str]) -> None:
    """What has statistics leaves a constant; no kernel, normalisation, pooling or identity stays."""
    net = supernet(family)
    for branch in branches:
        inside = {name for name in net.space.choice_names if name.startswith((f"{branch}.", f"{branch}["))}
        network = extracted(net, dropping(net, inside.__contains__), family)
        left = [module for name, module in network.named_modules() if f"{name}.".startswith(f"{branch}.")]
        leaves = [module for module in left if not list(module.children())]
        # a kernel size of several may leave the normalisation of their sum, and zeros get their resolution by picking
        allowed = (nn.Module, nn.BatchNorm2d) if ".kernel" in branch else (nn.Module,)
        assert all(type(one) in allowed or getattr(one, "kernel_size", None) == 1 for one in leaves)


@FAMILIES
def test_nothing_is_left_of_blocks_that_read_nothing(family: str) -> None:
    net = supernet(family)
    network = extracted(net, dropping(net, lambda name: True), family)
    kernels = {name for name, parameter in network.named_parameters() if parameter.dim() > 1}
    # where the stream passes by all blocks, its beginning stays; otherwise the output is a constant
    assert kernels == ({"classifier.weight", "stem.1.weight"} if family == "mlp" else set())


def parameters_of(make: Callable[[], nn.Module]) -> int:
    with torch.device("meta"):
        return count(make())


def test_published_sizes() -> None:
    """Parameters of the networks of the documents; 26.2 million of shake-shake's are rounded."""
    large: dict[str, Any] = {"stem": "large", "classes": 1000}
    resnet50: dict[str, Any] = {"width": 64, "blocks": (3, 4, 6, 3), "kernels": (3,)} | large
    assert parameters_of(lambda: InflatedResNet(**resnet50)) == 25_557_032
    inflated = resnet50 | {"kernels": (1, 3, 5, 9), "concatenated": True}  # 1, 9, 9 and 25 weights in place of 9
    kernels = sum(count * (64 * 2**stage) ** 2 for stage, count in enumerate((3, 4, 6, 3)))
    assert parameters_of(lambda: InflatedResNet(**inflated)) == 25_557_032 + (44 - 36) * kernels // 4
    assert parameters_of(lambda: DenseNet(growth=32, layers=(6, 12, 24, 16), **large)) == 7_978_856
    assert parameters_of(lambda: MultiBranchResNet(width=96, blocks=4)) == pytest.approx(26.2e6, rel=1e-3)
    assert parameters_of(lambda: EnasNetwork(width=36, cells=5)) == pytest.approx(3.73e6, rel=1e-3)


def test_no_1x1_convolution_has_a_stride() -> None:
    """However many channels it reads, it may be left with few."""
    with torch.device("meta"):
        models = [MultiBranchResNet(kernels=(1, 3)), EnasNetwork(), InflatedResNet(), DenseNet()]
    layers = [module for model in models for module in model.modules() if isinstance(module, nn.Conv2d)]
    assert {layer.stride for layer in layers if layer.kernel_size == (1, 1)} == {(1, 1)}
    assert (2, 2) in {layer.stride for layer in layers}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MultiBranchResNet(blocks=0), "blocks to be 1 or more. Got 0"),
        (lambda: MultiBranchResNet(kernels=(3, 4)), r"odd kernel sizes, each once. Got \(3, 4\)"),
        (lambda: MultiBranchResNet(kernels=()), "odd kernel sizes"),
        (lambda: InflatedResNet(kernels=(3, 3)), "odd kernel sizes"),
        (lambda: InflatedResNet(blocks=(2, 0)), r"blocks to be one or more numbers of 1 or more. Got \(2, 0\)"),
        (lambda: InflatedResNet(width=1, concatenated=True), "width of 2 or more for as many kernel sizes. Got 1"),
        (lambda: InflatedResNet(stem="big"), "stem out of small, large. Got 'big'"),  # type: ignore[arg-type]
        (lambda: DenseNet(layers=()), "layers to be one or more"),
        (lambda: DenseNet(initial=0), "initial to be 1 or more"),
        (lambda: DenseNet(compression=0.0), "compression above 0"),
        (lambda: EnasNetwork(stages=0), "stages to be 1 or more"),
        (lambda: ResidualMLP(features=0, classes=2), "features to be 1 or more"),
    ],
)
def test_mistakes(make: Callable[[], nn.Module], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        make()


class Code(nn.Module):
    """A function of one's own between two layers."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


@pytest.mark.parametrize(
    ("padding", "rows", "columns"),
    [
        (nn.ZeroPad2d(1), 2, 2),
        (nn.ConstantPad2d((-1, 1, -1, 1), 0.0), 2, 2),
        (Code(lambda x: F.pad(x, (0, 0, 1, 0))), 2, 2),
        (Code(lambda x: F.pad(x, pad=[-1, 0], value=0.0)), 2, 2),
        (Code(lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect")), 2, 2),
        (nn.ConstantPad2d(1, 0.5), 3, 3),
        (Code(lambda x: F.pad(x, (1, 1), value=-1.0)), 3, 3),
        (nn.ConstantPad3d((0, 0, 0, 0, -1, 1), 0.0), 3, 3),
        (Code(lambda x: F.pad(x, (0, 0, 0, 0, 1, -1))), 3, 3),
    ],
)
def test_padding_with_zeros_passes_zeros_on(padding: nn.Module, rows: int, columns: int) -> None:
    """A pooling drops one channel, a layer another one; a padding of channels, or with other numbers, stays whole."""
    layers: Iterable[nn.Module] = (nn.Conv2d(2, 4, 1), nn.MaxPool2d(1), padding, nn.Conv2d(4, 3, 1))
    model = nn.Sequential(*layers).double().eval()
    net = gate(model, inputs("padded"), groups={"all": ["1", "3"]})
    network: Any = extracted(net, dropping(net, {"1[0]", "3[2]"}.__contains__), "padded")
    assert network.get_submodule("3").weight.shape[1] == columns
    assert network.get_submodule("0").weight.shape[0] == rows
