"""The contracts of supernets, with and without gates."""

import copy
import math
import pickle
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from unittest import TestCase

import torch
from torch import Tensor, fx, nn

from polyarch.data import Inputs, NamedInputs
from polyarch.data.named_inputs import call_plainly, mapped
from polyarch.errors import InvalidInput
from polyarch.nn import ChoiceBlock, ElasticConv2d, ElasticLayer
from polyarch.nn.choice_vectors import ChoiceVectors
from polyarch.nn.path_recording import Composed
from polyarch.randomness import generator_at, global_seed
from polyarch.spaces import Architecture, Choice, Space
from polyarch.supernets import Supernet
from polyarch.testing.tools import same_bits, saved_and_loaded, state_of


class HardPathContract:
    """For supernets that take architectures only (``takes_gates = False``).

    Inherit, and return a small supernet and a batch of inputs; raise ``tolerance`` for float32 networks.
    """

    tolerance: float = 1e-9

    def make_supernet(self) -> Supernet:
        """The supernet under test; its weights come from torch's global generator, which the contract seeds."""
        raise NotImplementedError

    def make_inputs(self) -> Inputs:
        """A batch of 4 or more examples for the supernet, (B, ...), or several inputs by name."""
        raise NotImplementedError

    def make_architectures(self, space: Space) -> list[Architecture]:
        """The architectures to test, by default four draws."""
        generator = generator_at(0, "contract")
        return [space.sample(generator) for _ in range(4)]

    def test_path_and_extracted_network_agree(self) -> None:
        """In evaluation mode net(x, a) and extract(a)(x) compute the same function."""
        net, x, architectures = self._trained()
        for architecture in architectures:
            self._assert_close(net.extract(architecture).eval()(x), net(x, architecture))

    def test_equal_canonical_forms_have_equal_layers(self) -> None:
        """Architectures of the same canonical form are networks of the same layers, and of the same size."""
        net, _, architectures = self._trained()
        for architecture in architectures:
            twins = [other for other in _neighbours(architecture) if other.canonical() == architecture.canonical()]
            layers = _layers(net.extract(architecture))
            for twin in twins[:3]:
                assert _layers(net.extract(twin)) == layers
                assert net.parameter_count(twin) == net.parameter_count(architecture)

    def test_many_at_once_equal_one_by_one(self) -> None:
        """In evaluation and training mode, in any order and with repetitions: (S, B, C)."""
        net, x, architectures = self._trained()
        architectures = [*reversed(architectures), architectures[0]]
        for mode in (False, True):
            net.train(mode)
            expected = torch.stack([net(x, architecture) for architecture in architectures])
            self._assert_close(net.forward_many(x, architectures), expected)

    def test_a_copy_is_independent(self) -> None:
        """Changing the copy affects neither the original nor its outputs."""
        net, x, architectures = self._trained()
        before, state = net(x, architectures[0]), state_of(net)
        other = copy.deepcopy(net)
        self._assert_close(other(x, architectures[0]), before)
        _disturb(other, "copy")
        other.train()(x, architectures[0])
        assert same_bits(state_of(net), state)
        assert not torch.allclose(other.eval()(x, architectures[0]), before)

    def test_threads_do_not_disturb_each_other(self) -> None:
        """Concurrent forward passes and extractions give the same bits as serial ones."""
        net, x, architectures = self._trained()
        tasks = [(architecture, extracted) for architecture in architectures for extracted in (False, True)] * 2

        def run(task: tuple[Architecture, bool]) -> Tensor:
            architecture, extracted = task
            with torch.no_grad():
                output: Tensor = net.extract(architecture).eval()(x) if extracted else net(x, architecture)
            return output

        serial = [run(task) for task in tasks]
        with ThreadPoolExecutor(max_workers=4) as threads:
            parallel = list(threads.map(run, tasks))
        assert same_bits(parallel, serial)

    def test_extraction_leaves_the_supernet_alone(self) -> None:
        """No weight, statistic or mode changes, not even when the extracted network is trained."""
        net, x, architectures = self._trained()
        net.train()
        state = state_of(net)
        for architecture in architectures:
            network = net.extract(architecture)
            _disturb(network, "extracted")
            network.train()(x)
        assert same_bits(state_of(net), state)

    def test_extracted_network_is_plain(self) -> None:
        """It contains no class of this package, so that it loads where the package is not installed."""
        net, x, architectures = self._trained()
        for architecture in architectures:
            network = net.extract(architecture).eval()
            expected = network(x)
            call_plainly(network)
            assert all("polyarch" not in type(module).__module__ for module in network.modules())
            content = pickle.dumps(network)
            assert b"polyarch" not in content
            loaded = pickle.loads(content)
            if isinstance(x, NamedInputs) and not isinstance(network, fx.GraphModule):
                self._assert_close(loaded(**x), expected)
            else:
                self._assert_close(loaded(x), expected)

    def test_extracted_networks_survive_saving(self) -> None:
        """Their state, loaded into the same architectures of another supernet, gives the same outputs."""
        net, x, architectures = self._trained()
        other = copy.deepcopy(net)
        _disturb(other, "other")
        pairs = [(net.extract(architecture), other.extract(architecture)) for architecture in architectures]
        pairs += [(net.extract_many(some), other.extract_many(some)) for some in self._selections(architectures)]
        for network, again in pairs:
            expected = network.eval()(x)
            assert not torch.allclose(again.eval()(x), expected)
            again.load_state_dict(saved_and_loaded(network.state_dict()))
            assert same_bits(again(x), expected)

    def test_many_extracted_together_agree_with_the_supernet(self) -> None:
        """extract_many(...)(x) is forward_many(x, ...) in evaluation mode, in any order; the supernet is unchanged."""
        net, x, architectures = self._trained()
        state = state_of(net)
        for some in self._selections(architectures):
            networks = net.extract_many(some)
            self._assert_close(networks.eval()(x), net.forward_many(x, some))
            _disturb(networks, "extracted")
            networks.train()(x)
        assert same_bits(state_of(net), state)

    def test_extracted_network_follows_its_mode(self) -> None:
        """In training mode it computes what the supernet's path computes in training mode."""
        net, x, architectures = self._trained()
        for architecture in architectures:
            network = net.extract(architecture)
            for mode in (False, True):  # training last, because it updates the statistics
                network.train(mode)
                assert all(module.training == mode for module in network.modules())
                self._assert_close(network(x), net.train(mode)(x, architecture))

    def test_a_path_computes_only_what_it_selects(self) -> None:
        """Only the layers of the extracted network run, and other options and other slices get no gradient.

        Inter-choice weights do not count: they are constants of the extracted network. Neither do the transforms of
        elastic kernels, which change the gradient of the kernel.
        """
        net, x, architectures = self._trained()
        for architecture in architectures:
            net.zero_grad(set_to_none=True)
            network = net.extract(architecture).train()
            assert _layers_run(net.train(), x, architecture) == _layers_run(network, x)
            for block in net.modules():
                if isinstance(block, ChoiceBlock):
                    others = [option for option in block.passing if option != architecture[block.choice]]
                    unused = [parameter for option in others for parameter in block.operation(option).parameters()]
                    assert all(parameter.grad is None for parameter in unused)
            on_path = [*_gradients(_shared_weights(net)), *_slice_gradients(net, architecture)]
            extracted = _gradients(_layer_weights(network, net))
            assert sum(map(Tensor.numel, on_path)) == sum(map(Tensor.numel, extracted)) > 0
            norms = [sum(float(gradient.square().sum()) for gradient in part) for part in (on_path, extracted)]
            assert _transforms_kernels(net) or math.isclose(*norms, rel_tol=100 * self.tolerance)

    def test_parameter_count_covers_the_extracted_network(self) -> None:
        """It is at least the size of the extracted network and at most that of the supernet."""
        net, _, architectures = self._trained()
        everything = sum(parameter.numel() for parameter in net.parameters())
        for architecture in architectures:
            extracted = sum(parameter.numel() for parameter in _layer_weights(net.extract(architecture), net))
            assert extracted <= net.parameter_count(architecture) <= everything

    def test_architectures_of_other_spaces_are_refused(self) -> None:
        """Equal indices mean other options there."""
        net, x, architectures = self._trained()
        choices = tuple(Choice(c.name, tuple(f"other {option}" for option in c.options)) for c in net.space.choices)
        foreign = Architecture(Space("other", choices), architectures[0].indices)
        calls: list[Callable[[], object]] = [
            lambda: net(x, foreign),
            lambda: net.forward_many(x, [foreign]),
            lambda: net.extract(foreign),
            lambda: net.extract_many([foreign]),
        ]
        for call in calls:
            with TestCase().assertRaises(InvalidInput):
                call()

    def _trained(self) -> tuple[Supernet, Inputs, list[Architecture]]:
        """A supernet in evaluation mode with changed weights and statistics, inputs and architectures."""
        with global_seed(0, "contract"):
            net, x = self.make_supernet(), self.make_inputs()
        architectures = self.make_architectures(net.space)
        _disturb(net, "trained")
        net.train()
        with torch.no_grad():
            for position, architecture in enumerate(architectures):
                net(_changed(x, 1 + 0.1 * position, 0.0), architecture)
            self._pass_further(net, _changed(x, 1.0, 0.5))
        return net.eval(), x, architectures

    def _pass_further(self, net: Supernet, x: Inputs) -> None:
        """More passes in training mode, before the tests."""

    @staticmethod
    def _selections(architectures: list[Architecture]) -> list[list[Architecture]]:
        """One, every second, and all in reverse order with a repetition."""
        return [architectures[-1:], architectures[1::2], [*reversed(architectures), architectures[0]]]

    def _assert_close(self, actual: Tensor, expected: Tensor) -> None:
        torch.testing.assert_close(actual, expected, rtol=self.tolerance, atol=self.tolerance)


