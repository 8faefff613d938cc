"""The last stage of a search: the best architectures trained alone, against random ones and inherited weights."""

import statistics
from collections.abc import Mapping, Sequence
from itertools import zip_longest

import torch
from torch import nn

from polyarch.distributions import FactorisedCategorical
from polyarch.predictive import most_probable
from polyarch.results import Contender, NetworkRecord, Role
from polyarch.runs.artifacts import write_predictors
from polyarch.runs.judging import Ensemble
from polyarch.runs.reference import references
from polyarch.runs.retraining import Retraining, tested, train_all, trained_network
from polyarch.runs.run import Run
from polyarch.runs.stage import Outcome
from polyarch.spaces import Architecture

POSTERIOR_MEMBERS = 8
"""The most members of a mixture over a learned distribution."""


def compare(
    run: Run, outcome: Outcome, best: Sequence[Architecture], q: Mapping[str, list[float]] | None = None
) -> None:
    """Trains the best and random architectures the same way, tests all, calibrates and writes the artifacts.

    The first of ``best`` is trained with several seeds; its artifact has the weights of the seed that did best on
    validation data. All of them together are the ensemble, which is the default predictor. If a distribution was
    learned with the supernet, its most probable architectures form a mixture with inherited weights, too.

    Args:
        best: the best of the search first.
        q: the learned distribution, choice -> the probabilities of its options.
    """
    settings, first = run.settings.retrain, best[0]
    first_items = [(first, seed) for seed in range(settings.seeds)]
    member_items = [(architecture, 0) for architecture in best[1:]]
    random = run.draw(settings.random_architectures, "random", besides=best)
    random_items = [(architecture, 0) for architecture in random]
    # By importance, because a limit on the time may cut the list short.
    mixed = [item for pair in zip_longest(member_items, random_items) for item in pair if item is not None]
    ordered = list(dict.fromkeys([first_items[0], *mixed, *first_items[1:]]))
    task = Retraining(run, run.workspace.checkpoints / "retrain")
    trained = train_all(run, ordered, task)
    first_runs = [trained[item] for item in first_items if item in trained]
    random_runs = [trained[item] for item in random_items if item in trained]
    contenders = [contender("best architecture, retrained", Role.BEST, first_runs)]
    if random_runs:
        contenders.append(contender("random architectures, retrained", Role.RANDOM, random_runs))
    inherited = measured(run, first, inherited_network(run, first))
    contenders.append(contender("best architecture, inherited weights", Role.INHERITED, [inherited]))
    chosen = run.task.selection.best(first_runs, lambda one: one.valid_score)
    members = [(first, chosen.seed), *[item for item in member_items if item in trained]]
    networks = [(item[0], trained_network(task, item)) for item in members]
    sides = [(Ensemble.of("best architecture", networks[:1]), run.workspace.artifact)]
    if len(networks) > 1:
        sides.append((Ensemble.of(f"ensemble of {len(networks)}", networks), run.workspace.ensemble))
    if q is not None:
        sides.append((_posterior(run, q), run.workspace.posterior))
    contenders += references(run)
    outcome.comparison, outcome.predictors = contenders, write_predictors(run, sides)
    outcome.default = sides[min(len(networks), 2) - 1][1].name
    outcome.artifact = {
        "architecture": first.to_dict(),
        "seed": chosen.seed,
        "score": chosen.score,
        "parameters": parameter_count(networks[0][1]),
    }


def contender(name: str, role: Role, runs: list[NetworkRecord]) -> Contender:
    """One side of the comparison, with mean and spread."""
    values = [run.score for run in runs]
    std = statistics.stdev(values) if len(values) > 1 else 0.0
    return Contender(name=name, role=role, mean=statistics.fmean(values), std=std, runs=runs)


def measured(run: Run, architecture: Architecture, network: nn.Module) -> NetworkRecord:
    """Test results of a network in evaluation mode."""
    return NetworkRecord(architecture=architecture.to_dict(), seed=0, **tested(run, network))


def inherited_network(run: Run, architecture: Architecture) -> nn.Module:
    """An architecture with the supernet's weights, under the statistics policy of the scores."""
    network = run.net.extract(architecture)
    run.scores.policy.prepare(network, run.scores.policy_inputs())
    return network


def parameter_count(network: nn.Module) -> int:
    """The number of parameters."""
    return sum(parameter.numel() for parameter in network.parameters())


def _posterior(run: Run, q: Mapping[str, list[float]]) -> Ensemble:
    """The most probable networks of q that keep the limits, weighted by q, with inherited weights."""
    smallest = torch.finfo(torch.float32).tiny
    logits = {name: torch.tensor(values).clamp_min(smallest).log() for name, values in q.items()}
    pairs = most_probable(FactorisedCategorical(run.net.space, logits, learnable=False), 4 * POSTERIOR_MEMBERS)
    networks: dict[str, list[tuple[Architecture, float]]] = {}
    for architecture, value in pairs:
        if run.limits.allows(architecture):
            networks.setdefault(architecture.canonical(), []).append((architecture, value))
    kept = list(networks.values())[:POSTERIOR_MEMBERS] or [[(run.draw(1, "posterior")[0], 0.0)]]
    # A network is as probable as all its architectures together; the most probable of them stands for it.
    values = [torch.tensor([value for _, value in twins], dtype=torch.float64).logsumexp(0) for twins in kept]
    shares = torch.stack(values).softmax(0).tolist()
    members = [(twins[0][0], inherited_network(run, twins[0][0])) for twins in kept]
    return Ensemble.of(f"mixture over the learned distribution ({len(kept)})", members, shares, inherited=True)
