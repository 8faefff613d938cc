"""Values and errors of distributions that the contract cannot know."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

from polyarch.distributions import (
    ArchDistribution,
    Categorical,
    Empirical,
    FactorisedCategorical,
    FactorisedDirichlet,
    Uniform,
    geometric_prior,
)
from polyarch.errors import InvalidInput
from polyarch.randomness import generator_at
from polyarch.spaces import Architecture, Choice, Constraint, Space, nb201_space
from polyarch.supernets.depth import depth_space

SPACE = Space("small", (Choice("x", ("a", "b", "c")), Choice("y", ("a", "b"))))
MEMBERS = list(SPACE.enumerate())


def logits(*shape: int, stream: str) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=generator_at(0, stream))


def factorised(stream: str) -> FactorisedCategorical:
    return FactorisedCategorical(SPACE, {"x": logits(3, stream=f"{stream} x"), "y": logits(2, stream=f"{stream} y")})


def categorical(stream: str) -> Categorical:
    return Categorical(SPACE, logits(6, stream=stream))


@pytest.mark.parametrize("make_q", [factorised, categorical])
@pytest.mark.parametrize("make_prior", [factorised, categorical])
def test_divergence_and_entropy_in_float64(
    make_q: Callable[[str], ArchDistribution], make_prior: Callable[[str], ArchDistribution]
) -> None:
    q, prior = make_q("q"), make_prior("prior")
    log_q, log_p = q.log_prob(MEMBERS), prior.log_prob(MEMBERS)
    assert log_q.dtype == torch.float64
    torch.testing.assert_close(q.kl(prior), (log_q.exp() * (log_q - log_p)).sum(), rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(q.entropy(), -(log_q.exp() * log_q).sum(), rtol=1e-12, atol=1e-14)
    assert q.kl(prior) > 0


@pytest.mark.parametrize("make_q", [factorised, categorical])
@pytest.mark.parametrize(
    "prior", [Uniform(SPACE), categorical("prior"), factorised("prior")], ids=["uniform", "joint", "factorised"]
)
def test_gradient_of_the_divergence_by_central_differences(
    make_q: Callable[[str], ArchDistribution], prior: ArchDistribution
) -> None:
    q, step = make_q("q"), 1e-5
    gradients = torch.autograd.grad(q.kl(prior), list(q.parameters()))
    for parameter, gradient in zip(q.parameters(), gradients, strict=True):
        for index in range(len(parameter)):
            with torch.no_grad():
                values = []
                for move in (step, -2 * step):
                    parameter[index] += move
                    values.append(q.kl(prior).item())
                parameter[index] += step
            assert math.isclose(gradient[index].item(), (values[0] - values[1]) / (2 * step), abs_tol=1e-8)


def test_factorised_probabilities_are_products() -> None:
    q = FactorisedCategorical(SPACE, {"x": torch.tensor([0.2, 0.3, 0.5]).log(), "y": torch.tensor([0.9, 0.1]).log()})
    expected = [x * y for x in (0.2, 0.3, 0.5) for y in (0.9, 0.1)]
    torch.testing.assert_close(q.log_prob(MEMBERS).exp(), torch.tensor(expected))
    assert q.mode().names == ("c", "a")


def test_a_factorised_distribution_needs_no_enumeration_of_a_large_space() -> None:
    space = Space("large", tuple(Choice(f"c{i}", ("a", "b", "c")) for i in range(40)))
    q = FactorisedCategorical(space)
    assert math.isclose(q.entropy().item(), 40 * math.log(3), rel_tol=1e-6)
    assert abs(q.kl(Uniform(space)).item()) < 1e-4
    assert Uniform(space).mode().indices == (0,) * 40
    assert Uniform(space).kl(Uniform(space)).item() == 0


@pytest.mark.parametrize("make", [categorical, lambda stream: Empirical(SPACE, MEMBERS[1:4], [1.0, 2.0, 5.0])])
def test_the_listed_architectures_take_the_short_way_to_the_same_values(
    make: Callable[[str], Categorical | Empirical],
) -> None:
    """The very tuple, which is not looked up, and a copy of it, which is."""
    q = make("q")
    copied = list(q.architectures)
    assert q.log_prob(q.architectures) is not q.log_prob(copied)
    assert q.log_prob(q.architectures).equal(q.log_prob(copied)) and q.log_prob(copied).equal(q.log_probabilities())
    backwards = q.log_prob(copied[::-1])
    assert backwards.equal(q.log_probabilities().flip(0))


def test_distributions_over_a_small_space_share_its_members() -> None:
    """So that the divergence of every training step takes the short way; gradients are those of the long one."""
    q, prior = categorical("q"), categorical("prior")
    assert q.architectures is prior.architectures is SPACE.members
    gradients: list[torch.Tensor] = []
    for architectures in (q.architectures, list(q.architectures)):
        log_q = q.log_prob(architectures)
        divergence = (log_q.exp() * (log_q - prior.log_prob(architectures).detach())).sum()
        gradients.append(*torch.autograd.grad(divergence, list(q.parameters())))
    assert gradients[0].any() and gradients[0].equal(gradients[1])


def test_the_same_options_of_another_space_are_not_its_members() -> None:
    """Equal spaces have equal architectures, also where the tuples differ."""
    other = Space(SPACE.name, SPACE.choices)
    q = categorical("q")
    assert other.members is not SPACE.members
    assert q.log_prob(other.members).equal(q.log_probabilities())
    part = Space(SPACE.name, SPACE.choices, (Constraint("zeros", sum_of_zero),))
    assert Categorical(part).log_prob(SPACE.members).tolist() == [0.0] + [-math.inf] * 5


def test_geometric_prior() -> None:
    prior = geometric_prior(depth_space(3), 0.85)
    weights = torch.tensor([0.85 ** (1 + depth) for depth in range(4)])
    torch.testing.assert_close(prior.mean()["depth"], weights / weights.sum())
    assert not list(prior.parameters())
    torch.testing.assert_close(geometric_prior(depth_space(3), 1.0).mean()["depth"], torch.full((4,), 0.25))


def test_divergence_is_infinite_where_the_prior_excludes_what_q_allows() -> None:
    part = Empirical(SPACE, MEMBERS[:2])
    for q in (Uniform(SPACE), FactorisedCategorical(SPACE), Categorical(SPACE)):
        assert q.kl(part).item() == math.inf
        assert math.isclose(part.kl(q).item(), math.log(3), rel_tol=1e-6)
    assert part.log_prob(MEMBERS)[2:].tolist() == [-math.inf] * 4


def test_repeated_architectures_add_up() -> None:
    q = Empirical(SPACE, [MEMBERS[4], MEMBERS[1], MEMBERS[4]], [1.0, 2.0, 5.0])
    torch.testing.assert_close(q.log_prob([MEMBERS[1], MEMBERS[4]]).exp(), torch.tensor([0.25, 0.75]))
    torch.testing.assert_close(Empirical(SPACE, MEMBERS).mean()["x"], torch.full((3,), 1 / 3))


@pytest.mark.parametrize(
    "q",
    [Uniform(SPACE), FactorisedCategorical(SPACE), Categorical(SPACE), Empirical(SPACE, MEMBERS[::-1])],
    ids=lambda q: type(q).__name__,
)
def test_mode_is_the_first_among_equals(q: ArchDistribution) -> None:
    assert q.mode() == MEMBERS[0]


def test_gumbel_softmax_is_hotter_at_a_higher_temperature() -> None:
    q = categorical("q")
    largest = [
        sum(
            q.rsample(temperature=temperature, generator=generator_at(position, "hot"))["x"].max().item()
            for position in range(50)
        )
        for temperature in (0.1, 1.0, 10.0)
    ]
    assert largest[0] > largest[1] > largest[2]


@pytest.mark.parametrize("family", [FactorisedCategorical, FactorisedDirichlet])
def test_the_drawn_option_has_the_gradient_of_its_soft_gate(
    family: type[FactorisedCategorical | FactorisedDirichlet],
) -> None:
    q = family(SPACE, {"x": logits(3, stream="x"), "y": logits(2, stream="y")})
    for position in range(5):
        soft, chosen = (
            q.rsample(temperature=0.6, mode=mode, generator=generator_at(position, "draw"))["x"]
            for mode in ("soft", "chosen")
        )
        found, expected = (torch.autograd.grad(gate[chosen.argmax()], next(q.parameters())) for gate in (chosen, soft))
        assert found[0].any()
        torch.testing.assert_close(found, expected)


def sum_of_zero(architecture: Architecture) -> bool:
    return sum(architecture.indices) == 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FactorisedCategorical(SPACE.constrained(Constraint("zeros", sum_of_zero))), "without constraints"),
        (lambda: FactorisedCategorical(SPACE, {"x": torch.zeros(2)}), "3 finite logits"),
        (lambda: FactorisedCategorical(SPACE, {"x": torch.tensor([0.0, math.nan, 0.0])}), "3 finite logits"),
        (lambda: FactorisedCategorical(SPACE, {"z": torch.zeros(2)}), "choice of space 'small'"),
        (lambda: FactorisedCategorical(SPACE).log_prob([Architecture(depth_space(1), (0,))]), "Got one of 'depth1'"),
        (lambda: Categorical(SPACE, torch.zeros(5)), "6 finite logits"),
        (lambda: Categorical(SPACE, torch.full((6,), math.inf)), "6 finite logits"),
        (lambda: geometric_prior(SPACE, 0.5), "one choice"),
        (lambda: geometric_prior(depth_space(2), 0.0), "ratio above 0"),
        (lambda: Empirical(SPACE, []), "at least one architecture"),
        (lambda: Empirical(SPACE, MEMBERS, [1.0]), "6 weights"),
        (lambda: Empirical(SPACE, MEMBERS[:1], [0.0]), "weight above 0"),
        (lambda: Empirical(SPACE, MEMBERS[:2], [1.0, -1.0]), "weights of 0 or more"),
        (lambda: Empirical(SPACE, MEMBERS[:1], [math.nan]), "weights of 0 or more"),
        (lambda: Empirical(nb201_space(), MEMBERS[:1]), "Got one of 'small'"),
    ],
)
def test_mistakes_are_explained(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        make()
