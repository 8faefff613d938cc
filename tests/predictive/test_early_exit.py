"""Early exit against plain loops over examples, exits and classes, and against the full mixture."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from polyarch.errors import InvalidInput
from polyarch.nn import Exits
from polyarch.predictive import EarlyExit, ExitMeasure, Mixture, choose_confidence, exit_curve
from polyarch.predictive.early_exit import LEAST_MASS
from polyarch.randomness import generator_at, global_seed
from polyarch.supernets import ConvolutionalDepth, DepthSupernet, FullyConnectedDepth

Told = tuple[list[float], int]
"""The probabilities that an example is told, and the exit where."""


def softmax(logits: list[float], temperature: float) -> list[float]:
    exponentials = [math.exp(value / temperature) for value in logits]
    return [value / sum(exponentials) for value in exponentials]


def by_loops(logits: Tensor, weights: list[float], confidence: float, temperature: float) -> list[Told]:
    """Sums of probabilities, no logarithms: (K, N, C)."""
    members, examples, classes = logits.shape
    total = sum(weights)
    told = []
    for n in range(examples):
        for d in range(members):
            mass = sum(weights[: d + 1])
            p = [
                sum(weights[i] * softmax(logits[i, n].tolist(), temperature)[c] for i in range(d + 1)) / mass
                for c in range(classes)
            ]
            if d == members - 1 or (mass / total >= LEAST_MASS and max(p) >= confidence):
                told.append((p, d))
                break
    return told


def entropy(p: list[float]) -> float:
    return -sum(value * math.log(value) for value in p)


def random_logits(seed: int, *shape: int) -> Tensor:
    return 2 * torch.randn(*shape, dtype=torch.float64, generator=generator_at(seed, "logits"))


def random_weights(seed: int, count: int) -> list[float]:
    """Some of them next to nothing, as in a learned distribution."""
    values = torch.rand(count, dtype=torch.float64, generator=generator_at(seed, "weights"))
    return (0.001 + values**6).tolist()


class Known(nn.Module):
    """Gives logits (N, C) by the number of the example."""

    def __init__(self, logits: Tensor) -> None:
        super().__init__()
        self.logits = nn.Parameter(logits)

    def forward(self, rows: Tensor) -> Tensor:
        return self.logits[rows]


def known(logits: Tensor) -> Exits:
    return Exits([nn.Identity() for _ in logits], [Known(values) for values in logits])


def fully_connected() -> DepthSupernet:
    return FullyConnectedDepth(features=16, classes=3, max_depth=4, width=5)


def convolutional() -> DepthSupernet:
    return ConvolutionalDepth(classes=3, max_depth=4, channels=4, inner_channels=2)


def network(make: Callable[[], DepthSupernet]) -> tuple[Exits, Tensor]:
    """Exits at all depths, with statistics that are not initial and an output that is sure of some, and inputs."""
    with global_seed(0, "net"):
        net = make().double()
    x = torch.randn(40, *((1, 8, 8) if make is convolutional else (16,)), generator=generator_at(0, "x")).double()
    depths = list(net.space.enumerate())
    last, factor = ("output", 25) if make is convolutional else ("head", 4)
    with torch.no_grad():
        net.train().forward_many(x, depths)
        net.get_parameter(f"{last}.weight").mul_(factor)
    exits = net.extract_many(depths).eval()
    assert isinstance(exits, Exits)
    return exits, x


both = pytest.mark.parametrize("make", [fully_connected, convolutional])
WEIGHTS = [0.004, 0.1, 0.3, 0.5, 0.096]


@given(
    st.integers(0, 10**6),
    st.integers(1, 5),
    st.integers(1, 6),
    st.integers(2, 4),
    st.sampled_from([0.01, 0.4, 0.6, 0.8, 0.95, 1.0, 2.0]),
    st.sampled_from([0.5, 1.0, 2.5]),
)
def test_equals_loops(
    seed: int, members: int, examples: int, classes: int, confidence: float, temperature: float
) -> None:
    logits, weights = random_logits(seed, members, examples, classes), random_weights(seed, members)
    found = EarlyExit(known(logits), weights, confidence, temperature)(torch.arange(examples))
    expected = by_loops(logits, weights, confidence, temperature)
    assert found.positions.tolist() == [position for _, position in expected]
    for n, (p, position) in enumerate(expected):
        assert found.probabilities[n].tolist() == pytest.approx(p, rel=1e-10)
        assert found.entropy[n].item() == pytest.approx(entropy(p), rel=1e-9, abs=1e-12)
        shares = [weight / sum(weights[: position + 1]) for weight in weights[: position + 1]]
        inner = sum(share * entropy(softmax(logits[i, n].tolist(), temperature)) for i, share in enumerate(shares))
        assert found.mutual_information[n].item() == pytest.approx(entropy(p) - inner, rel=1e-8, abs=1e-10)


@given(st.integers(0, 10**6), st.integers(1, 5), st.sampled_from([0.3, 0.6, 0.9, math.inf]))
def test_the_curve_equals_loops(seed: int, members: int, confidence: float) -> None:
    logits, weights = random_logits(seed, members, 7, 3), random_weights(seed, members)
    labels = torch.randint(0, 3, (7,), generator=generator_at(seed, "labels"))
    depths = [3 * index + 1 for index in range(members)]
    (point,) = exit_curve(logits, labels, weights, depths, [confidence], 1.5)
    told = by_loops(logits, weights, confidence, 1.5)
    right = [max(range(3), key=p.__getitem__) == label for (p, _), label in zip(told, labels.tolist(), strict=True)]
    log_p = [math.log(p[label]) for (p, _), label in zip(told, labels.tolist(), strict=True)]
    assert point.confidence == confidence
    assert point.mean_depth == pytest.approx(sum(depths[position] for _, position in told) / 7)
    assert point.accuracy == pytest.approx(sum(right) / 7)
    assert point.negative_log_likelihood == pytest.approx(-sum(log_p) / 7, rel=1e-9)


@both
@pytest.mark.parametrize("confidence", [0.5, 0.7, 0.9])
def test_a_network_that_stops_equals_the_analysis_of_its_logits(
    make: Callable[[], DepthSupernet], confidence: float
) -> None:
    """The batch shrinks on the way, and every example is still told the same."""
    exits, x = network(make)
    with torch.no_grad():
        found = EarlyExit(exits, WEIGHTS, confidence, 1.3)(x)
        expected = by_loops(exits(x), WEIGHTS, confidence, 1.3)
    assert found.positions.tolist() == [position for _, position in expected]
    assert len(set(found.positions.tolist())) > 1
    torch.testing.assert_close(found.probabilities, torch.tensor([p for p, _ in expected], dtype=torch.float64))
    labels = torch.arange(len(x)) % 3
    (point,) = exit_curve(exits(x), labels, WEIGHTS, range(5), [confidence], 1.3)
    assert point.mean_depth == found.positions.double().mean().item()
    assert point.accuracy == (found.probabilities.argmax(1) == labels).double().mean().item()


@both
@pytest.mark.parametrize("confidence", [1.1, math.inf])
def test_nobody_leaves_above_one(make: Callable[[], DepthSupernet], confidence: float) -> None:
    exits, x = network(make)
    mixture = Mixture(exits, WEIGHTS, temperature=0.7).eval()
    with torch.no_grad():
        found = EarlyExit(exits, WEIGHTS, confidence, 0.7)(x)
        torch.testing.assert_close(tuple(found[:3]), mixture(x), rtol=1e-12, atol=1e-12)
    assert found.positions.eq(4).all()


@both
def test_later_stages_see_only_those_who_stayed(make: Callable[[], DepthSupernet]) -> None:
    exits, x = network(make)
    seen: list[int] = []
    for stage in exits.stages:
        stage.register_forward_pre_hook(lambda _, inputs: seen.append(len(inputs[0])))
    with torch.no_grad():
        positions = EarlyExit(exits, WEIGHTS, 0.8)(x).positions
    stayed = [int((positions >= position).sum()) for position in range(5)]
    assert seen == [count for count in stayed if count] and seen[-1] < seen[0]


def test_nothing_is_computed_when_all_have_left() -> None:
    sure = torch.tensor([[[9.0, 0.0]], [[0.0, 9.0]]], dtype=torch.float64)
    exits = known(sure)
    exits.heads[1].register_forward_pre_hook(lambda *_: pytest.fail("not needed"))
    assert EarlyExit(exits, [0.5, 0.5], 0.9)(torch.arange(1)).positions.tolist() == [0]


@pytest.mark.parametrize(("weights", "position"), [([0.0099, 0.9901], 1), ([0.0101, 0.9899], 0), ([0.0, 1.0], 1)])
def test_exits_that_the_posterior_excludes_do_not_decide(weights: list[float], position: int) -> None:
    """They are sure of the wrong thing; their small share of the mixture stays."""
    logits = torch.tensor([[[9.0, 0.0]], [[0.0, 9.0]]], dtype=torch.float64)
    found = EarlyExit(known(logits), weights, 0.5)(torch.arange(1))
    assert found.positions.tolist() == [position]
    assert all(value.isfinite().all() for value in found)
    if position:
        p = torch.einsum("k,knc->nc", torch.tensor(weights, dtype=torch.float64), logits.softmax(-1))
        torch.testing.assert_close(found.probabilities, p)


@given(st.integers(0, 10**6), st.lists(st.floats(0.05, 1.2), min_size=2, max_size=6))
def test_a_higher_confidence_is_never_less_deep(seed: int, confidences: list[float]) -> None:
    logits, weights = random_logits(seed, 4, 9, 3), random_weights(seed, 4)
    curve = exit_curve(logits, torch.arange(9) % 3, weights, range(4), sorted(confidences))
    depths = [point.mean_depth for point in curve]
    assert depths == sorted(depths)


def test_precision_and_empty_batches() -> None:
    exits, x = network(fully_connected)
    for dtype, wanted in ((torch.float32, torch.float32), (torch.bfloat16, torch.float32)):
        found = EarlyExit(exits.to(dtype), WEIGHTS, 0.6)(x.to(dtype))
        assert [value.dtype for value in found] == [wanted] * 3 + [torch.int64]
    nobody = EarlyExit(exits, WEIGHTS, 0.6)(x[:0].bfloat16())
    assert [tuple(value.shape) for value in nobody] == [(0, 3), (0,), (0,), (0,)]


def point(confidence: float, accuracy: float, loss: float = 0.0) -> ExitMeasure:
    return ExitMeasure(confidence, 0.0, accuracy, loss)


def test_the_lowest_confidence_without_loss_is_chosen() -> None:
    curve = [point(0.99, 0.9), point(0.5, 0.7), point(0.8, 0.9), point(0.7, 0.95), point(0.9, 0.89)]
    assert choose_confidence(curve, point(2.0, 0.9)) == 0.7
    assert choose_confidence(curve, point(2.0, 0.95)) == 0.7
    assert choose_confidence(curve, point(2.0, 0.96)) is None
    assert choose_confidence([], point(2.0, 0.5)) is None


def test_a_confidence_that_costs_likelihood_is_not_chosen() -> None:
    curve = [point(0.5, 1.0, 0.3), point(0.9, 1.0, 0.0149), point(0.99, 1.0, 0.005)]
    assert choose_confidence(curve, point(2.0, 1.0, 0.005)) == 0.9
    assert choose_confidence(curve, point(2.0, 1.0, 0.004)) == 0.99


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"weights": [1.0]}, r"one weight per member, \(2,\)"),
        ({"weights": [0.0, 0.0]}, "not all 0"),
        ({"confidences": [0.0]}, "a confidence above 0. Got 0"),
        ({"confidences": [math.nan]}, "a confidence above 0. Got nan"),
        ({"temperature": 0.0}, "temperature above 0"),
        ({"depths": [1, 2, 3]}, r"one depth per exit, \(2,\). Got 3"),
        ({"labels": torch.tensor([0, 3])}, "labels in 0..1"),
        ({"logits": torch.zeros(2, 2)}, "floats of shape"),
        ({"logits": torch.full((2, 2, 2), math.nan)}, "finite values"),
    ],
)
def test_what_does_not_fit(change: dict[str, object], complaint: str) -> None:
    given = {
        "logits": torch.zeros(2, 2, 2),
        "labels": torch.tensor([0, 1]),
        "weights": [0.5, 0.5],
        "depths": [0, 1],
        "confidences": [0.5],
    }
    with pytest.raises(InvalidInput, match=complaint):
        exit_curve(**{**given, **change})  # type: ignore[arg-type]
