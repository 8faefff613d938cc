"""Wired networks: contracts, wirings that differ from example to example, shared prefixes, weights of wirings."""

from __future__ import annotations

import copy
import math
import pickle
from collections import Counter
from contextlib import nullcontext
from itertools import pairwise

import pytest
import torch
from torch import Tensor, fx, nn

from polyarch.errors import InvalidInput
from polyarch.export.weights import distinct_weights_of, load_weights
from polyarch.nn import DependentModule, StackedNetworks, WiredModule, WiringNorm, skipping_zeros
from polyarch.nn.wired_module import DependentSum, ReadAs, ReadAsEach
from polyarch.randomness import generator_at, global_seed
from polyarch.spaces import (
    Architecture,
    Space,
    erdos_renyi,
    module_sources,
    parse_wiring,
    per_example_gates,
    residual_wiring,
    wired_space,
)
from polyarch.supernets import Supernet, WiredSupernet
from polyarch.supernets.wired import WiredLayout
from polyarch.testing import SupernetContract, same_bits

SPACE = wired_space(2, 3)
WIRINGS = [parse_wiring(text, SPACE) for text in ("000000-000000", "111111-111111", "101001-010110", "000000-100000")]
UNSEEN = parse_wiring("101001-010111", SPACE)
PREFIXED = [
    parse_wiring(text, SPACE)
    for text in ("101001-010110", "101001-010111", "101000-010110", "001001-010110", "101001-110110", "101001-010110")
]
"""With beginnings in common; the last is the first once more."""


def wired(*, wirings: list[Architecture] | None = None, auxiliary: bool = False) -> WiredSupernet:
    with global_seed(0, "weights"):
        net = WiredSupernet(
            width=3, modules=3, stages=2, in_channels=2, classes=4, wirings=wirings, auxiliary=auxiliary
        )
    generator = generator_at(0, "disturbed")
    with torch.no_grad():
        for parameter in net.double().parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape, generator=generator).to(parameter))
    return net


def images(count: int = 6) -> Tensor:
    return torch.randn(count, 2, 7, 6, dtype=torch.float64, generator=generator_at(0, "images"))


def assigned(count: int) -> list[Architecture]:
    return [WIRINGS[row % len(WIRINGS)] for row in range(count)]


def with_statistics(net: WiredSupernet) -> WiredSupernet:
    """In evaluation mode, with running statistics of some batches."""
    for position, wiring in enumerate(WIRINGS):
        net.train()(images() * (1 + position / 5), wiring)
    return net.eval()


class TestWiredSupernet(SupernetContract):
    def make_supernet(self) -> Supernet:
        return WiredSupernet(width=3, modules=3, stages=2, in_channels=2, classes=4).double()

    def make_inputs(self) -> Tensor:
        return torch.randn(6, 2, 7, 6, dtype=torch.float64)

    def make_architectures(self, space: Space) -> list[Architecture]:
        return [*WIRINGS, residual_wiring(space)]


@pytest.mark.slow
class TestWiredSupernetWithAuxiliaryClassifier(SupernetContract):
    """Four channels: with two, the contract's weights happen to switch off all units of the first down-sampling."""

    def make_supernet(self) -> Supernet:
        return WiredSupernet(width=4, modules=2, stages=3, in_channels=1, classes=3, auxiliary=True).double()

    def make_inputs(self) -> Tensor:
        return torch.randn(5, 1, 8, 8, dtype=torch.float64)

    def make_architectures(self, space: Space) -> list[Architecture]:
        return list(space.enumerate())[1::3]


