"""From settings to parts: data, supernet, strategy, estimators."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from polyarch.data import (
    Augmentation,
    Batches,
    Cutout,
    Dataset,
    Examples,
    Preprocessing,
    RandomFlip,
    RandomShift,
    endless,
)
from polyarch.distributions import FactorisedCategorical, Uniform
from polyarch.errors import ConfigError
from polyarch.estimators import (
    Average,
    Estimator,
    LastPart,
    Latency,
    MACs,
    Parameters,
    ShortRun,
    SoG,
    SoGN,
    SoTL,
    SoVL,
    TLMini,
    ValAcc,
    ValAccMini,
)
from polyarch.executors import Executor, Processes, Serial
from polyarch.methods.differentiable.strategy import bilevel_strategy
from polyarch.runs.examples import load_data, split
from polyarch.runs.devices import device_named, to_device
from polyarch.methods.posterior_guided.strategy import guided_strategy
from polyarch.runs.optimisers import sgd, smoothed_loss
from polyarch.runs.own_module import Builder, build_own
from polyarch.runs.settings import OneShotName, RunSettings
from polyarch.runs.spaces import as_trained_alone
from polyarch.methods.stochastic.strategy import drawn_architectures, stochastic_strategy
from polyarch.runs.unlabelled import unlabelled_examples
from polyarch.methods.one_shot import strategies as one_shot
from polyarch.methods.depth.search import DepthSearch
from polyarch.nn import AdaptedStatistics, BatchStatistics, NormPolicy, ReestimatedStatistics, RunningStatistics
from polyarch.objectives import Sampled
from polyarch.randomness import derive_seed, global_seed
from polyarch.searchers import Limit, Limits
from polyarch.spaces import Architecture, Constraint
from polyarch.strategies import OneShot, Strategy, Variational
from polyarch.supernets import Supernet

EVALUATION_BATCH = 256


@dataclass(frozen=True)
class Parts:
    """What a run is made of, built once from its settings.

    ``make`` gives a supernet of this kind with weights from torch's global generator, as often as it is called;
    ``make_plain`` gives one without inter-choice weights, which networks that are trained alone do not have.
    ``unlabelled`` examples have labels that mean nothing.
    """

    settings: RunSettings
    data: Dataset
    train: Examples
    valid: Examples
    preprocessing: Preprocessing
    make: Callable[[], Supernet]
    make_plain: Callable[[], Supernet]
    net: Supernet
    unlabelled: Examples | None = None

    @classmethod
    def build(
        cls,
        settings: RunSettings,
        *,
        data: Dataset | None = None,
        builder: Builder | None = None,
        unlabelled: Any = None,
    ) -> Parts:
        """Loads the data and makes a supernet with fresh weights from the seed.

        Args:
            data: instead of what the settings name.
            builder: makes the user's own network, instead of what the settings name.
            unlabelled: examples without labels, instead of what the settings name; see `unlabelled_examples`.
        """
        device = device_named(settings.device)
        data = data or load_data(settings.data)
        train, valid = split(data, settings)
        preprocessing = data.preprocessing(train)
        shape = preprocessing.output_shape(data.input_shape)
        if builder is None:
            make = partial(settings.space.build, shape, data.classes)
            make_plain = partial(as_trained_alone(settings.space).build, shape, data.classes)
        else:
            gated = getattr(settings.space, "gated", False)
            make = make_plain = partial(build_own, builder, shape, data.classes, gated=gated)
        with global_seed(settings.seed, "supernet"):
            net = to_device(make(), device)
        if unlabelled is None:
            same = settings.data.unlabelled == settings.data.name
            unlabelled = data if same else settings.data.unlabelled
        more = None if unlabelled is None else unlabelled_examples(unlabelled, data)
        return cls(settings, data, train, valid, preprocessing, make, make_plain, net, more)

    def fresh(self, architecture: Architecture, *, seed: int) -> nn.Module:
        """The architecture alone with untrained weights from the seed."""
        with global_seed(seed, "initialise"):
            network = self.make_plain().extract(architecture)
        return to_device(network, torch.device(self.settings.device))

    @property
    def network_shape(self) -> tuple[int, ...]:
        """The shape of one example after the preprocessing."""
        return self.preprocessing.output_shape(self.data.input_shape)

    def raw_examples(self, count: int) -> Tensor:
        """Up to ``count`` test examples as they are, (B, ...)."""
        return next(iter(self.data.test.stream([torch.arange(min(count, len(self.data.test)))])))

    def summary(self) -> dict[str, Any]:
        """The data in numbers, for the results."""
        return {
            "name": self.data.name,
            "classes": list(self.data.class_names),
            "input_shape": list(self.data.input_shape),
            "dtype": "uint8" if self.data.is_bytes else "float32",
            "train": len(self.train),
            "valid": len(self.valid),
            "test": len(self.data.test),
        }

    def batches(self, data: Examples, batch_size: int, *, stream: str) -> Batches:
        """Shuffled, augmented training batches; ``stream`` tells their orders apart."""
        return Batches(
            data,
            batch_size,
            seed=derive_seed(self.settings.seed, "batches", stream),
            augmentations=self._augmentations(),
            preprocessing=self.preprocessing,
            device=self.settings.device,
        )

    def held_out_batches(self) -> Batches:
        """Shuffled, augmented batches of validation examples, or of those without labels, as large as in training."""
        data, stream = (self.valid, "held out") if self.unlabelled is None else (self.unlabelled, "unlabelled")
        return self.batches(data, min(self.settings.train.batch_size, len(data)), stream=stream)

    def evaluation_batches(self, data: Examples) -> Batches:
        """Batches in order, without augmentation."""
        return Batches(
            data, EVALUATION_BATCH, shuffle=False, preprocessing=self.preprocessing, device=self.settings.device
        )

    def statistics_batches(self, data: Examples) -> Batches:
        """The same, for a network in training mode: no batch is a single example, which has no statistics."""
        size = next(size for size in range(EVALUATION_BATCH, 1, -1) if len(data) % size != 1 or len(data) == 1)
        return Batches(data, size, shuffle=False, preprocessing=self.preprocessing, device=self.settings.device)

    def strategy(self) -> tuple[Strategy, torch.optim.Optimizer]:
        """The training strategy of the supernet and its optimiser."""
        train = self.settings.train
        if self.settings.is_differentiable:
            bilevel = bilevel_strategy(self.net, self.settings)
            return bilevel, bilevel.optimizer
        if self.settings.method == "stochastic":
            return self._stochastic()
        if self.settings.method == "posterior-guided":
            guided = guided_strategy(self.net, self.settings, num_data=len(self.train))
            return guided, guided.optimizer
        if train.strategy != "variational":
            optimizer = sgd(self.net, train)
            return self._one_shot(train.strategy, optimizer), optimizer
        space = self.net.space
        if len(space.choices) == 1:
            exact = self.depth_search().strategy(self.net, num_data=len(self.train))
            return exact, exact.optimizer
        q = FactorisedCategorical(space).to(self.settings.device)
        optimizer = sgd(nn.ModuleList([self.net, q]), train)
        expectation = Sampled(train.samples)
        sampled = Variational(self.net, q, Uniform(space), optimizer, num_data=len(self.train), expectation=expectation)
        return sampled, optimizer

    def _stochastic(self) -> tuple[Strategy, torch.optim.Optimizer]:
        train = self.settings.train
        epoch = len(self.batches(self.train, train.batch_size, stream="train"))
        steps = None if self.unlabelled is None else train.epochs * epoch
        return stochastic_strategy(self.net, self.settings, self.stochastic_architectures(), steps=steps)

    def stochastic_architectures(self) -> list[Architecture]:
        """Those that one network is trained under, the same in every call."""
        return drawn_architectures(self.net, self.settings, self.limits(measured=False))

    def _one_shot(self, name: OneShotName, optimizer: torch.optim.Optimizer) -> OneShot:
        """A strategy of sampled paths by name; where it takes inner steps, the optimiser is that of the inner steps."""
        net, train = self.net, self.settings.train
        loss, q = smoothed_loss(train), self.allowed()
        inner: dict[str, Any] = {"steps": train.inner_steps, "outer_rate": train.outer_rate, "q": q, "loss": loss}
        match name:
            case "single_path":
                return one_shot.spos(net, optimizer, q=q, loss=loss)
            case "fair":
                if q.space.constraints:
                    raise ConfigError(
                        "Expected no search.max_params and search.max_macs with train.strategy fair, whose paths use "
                        "every operation. Got such a limit."
                    )
                return one_shot.fairnas(net, optimizer, loss=loss)
            case "multi_path":
                return one_shot.multi_path(net, optimizer, count=train.paths, q=q, loss=loss)
            case "reptile":
                return one_shot.reptile(net, optimizer, **inner)
            case "meta_prox":
                return one_shot.meta_prox(net, optimizer, proximal=train.proximal, **inner)
            case "multi_path_meta_prox":
                return one_shot.multi_path_meta_prox(
                    net, optimizer, count=train.paths, proximal=train.proximal, **inner
                )

    def depth_search(self) -> DepthSearch:
        """How the posterior over the only choice is learned."""
        train, depth = self.settings.train, self.settings.depth
        return DepthSearch(
            learning_rate=train.learning_rate,
            momentum=train.momentum,
            weight_decay=train.weight_decay,
            prior=depth.prior,
            prior_ratio=train.prior_ratio,
            updates=depth.updates,
        )

    def allowed(self) -> Uniform:
        """The uniform distribution over the architectures that keep the limits: others need no training.

        A limit on measured latency is left out, because the same seed would not give the same draws.
        """
        limits = self.limits(measured=False)
        if not limits.limits:
            return Uniform(self.net.space)
        return Uniform(self.net.space.constrained(Constraint("limits kept", limits.allows)))

    def estimators(self, names: tuple[str, ...]) -> list[Estimator]:
        """Estimators by name; those of a short run read one and the same."""
        scores = self.settings.scores
        train = self.batches(self.train, scores.batch_size, stream="scores")
        valid = self.evaluation_batches(self.valid)
        policy = self.policy()
        shape = self.network_shape
        run = self.short_run(valid="sovl" in names, gradients="sog" in names or "sogn" in names)
        known: dict[str, Callable[[], Estimator]] = {
            "sotl": lambda: SoTL(run),
            "sotl_last": lambda: SoTL(run, LastPart(scores.last_share)),
            "sotl_ema": lambda: SoTL(run, Average(scores.ema_decay)),
            "sovl": lambda: SoVL(run),
            "tl_mini": lambda: TLMini(run),
            "sog": lambda: SoG(run),
            "sogn": lambda: SoGN(run),
            "val_acc": lambda: ValAcc(valid, train, policy=policy),
            "val_acc_mini": lambda: ValAccMini(valid, train, policy=policy),
            "params": Parameters,
            "macs": lambda: MACs(shape),
            "latency": lambda: Latency(shape, batch_size=scores.latency_batch_size),
        }
        return [known[name]() for name in names]

    def short_run(self, *, valid: bool = False, gradients: bool = False) -> ShortRun:
        """The short run of the scores, with validation losses and gradients where they are asked for."""
        scores = self.settings.scores
        return ShortRun(
            self.batches(self.train, scores.batch_size, stream="scores"),
            steps=scores.steps,
            learning_rate=scores.learning_rate,
            momentum=scores.momentum,
            seed=self.settings.seed,
            valid=self._validation_minibatches() if valid else None,
            gradients=gradients,
        )

    def _validation_minibatches(self) -> Batches:
        """As large as the batches of the short run, in random order, without augmentation."""
        return Batches(
            self.valid,
            self.settings.scores.batch_size,
            seed=derive_seed(self.settings.seed, "batches", "validation scores"),
            preprocessing=self.preprocessing,
            device=self.settings.device,
        )

    def policy(self) -> NormPolicy:
        """The statistics policy of the scores."""
        scores = self.settings.scores
        match scores.policy:
            case "running":
                return RunningStatistics()
            case "batch":
                return BatchStatistics()
            case "adapt":
                return AdaptedStatistics(scores.policy_batches)
            case "reestimate":
                return ReestimatedStatistics(scores.policy_batches)

    def policy_inputs(self) -> Iterator[Tensor]:
        """The inputs that the policy of the scores adapts to."""
        train = self.batches(self.train, self.settings.scores.batch_size, stream="scores")
        return (batch.inputs for batch in endless(train))

    def limits(self, *, measured: bool = True) -> Limits:
        """The hard limits, cheap ones first; without ``measured`` only those that can be counted, not timed."""
        search = self.settings.search
        counted: list[tuple[str, float | None]] = [("params", search.max_params), ("macs", search.max_macs)]
        pairs = [*counted, ("latency", search.max_latency)] if measured else counted
        asked = {name: value for name, value in pairs if value is not None}
        costs = self.estimators(tuple(asked))
        return Limits(self.net, [Limit(cost, asked[cost.name]) for cost in costs])

    def executor(self) -> Executor:
        """Worker processes, or this one."""
        return Serial() if self.settings.workers == 1 else Processes(self.settings.workers)

    def _augmentations(self) -> list[Augmentation]:
        settings = self.settings.data
        found: list[Augmentation] = []
        if settings.shift:
            found.append(RandomShift(settings.shift))
        if settings.flip:
            found.append(RandomFlip())
        if settings.cutout:
            found.append(Cutout(settings.cutout))
        if found and not self.data.is_image:
            raise ConfigError(f"Expected images to augment. Got examples of shape {self.data.input_shape}.")
        return found
