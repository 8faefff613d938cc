"""Accuracy and detection under attack: two linear classes by hand, and mixtures against their parts."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from polyarch.errors import InvalidInput
from polyarch.objectives import log_marginal
from polyarch.predictive import Mixture, detect, entropy, mutual_information
from polyarch.randomness import generator_at, global_seed
from polyarch_experiments.stochastic.attacked import under_attack
from polyarch_experiments.stochastic.attacks import PGD

N, FEATURES = 40, 6
WEIGHTS = [0.5, 0.3, 0.2]


def network(seed: int = 0) -> nn.Module:
    with global_seed(seed, "network"):
        return nn.Sequential(nn.Linear(FEATURES, 8), nn.Tanh(), nn.Linear(8, 4)).double().eval()


def inputs() -> Tensor:
    """In 0.3..0.7: radii up to 0.3 are not cut off by the range."""
    return 0.3 + 0.4 * torch.rand(N, FEATURES, dtype=torch.float64, generator=generator_at(0, "inputs"))


LABELS = torch.arange(N) % 2


@pytest.mark.parametrize(("attack", "length"), [(PGD(0.1, 3, 0.02), 0.06), (PGD(0.1, 3, 0.07), 0.1)])
def test_of_two_classes_that_are_linear(attack: PGD, length: float) -> None:
    """logit_1 - logit_0 = w.x + b: every attack takes length * |w|_1 off the margin of the label."""
    w = torch.linspace(-1, 1.5, FEATURES, dtype=torch.float64)
    x, b = inputs(), -0.8
    logits = x @ w + b
    sign = 2.0 * LABELS - 1
    margin = sign * logits
    margin_after = margin - length * w.abs().sum()
    found = under_attack(lambda x: torch.stack([torch.zeros(len(x)).to(x), x @ w + b], -1)[None], attack, x, LABELS)
    assert 0 < (margin_after > 0).sum() < (margin > 0).sum() < N
    assert found.accuracy == (margin_after > 0).double().mean().item()
    # Both scores fall with the distance from the border between the classes.
    expected = detect(-margin.abs(), -margin_after.abs())
    assert found.entropy == found.max_probability == expected
    assert found.mutual_information is None


def members() -> nn.ModuleList:
    return nn.ModuleList(network(seed) for seed in range(3))


def stacked(networks: nn.ModuleList, x: Tensor) -> Tensor:
    return torch.stack([network(x) for network in networks])


def test_the_mixture_is_attacked_as_a_whole() -> None:
    """With the temperature inside; every score is the one of the measures, on the inputs that `PGD` finds."""
    mixture, x, labels, attack = (
        Mixture(members(), WEIGHTS, temperature=0.2),
        inputs(),
        torch.arange(N) % 4,
        PGD(0.2, 4, 0.1),
    )

    def outputs(x: Tensor) -> Tensor:
        return mixture.member_outputs(2 * x - 1) / mixture.temperature

    moved = attack(lambda x: log_marginal(outputs(x).log_softmax(-1), mixture.weights.log()), x, labels)
    before, after = (outputs(part).softmax(-1).detach() for part in (x, moved))
    p, q = (torch.einsum("k,kbc->bc", mixture.weights, part) for part in (before, after))
    found = under_attack(outputs, attack, x, labels, mixture.weights)
    assert found.accuracy == (q.argmax(-1) == labels).double().mean().item() < (p.argmax(-1) == labels).double().mean()
    assert found.entropy == detect(entropy(p), entropy(q))
    assert found.max_probability == detect(-p.amax(-1), -q.amax(-1))
    shares = mixture.weights
    assert found.mutual_information == detect(mutual_information(before, shares), mutual_information(after, shares))


@pytest.mark.parametrize("batch_size", [1, 7, N])
def test_batches_make_no_difference(batch_size: int) -> None:
    networks, x, attack = members(), inputs(), PGD(0.1, 3, 0.05)
    whole = under_attack(lambda x: stacked(networks, x), attack, x, LABELS)
    assert under_attack(lambda x: stacked(networks, x), attack, x, LABELS, batch_size=batch_size) == whole


def test_log_probabilities_are_as_good_as_logits() -> None:
    networks, x, attack = members(), inputs(), PGD(0.1, 3, 0.05)
    found = under_attack(lambda x: stacked(networks, x).log_softmax(-1), attack, x, LABELS, WEIGHTS)
    assert found == under_attack(lambda x: stacked(networks, x), attack, x, LABELS, WEIGHTS)
    assert found != under_attack(lambda x: stacked(networks, x), attack, x, LABELS)


def test_an_attack_without_effect_is_not_detected() -> None:
    """x + 1e-300 is x: accuracy stays as it was, and equal scores are told apart half of the time."""
    networks, x = members(), inputs()
    found = under_attack(lambda x: stacked(networks, x), PGD(1e-300, 2, 1e-300), x, LABELS)
    p = stacked(networks, x).softmax(-1).mean(0)
    assert found.accuracy == (p.argmax(-1) == LABELS).double().mean().item()
    assert found.mutual_information is not None
    for detection in (found.entropy, found.mutual_information, found.max_probability):
        assert detection.auroc == pytest.approx(0.5)
    small = under_attack(lambda x: stacked(networks, x), PGD(1e-9, 2, 1e-9), x, LABELS)
    assert small.entropy.auroc == pytest.approx(0.5, abs=0.5 / N)  # each score passes its own old value at most
    assert under_attack(lambda x: stacked(networks, x), PGD(0.2, 4, 0.1), x, LABELS).entropy.auroc != 0.5


def test_a_member_without_weight_has_no_part() -> None:
    networks, x, attack = members(), inputs(), PGD(0.1, 3, 0.05)
    found = under_attack(lambda x: stacked(networks, x), attack, x, LABELS, [0.0, 1.0, 0.0])
    alone = under_attack(lambda x: networks[1](x)[None], attack, x, LABELS)
    assert (found.accuracy, found.entropy, found.max_probability) == (
        alone.accuracy,
        alone.entropy,
        alone.max_probability,
    )
    assert alone.mutual_information is None
    assert found.mutual_information is not None and found.mutual_information.auroc == 0.5


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"labels": LABELS[1:]}, r"each with a label\. Got 40 and 39\."),
        ({"inputs": inputs()[:0], "labels": LABELS[:0]}, "Expected one or more inputs"),
        ({"batch_size": 0}, r"batch size of 1 or more\. Got 0\."),
        ({"members": network()}, r"floats of shape \(K, B, C\)"),
        ({"weights": [1.0]}, r"one weight per member, \(3,\)"),
        ({"inputs": 255 * inputs()}, r"Expected inputs in 0\.\.1"),
    ],
)
def test_mistakes_are_explained(changes: dict[str, Any], words: str) -> None:
    networks = members()
    settings = {"members": lambda x: stacked(networks, x), "attack": PGD(0.1, 1, 0.1), "inputs": inputs()}
    with pytest.raises(InvalidInput, match=words):
        under_attack(**{**settings, "labels": LABELS, **changes})