class TestWiringDependentWeights(TestWiredSupernet):
    """Relaxed gates belong to no wiring and are refused, so what the contract does with them is left out."""

    def make_supernet(self) -> Supernet:
        return WiredSupernet(width=3, modules=3, stages=2, in_channels=2, classes=4, wirings=WIRINGS).double()

    def make_architectures(self, space: Space) -> list[Architecture]:
        return list(WIRINGS)

    def _trained(self) -> tuple[Supernet, Tensor, list[Architecture]]:
        return with_statistics(wired(wirings=WIRINGS)), images(), list(WIRINGS)

    def test_relaxed_gates_are_differentiable(self) -> None:
        net, x, _ = self._trained()
        with pytest.raises(InvalidInput, match="Expected gates of the 4 wirings"):
            net(x, {choice.name: torch.full((2,), 0.5) for choice in SPACE.choices})

    def test_a_path_computes_only_what_it_selects(self) -> None:
        net, x, _ = self._trained()
        net(x, WIRINGS[2]).sum().backward()
        for module in net.modules():
            if isinstance(module, DependentModule):
                assert all(parameter.grad is None for parameter in module.unselected(2))
                assert isinstance(module.norm, WiringNorm)
                assert all(parameter.grad is None for parameter in module.norm.unselected(2))
                assert module.coefficients[2].grad is not None


def test_a_module_reads_the_mean_of_its_active_inputs() -> None:
    """Against the formula, written out for one stage; its output reads like a module."""
    space = wired_space(1, 3)
    net = WiredSupernet(width=2, modules=3, stages=1, in_channels=1, classes=2).double().eval()
    x = torch.randn(3, 1, 5, 5, dtype=torch.float64, generator=generator_at(0, "x"))
    first, second, third = (block.operation for block in net.blocks if isinstance(block, WiredModule))
    with torch.no_grad():
        zero = net.stem(x)
        one = first(zero)
        two = second((zero + one) / 2)
        three = third((one + two) / 2)
        expected = net.head((zero + two + three) / 3)
        torch.testing.assert_close(net(x, parse_wiring("101101", space)), expected)


def test_the_residual_wiring_is_a_residual_network() -> None:
    """z <- z + second(first(z)): normalisation removes the scale of the means but in front of the classifier."""
    net = WiredSupernet(width=3, modules=4, stages=2, in_channels=2, classes=4).double().train()
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.eps = 1e-20  # next to nothing: torch refuses 0
    x = images()
    blocks = [block.operation for block in net.blocks if isinstance(block, WiredModule)]
    z = net.stem(x)
    for stage in range(2):
        z = net.downs[0](z) if stage else z
        for first, second in (blocks[4 * stage : 4 * stage + 2], blocks[4 * stage + 2 : 4 * stage + 4]):
            z = z + second(first(z))
    torch.testing.assert_close(net(x, residual_wiring(net.space)), net.head(z / 3), rtol=1e-8, atol=1e-10)


def silenced(layout: WiredLayout) -> Tensor:
    """The logits of the residual wiring after one module of the last stage was made to say nothing."""
    with global_seed(0, "weights"):
        net = WiredSupernet(width=3, modules=4, stages=2, in_channels=2, classes=4, layout=layout).double()
    module = net.blocks[-1]
    assert isinstance(module, WiredModule) and isinstance(module.operation[-1], nn.BatchNorm2d)
    nn.init.zeros_(module.operation[-1].weight)
    logits: Tensor = net.train()(images(), residual_wiring(net.space))
    return logits.detach()


def test_a_silent_module_does_not_silence_the_network() -> None:
    """As it did where a stage passed on its last module alone."""
    assert silenced("aggregated").std(0).min() > 1e-3
    assert silenced("last").std(0).max() == 0


def test_layers_between_stages_halve_the_sides_and_keep_single_pixels() -> None:
    net = wired().eval()
    assert isinstance(net.downs[0], nn.Sequential) and net.downs[0][1].kernel_size == (1, 1)
    assert net.downs[0](torch.zeros(1, 3, 7, 6).double()).shape == (1, 6, 4, 3)
    assert net(torch.zeros(1, 2, 1, 1).double(), WIRINGS[0]).shape == (1, 4)


