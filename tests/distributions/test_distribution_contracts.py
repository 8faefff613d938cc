"""Every distribution keeps the contract."""

from __future__ import annotations

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
from polyarch.testing import DistributionContract

SPACE = Space("small", (Choice("edge.0", ("a", "b", "c")), Choice("edge.1", ("a", "b")), Choice("depth", ("1", "2"))))


def not_all_first(architecture: Architecture) -> bool:
    return sum(architecture.indices) >= 2


CONSTRAINED = SPACE.constrained(Constraint("a large sum of indices", not_all_first))


class TestUniform(DistributionContract):
    def make_distribution(self) -> ArchDistribution:
        return Uniform(SPACE)


class TestUniformOverCells(DistributionContract):
    def make_distribution(self) -> ArchDistribution:
        return Uniform(nb201_space(("none", "nor_conv_3x3")))


class TestUniformWithConstraints(DistributionContract):
    relaxes = False

    def make_distribution(self) -> ArchDistribution:
        return Uniform(CONSTRAINED)

    def test_members_share_all_probability(self) -> None:
        members = list(CONSTRAINED.enumerate())
        shares = Uniform(CONSTRAINED).log_prob(list(SPACE.enumerate())).exp()
        assert shares.tolist() == pytest.approx([(one in CONSTRAINED) / len(members) for one in SPACE.enumerate()])

    def test_a_soft_draw_is_refused(self) -> None:
        with pytest.raises(InvalidInput, match="one-hot draw"):
            Uniform(CONSTRAINED).rsample(temperature=1.0, generator=generator_at(0, "soft"))


class TestFactorisedCategorical(DistributionContract):
    def make_distribution(self) -> ArchDistribution:
        logits = {"edge.0": torch.tensor([0.3, -1.0, 0.8]), "depth": torch.tensor([0.0, 1.2])}
        return FactorisedCategorical(SPACE, logits)


class TestFixedFactorisedCategorical(DistributionContract):
    def make_distribution(self) -> ArchDistribution:
        return FactorisedCategorical(SPACE, {"edge.1": torch.tensor([0.5, -0.5])}, learnable=False)


class TestFactorisedCategoricalWithDroppedOptions(DistributionContract):
    def make_distribution(self) -> ArchDistribution:
        q = FactorisedCategorical(SPACE, {"edge.0": torch.tensor([0.3, -1.0, 0.8]), "depth": torch.tensor([0.0, 1.2])})
        q.keep("edge.0", [0, 1])
        return q


class TestFactorisedDirichlet(DistributionContract):
    cools = False

    def make_distribution(self) -> ArchDistribution:
        betas = {"edge.0": torch.tensor([0.3, -1.0, 0.8]), "depth": torch.tensor([0.0, 1.2])}
        return FactorisedDirichlet(SPACE, betas)


class TestFactorisedDirichletWithDroppedOptions(TestFactorisedDirichlet):
    def make_distribution(self) -> ArchDistribution:
        q = FactorisedDirichlet(SPACE, {"edge.0": torch.tensor([2.0, -1.0, 0.8])})
        q.keep("edge.0", [1, 2])
        return q


class TestCategorical(DistributionContract):
    def make_distribution(self) -> ArchDistribution:
        return Categorical(SPACE, torch.linspace(-2.0, 1.0, SPACE.size).roll(5))


class TestCategoricalWithConstraints(DistributionContract):
    def make_distribution(self) -> ArchDistribution:
        return Categorical(CONSTRAINED, torch.linspace(-1.0, 1.0, CONSTRAINED.count()))


class TestEmpirical(DistributionContract):
    """Some members are not listed, one has no weight, one is listed twice."""

    def make_distribution(self) -> ArchDistribution:
        members = list(SPACE.enumerate())
        return Empirical(SPACE, [*members[1:9:2], members[3]], [1.0, 2.0, 0.0, 4.0, 0.5])


class TestGeometricPrior(DistributionContract):
    def make_distribution(self) -> ArchDistribution:
        return geometric_prior(depth_space(5), 0.6)
