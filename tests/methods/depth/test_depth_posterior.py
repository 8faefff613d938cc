"""The exact posterior over depths against enumeration, its distance from the learned one, and the rate of q."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from polyarch import Repeat
from polyarch.data import Batches, TensorData
from polyarch.distributions import Categorical
from polyarch.errors import Interrupted
from polyarch.methods.depth.posterior import DepthPosterior
from polyarch.methods.depth.search import DepthSearch, depth_prior, exact_posterior
from polyarch.randomness import generator_at, global_seed
from polyarch.supernets import FullyConnectedDepth, Supernet, from_module
from polyarch.supernets.depth import depth_space
from polyarch.testing import StopAt, random_data, same_bits
from polyarch.training import Callback, CheckpointStore, fit

EXAMPLES = 7


def plain(seed: int = 0, *, dropout: float = 0.0) -> Supernet:
    """Depths 0 to 3 without normalisation, in float64."""
    with global_seed(seed, "net"):
        blocks = [nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Dropout(dropout)) for _ in range(3)]
        body = Repeat("depth", blocks, minimum=0)
        model = nn.Sequential(nn.Linear(2, 4), body, nn.Linear(4, 3)).double()
    return from_module(model, torch.zeros(2, 2, dtype=torch.float64))


def examples() -> TensorData:
    inputs = torch.randn(EXAMPLES, 2, generator=generator_at(0, "inputs"))
    return TensorData(inputs, torch.arange(EXAMPLES) % 3, 3)


def batches(size: int = EXAMPLES) -> Batches:
    return Batches(examples(), size, shuffle=False, preprocessing=Tensor.double)


@pytest.mark.parametrize("size", [EXAMPLES, 2, 1])
def test_the_exact_posterior_is_prior_times_likelihood(size: int) -> None:
    """prior(d) prod_n p(y_n | x_n, d), multiplied out example by example and depth by depth."""
    net, prior = plain(), (5.0, 1.0, 2.0, 4.0)
    inputs, targets = examples().inputs.double(), examples().targets
    joint = []
    for weight, architecture in zip(prior, net.space.members, strict=True):
        with torch.no_grad():
            probabilities = torch.softmax(net(inputs, architecture), -1)
        product = weight / sum(prior)
        for row, target in zip(probabilities.tolist(), targets.tolist(), strict=True):
            product *= row[target]
        joint.append(product)
    found = exact_posterior(net, depth_prior(net.space, prior).double(), batches(size))
    expected = [value / sum(joint) for value in joint]
    assert found.log_probabilities().exp().tolist() == pytest.approx(expected, rel=1e-6)  # the prior is single
    assert not list(found.parameters()) and found.logits.dtype == torch.float64


def test_many_examples_decide_alone_and_nothing_is_lost_to_rounding() -> None:
    """Log-probabilities stay finite where probabilities are 0, and so does the divergence."""
    space = depth_space(2)
    exact = Categorical(space, torch.tensor([-5000.0, -900.0, 0.0], dtype=torch.float64), learnable=False)
    learned = Categorical(space, torch.tensor([0.2, 0.3, 0.5], dtype=torch.float64).log(), learnable=False)
    posterior = DepthPosterior(depth_prior(space), learned, exact)
    entropy = float(torch.distributions.Categorical(logits=learned.logits).entropy())
    assert posterior.divergence == pytest.approx(0.2 * 5000 + 0.3 * 900 - entropy, rel=1e-12)


def test_random_layers_are_drawn_the_same_way_every_time() -> None:
    found = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        found.append(exact_posterior(plain(dropout=0.5), depth_prior(plain().space).double(), batches()).logits)
    assert found[0].equal(found[1])


@pytest.mark.parametrize("seed", range(3))
def test_the_divergence_is_that_of_torch(seed: int) -> None:
    space, generator = depth_space(4), generator_at(seed, "logits")
    learned, exact = (
        Categorical(space, 3 * torch.randn(5, generator=generator, dtype=torch.float64), learnable=False)
        for _ in range(2)
    )
    expected = torch.distributions.kl_divergence(
        *(torch.distributions.Categorical(logits=one.logits) for one in (learned, exact))
    )
    assert DepthPosterior(depth_prior(space), learned, exact).divergence == pytest.approx(float(expected), rel=1e-12)
    assert DepthPosterior(depth_prior(space), learned, learned).divergence == pytest.approx(0, abs=1e-12)


def network(seed: int = 0) -> FullyConnectedDepth:
    with global_seed(seed, "net"):
        return FullyConnectedDepth(features=64, classes=3, max_depth=3, width=5)


def after_a_step(search: DepthSearch) -> tuple[Tensor, Tensor]:
    """A weight of the network and the logits of q."""
    strategy = search.strategy(network(), num_data=24)
    source = Batches(random_data((1, 8, 8), examples=24), 24, shuffle=False)
    fit(strategy, source, epochs=1, seed=0, callbacks=list(search.schedule(strategy.optimizer, 1)))
    assert isinstance(strategy.q, Categorical) and isinstance(strategy.net, FullyConnectedDepth)
    return strategy.net.head.weight.detach(), strategy.q.logits.detach()


@pytest.mark.parametrize("drop_after", [None, 5, 0])
def test_q_has_a_learning_rate_of_its_own(drop_after: int | None) -> None:
    """One step of SGD from zeros is the rate times the gradient, under the same schedule as the weights."""
    slow = after_a_step(DepthSearch(learning_rate=0.1, drop_after=drop_after))
    fast = after_a_step(DepthSearch(learning_rate=0.1, q_learning_rate=0.7, drop_after=drop_after))
    assert fast[0].equal(slow[0]) and slow[1].abs().max() > 0
    torch.testing.assert_close(fast[1], 7 * slow[1])


def test_resumed_with_the_same_bits_and_rates(tmp_path: Path) -> None:
    search = DepthSearch(learning_rate=0.1, q_learning_rate=0.7, drop_after=1)

    def run(seed: int, stop: StopAt | None) -> dict[str, Any]:
        strategy = search.strategy(network(seed), num_data=24)
        source = Batches(random_data((1, 8, 8), examples=24), 8, seed=1)
        history = fit(
            strategy, source, epochs=2, seed=3, callbacks=[*search.schedule(strategy.optimizer, 3), stop or Callback()],
            checkpoints=CheckpointStore(tmp_path) if stop or seed else None, stop=stop.request if stop else None,
        )  # fmt: skip
        rates = [group["lr"] for group in strategy.optimizer.param_groups]
        assert rates == pytest.approx([0.01, 0.07])
        return {"rows": history.rows, **{name: dict(part.state_dict()) for name, part in strategy.parts().items()}}

    expected = run(0, None)
    with pytest.raises(Interrupted):
        run(0, StopAt(2))
    assert same_bits(run(99, None), expected)