def test_coefficients_are_bounded_and_start_as_the_mean() -> None:
    block = DependentSum([(0, 1), (1,)]).double()
    features = [torch.ones(1, 1, 1, 1).double(), 3 * torch.ones(1, 1, 1, 1).double()]
    assert [block(features, ReadAs(wiring)).item() for wiring in (0, 1)] == [2.0, 3.0]
    with torch.no_grad():
        block.coefficients[0].copy_(torch.tensor([100.0, -100.0]))
        block.coefficients[1].copy_(torch.tensor([50.0, 0.5]))
    expected = [1.0, 6 / (1 + math.exp(-0.5))]  # twice the mean at most; what is not read does not count
    assert [block(features, ReadAs(wiring)).item() for wiring in (0, 1)] == pytest.approx(expected)
    each = block([feature.expand(2, -1, -1, -1) for feature in features], ReadAsEach((0, 1), torch.tensor([1, 0])))
    assert each.flatten().tolist() == pytest.approx(expected[::-1])


def test_wirings_with_coefficients_alone_share_all_normalisation_layers() -> None:
    with global_seed(0, "weights"):
        net = WiredSupernet(width=3, modules=3, stages=2, in_channels=2, classes=4, wirings=WIRINGS, own_norms=False)
    plain = WiredSupernet(width=3, modules=3, stages=2, in_channels=2, classes=4)
    assert not any(isinstance(module, WiringNorm) for module in net.modules())
    assert numbers(net) - numbers(plain) == len(WIRINGS) * 2 * (1 + 2 + 3 + 4)
    x = images().float()
    each = net.eval()(x, per_example_gates(assigned(len(x))))
    alone = torch.cat([net(x[row : row + 1], wiring) for row, wiring in enumerate(assigned(len(x)))])
    torch.testing.assert_close(each, alone, rtol=1e-4, atol=1e-5)


