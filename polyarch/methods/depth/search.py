"""Variational depth search: learn q(depth) with the weights, choose a depth, prune.

Maximises (N/B) sum_n sum_d q(d) log p(y_n | x_n, d) - KL(q || prior) over the weights and q. Antorán,
Allingham and Hernández-Lobato (2020), "Variational Depth Search in ResNets", arXiv:2002.02797.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from polyarch.data import BatchSource
from polyarch.distributions import Categorical, Empirical, geometric_prior
from polyarch.errors import InvalidInput, UnknownName
from polyarch.randomness import global_seed
from polyarch.spaces import Space
from polyarch.strategies import Strategy, Variational
from polyarch.strategies.strategy import CLASSES
from polyarch.supernets import Supernet
from polyarch.tasks import Task
from polyarch.training import (
    Callback,
    CheckpointStore,
    EarlyStopping,
    ExpectationStep,
    History,
    Schedule,
    exact_log_posterior,
    fit,
    piecewise,
)


@dataclass(frozen=True)
class DepthTraining:
    """The protocol of Antorán et al. (2020): SGD without decay until nothing improves; the best state is kept.

    Without validation examples what is watched is the objective on the training set (spirals: full batches, patience
    500); with them, their loss (images: patience 30, the learning rate falls after 30 epochs). Never test examples.

    Args:
        epochs: at most; with full batches an epoch is an iteration.
        patience: epochs without a better value before training stops.
        drop_after: epochs after which the learning rate falls to a tenth; never by default.
    """

    epochs: int = 5000
    patience: int = 500
    learning_rate: float = 0.1
    momentum: float = 0.5
    weight_decay: float = 0.0
    drop_after: int | None = None

    def optimizer(self, *modules: nn.Module) -> torch.optim.SGD:
        """For the parameters of these modules."""
        parameters = [parameter for module in modules for parameter in module.parameters()]
        return torch.optim.SGD(
            parameters, lr=self.learning_rate, momentum=self.momentum, weight_decay=self.weight_decay, foreach=True
        )

    def run(
        self,
        strategy: Strategy,
        optimizer: torch.optim.Optimizer,
        train: BatchSource,
        valid: BatchSource | None,
        *,
        seed: int,
        callbacks: Sequence[Callback] = (),
        warm_up: int = 0,
        checkpoints: CheckpointStore | None = None,
    ) -> History:
        """Trains by the protocol, or goes on from a checkpoint; the strategy's ``loss`` is what it minimises.

        Args:
            warm_up: epochs of which no state is kept.
        """
        watched = "loss" if valid is None else "valid_loss"
        stopping = EarlyStopping(watched, maximise=False, patience=self.patience, after=warm_up)
        hung = [*self.schedule(optimizer, len(train)), stopping, *callbacks]
        return fit(strategy, train, valid, epochs=self.epochs, seed=seed, callbacks=hung, checkpoints=checkpoints)

    def schedule(self, optimizer: torch.optim.Optimizer, steps_per_epoch: int) -> Iterable[Callback]:
        """The callback that lowers the learning rate, where the protocol does."""
        if self.drop_after is not None:
            rates = {0: self.learning_rate, self.drop_after * steps_per_epoch: self.learning_rate / 10}
            yield Schedule(optimizer, piecewise(rates))


Rule = Literal["argmax", "95%", "expected"]
RULES: tuple[Rule, ...] = get_args(Rule)
Updates = Literal["gradient", "em"]
Prior = Literal["geometric", "uniform"] | Sequence[float]

FIRST_EXPECTATION = 0.2
"""The share of the epochs before the first E step; see `ExpectationStep`."""


@dataclass(frozen=True)
class DepthSearch(DepthTraining):
    """Learns the posterior over the depth of a network together with its weights.

    Args:
        prior: over the depths, see `depth_prior`.
        prior_ratio: gamma of the geometric prior.
        updates: of q: by the ``gradient`` together with the weights, or ``em``: in closed form at the start of every
            epoch, from a fifth of the epochs on.
        q_learning_rate: of the logits of q, if another than that of the weights.
    """

    prior: Prior = "geometric"
    prior_ratio: float = 0.85
    updates: Updates = "gradient"
    q_learning_rate: float | None = None

    def joint_optimizer(self, net: nn.Module, q: nn.Module) -> torch.optim.SGD:
        """For the weights and for q, each with its learning rate; both follow the same schedule.

        The gradient of the bound divided by N with respect to the logits of q shrinks with N, that of the weights does
        not: with one rate for both, q moves slowly where there are many examples.
        """
        if self.q_learning_rate is None or not list(q.parameters()):
            return self.optimizer(net, q)
        optimizer = self.optimizer(net)
        factor = self.q_learning_rate / self.learning_rate if self.learning_rate else 1.0
        # SGD adds a group as it is: the rate of the first step, and what `Schedule` multiplies later ones by.
        optimizer.add_param_group({"params": q.parameters(), "lr": self.q_learning_rate, "rate_factor": factor})
        return optimizer

    def strategy(self, net: Supernet, *, num_data: int, task: Task = CLASSES) -> Variational:
        """The strategy that learns weights and q; its optimiser and its q are attributes."""
        like = next(net.parameters())
        q = Categorical(net.space, learnable=self.updates == "gradient").to(like)
        prior = depth_prior(net.space, self.prior, self.prior_ratio).to(like)
        optimizer = self.joint_optimizer(net, q)  # the parameters of q are none where the E step sets it
        return Variational(net, q, prior, optimizer, num_data=num_data, task=task)

    def expectation_steps(self, strategy: Variational, train_in_order: BatchSource) -> list[ExpectationStep]:
        """The callback that sets q where no gradient does."""
        if self.updates == "gradient":
            return []
        assert isinstance(strategy.q, Categorical)
        net, q, prior = strategy.net, strategy.q, strategy.prior
        return [ExpectationStep(net, q, prior, train_in_order, after=FIRST_EXPECTATION, task=strategy.task)]

    def warm_up(self, epochs: int) -> int:
        """How many of the epochs come before q is learned; their states are not worth keeping."""
        return 0 if self.updates == "gradient" else math.ceil(FIRST_EXPECTATION * epochs)

    def fit(
        self,
        net: Supernet,
        train: BatchSource,
        valid: BatchSource | None = None,
        *,
        seed: int,
        train_in_order: BatchSource | None = None,
        checkpoints: CheckpointStore | None = None,
    ) -> tuple[Categorical, History]:
        """Trains the weights of ``net`` in place and returns the learned q with what was measured.

        q lags behind the weights: `exact_posterior` is the q that the final weights imply.

        Args:
            valid: watched for early stopping; without it the bound on the training set is.
            train_in_order: all training examples for the E step; ``train`` by default.
        """
        strategy = self.strategy(net, num_data=train.num_examples)
        steps = self.expectation_steps(strategy, train_in_order or train)
        history = self.run(
            strategy,
            strategy.optimizer,
            train,
            valid,
            seed=seed,
            callbacks=steps,
            warm_up=self.warm_up(self.epochs),
            checkpoints=checkpoints,
        )
        assert isinstance(strategy.q, Categorical)
        return strategy.q, history


def depth_prior(space: Space, prior: Prior = "geometric", ratio: float = 0.85) -> Categorical:
    """A fixed prior over the only choice of a space.

    ``geometric``: p(i) proportional to ratio^(1 + i). ``uniform``. Or given: a weight above 0 for every depth.
    """
    if prior == "geometric":
        return geometric_prior(space, ratio)
    if prior == "uniform":
        return Categorical(space, learnable=False)
    given: object = prior  # a text is a sequence, too
    if isinstance(given, str):
        raise UnknownName("prior", given, ["geometric", "uniform", "or a weight for every depth"])
    weights = torch.tensor([float(weight) for weight in prior], dtype=torch.float64)
    if weights.shape != (space.size,) or not (weights.isfinite() & (weights > 0)).all():
        raise InvalidInput(f"Expected {space.size} prior weights above 0, one per depth. Got {list(prior)}.")
    return Categorical(space, weights.log().float(), learnable=False)


def exact_posterior(net: Supernet, prior: Categorical, train: BatchSource, task: Task = CLASSES) -> Categorical:
    """q*(d) proportional to prior(d) prod_n p(y_n | x_n, d), the optimum of the bound for the weights as they are.

    From one pass over the training examples, in order and not augmented; see `exact_log_posterior`. In float64.
    """
    with global_seed(0, "exact posterior"):  # for random layers, e.g. dropout
        return Categorical(net.space, exact_log_posterior(net, prior, train, task), learnable=False)


def choose_depth(q: Categorical, rule: Rule = "argmax") -> int:
    """The position of the depth to keep among those of q; the depth itself where the first is 0.

    ``argmax``: the most probable (small data). ``95%``: the smallest with at least 0.95 times the highest
    probability (medium and large data). ``expected``: the mean, rounded.
    """
    probabilities = q.log_probabilities().detach().exp()
    match rule:
        case "argmax":
            return int(probabilities.argmax())
        case "95%":
            return int((probabilities >= 0.95 * probabilities.max()).nonzero()[0])
        case "expected":
            return round(expected_depth(probabilities))
    raise UnknownName("rule", rule, RULES)


def expected_depth(probabilities: Tensor) -> float:
    """sum_d q(d) d: (D+1,)."""
    return float((probabilities.detach() * torch.arange(len(probabilities)).to(probabilities)).sum())


def prune(q: Categorical, depth: int) -> Empirical:
    """q over the depths 0..depth, with the mass of deeper ones moved onto ``depth``."""
    probabilities = q.log_probabilities().detach().exp().tolist()
    weights = [*probabilities[:depth], sum(probabilities[depth:])]
    return Empirical(q.space, q.architectures[: depth + 1], weights)
