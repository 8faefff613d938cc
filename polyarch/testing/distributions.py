"""The contract of distributions over architectures."""

import copy
import math
from collections import Counter
from collections.abc import Sequence

import torch
from scipy.stats import chisquare
from torch import Tensor

from polyarch.distributions import ArchDistribution, Categorical, DrawMode, Uniform
from polyarch.randomness import generator_at
from polyarch.spaces import Architecture, Gates, Space

DRAWS = 4000
SIGNIFICANCE = 1e-4
"""Seeds are fixed, so a correct sampler either always passes or always fails."""

TOLERANCE = 2e-6

HARD: tuple[DrawMode, DrawMode] = ("straight_through", "chosen")
MODES: tuple[DrawMode, ...] = ("soft", *HARD)


class DistributionContract:
    """Inherit, and return a distribution over a small space, preferably not a uniform one.

    ``relaxes`` is False for distributions without soft draws, ``cools`` for those whose soft draws ignore the
    temperature and do not become one-hot when it is low.
    """

    relaxes: bool = True
    cools: bool = True

    def make_distribution(self) -> ArchDistribution:
        """The distribution under test; all calls return equal ones."""
        raise NotImplementedError

    def test_probabilities_sum_to_one(self) -> None:
        """sum_a exp(log q(a)) = 1 by enumeration."""
        assert math.isclose(self._probabilities().sum().item(), 1.0, abs_tol=TOLERANCE)

    def test_sample_frequencies_fit(self) -> None:
        """A chi-squared test against the probabilities; nothing outside the support is drawn."""
        q = self.make_distribution()
        self._assert_fits(q.sample(DRAWS, generator=generator_at(0, "sample")))

    def test_hard_relaxed_draws_are_one_hot_and_fit(self) -> None:
        """Bitwise one-hot, and as frequent as the probabilities say."""
        q = self.make_distribution()
        generator = generator_at(0, "rsample")
        draws = []
        with torch.no_grad():
            for draw in range(DRAWS // 2):
                gates = q.rsample(temperature=0.7, mode=HARD[draw % 2], generator=generator)
                assert gates.keys() == set(q.space.choice_names)
                for gate in gates.values():
                    assert sorted(gate.tolist()) == [0.0] * (len(gate) - 1) + [1.0]
                draws.append(_largest(q.space, gates))
        self._assert_fits(draws)

    def test_soft_relaxed_draws_are_weights(self) -> None:
        """They are not negative and sum to one; low temperatures make them nearly one-hot."""
        if not self.relaxes:
            return
        q = self.make_distribution()
        for position in range(20):
            soft = q.rsample(temperature=1.0, generator=generator_at(0, "soft", position))
            cold = q.rsample(temperature=1e-6, generator=generator_at(0, "soft", position))
            hard = q.rsample(temperature=1.0, mode="straight_through", generator=generator_at(0, "soft", position))
            for name, choice in zip(q.space.choice_names, q.space.choices, strict=True):
                assert soft[name].shape == (len(choice),)
                assert soft[name].min() >= 0
                torch.testing.assert_close(soft[name].sum(), torch.ones_like(soft[name].sum()))
                torch.testing.assert_close(cold[name], hard[name] if self.cools else soft[name], atol=1e-3, rtol=0)

    def test_relaxed_draws_pass_gradients_to_learnable_parameters(self) -> None:
        """In all modes; the gates of a fixed distribution have no gradient."""
        for mode in MODES if self.relaxes else HARD:
            q = self.make_distribution()
            learnt = [parameter for parameter in q.parameters() if parameter.requires_grad]
            gates = q.rsample(temperature=1.0, mode=mode, generator=generator_at(0, "gradient"))
            weighted = [(gate * (1 + torch.arange(len(gate)).to(gate))).sum() for gate in gates.values()]
            total = torch.stack(weighted).sum()
            assert total.requires_grad == bool(learnt)
            if learnt:
                gradients = torch.autograd.grad(total, learnt)
                assert all(gradient.isfinite().all() and gradient.any() for gradient in gradients)

    def test_gradients_of_one_hot_draws(self) -> None:
        """Mode straight_through has the gradients of the soft gates; in mode chosen only drawn gates have gradients."""
        q = self.make_distribution()
        learnt = [parameter for parameter in q.parameters() if parameter.requires_grad]
        if not self.relaxes or not learnt:
            return
        for position in range(5):
            soft, straight, chosen = (
                torch.cat(list(q.rsample(temperature=0.8, mode=mode, generator=generator).values()))
                for mode in MODES
                for generator in [generator_at(0, "modes", position)]
            )
            values = (1 + torch.arange(len(soft))).to(soft)
            found, expected, none = (
                torch.autograd.grad((gates * weights).sum(), learnt)
                for gates, weights in ((straight, values), (soft, values), (chosen, values * (chosen.detach() == 0)))
            )
            torch.testing.assert_close(found, expected)
            assert not any(gradient.any() for gradient in none)

    def test_divergence_from_itself_is_zero(self) -> None:
        """KL(q || q) = 0."""
        q = self.make_distribution()
        assert abs(q.kl(q).item()) <= TOLERANCE
        assert abs(q.kl(self.make_distribution()).item()) <= TOLERANCE

    def test_divergence_by_enumeration(self) -> None:
        """KL(q || p) = sum_a q(a) log(q(a) / p(a)) >= 0, for a uniform and a lopsided p."""
        q = self.make_distribution()
        members = self._members()
        lopsided = torch.linspace(-1.0, 1.0, len(members))
        for prior in (Uniform(q.space), Categorical(q.space, lopsided, learnable=False)):
            log_ratios = self._log_probabilities() - prior.log_prob(members).detach().double()
            expected = _expectation(self._probabilities(), log_ratios)
            assert math.isclose(q.kl(prior).item(), expected, abs_tol=TOLERANCE, rel_tol=TOLERANCE)
            assert expected >= -TOLERANCE

    def test_entropy_by_enumeration(self) -> None:
        """H[q] = -sum_a q(a) log q(a)."""
        expected = -_expectation(self._probabilities(), self._log_probabilities())
        entropy = self.make_distribution().entropy().item()
        assert math.isclose(entropy, expected, abs_tol=TOLERANCE, rel_tol=TOLERANCE)

    def test_mean_is_the_marginals(self) -> None:
        """mean()[c][o] = sum of q(a) over the members with option o at choice c."""
        q = self.make_distribution()
        mean = q.mean()
        assert mean.keys() == set(q.space.choice_names)
        for name, choice in zip(q.space.choice_names, q.space.choices, strict=True):
            marginal = torch.zeros(len(choice), dtype=torch.float64)
            for member, probability in zip(self._members(), self._probabilities(), strict=True):
                marginal[member[name]] += probability
            torch.testing.assert_close(mean[name].detach().double(), marginal, atol=TOLERANCE, rtol=TOLERANCE)

    def test_mode_is_the_most_probable(self) -> None:
        """No member is more probable than the mode."""
        q = self.make_distribution()
        mode = q.mode()
        assert mode in q.space
        assert q.log_prob([mode]).item() >= self._log_probabilities().max().item() - TOLERANCE

    def test_same_generator_same_draws(self) -> None:
        """Equal generators repeat the draws bit by bit; another seed draws differently."""
        q = self.make_distribution()
        first, again, other = (q.sample(50, generator=generator_at(seed, "draws")) for seed in (0, 0, 1))
        assert first == again != other
        relaxed = [
            q.rsample(temperature=1.0, mode="soft" if self.relaxes else "chosen", generator=generator_at(0, "draws"))
            for _ in range(2)
        ]
        assert all(relaxed[0][name].equal(relaxed[1][name]) for name in q.space.choice_names)

    def test_state_survives_saving(self) -> None:
        """Loading the state turns a distribution with other numbers into an equal one."""
        q, other = self.make_distribution(), self.make_distribution()
        with torch.no_grad():
            for tensor in other.state_dict().values():
                tensor.add_(torch.rand(tensor.shape, generator=generator_at(0, "noise")).to(tensor))
        members = self._members()
        if q.state_dict():
            assert not other.log_prob(members).equal(q.log_prob(members))
        other.load_state_dict(copy.deepcopy(q.state_dict()))
        assert other.log_prob(members).equal(q.log_prob(members))

    def _members(self) -> list[Architecture]:
        return list(self.make_distribution().space.enumerate())

    def _log_probabilities(self) -> Tensor:
        return self.make_distribution().log_prob(self._members()).detach().double()

    def _probabilities(self) -> Tensor:
        return self._log_probabilities().exp()

    def _assert_fits(self, draws: Sequence[Architecture]) -> None:
        """A chi-squared test that pools members expected fewer than five times."""
        expected = (self._probabilities() * len(draws)).tolist()
        counts = Counter(draws)
        members = self._members()
        assert counts.keys() <= {member for member, e in zip(members, expected, strict=True) if e > 0}
        cells = [(counts[member], e) for member, e in zip(members, expected, strict=True)]
        frequent = [cell for cell in cells if cell[1] >= 5]
        rare = [cell for cell in cells if cell[1] < 5]
        if sum(e for _, e in rare) > 0:
            frequent.append((sum(count for count, _ in rare), sum(e for _, e in rare)))
        total = sum(e for _, e in frequent)
        scaled = [e * len(draws) / total for _, e in frequent]
        assert chisquare([count for count, _ in frequent], scaled).pvalue > SIGNIFICANCE


def _largest(space: Space, gates: Gates) -> Architecture:
    """The architecture of the largest gates."""
    return Architecture(space, tuple(int(gates[name].argmax()) for name in space.choice_names))


def _expectation(probabilities: Tensor, values: Tensor) -> float:
    """sum p * values with 0 * infinity = 0."""
    return float((probabilities * torch.where(probabilities > 0, values, torch.zeros_like(values))).sum())
