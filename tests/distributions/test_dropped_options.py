"""Options that are dropped: no probability, no gradient, no NaN, and the rest as if they had never been there."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from polyarch.distributions import (
    Categorical,
    DrawMode,
    Factorised,
    FactorisedCategorical,
    FactorisedDirichlet,
    Uniform,
)
from polyarch.errors import InvalidInput
from polyarch.randomness import generator_at
from polyarch.spaces import Choice, Space

SPACE = Space("small", (Choice("x", ("a", "b", "c", "d")), Choice("y", ("a", "b"))))
MEMBERS = list(SPACE.enumerate())
MODES: list[DrawMode] = ["soft", "straight_through", "chosen"]
Family = type[FactorisedCategorical | FactorisedDirichlet]
FAMILIES: list[Family] = [FactorisedCategorical, FactorisedDirichlet]
values = st.lists(st.floats(-20, 20), min_size=4, max_size=4)
subsets = st.lists(st.integers(0, 3), min_size=1, max_size=4, unique=True)


def start(x: list[float]) -> dict[str, torch.Tensor]:
    return {"x": torch.tensor(x, dtype=torch.float64), "y": torch.tensor([0.4, -0.3], dtype=torch.float64)}


def make(family: Family, x: list[float], kept: list[int]) -> Factorised:
    q = family(SPACE, start(x))
    q.keep("x", kept)
    return q


@given(family=st.sampled_from(FAMILIES), x=values, kept=subsets)
def test_the_rest_is_as_if_dropped_options_had_never_been_there(
    family: Family, x: list[float], kept: list[int]
) -> None:
    q, kept = make(family, x, kept), sorted(kept)
    rest = Space("rest", (Choice("x", tuple(SPACE["x"].options[index] for index in kept)), SPACE["y"]))
    expected = family(rest, start([x[index] for index in kept]))
    assert q.kept("x") == tuple(kept) and q.kept("y") == (0, 1)
    torch.testing.assert_close(q.mean()["x"][kept], expected.mean()["x"])
    torch.testing.assert_close(q.entropy(), expected.entropy())
    torch.testing.assert_close(q.kl(Uniform(SPACE)), expected.kl(Uniform(rest)) + math.log(4 / len(kept)))
    assert q.mode().names == expected.mode().names
    for member, log_q in zip(MEMBERS, q.log_prob(MEMBERS).tolist(), strict=True):
        assert (log_q == -math.inf) == (member["x"] not in kept)


@given(family=st.sampled_from(FAMILIES), x=values, kept=subsets, mode=st.sampled_from(MODES))
def test_dropped_options_have_no_probability_and_no_gradient(
    family: Family, x: list[float], kept: list[int], mode: DrawMode
) -> None:
    q = make(family, x, kept)
    dropped = [index for index in range(4) if index not in kept]
    everywhere = Categorical(SPACE, torch.linspace(-1, 1, len(MEMBERS)).double())
    gates = q.rsample(temperature=0.5, mode=mode, generator=generator_at(0, "draw"))
    assert not gates["x"][dropped].any() and not q.mean()["x"][dropped].any()
    assert all(architecture["x"] in kept for architecture in q.sample(20, generator=generator_at(0, "sample")))
    scalars = {
        "draw": (gates["x"] * torch.arange(1, 5)).sum(),
        "mean": (q.mean()["x"] * torch.arange(1, 5)).sum(),
        "entropy": q.entropy(),
        "to uniform": q.kl(Uniform(SPACE)),
        "to a joint one": q.kl(everywhere),
        "to itself": q.kl(q),
        "log probability": q.log_prob([member for member in MEMBERS if member["x"] in kept]).sum(),
    }
    if isinstance(q, FactorisedDirichlet):
        scalars["penalty"] = q.penalty()
    learnt = next(q.parameters())
    for name, scalar in scalars.items():
        (gradient,) = torch.autograd.grad(scalar, learnt, retain_graph=True)
        assert scalar.isfinite() and gradient.isfinite().all(), name
        assert not gradient[dropped].any(), name


@pytest.mark.parametrize("family", FAMILIES)
def test_a_prior_without_an_option_that_q_has_is_infinitely_far(family: Family) -> None:
    less, more = make(family, [0.0, 0.5, 1.0, 2.0], [1, 2]), make(family, [0.0, 0.5, 1.0, 2.0], [0, 1, 2])
    assert more.kl(less).item() == math.inf
    log_less, log_more = less.log_prob(MEMBERS), more.log_prob(MEMBERS)
    inside = log_less > -math.inf
    expected = (log_less.exp() * (log_less - log_more))[inside].sum()
    torch.testing.assert_close(less.kl(more), expected)


def test_options_are_dropped_in_steps_and_stay_dropped_after_saving() -> None:
    q = make(FactorisedCategorical, [0.0, 0.5, 1.0, 2.0], [0, 1, 3])
    q.keep("x", [3, 0])
    q.keep("y", [1])
    other = FactorisedCategorical(SPACE).double()
    other.load_state_dict(q.state_dict())
    assert other.kept("x") == (0, 3) and other.kept("y") == (1,)
    assert other.log_prob(MEMBERS).equal(q.log_prob(MEMBERS))
    assert other.mean()["y"].tolist() == [0.0, 1.0]


@pytest.mark.parametrize("options", [[], [2], [1, 2], [4], [-1]])
def test_only_options_that_are_left_can_be_kept(options: list[int]) -> None:
    q = make(FactorisedCategorical, [0.0] * 4, [0, 1, 3])
    with pytest.raises(InvalidInput, match=r"options \[0, 1, 3\] that choice 'x' still has"):
        q.keep("x", options)
    assert q.kept("x") == (0, 1, 3)


def test_unknown_choices_are_refused() -> None:
    with pytest.raises(InvalidInput, match="choice of space 'small'"):
        FactorisedCategorical(SPACE).keep("z", [0])
