"""Zero-cost proxies against sums over paths and kernels by hand, and on networks of every kind."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from polyarch.data import Batches, Dataset, NamedInputs, TensorData
from polyarch.errors import InvalidInput, NotFiniteError
from polyarch.estimators import NASWOT, SNIP, Estimator, Fisher, GradientNorm, GraSP, JacobianCovariance, SynFlow, Zen
from polyarch.nn import OneOf
from polyarch.plugins import import_reference
from polyarch.randomness import generator_at, global_seed
from polyarch.runs.run import Run
from polyarch.runs.settings import RunSettings
from polyarch.runs.workspace import Workspace
from polyarch.spaces import Architecture
from polyarch.supernets import (
    ChainSupernet,
    ConvolutionalDepth,
    DartsSupernet,
    ElasticMLPSupernet,
    FullyConnectedDepth,
    MacroSupernet,
    MLPSupernet,
    MobileSupernet,
    NB101Supernet,
    NB201Supernet,
    PackedMLPSupernet,
    PooledSupernet,
    ResNetSupernet,
    Supernet,
    WiredSupernet,
    from_module,
    gate,
)
from polyarch.testing import random_data, same_bits, state_of

PYPROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"


def one_batch(inputs: Tensor) -> Batches:
    """All examples as one batch, in order."""
    return Batches(TensorData(inputs, torch.arange(len(inputs)), len(inputs)), len(inputs), shuffle=False)


def chosen(*layers: nn.Module) -> tuple[Supernet, Architecture]:
    """A network of these layers, in double precision; both options of its only choice do nothing."""
    net = from_module(nn.Sequential(*layers, OneOf("end", first=nn.Identity(), second=nn.Identity())).double())
    return net, net.space.architecture(["first"])


def paths(weights: list[Tensor], start: int, scale: Tensor | None = None) -> float:
    """The sum over paths through the layers from ``start`` on of the products of |w|, one path at a time.

    Args:
        scale: what enters at every unit before layer ``start``; 1 by default.
    """
    layers = weights[start:]
    units = [layers[0].shape[1], *(weight.shape[0] for weight in layers)]
    total = 0.0
    for path in product(*map(range, units)):
        steps = (abs(weight[path[i + 1], path[i]].item()) for i, weight in enumerate(layers))
        total += math.prod(steps) * (1.0 if scale is None else abs(scale[path[0]].item()))
    return total


def test_synflow_of_a_chain_is_the_sum_over_paths() -> None:
    """Each of the three layers carries the whole flow."""
    linear = [nn.Linear(3, 4, bias=False), nn.Linear(4, 2, bias=False), nn.Linear(2, 3, bias=False)]
    net, architecture = chosen(linear[0], nn.ReLU(inplace=True), *linear[1:])
    weights = [layer.weight.detach() for layer in linear]
    found = SynFlow((3,)).score(net, architecture)
    assert found == pytest.approx(math.log1p(3 * paths(weights, 0)), rel=1e-12)


def test_paths_from_biases_flow_through_the_weights_after_them() -> None:
    first, second = nn.Linear(3, 4), nn.Linear(4, 2)
    net, architecture = chosen(first, nn.ReLU(), second)
    weights = [first.weight.detach(), second.weight.detach()]
    expected = 2 * paths(weights, 0) + paths(weights, 1, scale=first.bias.detach())
    assert SynFlow((3,)).score(net, architecture) == pytest.approx(math.log1p(expected), rel=1e-12)


@pytest.mark.parametrize("layer", [nn.BatchNorm1d(4), nn.LayerNorm(4), nn.GroupNorm(2, 4), nn.ReLU6()])
def test_synflow_leaves_out_what_is_not_linear(layer: nn.Module) -> None:
    """Whatever the statistics and the ceiling; in place and beside a shortcut, the input stays what it is."""
    first, second = nn.Linear(3, 4, bias=False), nn.Linear(4, 2, bias=False)
    with torch.no_grad():
        first.weight.mul_(100)
        for parameter in layer.parameters():
            parameter.fill_(7)
    weights = [first.weight.detach(), second.weight.detach()]
    net, architecture = chosen(first, layer, nn.ReLU(inplace=True), second)
    assert SynFlow((3,)).score(net, architecture) == pytest.approx(math.log1p(2 * paths(weights, 0)), rel=1e-12)


def test_synflow_of_a_network_through_which_nothing_flows() -> None:
    first, second = nn.Linear(3, 4, bias=False), nn.Linear(4, 2, bias=False)
    nn.init.zeros_(second.weight)
    net, architecture = chosen(first, second)
    assert SynFlow((3,)).score(net, architecture) == 0.0


def test_synflow_beyond_all_numbers_is_a_failure() -> None:
    net, architecture = chosen(nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False))
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.fill_(1e200)
    with pytest.raises(NotFiniteError, match=r"Expected a finite synflow of first\. Got inf"):
        SynFlow((1,)).score(net, architecture)


INPUTS = torch.tensor([[1.0, -1.0], [1.0, 1.0], [-1.0, 2.0]])


def rectified(*weights: list[list[float]], rectifier: nn.Module) -> tuple[Supernet, Architecture]:
    """Linear layers with these weights, each followed by the rectifier."""
    layers: list[nn.Module] = []
    for values in weights:
        linear = nn.Linear(len(values[0]), len(values), bias=False)
        linear.weight = nn.Parameter(torch.tensor(values))
        layers += [linear, rectifier]
    return chosen(*layers)


@pytest.mark.parametrize("rectifier", [nn.ReLU(), nn.ReLU(inplace=True), nn.ReLU6(), nn.SiLU(), nn.GELU()])
def test_naswot_is_the_determinant_of_the_kernel_by_hand(rectifier: nn.Module) -> None:
    """Units x, y, x + y, x - y: codes 1001, 1110 (0 is not above 0) and 0110; N_A = 4."""
    net, architecture = rectified([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1.0, -1.0]], rectifier=rectifier)
    # Distances 3 (first, second), 4 (first, third), 1 (second, third): K = [[4, 1, 0], [1, 4, 3], [0, 3, 4]].
    determinant = 4 * (4 * 4 - 3 * 3) - 1 * (1 * 4 - 3 * 0)
    assert NASWOT(one_batch(INPUTS)).score(net, architecture) == pytest.approx(math.log(determinant), rel=1e-12)


def test_naswot_adds_up_over_layers() -> None:
    """A second layer of one unit, relu(x) - relu(y): codes 1, 0, 0 are appended to 10, 11, 01."""
    net, architecture = rectified([[1.0, 0.0], [0.0, 1.0]], [[1.0, -1.0]], rectifier=nn.ReLU())
    # Codes 101, 110, 010: distances 2, 3, 1.
    kernel = torch.tensor([[3.0, 1.0, 0.0], [1.0, 3.0, 2.0], [0.0, 2.0, 3.0]], dtype=torch.float64)
    expected = kernel.det().log().item()
    assert NASWOT(one_batch(INPUTS)).score(net, architecture) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("inputs", [INPUTS[[0, 1, 1]], INPUTS[[0, 1, 2, 0]]])
def test_naswot_of_examples_with_equal_codes_is_a_failure(inputs: Tensor) -> None:
    net, architecture = rectified([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], rectifier=nn.ReLU())
    with pytest.raises(NotFiniteError, match=r"Expected a finite naswot of first\. Got -inf"):
        NASWOT(one_batch(inputs)).score(net, architecture)


def test_naswot_of_a_network_without_rectifiers_is_a_failure() -> None:
    net, architecture = chosen(nn.Linear(2, 3), nn.Tanh())
    with pytest.raises(NotFiniteError, match="naswot"):
        NASWOT(one_batch(INPUTS)).score(net, architecture)


def test_naswot_uses_statistics_of_the_batch_and_no_dropout() -> None:
    """Batch normalisation moves (1, 2, 6) to both sides of 0; running statistics would leave all above it."""
    norm = nn.BatchNorm1d(1)
    net, architecture = chosen(norm, nn.Dropout(0.9), nn.ReLU())
    with pytest.raises(NotFiniteError):  # one rectifier tells two groups apart, not three examples
        NASWOT(one_batch(torch.tensor([[1.0], [2.0], [6.0]]))).score(net, architecture)
    # Codes 0 and 1 of two examples: K = [[1, 0], [0, 1]].
    assert NASWOT(one_batch(torch.tensor([[1.0], [6.0]]))).score(net, architecture) == 0.0


IMAGES, ROWS = (3, 8, 8), (6,)
KINDS: dict[str, tuple[Callable[[], Supernet], tuple[int, ...]]] = {
    "nb201": (lambda: NB201Supernet(channels=3, cells=1, classes=3), IMAGES),
    "nb101": (lambda: NB101Supernet(1, channels=3, cells=1, classes=3), IMAGES),
    "darts": (lambda: DartsSupernet(layers=3, channels=3, classes=3), IMAGES),
    "chain": (lambda: ChainSupernet(channels=(4, 4), kernels=(3,), expansions=(1, 2), classes=3), IMAGES),
    "macro": (lambda: MacroSupernet(channels=2, head_channels=6, classes=3), IMAGES),
    "wired": (lambda: WiredSupernet(width=3, modules=4, stages=2, classes=3), IMAGES),
    "resnet": (lambda: ResNetSupernet(widths=(2, 3), max_depth=2, stages=2, classes=3), IMAGES),
    "pooled": (lambda: PooledSupernet(widths=(4, 6), max_depth=1, plain_widths=(2, 3), stages=2, classes=3), IMAGES),
    "mobile": (lambda: MobileSupernet(widths=(4, 6), max_depth=2, stages=2, head_channels=5, classes=3), IMAGES),
    "depth": (lambda: FullyConnectedDepth(features=6, classes=3, max_depth=4, width=9), ROWS),
    "convolutional depth": (
        lambda: ConvolutionalDepth(max_depth=3, channels=6, inner_channels=3, classes=3, in_channels=3),
        IMAGES,
    ),
    "mlp": (lambda: MLPSupernet(features=6, classes=3, width=9, max_depth=3), ROWS),
    "elastic mlp": (lambda: ElasticMLPSupernet(features=6, classes=3, widths=(8, 9), max_depth=2), ROWS),
    "packed": (lambda: PackedMLPSupernet(features=6, classes=3, members=3, width=9), ROWS),
    "gated": (
        lambda: gate(
            nn.Sequential(nn.Linear(6, 30), nn.BatchNorm1d(30), nn.ReLU(), nn.Linear(30, 3)), torch.ones(5, 6)
        ),
        ROWS,
    ),
    "module": (
        lambda: from_module(
            nn.Sequential(OneOf("first", a=nn.Linear(6, 9), b=nn.Linear(6, 9, bias=False)), nn.ReLU(), nn.Linear(9, 3))
        ),
        ROWS,
    ),
}


BATCHES: dict[str, Callable[[Batches], Estimator]] = {
    "naswot": NASWOT,
    "jacob_cov": JacobianCovariance,
    "grad_norm": GradientNorm,
    "snip": SNIP,
    "grasp": GraSP,
    "fisher": Fisher,
}
SHAPES: dict[str, Callable[[tuple[int, ...]], Estimator]] = {"synflow": SynFlow, "zen": Zen}
ZERO_COST = [*SHAPES, *BATCHES]
QUICK = ("synflow", "naswot")
"""One reads gradients and one activations; the others look at large networks in slow tests."""


def zero_cost(name: str, shape: tuple[int, ...]) -> Estimator:
    """An estimator on five random examples of three classes."""
    if name in SHAPES:
        return SHAPES[name](shape)
    return BATCHES[name](Batches(random_data(shape, examples=5), 5, shuffle=False))


def test_layers_without_second_derivatives_have_no_gradient_flow() -> None:
    make, shape = KINDS["mobile"]
    net = make()
    with pytest.raises(InvalidInput, match=r"second derivatives for grasp\. Found: .*hardsigmoid"):
        zero_cost("grasp", shape).score(net, net.space.sample(generator_at(1, "kinds")))


LARGE = ("nb101", "darts", "chain", "macro", "wired", "pooled", "mobile")
PAIRS = [
    pytest.param(estimator, kind, marks=[pytest.mark.slow] if kind in LARGE and estimator not in QUICK else [])
    for estimator in ZERO_COST
    for kind in KINDS
]


@pytest.mark.parametrize(("estimator", "kind"), PAIRS)
def test_networks_of_every_kind_have_scores_that_change_nothing(estimator: str, kind: str) -> None:
    make, shape = KINDS[kind]
    with global_seed(0, "kinds"):
        net = make()
    if (estimator, kind) == ("grasp", "mobile"):
        pytest.skip("its squeeze-and-excite has no second derivatives")
    made = zero_cost(estimator, shape)
    before, random = state_of(net), torch.get_rng_state()
    scores = []
    generator = generator_at(1, "kinds")
    for _ in range(4):
        architecture = net.space.sample(generator)
        try:
            scores.append(made.score(net, architecture))
            assert made.score(net, architecture) == scores[-1]
        except NotFiniteError:  # a network that lets nothing through has no kernel
            assert estimator in ("naswot", "jacob_cov", "zen")
    assert scores and all(map(math.isfinite, scores)) and any(scores)
    assert estimator in ("jacob_cov", "grasp", "zen") or min(scores) >= 0 or estimator == "naswot"
    assert same_bits(state_of(net), before) and torch.get_rng_state().equal(random)
    assert all(parameter.grad is None for parameter in net.parameters())


class Bag(nn.Module):
    """The mean of embedded tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(5, 4)
        self.plain = nn.Linear(4, 2, bias=False)
        self.head = OneOf("head", a=nn.Linear(4, 2), b=self.plain)

    def forward(self, tokens: Tensor) -> Tensor:
        logits: Tensor = self.head(self.words(tokens).mean(1))
        return logits


