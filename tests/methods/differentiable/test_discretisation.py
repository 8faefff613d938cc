"""From weights to one architecture: by strength, within limits, by what is missed."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from polyarch.data import Batch
from polyarch.distributions import FactorisedCategorical
from polyarch.errors import ImpossibleSpace, InvalidInput
from polyarch.methods.differentiable.discretisation import alternatives, by_perturbation, skips_beyond, strongest
from polyarch.methods.differentiable.recipes import DifferentiableMethod, differentiable_search
from polyarch.nn import OneOf
from polyarch.randomness import generator_at, global_seed
from polyarch.spaces import Architecture, darts_space, skip_count
from polyarch.strategies import Bilevel
from polyarch.supernets import DartsSupernet, NB101Supernet, NB201Supernet, from_module, relaxation_of


def random_weights(net: NB201Supernet, seed: int = 0) -> dict[str, Tensor]:
    generator = generator_at(seed, "weights")
    return {c.name: torch.rand(len(c), generator=generator).softmax(0) for c in net.space.choices}


def test_limits_are_kept_at_the_least_cost_of_probability() -> None:
    """Against enumeration: one option out, when one is enough."""
    net = NB201Supernet(channels=2, cells=1)
    relaxation = relaxation_of(net)
    smallest = min(map(net.parameter_count, net.space.enumerate()))
    for seed in range(5):
        weights = random_weights(net, seed)
        q = FactorisedCategorical(net.space, {name: value.log() for name, value in weights.items()})
        free = strongest(relaxation, weights)
        assert free == q.mode()
        allowed = net.parameter_count(free) - 1
        if allowed < smallest:
            continue

        def excess(architecture: Architecture, allowed: int = allowed) -> float:
            return net.parameter_count(architecture) - allowed

        found = strongest(relaxation, weights, excess=excess)
        members = [member for member in net.space.enumerate() if net.parameter_count(member) <= allowed]
        best = float(q.log_prob(members).max().detach())
        assert net.parameter_count(found) <= allowed
        # Greedy by parameters saved for probability lost: not always the most probable, but never far from it.
        assert float(q.log_prob([found]).detach()) >= best - math.log(len(net.space.choices[0].options))


def test_skips_are_limited() -> None:
    net = NB201Supernet(channels=2, cells=1)
    weights = {choice.name: torch.tensor([0.1, 0.5, 0.1, 0.2, 0.1]) for choice in net.space.choices}
    weights["0->1"] = torch.tensor([0.05, 0.8, 0.05, 0.05, 0.05])
    assert skip_count(strongest(relaxation_of(net), weights)) == 6
    found = strongest(relaxation_of(net), weights, excess=skips_beyond(1))
    assert skip_count(found) == 1
    assert found.option("0->1") == "skip_connect" and found.option("2->3") == "nor_conv_3x3"


def test_skips_of_darts_cells_are_limited() -> None:
    net = DartsSupernet(layers=3, channels=2, operations=("skip_connect", "sep_conv_3x3"))
    relaxation = relaxation_of(net)
    weights = {choice.name: torch.tensor([0.6, 0.4]) for choice in relaxation.space.choices}
    found = strongest(relaxation, weights, excess=skips_beyond(3))
    assert skip_count(found) == 3 and found in darts_space(("skip_connect", "sep_conv_3x3"))


def test_limits_that_nothing_keeps_are_refused() -> None:
    net = NB201Supernet(channels=2, cells=1)
    with pytest.raises(ImpossibleSpace, match="keeps the limits"):
        strongest(relaxation_of(net), random_weights(net), excess=lambda architecture: 1.0)


def test_alternatives_differ_in_what_was_taken_out_and_come_by_probability() -> None:
    net = NB201Supernet(channels=2, cells=1)
    weights = random_weights(net)
    q = FactorisedCategorical(net.space, {name: value.log() for name, value in weights.items()})
    found = alternatives(relaxation_of(net), weights)
    best = q.mode()
    assert len(found) == 6
    for architecture in found:
        assert sum(a != b for a, b in zip(architecture.indices, best.indices, strict=True)) == 1
    # The second most probable architecture of independent choices is one of them.
    others = [member for member in net.space.enumerate() if member != best]
    assert others[int(q.log_prob(others).argmax())] in found


class Constant(nn.Module):
    """Gives away nothing of its input."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.zeros_like(x)


def helpful_and_useless() -> Bilevel:
    """The weights prefer what is useless: only the first option of both choices lets the input through."""
    with global_seed(0, "perturbation"):
        head = nn.Linear(2, 2, bias=False)
        with torch.no_grad():
            head.weight.copy_(torch.eye(2))
        module = nn.Sequential(
            OneOf("first", through=nn.Identity(), closed=Constant()),
            OneOf("second", through=nn.Identity(), closed=Constant()),
            head,
        )
    net = from_module(module)
    strategy = differentiable_search("darts", net, torch.optim.SGD(net.parameters(), lr=0.1))
    with torch.no_grad():
        for logits in strategy.q.parameters():
            logits.copy_(torch.tensor([-1.0, 1.0]))
    return strategy