class SupernetContract(HardPathContract):
    """For supernets that also mix options by gates; inherit as from `HardPathContract`."""

    def test_gates_agree_with_the_path(self) -> None:
        """In evaluation mode net(x, a.one_hot()) computes what net(x, a) computes."""
        net, x, architectures = self._trained()
        assert net.takes_gates
        for architecture in architectures:
            self._assert_close(net(x, architecture.one_hot()), net(x, architecture))

    def test_gates_may_differ_from_example_to_example(self) -> None:
        """One-hot gates (B, O) give every example the output of its own architecture."""
        net, x, architectures = self._trained()
        assigned = [architectures[row % len(architectures)] for row in range(len(x))]
        gates = {
            name: torch.stack([architecture.one_hot()[name] for architecture in assigned])
            for name in net.space.choice_names
        }
        expected = torch.stack([net(x, architecture)[row] for row, architecture in enumerate(assigned)])
        self._assert_close(net(x, gates), expected)

    def test_relaxed_gates_are_differentiable(self) -> None:
        """The output is finite and every gate receives a gradient."""
        net, x, _ = self._trained()
        gates = {c.name: torch.full((len(c),), 1 / len(c), requires_grad=True) for c in net.space.choices}
        output = net(x, gates)
        assert output.isfinite().all()
        gradients = torch.autograd.grad(output.square().sum(), list(gates.values()))
        assert all(gradient.isfinite().all() for gradient in gradients)
        assert all(gradient.any() for gradient, c in zip(gradients, net.space.choices, strict=True) if len(c) > 1)

    def _pass_further(self, net: Supernet, x: Inputs) -> None:
        net(x, {c.name: torch.full((len(c),), 1 / len(c)) for c in net.space.choices})