def test_tokens_stay_what_they_are() -> None:
    """The flow of 2 layers, the embedding and the head, from the words of the sentence."""
    tokens = NamedInputs({"tokens": torch.tensor([[4, 1, 4]])})
    bag = Bag().double()
    net = from_module(bag, tokens)
    words, head = bag.words.weight.abs(), bag.plain.weight.abs()
    expected = 2 * (words[[4, 1, 4]].mean(0) * head).sum().item()
    assert SynFlow(tokens).score(net, net.space.architecture(["b"])) == pytest.approx(math.log1p(expected))


PART = random_data((3, 8, 8), examples=48)
DATA = Dataset("noise", PART, PART, ("a", "b", "c"))


@pytest.fixture
def run(tmp_path: Path) -> Run:
    settings = {"seed": 3, "space": {"kind": "nb201", "channels": 4, "cells": 1}, "scores": {"batch_size": 16}}
    return Run.build(RunSettings.parse(settings, "a test"), Workspace(tmp_path), data=DATA)


@pytest.mark.parametrize("name", ZERO_COST)
def test_runs_score_fresh_networks_whatever_the_supernet_has_learned(run: Run, name: str) -> None:
    registered = tomllib.loads(PYPROJECT.read_text())["project"]["entry-points"]["polyarch.estimators"]
    estimator = import_reference(registered[name])(run.scores)
    assert estimator.name == name
    architecture = run.net.space.architecture(["nor_conv_3x3"] * 6)
    before = estimator.score(run.net, architecture)
    with torch.no_grad():
        for parameter in run.net.parameters():
            parameter.mul_(-3).add_(0.1)
    assert estimator.score(run.net, architecture) == before
    fresh = run.networks.fresh(architecture, seed=3)
    assert estimator.value(fresh) == before
