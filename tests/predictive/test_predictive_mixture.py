"""Mixtures against loops over members and classes, closed forms, and the supernet they come from."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from polyarch.distributions import ArchDistribution, Categorical, Empirical, FactorisedCategorical, Uniform
from polyarch.errors import InvalidInput
from polyarch.nn import Exits, StackedNetworks
from polyarch.objectives import marginal_log_probabilities
from polyarch.predictive import Mixture, most_probable
from polyarch.randomness import generator_at, global_seed
from polyarch.supernets import ChainSupernet, FullyConnectedDepth, Supernet


class Fixed(nn.Module):
    """Gives the same logits (B, C) whatever the input."""

    def __init__(self, logits: Tensor) -> None:
        super().__init__()
        self.logits = nn.Parameter(logits)

    def forward(self, x: Tensor) -> Tensor:
        return self.logits


X = torch.zeros(1, 1)


def random_logits(seed: int, *shape: int, scale: float = 2.0) -> Tensor:
    return scale * torch.randn(*shape, dtype=torch.float64, generator=generator_at(seed, "logits"))


def random_weights(seed: int, count: int) -> Tensor:
    return 0.05 + torch.rand(count, dtype=torch.float64, generator=generator_at(seed, "weights"))


def fixed(logits: Tensor, weights: Tensor | list[float] | None = None, temperature: float = 1.0) -> Mixture:
    return Mixture([Fixed(member) for member in logits], weights, temperature=temperature)


def by_loops(logits: Tensor, weights: list[float], temperature: float) -> tuple[Tensor, Tensor, Tensor]:
    """The three outputs with plain numbers: no vectors, no logarithms of sums."""
    members, examples, classes = logits.shape
    share = [weight / sum(weights) for weight in weights]
    probabilities = torch.zeros(examples, classes, dtype=torch.float64)
    entropies, informations = [], []
    for b in range(examples):
        expected = 0.0
        for k in range(members):
            exponentials = [math.exp(value / temperature) for value in logits[k, b].tolist()]
            p = [value / sum(exponentials) for value in exponentials]
            expected -= share[k] * sum(value * math.log(value) for value in p)
            probabilities[b] += share[k] * torch.tensor(p, dtype=torch.float64)
        entropies.append(-sum(value * math.log(value) for value in probabilities[b].tolist()))
        informations.append(entropies[-1] - expected)
    as_tensor = [torch.tensor(values, dtype=torch.float64) for values in (entropies, informations)]
    return probabilities, as_tensor[0], as_tensor[1]


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("members", [1, 2, 5])
def test_outputs_equal_loops(members: int, temperature: float) -> None:
    logits, weights = random_logits(members, members, 4, 3), random_weights(members, members)
    expected = by_loops(logits, weights.tolist(), temperature)
    outputs = fixed(logits, weights, temperature)(X)
    torch.testing.assert_close(outputs, expected, rtol=1e-11, atol=1e-13)


def test_member_outputs() -> None:
    logits = random_logits(0, 3, 4, 5)
    mixture = fixed(logits, temperature=2.0)
    assert torch.equal(mixture.member_outputs(X), logits)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("logit", [1e3, 1e30])
def test_members_that_are_sure_of_different_classes(dtype: torch.dtype, logit: float) -> None:
    """p = (w, 1 - w), so entropy and mutual information are both the binary entropy of w."""
    logits = torch.tensor([[[logit, -logit]], [[-logit, logit]]], dtype=dtype)
    probabilities, entropy, information = fixed(logits, [3.0, 1.0])(X)
    binary = torch.tensor([-0.75 * math.log(0.75) - 0.25 * math.log(0.25)], dtype=dtype)
    torch.testing.assert_close(probabilities, torch.tensor([[0.75, 0.25]], dtype=dtype))
    torch.testing.assert_close((entropy, information), (binary, binary))


def test_members_that_know_nothing() -> None:
    probabilities, entropy, information = fixed(torch.zeros(3, 2, 7, dtype=torch.float64))(X)
    torch.testing.assert_close(probabilities, torch.full((2, 7), 1 / 7, dtype=torch.float64))
    assert entropy.tolist() == pytest.approx([math.log(7)] * 2, rel=1e-12)
    assert information.tolist() == pytest.approx([0.0] * 2, abs=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_one_member_has_exactly_no_mutual_information(dtype: torch.dtype, scale: float) -> None:
    logits = random_logits(0, 1, 50, 10, scale=scale).to(dtype)
    _, entropy, information = fixed(logits, temperature=1.7)(X)
    assert entropy.max() > 0
    assert information.eq(0).all()


def test_rounding_does_not_make_mutual_information_negative() -> None:
    logits = random_logits(0, 1, 200, 10).float().expand(3, 200, 10)
    information = fixed(logits, [0.2, 0.3, 0.5])(X)[2]
    assert information.min() >= 0
    assert information.max() < 1e-6


def test_an_excluded_class_is_not_a_number_problem() -> None:
    logits = torch.tensor([[[0.0, 0.0, -math.inf]], [[1.0, -1.0, -math.inf]]], dtype=torch.float64)
    outputs = fixed(logits)(X)
    probabilities, entropy, information = fixed(logits[..., :2])(X)
    torch.testing.assert_close(outputs[0], torch.cat([probabilities, torch.zeros_like(probabilities[:, :1])], 1))
    torch.testing.assert_close(outputs[1:], (entropy, information))


def test_half_precision_members_are_mixed_in_single() -> None:
    logits = random_logits(0, 2, 4, 3).bfloat16()
    outputs = fixed(logits)(X)
    assert [output.dtype for output in outputs] == [torch.float32] * 3
    torch.testing.assert_close(outputs, fixed(logits.float())(X), rtol=1e-6, atol=1e-6)


@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(2, 6), st.floats(0.1, 30))
def test_bounds(seed: int, members: int, classes: int, scale: float) -> None:
    logits = random_logits(seed, members, 3, classes, scale=scale)
    probabilities, entropy, information = fixed(logits, random_weights(seed, members))(X)
    torch.testing.assert_close(probabilities.sum(-1), torch.ones(3, dtype=torch.float64))
    assert entropy.min() >= 0 and entropy.max() <= math.log(classes) + 1e-12
    assert information.min() >= 0 and information.max() <= math.log(members) + 1e-12
    assert (information <= entropy + 1e-12).all()


@given(st.integers(0, 10**6), st.permutations(range(4)))
def test_the_order_of_members_does_not_matter(seed: int, order: list[int]) -> None:
    logits, weights = random_logits(seed, 4, 3, 3), random_weights(seed, 4)
    outputs, permuted = fixed(logits, weights)(X), fixed(logits[order], weights[order])(X)
    torch.testing.assert_close(permuted, outputs, rtol=1e-10, atol=1e-12)


@given(st.integers(0, 10**6), st.floats(0.05, 20))
def test_temperature_keeps_the_prediction_of_one_member(seed: int, temperature: float) -> None:
    logits = random_logits(seed, 1, 5, 4)
    probabilities, entropy, _ = fixed(logits, temperature=temperature)(X)
    assert torch.equal(probabilities.argmax(-1), logits[0].argmax(-1))
    sharper = fixed(logits, temperature=temperature / 2)(X)[1]
    assert (sharper <= entropy + 1e-12).all()


class Together(nn.Module):
    """Gives the logits (K, B, C) of all members at once."""

    def __init__(self, logits: Tensor) -> None:
        super().__init__()
        self.logits = nn.Parameter(logits)

    def forward(self, x: Tensor) -> Tensor:
        return self.logits


def test_one_network_for_all_members_equals_one_each() -> None:
    logits, weights = random_logits(0, 3, 4, 5), random_weights(0, 3)
    mixture = Mixture(Together(logits), weights, temperature=1.7)
    apart = fixed(logits, weights, 1.7)
    torch.testing.assert_close(mixture(X), apart(X), rtol=0, atol=0)
    assert torch.equal(mixture.member_outputs(X), logits)


def test_one_network_needs_weights_for_its_members() -> None:
    with pytest.raises(InvalidInput, match=r"weights for the members of one network\. Got none"):
        Mixture(Together(torch.zeros(2, 4, 3)))
    for shape in ((3, 4, 5), (4, 5)):
        with pytest.raises(InvalidInput, match=r"outputs \(2, B, O\) of all members. Got shape"):
            Mixture(Together(torch.zeros(shape)), [0.5, 0.5])(X)


def test_a_list_of_modules_is_several_networks() -> None:
    logits = random_logits(0, 2, 4, 5)
    mixture = Mixture(nn.ModuleList([Fixed(member) for member in logits]))
    torch.testing.assert_close(mixture(X), fixed(logits)(X), rtol=0, atol=0)


def test_rising_depths_are_one_network() -> None:
    with global_seed(0, "net"):
        net = FullyConnectedDepth(features=4, classes=3, max_depth=3, width=5).double().eval()
    x = torch.randn(6, 4, dtype=torch.float64, generator=generator_at(0, "inputs"))
    depths = list(net.space.enumerate())[:3]
    mixture = Mixture(net.extract_many(depths), [0.2, 0.5, 0.3]).eval()
    assert isinstance(mixture.networks, Exits)
    assert sum(parameter.numel() for parameter in mixture.parameters()) == net.parameter_count(depths[-1])
    torch.testing.assert_close(mixture.member_outputs(x), net.forward_many(x, depths), rtol=1e-12, atol=1e-12)


def test_weights_are_normalised_and_travel_with_the_state() -> None:
    logits = random_logits(0, 3, 2, 3)
    mixture = fixed(logits, [2.0, 6.0, 8.0], temperature=1.5)
    torch.testing.assert_close(mixture.weights, torch.tensor([0.125, 0.375, 0.5], dtype=torch.float64))
    other = fixed(torch.zeros_like(logits))
    other.load_state_dict(mixture.state_dict())
    assert all(map(torch.equal, other(X), mixture(X)))


@pytest.fixture
def net() -> Supernet:
    """Two layers of two and three options: six architectures, with batch statistics that are not 0 and 1."""
    with global_seed(0, "net"):
        net = ChainSupernet(
            channels=(2, 2), kernels=(3, 5), expansions=(1,), stem_channels=3, head_channels=3, in_channels=1, classes=3
        )
        for module in net.modules():
            if isinstance(module, nn.BatchNorm2d):
                nn.init.uniform_(module.running_mean, -1, 1)  # type: ignore[arg-type]
                nn.init.uniform_(module.running_var, 0.5, 2)  # type: ignore[arg-type]
    return net.double().eval()


IMAGES = torch.randn(5, 1, 4, 4, dtype=torch.float64, generator=generator_at(0, "inputs"))


def joint(net: Supernet) -> ArchDistribution:
    return Categorical(net.space, torch.linspace(-1, 1, net.space.count(), dtype=torch.float64))


def factorised(net: Supernet) -> ArchDistribution:
    logits = {c.name: torch.linspace(0.5, -0.7, len(c), dtype=torch.float64) for c in net.space.choices}
    return FactorisedCategorical(net.space, logits)


def part(net: Supernet) -> ArchDistribution:
    return Empirical(net.space, list(net.space.enumerate())[1:5], [1.0, 2.0, 0.0, 5.0]).double()


def uniform(net: Supernet) -> ArchDistribution:
    return Uniform(net.space)


MakeQ = Callable[[Supernet], ArchDistribution]


def under(net: Supernet, q: ArchDistribution, most: int, temperature: float = 1.0) -> Mixture:
    """The most probable architectures, weighted by q."""
    architectures, values = zip(*most_probable(q, most), strict=True)
    return Mixture(net.extract_many(architectures), [math.exp(v) for v in values], temperature=temperature).eval()


@pytest.mark.parametrize("make_q", [joint, factorised, part, uniform])
def test_the_whole_support_is_the_mixture_of_the_supernet(net: Supernet, make_q: MakeQ) -> None:
    q = make_q(net)
    mixture = under(net, q, most=6)
    expected = marginal_log_probabilities(net, q, IMAGES).exp()
    torch.testing.assert_close(mixture(IMAGES)[0], expected, rtol=1e-6, atol=1e-6)
    assert isinstance(mixture.networks, StackedNetworks) and len(mixture.networks) == (3 if make_q is part else 6)


@pytest.mark.parametrize("make_q", [joint, factorised, part])
def test_a_part_of_the_support_is_renormalised(net: Supernet, make_q: MakeQ) -> None:
    q = make_q(net)
    mixture = under(net, q, most=2, temperature=1.3)
    chosen = sorted(net.space.enumerate(), key=lambda a: q.log_prob([a]).item(), reverse=True)[:2]
    shares = q.log_prob(chosen).exp().double()
    members = torch.softmax(torch.stack([net(IMAGES, a) for a in chosen]) / 1.3, -1)
    torch.testing.assert_close(mixture.weights, (shares / shares.sum()).detach(), rtol=1e-6, atol=0)
    torch.testing.assert_close(torch.softmax(mixture.member_outputs(IMAGES) / mixture.temperature, -1), members)


def test_members_are_copies_in_evaluation_mode(net: Supernet) -> None:
    architectures = list(net.space.enumerate())[:2]
    mixture = Mixture(net.train().extract_many(architectures), [1.0, 1.0]).eval()
    before = mixture(IMAGES)
    assert not any(module.training for module in mixture.modules())
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.fill_(7.0)
    assert all(map(torch.equal, mixture(IMAGES), before))


@pytest.mark.parametrize(
    ("weights", "temperature", "complaint"),
    [
        ([1.0], 1.0, r"one weight per member, \(2,\). Got shape \(1,\)"),
        ([1.0, 0.0], 1.0, "weights above 0"),
        ([2.0, -1.0], 1.0, "weights of 0 or more"),
        ([1.0, math.nan], 1.0, "finite weights"),
        (None, 0.0, "temperature above 0. Got 0"),
        (None, math.inf, "finite temperature"),
        (None, math.nan, "finite temperature"),
    ],
)
def test_settings_that_do_not_fit(weights: list[float] | None, temperature: float, complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        fixed(torch.zeros(2, 1, 3), weights, temperature)


def test_no_members() -> None:
    with pytest.raises(InvalidInput, match="at least one network"):
        Mixture([])


@pytest.mark.parametrize("shapes", [((4, 3), (4, 2)), ((4,), (4,)), ((4, 3, 1), (4, 3, 1))])
def test_members_that_do_not_fit_together(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    mixture = Mixture([Fixed(torch.zeros(shape)) for shape in shapes])
    with pytest.raises(InvalidInput, match=r"Expected logits \(B, \d\) from all members"):
        mixture(X)