def batch() -> Batch:
    targets = torch.arange(20) % 2
    return Batch(nn.functional.one_hot(targets, 2).float() + 0.1, targets)


def test_perturbation_keeps_what_is_missed_not_what_is_heavy() -> None:
    strategy = helpful_and_useless()
    relaxation = strategy.mixed.relaxation
    assert strategy.architecture().names == ("closed", "closed")
    seen: list[tuple[int, int]] = []
    weights = by_perturbation(
        strategy, [batch()], generator=generator_at(0, "order"), report=lambda *done: seen.append(done)
    )
    assert strongest(relaxation, weights).names == ("through", "through")
    assert seen == [(1, 2), (2, 2)]


def test_perturbation_tunes_the_weights_after_every_decision() -> None:
    strategy = helpful_and_useless()
    before = [weight.detach().clone() for weight in strategy.net.parameters()]
    by_perturbation(strategy, [batch()], tune=lambda: [batch()], generator=generator_at(0, "order"))
    moved = zip(before, strategy.net.parameters(), strict=True)
    assert any(not torch.equal(old, new) for old, new in moved)


def test_perturbation_of_darts_cells_chooses_edges() -> None:
    with global_seed(0, "perturbation"):
        net = DartsSupernet(layers=3, channels=2, classes=3, operations=("skip_connect", "max_pool_3x3"))
    strategy = differentiable_search("darts", net, torch.optim.SGD(net.parameters(), lr=0.1))
    images = torch.randn(6, 3, 8, 8, generator=generator_at(0, "images"))
    held_out = [Batch(images, torch.arange(6) % 3)]
    weights = by_perturbation(strategy, held_out, generator=generator_at(0, "order"))
    assert strongest(strategy.mixed.relaxation, weights) in net.space


def graph_search(name: DifferentiableMethod = "darts") -> Bilevel:
    with global_seed(0, "perturbation"):
        net = NB101Supernet(2, channels=2, cells=1, classes=3)
    return differentiable_search(name, net, torch.optim.SGD(net.parameters(), lr=0.1))


def test_perturbation_of_1shot1_cells_keeps_as_many_edges_as_a_node_has_parents() -> None:
    strategy = graph_search()
    relaxation = strategy.mixed.relaxation
    images = torch.randn(6, 3, 8, 8, generator=generator_at(0, "images"))
    weights = by_perturbation(strategy, [Batch(images, torch.arange(6) % 3)], generator=generator_at(0, "order"))
    for choice in relaxation.space.choices:
        assert int(weights[choice.name].count_nonzero()) == relaxation.edges_kept.get(choice.name, 1)
    found = strongest(relaxation, weights)
    for name in relaxation.edges_kept:
        kept = weights[name].nonzero().flatten().tolist()
        assert found.option(name.replace("edges", "parents")) == ",".join(map(str, kept))


def test_alternatives_of_1shot1_cells_lose_one_edge_or_operation_each() -> None:
    """Of the k + 1 heaviest edges into a node, the last takes the place of any of the k that is taken out."""
    relaxation = graph_search().mixed.relaxation
    generator = generator_at(0, "weights")
    weights = {c.name: torch.randn(len(c), generator=generator).softmax(0) for c in relaxation.space.choices}
    best = strongest(relaxation, weights)
    expected = set()
    for choice in relaxation.space.choices:
        order = weights[choice.name].argsort(descending=True).tolist()
        kept = relaxation.edges_kept.get(choice.name, 1)
        for lost in order[:kept]:
            options = [choice.options[option] for option in sorted({*order[: kept + 1]} - {lost})]
            expected.add(best.replace(**{choice.name.replace("edges", "parents"): ",".join(options)}))
    assert set(alternatives(relaxation, weights)) == expected and best not in expected


def test_edges_that_were_taken_out_of_1shot1_cells_do_not_return() -> None:
    relaxation = graph_search().mixed.relaxation
    weights = {choice.name: torch.full((len(choice),), 1 / len(choice)) for choice in relaxation.space.choices}
    weights["output_edges"] = torch.tensor([0.3, 0.3, 0.3, 0.1, 0.0])  # three of the first four: node 4 has no weight

    def reads_the_input(architecture: Architecture) -> float:
        return float("0" in architecture.option("output_parents").split(","))

    found = strongest(relaxation, weights, excess=reads_the_input)
    assert found.option("output_parents") == "1,2,3"
    with pytest.raises(ImpossibleSpace, match="keeps the limits"):
        strongest(relaxation, weights, excess=lambda found: float("4" not in found.option("output_parents").split(",")))


def test_hard_draws_leave_edges_of_1shot1_cells_soft() -> None:
    mixed = graph_search("gdas").mixed
    for position in range(3):
        gates = mixed.gates(generator_at(0, "gates", position))
        for name, gate in gates.items():
            assert gate.sum().item() == pytest.approx(1.0, abs=1e-6)
            assert (gate > 0).all() if name in mixed.relaxation.edges_kept else int(gate.count_nonzero()) == 1


def test_perturbation_needs_data() -> None:
    with pytest.raises(InvalidInput, match="held-out"):
        by_perturbation(helpful_and_useless(), [], generator=generator_at(0, "order"))
