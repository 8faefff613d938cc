"""Every gradient of q against the numbers that it is the gradient of, in float64."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from polyarch.data import Batch, Batches, TensorData
from polyarch.distributions import FactorisedCategorical, FactorisedDirichlet
from polyarch.errors import InvalidInput
from polyarch.nn import OneOf
from polyarch.randomness import generator_at, global_seed
from polyarch.strategies import (
    Bilevel,
    HeldOutLoss,
    Hypergradient,
    LossSum,
    MixedSupernet,
    UnrolledLoss,
    UnrolledLossSum,
    Weighing,
    take_step,
)
from polyarch.supernets import from_module, relaxation_of
from polyarch.training import fit

RATE, MOMENTUM, DECAY = 0.3, 0.9, 0.01


def network(norm: bool = False) -> nn.Module:
    middle = [nn.BatchNorm1d(4)] if norm else []
    return nn.Sequential(
        OneOf("first", wide=nn.Linear(3, 4), curved=nn.Sequential(nn.Linear(3, 4), nn.Tanh())),
        *middle,
        OneOf("second", none=nn.Identity(), mixing=nn.Linear(4, 4), curved=nn.Sigmoid()),
        nn.Linear(4, 2),
    )


def problem(weighing: Weighing = "mean", *, norm: bool = False) -> tuple[MixedSupernet, torch.optim.SGD]:
    """A small supernet with weights that have taken two steps, so that there is momentum."""
    with global_seed(0, "hypergradients"):
        relaxation = relaxation_of(from_module(network(norm).double()))
    logits = {"first": torch.tensor([0.3, -0.2]), "second": torch.tensor([0.1, 0.4, -0.5])}
    q = FactorisedCategorical(relaxation.space, {name: value.double() for name, value in logits.items()})
    mixed = MixedSupernet(relaxation, q, weighing, temperature=0.7)
    optimizer = torch.optim.SGD(relaxation.parameters(), lr=RATE, momentum=MOMENTUM, weight_decay=DECAY)
    for batch in batches(2, "before"):
        take_step(mixed, optimizer, batch, generator_at(0, "before"))
    return mixed, optimizer


def batches(count: int, stream: str = "train") -> list[Batch]:
    generator = generator_at(0, stream)
    return [
        Batch(torch.randn(6, 3, generator=generator, dtype=torch.float64), torch.randint(2, (6,), generator=generator))
        for _ in range(count)
    ]


def gradient(of: Hypergradient, mixed: MixedSupernet, optimizer: torch.optim.SGD) -> Tensor:
    mixed.q.zero_grad(set_to_none=True)
    train, held_out = batches(of.steps), batches(of.held_out_batches, "held out")
    of.run(mixed, optimizer, train, held_out, generator_at(0, "draws"))
    return torch.cat([value.grad.flatten() for value in mixed.q.parameters() if value.grad is not None])


def numerically(value: Callable[[MixedSupernet, torch.optim.SGD], float], weighing: Weighing = "mean") -> Tensor:
    """Central differences of a number over the logits of q; everything else starts the same each time."""
    mixed, optimizer = problem(weighing)
    found = []
    for parameter in mixed.q.parameters():
        for position in range(len(parameter)):
            sides = []
            for shift in (1e-5, -1e-5):
                other, steps = copy.deepcopy((mixed, optimizer))
                moved = next(
                    mine for mine, theirs in zip(other.q.parameters(), mixed.q.parameters(), strict=True)
                    if theirs is parameter
                )  # fmt: skip
                with torch.no_grad():
                    moved[position] += shift
                sides.append(value(other, steps))
            found.append((sides[0] - sides[1]) / 2e-5)
    return torch.tensor(found, dtype=torch.float64)


def trained(mixed: MixedSupernet, optimizer: torch.optim.SGD, steps: int, generator: torch.Generator) -> list[float]:
    """Ordinary training by torch's own optimiser."""
    return [take_step(mixed, optimizer, batch, generator) for batch in batches(steps)]