def test_every_example_of_a_batch_has_its_own_wiring() -> None:
    """In evaluation mode a batch with gates (B, O) is the examples one by one, with and without weights of wirings."""
    x = images()
    for net in (wired(), wired(wirings=WIRINGS)):
        with_statistics(net)
        alone = torch.cat([net(x[row : row + 1], wiring) for row, wiring in enumerate(assigned(len(x)))])
        torch.testing.assert_close(net(x, per_example_gates(assigned(len(x)))), alone, rtol=1e-10, atol=1e-10)
        with skipping_zeros():
            torch.testing.assert_close(net(x, per_example_gates(assigned(len(x)))), alone, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("wirings", [None, WIRINGS])
def test_statistics_of_training_are_those_of_the_whole_batch(wirings: list[Architecture] | None) -> None:
    """The input of a normalisation layer has its batch mean over all examples, whatever their wirings."""
    net, x = wired(wirings=wirings).train(), images()
    layers: list[nn.Module]
    if wirings is None:
        layers = [module for module in net.modules() if isinstance(module, nn.BatchNorm2d)]
    else:
        layers = [module.statistics for module in net.modules() if isinstance(module, WiringNorm)]
    seen: dict[nn.Module, Tensor] = {}
    for layer in layers:
        layer.register_forward_hook(lambda module, inputs, _: seen.update({module: inputs[0]}))
    net(x, per_example_gates(assigned(len(x))))
    assert len(seen) == len(layers) == 1 + 2 * 3 + 1
    for layer, entering in seen.items():
        assert isinstance(layer, nn.BatchNorm2d) and layer.running_mean is not None
        torch.testing.assert_close(layer.running_mean, 0.1 * entering.mean((0, 2, 3)))  # momentum 0.1 from zero
        assert layer.num_batches_tracked == 1


@pytest.mark.parametrize("wirings", [None, WIRINGS])
def test_gradients_of_a_batch_are_those_of_its_examples(wirings: list[Architecture] | None) -> None:
    """In evaluation mode, where examples do not touch each other."""
    net, x = with_statistics(wired(wirings=wirings)), images()
    net.zero_grad()
    net(x, per_example_gates(assigned(len(x)))).square().sum().backward()
    together = {name: parameter.grad for name, parameter in net.named_parameters()}
    net.zero_grad()
    for row, wiring in enumerate(assigned(len(x))):
        net(x[row : row + 1], wiring).square().sum().backward()
    for name, parameter in net.named_parameters():
        torch.testing.assert_close(together[name], parameter.grad, msg=name)


def test_sources_that_no_example_reads_are_skipped_on_request() -> None:
    """Output and gradients are the same, but for the gates of these edges: they count in the mean's divisor alone."""
    net, x = with_statistics(wired()), images(4)
    gates = {name: gate.requires_grad_() for name, gate in per_example_gates([WIRINGS[0], WIRINGS[3]] * 2).items()}
    found, of_unread = [], []
    for skipping in (skipping_zeros, nullcontext):
        with skipping():
            output = net(x, gates)
        wanted = [gates["stage0_0->2"], gates["stage1_0->2"], *net.parameters()]
        unread, *gradients = torch.autograd.grad(output.square().sum(), wanted)
        found.append([output, *gradients])
        of_unread.append(unread)
    for ours, expected in zip(*found, strict=True):
        torch.testing.assert_close(ours, expected, rtol=1e-9, atol=1e-9)
    assert not torch.allclose(of_unread[0], of_unread[1])


def test_shared_prefixes_are_computed_once() -> None:
    """As many module calls as there are different prefixes of what modules read, the results those of the loop."""
    net, x = with_statistics(wired()), images()
    calls: Counter[nn.Module] = Counter()
    for module in (*net.blocks, net.stem, *net.downs):
        module.register_forward_hook(lambda module, *_: calls.update([module]))
    many = net.forward_many(x, PREFIXED)
    found = [calls[module] for module in net.blocks]
    rows = [[sources for stage in module_sources(wiring) for sources in stage] for wiring in PREFIXED]
    prefixes = [len({tuple(row[: length + 1]) for row in rows}) for length in (0, 1, 2, 4, 5, 6)]  # without outputs
    assert found == prefixes == [1, 2, 2, 3, 4, 4]
    assert (calls[net.stem], calls[net.downs[0]]) == (1, 3)
    torch.testing.assert_close(many, torch.stack([net(x, wiring) for wiring in PREFIXED]), rtol=1e-12, atol=1e-12)


def convolutions(network: nn.Module) -> list[nn.Module]:
    """The convolutions of an extracted network as often as its graph has them."""
    assert isinstance(network, fx.GraphModule)
    called = [network.get_submodule(str(node.target)) for node in network.graph.nodes if node.op == "call_module"]
    return [module for module in called if isinstance(module, nn.Conv2d)]


def numbers(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


def test_shared_prefixes_are_extracted_once() -> None:
    """The stem, 16 modules and 3 down-sampling ones as above; alone every wiring has 8 convolutions."""
    net, x = with_statistics(wired(auxiliary=True)), images()
    together = net.extract_many(PREFIXED).eval()
    calls: list[nn.Module] = []
    for module in set(convolutions(together)):
        module.register_forward_hook(lambda module, *_: calls.append(module))
    torch.testing.assert_close(together(x), net.forward_many(x, PREFIXED), rtol=1e-12, atol=1e-12)
    assert calls == convolutions(together)
    assert len(calls) == 1 + 16 + 3 < sum(len(convolutions(net.extract(wiring))) for wiring in PREFIXED) == 48
    assert numbers(together) == net.parameter_count(PREFIXED[0])


def test_weights_of_wirings_are_extracted_once() -> None:
    """Each wiring has coefficients, scales and shifts of its own; all else, statistics too, is there once."""
    net, x = with_statistics(wired(wirings=WIRINGS)), images()
    assert numbers(net.extract_many([*WIRINGS, WIRINGS[1]])) == numbers(net)
    some = [WIRINGS[3], WIRINGS[1], WIRINGS[3]]
    together = net.extract_many(some).eval()
    torch.testing.assert_close(together(x), net.forward_many(x, some), rtol=1e-12, atol=1e-12)
    assert len(convolutions(together)) == 2 * (1 + 2 * 3 + 1)  # nothing is shared: the stem is normalised by wiring
    counts = [net.parameter_count(wiring) for wiring in WIRINGS]
    shared = (sum(counts) - numbers(net)) // (len(counts) - 1)  # each count has it, all of them together have it once
    assert numbers(together) == counts[3] + counts[1] - shared
    assert sum("running_mean" in name for name in distinct_weights_of(together)) == 8


@pytest.mark.parametrize("wirings", [None, WIRINGS])
def test_many_extracted_together_are_one_plain_network(wirings: list[Architecture] | None) -> None:
    """No class of ours, so that artifacts know it as shared, and it fits into networks of the meta device."""
    net, x = with_statistics(wired(wirings=wirings)), images()
    together = net.extract_many(WIRINGS).eval()
    assert not isinstance(together, StackedNetworks)
    assert all("polyarch" not in type(module).__module__ for module in together.modules())
    content = pickle.dumps(together)
    assert b"polyarch" not in content
    assert same_bits(pickle.loads(content)(x), together(x))
    with torch.device("meta"):
        other = WiredSupernet(width=3, modules=3, stages=2, in_channels=2, classes=4, wirings=wirings).double()
        again = other.extract_many(WIRINGS).eval()
    load_weights(again, distinct_weights_of(together))
    assert same_bits(again(x), together(x))


@pytest.mark.parametrize("wirings", [None, WIRINGS])
def test_many_extracted_together_train_as_the_supernet_does(wirings: list[Architecture] | None) -> None:
    """The same logits, and the same running statistics afterwards."""
    net, x = with_statistics(wired(wirings=wirings)).train(), images()
    some = [WIRINGS[3], WIRINGS[0], WIRINGS[2]]
    together = net.extract_many(some).train()
    torch.testing.assert_close(together(x), net.forward_many(x, some), rtol=1e-12, atol=1e-12)
    expected = net.state_dict()
    found = {name: value for name, value in together.state_dict().items() if name in expected}
    assert sum("running_var" in name for name in found) >= 8
    for name, value in found.items():
        torch.testing.assert_close(value, expected[name], msg=name)


def test_no_wiring_is_no_network() -> None:
    with pytest.raises(InvalidInput, match=r"^Expected at least one wiring\. Got none\.$"):
        wired().extract_many([])


def test_auxiliary_logits_come_from_the_input_of_the_last_stage() -> None:
    net, x = with_statistics(wired(auxiliary=True)), images()
    logits, auxiliary = net.with_auxiliary(x, WIRINGS[2])
    torch.testing.assert_close(logits, net(x, WIRINGS[2]))
    assert auxiliary.shape == logits.shape
    assert net.auxiliary is not None
    other = torch.autograd.grad(auxiliary.sum(), [*net.blocks.parameters()], allow_unused=True)
    half = len(other) // 2
    assert all(gradient is not None for gradient in other[:half])
    assert all(gradient is None for gradient in other[half:])
    extracted = net.extract(WIRINGS[2])
    assert not [name for name, _ in extracted.named_parameters() if "auxiliary" in name]
    with pytest.raises(InvalidInput, match="with an auxiliary classifier"):
        wired().with_auxiliary(x, WIRINGS[0])


def test_weights_of_wirings_start_as_the_mean() -> None:
    """With fresh weights and the same convolutions, the network is the one without weights of wirings."""
    x = images()
    with global_seed(0, "weights"):
        plain = WiredSupernet(width=3, modules=3, stages=2, in_channels=2, classes=4).double()
        net = WiredSupernet(width=3, modules=3, stages=2, in_channels=2, classes=4, wirings=WIRINGS).double()
    convolutions = [[m for m in one.modules() if isinstance(m, nn.Conv2d | nn.Linear)] for one in (plain, net)]
    for ours, theirs in zip(*convolutions, strict=True):
        theirs.load_state_dict(ours.state_dict())
    for mode in (True, False):
        for wiring in WIRINGS:
            torch.testing.assert_close(net.train(mode)(x, wiring), plain.train(mode)(x, wiring))


def test_weights_of_wirings_make_wirings_differ() -> None:
    """The same sources under two wirings, but coefficients and affine of their own; statistics are shared."""
    norm = WiringNorm(2, 2).double()
    layers = [layer for layer in norm.norms if isinstance(layer, nn.BatchNorm2d)]
    with torch.no_grad():
        layers[1].weight.fill_(3.0)
    for one, other in pairwise([norm.statistics, *layers]):
        assert one.running_mean is other.running_mean and one.num_batches_tracked is other.num_batches_tracked
    again = copy.deepcopy(norm)
    assert again.norms[0].running_var is again.statistics.running_var is not norm.statistics.running_var


def test_unseen_wirings_are_refused_where_wirings_have_weights() -> None:
    net, x = wired(wirings=WIRINGS).eval(), images()
    for refused in (UNSEEN, UNSEEN.one_hot(), per_example_gates([*assigned(5), UNSEEN])):
        with pytest.raises(InvalidInput, match=r"^Expected .* wirings with weights of their own. Got [^.]*\.$"):
            net(x, refused)
    with pytest.raises(InvalidInput, match="weights of their own"):
        net.extract(UNSEEN)


def test_weights_of_unused_wirings_get_no_gradient() -> None:
    net = wired(wirings=WIRINGS).train()
    net(images(4), per_example_gates([WIRINGS[0], WIRINGS[2]] * 2)).square().sum().backward()
    for block in net.blocks:
        assert isinstance(block, DependentModule)
        have = [parameter.grad is not None for parameter in block.coefficients]
        assert have == [True, False, True, False]
        for coefficients, mask in zip(block.coefficients, block.masks, strict=True):
            assert coefficients.grad is None or not coefficients.grad[mask == 0].any()


def test_the_network_has_the_size_of_the_paper() -> None:
    """39.5 million weights with the auxiliary classifier, 39.6 with those of five wirings (table 2)."""
    with torch.device("meta"):
        net = WiredSupernet(width=160, auxiliary=True)
    wirings = erdos_renyi(net.space, 5, generator=generator_at(0, "wirings"))
    body = sum(8 * (9 * w * w + 2 * w) for w in (160, 320, 640)) + sum(2 * w * w + 4 * w for w in (160, 320))
    expected = 3 * 160 * 9 + 2 * 160 + body + 641 * 10
    assert {net.parameter_count(wiring) for wiring in (*wirings, residual_wiring(net.space))} == {expected}
    auxiliary = 640 * 128 + 2 * 128 + 128 * 768 * 4 + 2 * 768 + 769 * 10
    assert numbers(net) == expected + auxiliary == 39_478_708
    with torch.device("meta"):
        dependent = WiredSupernet(width=160, auxiliary=True, wirings=wirings)
    norms, coefficients = 160 + 8 * (160 + 320 + 640) + 320 + 640, 3 * sum(range(1, 10))
    assert numbers(dependent) == numbers(net) + 4 * 2 * norms + 5 * coefficients
    assert round(numbers(dependent) / 1e6, 1) == 39.6


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"width": 0}, "width"),
        ({"classes": 0}, "classes"),
        ({"modules": 1}, "2 or more modules"),
        ({"stages": 1, "auxiliary": True}, "2 or more stages"),
        ({"wirings": []}, "different wirings"),
        ({"modules": 3, "stages": 2, "wirings": [WIRINGS[0], WIRINGS[0]]}, "different wirings"),
        ({"wirings": WIRINGS}, "Expected an architecture of 'wired3x8out'"),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        WiredSupernet(**settings)  # type: ignore[arg-type]