def _neighbours(architecture: Architecture) -> Iterator[Architecture]:
    """All members that differ in one choice."""
    space, indices = architecture.space, architecture.indices
    for position, choice in enumerate(space.choices):
        for option in range(len(choice)):
            other = Architecture(space, (*indices[:position], option, *indices[position + 1 :]))
            if other != architecture and other in space:
                yield other


def _layers(network: nn.Module) -> list[str]:
    """What a network is made of, in words."""
    return sorted(repr(module) for module in network.modules() if not list(module.children()))


def _changed(x: Inputs, scale: float, shift: float) -> Inputs:
    """Other numbers; tokens and masks stay."""
    return mapped(lambda part: part * scale + shift if part.is_floating_point() else part, x)


def _disturb(module: nn.Module, stream: str) -> None:
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator_at(0, stream, name))
            parameter.add_(0.1 * noise.to(parameter))


def _gradients(parameters: Iterable[nn.Parameter]) -> list[Tensor]:
    return [parameter.grad for parameter in parameters if parameter.grad is not None]


def _shared_weights(net: Supernet) -> list[nn.Parameter]:
    """All parameters except vectors that depend on several choices and weights that are used in slices."""
    parts = [part for part in net.modules() if isinstance(part, ChoiceVectors | ElasticLayer)]
    others = {parameter for part in parts for parameter in part.parameters()}
    return [parameter for parameter in net.parameters() if parameter not in others]


