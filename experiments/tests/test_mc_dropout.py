"""Passes with dropout on: their distribution by enumeration, and as members of mixtures."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor, nn

from polyarch.errors import InvalidInput
from polyarch.nn import StackedNetworks, drawing_from, dropping
from polyarch.nn.dropout import dropout_layers
from polyarch.predictive import Mixture, fit_temperature, mutual_information
from polyarch.randomness import generator_at, global_seed
from polyarch.runs.judging import Ensemble
from polyarch.spaces import residual_wiring
from polyarch.supernets import WiredSupernet
from polyarch.tasks import Classification
from polyarch.testing import same_bits, state_of
from polyarch_experiments.stochastic.dropout_layers import with_dropout
from polyarch_experiments.stochastic.mc_dropout import MCDropout

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
        ensemble = Ensemble("deep", [], StackedNetworks(members), [1 / 3] * 3)
        mixed = Classification().mix(ensemble.networks(x), torch.tensor(ensemble.weights).log())
        torch.testing.assert_close(mixed, mean.log())


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


def plain_network() -> nn.Sequential:
    """Three convolutions, one of them inside a block, and a classifier."""
    with global_seed(0, "network"):
        block = nn.Sequential(nn.ReLU(), nn.Conv1d(4, 4, 1), nn.BatchNorm1d(4))
        layers = (nn.Conv1d(1, 4, 3), nn.BatchNorm1d(4), block, nn.Conv1d(4, 2, 1), nn.Flatten())
        return nn.Sequential(nn.Unflatten(1, (1, 3)), *layers).double()


def test_dropout_goes_after_all_convolutions_but_the_first() -> None:
    net = plain_network()
    first, *others = (net.get_submodule(name) for name in ("1", "3.1", "4"))
    with_dropout(net, RATE)
    assert net[1] is first
    for name, layer in zip(("3.1", "4"), others, strict=True):
        place = net.get_submodule(name)
        assert isinstance(place, nn.Sequential) and place[0] is layer and isinstance(place[1], nn.Dropout)
    assert [layer.p for layer in dropout_layers(net)] == [RATE] * 2


@pytest.mark.parametrize(
    ("kind", "shape"), [(nn.Conv1d, (2, 3, 7)), (nn.Conv2d, (2, 3, 7, 7)), (nn.Conv3d, (2, 3, 7, 7, 7))]
)
def test_dropout_after_convolutions(kind: type[nn.Conv2d], shape: tuple[int, ...]) -> None:
    net = nn.Sequential(kind(3, 4, 3), kind(4, 2, 3))
    with_dropout(net, RATE)
    assert [name for name, layer in net.named_modules() if isinstance(layer, nn.Dropout)] == ["1.1"]
    assert net(torch.zeros(shape)).shape[1] == 2


def test_dropout_in_a_wired_supernet() -> None:
    """In every module, the down-sampling and the auxiliary classifier; the stem passes on all it finds."""
    with global_seed(0, "network"):
        net = WiredSupernet(width=4, modules=3, stages=2, auxiliary=True)
    wiring, x = residual_wiring(net.space), torch.randn(2, 3, 8, 8, generator=generator_at(0, "images"))
    with torch.no_grad():
        before = net.eval()(x, wiring)
        with_dropout(net.train(), RATE)
        assert len(list(dropout_layers(net))) == 2 * 3 + 1 + 2
        assert not any(isinstance(layer, nn.Dropout) for layer in net.stem.modules())
        assert same_bits(net.eval()(x, wiring), before)
        network = net.extract(wiring)  # without the classifier for training alone
        assert len(list(dropout_layers(network))) == 2 * 3 + 1
        assert same_bits(network.eval()(x), before)
        first, second = MCDropout(network, 2, generator=generator_at(0, "masks"))(x)
    assert not first.equal(second)


def test_dropout_changes_nothing_in_evaluation_mode() -> None:
    net, x = plain_network(), inputs()
    before = net.eval()(x)
    with_dropout(net.train(), RATE)
    assert same_bits(net.eval()(x), before)
    assert not net.train()(x).equal(net(x))


def test_passes_of_a_network_that_got_dropout() -> None:
    """With one hidden unit h a pass sees h / (1 - p) or 0, the latter with probability p."""
    with global_seed(0, "network"):
        stem = nn.Sequential(nn.Unflatten(1, (1, 3)), nn.Conv1d(1, 1, 3), nn.Conv1d(1, 1, 1), nn.Flatten())
        net = nn.Sequential(stem, nn.Linear(1, 2)).double()
    x, passes = inputs(1), 1000
    with torch.no_grad():
        hidden, last = net[0](x), net[1]
        kept, dropped = (torch.log_softmax(last(value), -1) for value in (hidden / (1 - RATE), 0 * hidden))
        with_dropout(net, RATE)
        found = MCDropout(net, passes, generator=generator_at(0, "masks"))(x)
    is_kept, is_dropped = ((found - value).abs().amax((1, 2)) < 1e-12 for value in (kept, dropped))
    assert (is_kept ^ is_dropped).all()
    deviation = (RATE * (1 - RATE) / passes) ** 0.5
    assert abs(is_dropped.double().mean() - RATE) < 3.3 * deviation  # 0.999 of a binomial


def test_the_first_layer_may_be_inside_a_block() -> None:
    net = nn.Sequential(nn.Sequential(nn.Conv1d(3, 4, 1), nn.ReLU()), nn.Conv1d(4, 2, 1))
    with_dropout(net, RATE)
    assert [name for name, layer in net.named_modules() if isinstance(layer, nn.Dropout)] == ["1.1"]


def test_new_dropout_is_in_the_mode_of_the_network() -> None:
    net, x = plain_network().eval(), inputs()
    before = net(x)
    with_dropout(net, RATE)
    assert same_bits(net(x), before)


@pytest.mark.parametrize("p", [0.0, 1.0, -0.1, 1.5, float("nan")])
def test_rates_that_are_refused(p: float) -> None:
    net = plain_network()
    with pytest.raises(InvalidInput, match="between 0 and 1"):
        with_dropout(net, p)
    assert not list(dropout_layers(net))


@pytest.mark.parametrize("net", [nn.Sequential(nn.Conv2d(3, 2, 3), nn.BatchNorm2d(2)), nn.ReLU(), nn.Linear(3, 2)])
def test_networks_without_a_second_convolution_are_refused(net: nn.Module) -> None:
    with pytest.raises(InvalidInput, match="two or more convolutions"):
        with_dropout(net, RATE)
    assert not list(dropout_layers(net))
