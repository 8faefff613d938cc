"""Passes with dropout on: their distribution by enumeration, and as members of mixtures."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor, nn

from polyarch.errors import InvalidInput
from polyarch.jobs.judging import Ensemble
from polyarch.nn import Stacked, drawing_from, dropping
from polyarch.predictive import MCDropout, Mixture, fit_temperature, mutual_information
from polyarch.randomness import generator_at, global_seed
from polyarch.testing import same_bits, state_of

RATE = 0.25


def network() -> nn.Sequential:
    with global_seed(0, "network"):
        layers = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(RATE), nn.Linear(4, 2)).double()
    norm = layers[1]
    assert isinstance(norm, nn.BatchNorm1d) and norm.running_mean is not None
    norm.running_mean.copy_(torch.tensor([0.1, -0.2, 0.3, 0.4]))
    return layers.train()


def inputs(batch: int = 5) -> Tensor:
    return torch.randn(batch, 3, dtype=torch.float64, generator=generator_at(0, "inputs"))


def test_every_pass_is_one_of_all_masks_as_often_as_it_should_be() -> None:
    """4 units are 16 masks: each pass equals one of them by hand, chi-squared on how often."""
    net, x, passes = network(), inputs(1), 4000
    found = MCDropout(net, passes, generator=generator_at(0, "masks"))(x)[:, 0]  # (T, C)
    with torch.no_grad():
        hidden = net[1].eval()(net[0](x))
        masks = torch.tensor(list(itertools.product([0.0, 1.0], repeat=4))).double()
        expected = torch.log_softmax(net[3](hidden * masks / (1 - RATE)), -1)  # (16, C)
    distances = (found[:, None] - expected).abs().amax(-1)
    assert distances.min(1).values.max() < 1e-12
    kept = masks.sum(1)
    share = (1 - RATE) ** kept * RATE ** (4 - kept) * passes
    counts = torch.bincount(distances.argmin(1), minlength=16)
    assert ((counts - share).square() / share).sum() < 37.7  # 0.999 of chi-squared with 15 degrees of freedom


def test_examples_and_passes_have_masks_of_their_own() -> None:
    x = inputs(1).expand(50, 3)
    found = MCDropout(network(), 2, generator=generator_at(0, "masks"))(x)
    assert found.shape == (2, 50, 2)
    assert len(found[0].unique(dim=0)) > 4 and not found[0].equal(found[1])


def test_the_generator_gives_the_masks_and_nothing_else_moves() -> None:
    net, x = network(), inputs()
    before, state = state_of(net), torch.get_rng_state()
    members = MCDropout(net, 3, generator=generator_at(0, "masks"))
    first, second = members(x), members(x)
    assert same_bits(MCDropout(net, 3, generator=generator_at(0, "masks"))(x), first)
    assert not first.equal(second)
    assert same_bits(state_of(net), before)  # running statistics and modes, too
    assert same_bits(torch.get_rng_state(), state)
    torch.testing.assert_close(first.exp().sum(-1), torch.ones(3, 5, dtype=torch.float64))


def test_modes_are_put_back_after_an_error() -> None:
    net = network()
    with pytest.raises(RuntimeError), dropping(net):
        assert [part.training for part in net] == [False, False, True, False]
        net(torch.zeros(2, 7))
    assert all(part.training for part in net.modules())


def test_as_a_mixture() -> None:
    """The mixture of the passes, whatever mode it is in, with their mutual information."""
    x, passes = inputs(), 7
    mixture = Mixture(MCDropout(network(), passes, generator=generator_at(0, "masks")), [1.0] * passes).eval()
    with torch.no_grad():
        probabilities, _, information = mixture(x)
        members = MCDropout(network(), passes, generator=generator_at(0, "masks"))(x).exp()
    torch.testing.assert_close(probabilities, members.mean(0), rtol=1e-6, atol=0)
    torch.testing.assert_close(information, mutual_information(members), rtol=1e-5, atol=1e-8)
    assert information.min() > 0


def test_log_probabilities_serve_as_logits() -> None:
    """A temperature divides either to the same effect, so that calibration works."""
    logits = 3 * torch.randn(4, 30, 3, dtype=torch.float64, generator=generator_at(0, "logits"))
    labels = torch.arange(30) % 3
    weights = [0.25] * 4
    assert fit_temperature(torch.log_softmax(logits, -1), labels, weights) == pytest.approx(
        fit_temperature(logits, labels, weights), rel=1e-9
    )


def test_a_deep_ensemble_is_what_there_is_already() -> None:
    """Networks that were trained alone, stacked: the mean of their probabilities."""
    members, x = [nn.Linear(3, 2).double() for _ in range(3)], inputs()
    with torch.no_grad():
        mean = torch.stack([torch.softmax(member(x), -1) for member in members]).mean(0)
        torch.testing.assert_close(Mixture(members)(x)[0], mean, rtol=1e-6, atol=0)
        ensemble = Ensemble("deep", [], Stacked(members), [1 / 3] * 3)
        torch.testing.assert_close(ensemble.log_probabilities(ensemble.networks(x), 1.0), mean.log())


def test_drawing_from_a_generator() -> None:
    def drawn(seed: int) -> tuple[Tensor, Tensor]:
        generator = generator_at(seed, "draws")
        values = []
        for _ in range(2):
            with drawing_from(generator):
                values.append(torch.rand(3))
        return values[0], values[1]

    first, second = drawn(0)
    assert same_bits(drawn(0), (first, second))
    assert not first.equal(second) and not first.equal(drawn(1)[0])


def test_what_does_not_fit() -> None:
    generator = generator_at(0, "masks")
    with pytest.raises(InvalidInput, match="1 or more passes"):
        MCDropout(network(), 0, generator=generator)
    for net in (nn.Linear(3, 2), nn.Sequential(nn.Linear(3, 2), nn.Dropout(0.0))):
        with pytest.raises(InvalidInput, match="dropout layers of p above 0"):
            MCDropout(net, 5, generator=generator)