def _slice_gradients(net: Supernet, architecture: Architecture) -> Iterator[Tensor]:
    """The gradients of the slices that elastic layers use; outside of them gradients are zero."""
    indices = dict(zip(net.space.choice_names, architecture.indices, strict=True))
    for layer in net.modules():
        if isinstance(layer, ElasticLayer):
            for parameter, part in layer.pieces(indices):
                if parameter.grad is not None:
                    assert parameter.grad[part].count_nonzero() == parameter.grad.count_nonzero()
                    yield parameter.grad[part]


def _transforms_kernels(net: Supernet) -> bool:
    layers = [layer for layer in net.modules() if isinstance(layer, ElasticConv2d)]
    learned = [layer.get_parameter(f"transform{size}") for layer in layers for size in layer.kernels[1:]]
    return any(transform.grad is not None for transform in learned)


def _layer_weights(network: nn.Module, net: Supernet) -> list[nn.Parameter]:
    """All parameters except constants in the graph of an extracted network, which the supernet has no parameter for."""
    graphs = [module.graph for module in network.modules() if isinstance(module, fx.GraphModule)]
    known = dict(net.named_parameters()) | dict(getattr(net, "model", net).named_parameters())
    targets = {node.target for graph in graphs for node in graph.nodes if node.op == "get_attr"}
    constants = targets - set(known)
    return [parameter for name, parameter in network.named_parameters() if name not in constants]


def _layers_run(module: nn.Module, *inputs: object) -> list[str]:
    """The types of the layers (modules without children) that a forward pass calls, in order; runs backward as well.

    What is `Composed` is recorded as operations and is no layer of an extracted network.
    """
    called: list[str] = []
    leaves = [part for part in module.modules() if not list(part.children()) and not _is_operation(part)]
    hooks = [leaf.register_forward_hook(lambda layer, *_: called.append(_kind(layer))) for leaf in leaves]
    output = module(*inputs)
    for hook in hooks:
        hook.remove()
    weights = torch.randn(output.shape, generator=generator_at(0, "loss")).to(output)
    (output * weights).sum().backward()
    return called


def _is_operation(part: nn.Module) -> bool:
    return isinstance(part, Composed) and not isinstance(part, ElasticLayer)


def _kind(layer: nn.Module) -> str:
    """The type of a layer; an elastic one counts as the torch layer that it becomes."""
    return type(layer).__name__.removeprefix("Elastic")
