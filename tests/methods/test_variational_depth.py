"""Variational depth search: choosing and pruning against hand computations, learning against the closed form."""

from __future__ import annotations

import pytest
import torch

from polyarch.data import Batches, Normalisation, spirals
from polyarch.distributions import Categorical
from polyarch.methods.variational_depth import DepthSearch, Rule, choose_depth, prune
from polyarch.objectives import mixture_log_probabilities
from polyarch.randomness import global_seed
from polyarch.supernets import FullyConnectedDepth
from polyarch.supernets.depth import depth_space


@pytest.mark.parametrize(
    ("probabilities", "rule", "depth"),
    [
        ([0.1, 0.2, 0.4, 0.3], "argmax", 2),
        ([0.1, 0.39, 0.4, 0.11], "95%", 1),
        ([0.1, 0.37, 0.4, 0.13], "95%", 2),
        ([0.4, 0.1, 0.0, 0.5], "expected", 2),
    ],
)
def test_rules(probabilities: list[float], rule: Rule, depth: int) -> None:
    q = Categorical(depth_space(3), (torch.tensor(probabilities) + 1e-9).log())
    assert choose_depth(q, rule) == depth


def test_pruning_moves_the_mass() -> None:
    q = Categorical(depth_space(3), torch.tensor([0.1, 0.2, 0.4, 0.3]).log())
    pruned = prune(q, 2)
    assert [a["depth"] for a in pruned.architectures] == [0, 1, 2]
    assert torch.allclose(pruned.probabilities, torch.tensor([0.1, 0.2, 0.7]))


def test_learns_spirals_and_pruning_needs_only_the_shallow_blocks() -> None:
    train, test = spirals(200, seed=0), spirals(500, seed=0, stream="test")
    normalisation = Normalisation.of(train)
    batches = Batches(train, 200, shuffle=False, preprocessing=normalisation)
    with global_seed(0, "test"):
        net = FullyConnectedDepth(features=2, classes=2, max_depth=5, width=20)
    q, history = DepthSearch(max_iterations=400, patience=400).fit(net, batches, seed=0)
    assert max(history["elbo"]) > history["elbo"][0] + 50
    net.eval()
    pruned = prune(q, choose_depth(q))
    with torch.no_grad():
        log_probs = mixture_log_probabilities(net, pruned, normalisation(test.inputs))
        assert torch.allclose(log_probs.exp().sum(1), torch.ones(500), atol=1e-5)
        assert (log_probs.argmax(1) == test.targets).float().mean() > 0.9
        unpruned = mixture_log_probabilities(net, q, normalisation(test.inputs))
        by_hand = sum(
            p * torch.softmax(net(normalisation(test.inputs), a), 1)
            for p, a in zip(q.log_probabilities().exp(), q.architectures, strict=True)
        )
        assert torch.allclose(unpruned.exp(), torch.as_tensor(by_hand), atol=1e-5)