@pytest.mark.parametrize("steps", [1, 2, 5])
@pytest.mark.parametrize("weighing", ["mean", "soft"])
def test_the_exact_sum_of_losses_has_the_gradient_of_training(steps: int, weighing: Weighing) -> None:
    mixed, optimizer = problem(weighing)
    found = gradient(UnrolledLossSum(steps), mixed, optimizer)

    def losses(mixed: MixedSupernet, optimizer: torch.optim.SGD) -> float:
        return sum(trained(mixed, optimizer, steps, generator_at(0, "draws")))

    expected = numerically(losses, weighing)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("weighing", ["mean", "soft"])
def test_the_unrolled_held_out_loss_has_the_gradient_of_training(steps: int, weighing: Weighing) -> None:
    def after_training(mixed: MixedSupernet, optimizer: torch.optim.SGD) -> float:
        generator = generator_at(0, "draws")
        trained(mixed, optimizer, steps, generator)
        return mixed.loss_with(mixed.gates(generator), batches(1, "held out")[0]).item()

    found = gradient(UnrolledLoss(steps), *problem(weighing))
    torch.testing.assert_close(found, numerically(after_training, weighing), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("weighing", ["mean", "soft"])
def test_central_differences_come_near_the_exact_gradient(weighing: Weighing) -> None:
    exact = gradient(UnrolledLoss(), *problem(weighing))
    near = gradient(UnrolledLoss(form="difference"), *problem(weighing))
    first_order = gradient(HeldOutLoss(), *problem("mean"))
    torch.testing.assert_close(near, exact, rtol=1e-2, atol=1e-4)
    assert not torch.allclose(first_order, exact, rtol=1e-2)


def test_the_direct_sum_is_the_sum_of_gradients_at_the_weights_of_the_steps() -> None:
    mixed, optimizer = problem()
    expected = torch.zeros(5, dtype=torch.float64)
    for batch in batches(4):
        loss = mixed.loss_with(mixed.q.mean(), batch)
        expected += torch.cat(torch.autograd.grad(loss, list(mixed.q.parameters())))
        take_step(mixed, optimizer, batch, generator_at(0, "unused"))
    torch.testing.assert_close(gradient(LossSum(4), *problem()), expected)


def test_the_sum_of_validation_losses_looks_at_held_out_batches_before_every_step() -> None:
    mixed, optimizer = problem()
    expected = torch.zeros(5, dtype=torch.float64)
    for batch, other in zip(batches(3), batches(3, "held out"), strict=True):
        loss = mixed.loss_with(mixed.q.mean(), other)
        expected += torch.cat(torch.autograd.grad(loss, list(mixed.q.parameters())))
        take_step(mixed, optimizer, batch, generator_at(0, "unused"))
    torch.testing.assert_close(gradient(LossSum(3, on="held_out"), *problem()), expected)


@pytest.mark.parametrize(
    "of", [HeldOutLoss(), LossSum(3), UnrolledLoss(), UnrolledLoss(form="difference"), UnrolledLossSum(3)]
)
def test_weights_are_as_they_were(of: Hypergradient) -> None:
    mixed, optimizer = problem(norm=True)
    mixed.relaxation.train()
    before = copy.deepcopy((mixed.relaxation.state_dict(), optimizer.state_dict()))
    gradient(of, mixed, optimizer)
    after = (mixed.relaxation.state_dict(), optimizer.state_dict())
    for name, value in before[0].items():
        if not (isinstance(of, HeldOutLoss) and ("running" in name or "tracked" in name)):
            assert torch.equal(after[0][name], value), name
    for key, state in before[1]["state"].items():
        assert torch.equal(after[1]["state"][key]["momentum_buffer"], state["momentum_buffer"])


def test_without_repetition_the_weights_have_taken_the_steps() -> None:
    (mixed, optimizer), (other, steps) = problem(), problem()
    gradient(LossSum(3, repeat=False), mixed, optimizer)
    trained(other, steps, 3, generator_at(0, "unused"))
    for mine, theirs in zip(mixed.relaxation.parameters(), other.relaxation.parameters(), strict=True):
        assert torch.equal(mine, theirs)


def test_a_hard_draw_runs_the_chosen_options_and_moves_their_probabilities() -> None:
    mixed, optimizer = problem("chosen")
    calls: list[nn.Module] = []
    for module in mixed.relaxation.modules():
        if isinstance(module, nn.Linear | nn.Sigmoid | nn.Tanh):
            module.register_forward_hook(lambda module, *_: calls.append(module))
    found = gradient(HeldOutLoss(), mixed, optimizer)
    assert len(calls) <= 4
    assert found.abs().sum() > 0


def test_a_dirichlet_goes_with_every_gradient() -> None:
    mixed, optimizer = problem()
    q = FactorisedDirichlet(mixed.relaxation.space).double()
    dirichlet = MixedSupernet(mixed.relaxation, q, "soft")
    for of in (HeldOutLoss(), LossSum(2), UnrolledLoss(), UnrolledLossSum(2)):
        found = gradient(of, dirichlet, optimizer)
        assert found.isfinite().all() and found.abs().sum() > 0


def test_only_plain_sgd_is_unrolled() -> None:
    mixed, _ = problem()
    nesterov = torch.optim.SGD(mixed.relaxation.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    with pytest.raises(InvalidInput, match="Nesterov"):
        gradient(UnrolledLossSum(2), mixed, nesterov)


def test_central_differences_are_of_one_step() -> None:
    with pytest.raises(InvalidInput, match="one step"):
        UnrolledLoss(2, form="difference")


def test_q_must_be_over_the_weighed_choices() -> None:
    mixed, _ = problem()
    other = relaxation_of(from_module(nn.Sequential(OneOf("other", a=nn.Identity(), b=nn.Tanh()))))
    with pytest.raises(InvalidInput, match="Expected q over the choices"):
        MixedSupernet(other, mixed.q)


@pytest.mark.parametrize("steps", [1, 2, 3, 5, 7, 9])
@pytest.mark.parametrize(
    ("kind", "passes"),
    [
        (lambda steps: LossSum(steps, repeat=False), 1),
        (lambda steps: LossSum(steps), 2),
        (lambda steps: LossSum(steps, on="held_out", repeat=False), 1),
        (UnrolledLossSum, 1),
    ],
    ids=["sotl", "sotl repeated", "sovl", "exact"],
)
def test_an_epoch_takes_a_weight_step_on_every_batch_whatever_the_length_of_blocks(
    kind: Callable[[int], Hypergradient], passes: int, steps: int
) -> None:
    """Seven batches; the last block has what T leaves over. Repeated blocks take their steps twice."""
    mixed, optimizer = problem()
    mixed.relaxation.float()
    optimizer.state.clear()
    q_optimizer = torch.optim.SGD(mixed.q.float().parameters(), lr=0.1)
    taken = {"weights": 0, "q": 0}

    def count(name: str) -> Callable[..., None]:
        def one_more(*_: object) -> None:
            taken[name] += 1

        return one_more

    optimizer.register_step_post_hook(count("weights"))
    q_optimizer.register_step_post_hook(count("q"))
    generator = generator_at(0, "data")
    inputs = torch.randn(7 * 3, 3, generator=generator)
    data = TensorData(inputs, torch.randint(2, (21,), generator=generator), 2)
    strategy = Bilevel(mixed, optimizer, q_optimizer, gradient=kind(steps))
    fit(strategy, Batches(data, 3), epochs=2, seed=0, held_out=Batches(data, 3))
    assert taken == {"weights": 2 * 7 * passes, "q": 2 * math.ceil(7 / steps)}
