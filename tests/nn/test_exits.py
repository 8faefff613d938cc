"""Networks with exits: one walk, shared heads, and programs that need no polyarch."""

from __future__ import annotations

import copy
import io
import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from polyarch.errors import InvalidInput
from polyarch.nn import Exits, StackedNetworks, call
from polyarch.randomness import generator_at, global_seed
from polyarch.spaces import Architecture
from polyarch.supernets import ConvolutionalDepth, DepthSupernet, FullyConnectedDepth

MAX_DEPTH = 4


def fully_connected() -> DepthSupernet:
    return FullyConnectedDepth(features=64, classes=3, max_depth=MAX_DEPTH, width=4)


def convolutional() -> DepthSupernet:
    return ConvolutionalDepth(classes=3, max_depth=MAX_DEPTH, channels=4, inner_channels=2)


Make = Callable[[], DepthSupernet]
both = pytest.mark.parametrize("make", [fully_connected, convolutional])


def trained(make: Make, dtype: torch.dtype = torch.float64) -> DepthSupernet:
    """In evaluation mode, with statistics that are not those of its creation."""
    with global_seed(0, "net"):
        net = make().to(dtype)
    with torch.no_grad():
        net.train().forward_many(inputs(16, dtype), list(net.space.enumerate()))
    return net.eval()


def inputs(examples: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(examples, 1, 8, 8, dtype=torch.float64, generator=generator_at(0, "inputs")).to(dtype)


def at(net: DepthSupernet, *depths: int) -> list[Architecture]:
    return [net.space.architecture([str(depth)]) for depth in depths]


RISING = [list(part) for size in (1, 2, 4) for part in itertools.combinations(range(MAX_DEPTH + 1), size)]


@both
def test_every_choice_of_exits_equals_single_networks(make: Make) -> None:
    net, x = trained(make), inputs(5)
    alone = [net.extract(architecture).eval()(x) for architecture in net.space.enumerate()]
    for depths in RISING:
        exits = net.extract_many(at(net, *depths))
        assert isinstance(exits, Exits)
        expected = torch.stack([alone[depth] for depth in depths])
        torch.testing.assert_close(exits.eval()(x), expected, rtol=1e-12, atol=1e-12)


@both
@pytest.mark.parametrize("depths", [(2, 1), (1, 1), (0, 2, 1)])
def test_depths_that_do_not_rise_are_apart(make: Make, depths: tuple[int, ...]) -> None:
    net, x = trained(make), inputs(5)
    networks = net.extract_many(at(net, *depths))
    assert isinstance(networks, StackedNetworks) and len(networks) == len(depths)
    expected = net.forward_many(x, at(net, *depths))
    torch.testing.assert_close(networks.eval()(x), expected, rtol=1e-12, atol=1e-12)


@both
def test_weights_are_there_once_and_only_up_to_the_last_exit(make: Make) -> None:
    """Also in a copy: blocks and head as often as in the deepest network, whatever the number of exits."""
    net = trained(make)
    for depths in RISING:
        exits = net.extract_many(at(net, *depths))
        for network in (exits, copy.deepcopy(exits)):
            found = sum(parameter.numel() for parameter in network.parameters())
            assert found == net.parameter_count(at(net, depths[-1])[0])


@both
def test_one_walk(make: Make) -> None:
    net = trained(make)
    exits = net.extract_many(at(net, 0, 1, 3))
    kind: type[nn.Module] = nn.BatchNorm2d if make is convolutional else nn.BatchNorm1d
    layers = [layer for layer in exits.stages.modules() if isinstance(layer, kind)]  # type: ignore[union-attr]
    calls: list[nn.Module] = []
    for layer in layers:
        layer.register_forward_hook(lambda module, *_: calls.append(module))
    exits.eval()(inputs(3))
    assert calls == layers and len(layers) == 3 * (3 if make is convolutional else 1)


def test_statistics_of_heads_stay_apart() -> None:
    """One scale and shift for all exits, but running averages of their own."""
    exits = trained(convolutional).extract_many(at(trained(convolutional), 0, 2, 4))
    norms = [layer for layer in exits.heads.modules() if isinstance(layer, nn.BatchNorm1d)]  # type: ignore[union-attr]
    assert len(norms) == 3 and len({norm.weight for norm in norms}) == 1
    means = [norm.running_mean for norm in norms]
    assert not any(torch.equal(one, other) for one, other in itertools.combinations(means, 2))  # type: ignore[arg-type]


BATCH = {"x": {0: torch.export.Dim("batch")}}


@both
def test_round_trip_through_torch_export(make: Make) -> None:
    exits = trained(make).extract_many(at(trained(make), 0, 2, 3)).eval()
    file = io.BytesIO()
    torch.export.save(torch.export.export(exits, (inputs(4),), dynamic_shapes=BATCH), file)
    file.seek(0)
    program = torch.export.load(file).module()
    for examples in (1, 4, 7):
        torch.testing.assert_close(program(inputs(examples)), exits(inputs(examples)), rtol=1e-12, atol=1e-12)


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")  # torch's own, while it exports
def test_round_trip_through_onnx(tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    net = trained(convolutional, torch.float32)
    exits = net.extract_many(at(net, 0, 2, 3)).eval()
    program = torch.onnx.export(
        exits, (inputs(4, torch.float32),), dynamo=True, dynamic_shapes=BATCH, input_names=["x"], verbose=False
    )
    assert program is not None
    program.save(tmp_path / "exits.onnx")
    session = runtime.InferenceSession(tmp_path / "exits.onnx")
    for examples in (4, 7):
        x = inputs(examples, torch.float32)
        found = torch.from_numpy(session.run(None, {"x": x.numpy()})[0])
        torch.testing.assert_close(found, exits(x), rtol=1e-5, atol=1e-5)


def test_recorded_paths_share_what_they_share_in_the_network() -> None:
    """y_0 = head(a), y_1 = head(body(a)) with one head: its gradient is the sum over both exits."""
    network = nn.ModuleDict({"body": nn.Linear(2, 2), "head": nn.Linear(2, 3), "unused": nn.Linear(9, 9)}).double()
    body, head = network["body"], network["head"]
    exits = Exits.recorded(network, [lambda x: x * 1, lambda x: call(body, x)], [lambda x: call(head, x)] * 2)
    assert sum(parameter.numel() for parameter in exits.parameters()) == 6 + 9
    x = torch.randn(4, 2, dtype=torch.float64, generator=generator_at(0, "inputs"))
    expected = torch.stack([head(x), head(body(x))])
    torch.testing.assert_close(exits(x), expected, rtol=1e-12, atol=1e-12)
    exits(x).square().sum().backward()
    expected.square().sum().backward()
    gradients = sorted((parameter.grad for parameter in exits.parameters()), key=lambda value: value.numel())  # type: ignore[union-attr]
    wanted = [body.bias.grad, head.bias.grad, body.weight.grad, head.weight.grad]
    for found, value in zip(gradients, wanted, strict=True):
        torch.testing.assert_close(found, value, rtol=1e-12, atol=1e-12)


def test_what_does_not_fit() -> None:
    net = trained(fully_connected)
    with pytest.raises(InvalidInput, match=r"at least one network\. Got none"):
        net.extract_many([])
    with pytest.raises(InvalidInput, match="Got 2 stages and 1 heads"):
        Exits([nn.Identity(), nn.Identity()], [nn.Identity()])
    with pytest.raises(InvalidInput, match="Got 0 stages and 0 heads"):
        Exits([], [])
