"""One run of a method: what every stage of it is given."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polyarch.data import Dataset
from polyarch.distributions import Uniform
from polyarch.estimators import Estimator
from polyarch.executors import Executor, executor_named
from polyarch.plugins import method_named
from polyarch.randomness import generator_at
from polyarch.results import Provenance
from polyarch.runs.display import Display, Quiet
from polyarch.runs.feed import Feed
from polyarch.runs.networks import Networks
from polyarch.runs.own_module import Builder, asks_for_indices
from polyarch.runs.scores import Scores
from polyarch.runs.settings import RunSettings
from polyarch.runs.spaces import own_builder
from polyarch.runs.workspace import Workspace
from polyarch.searchers import Limit, Limits
from polyarch.spaces import Architecture, Constraint
from polyarch.supernets import Supernet
from polyarch.tasks import Task
from polyarch.training import Callback, StopRequest

if TYPE_CHECKING:
    from polyarch.methods.method import Method

ATTEMPTS = 20
"""Draws for every architecture that is wanted."""


def distinct_draws(
    limits: Limits, n: int, *, seed: int, stream: str, besides: Iterable[Architecture] = ()
) -> list[Architecture]:
    """Up to n random architectures of different networks that keep the limits; fewer only in a very small space.

    Args:
        besides: none of them is one of these networks.
    """
    others = {architecture.canonical() for architecture in besides}
    draws = (limits.sample(generator_at(seed, stream, position)) for position in range(ATTEMPTS * n))
    return distinct_networks((draw for draw in draws if draw.canonical() not in others), most=n)


def distinct_networks(architectures: Iterable[Architecture], *, most: int) -> list[Architecture]:
    """The first of them that are other networks than those before, by canonical form, up to ``most``."""
    found: dict[str, Architecture] = {}
    for architecture in architectures:
        found.setdefault(architecture.canonical(), architecture)
        if len(found) == most:
            break
    return list(found.values())


def executor_of(settings: RunSettings, *, workers: int | None = None, shared: Path | None = None) -> Executor:
    """The executor that settings name."""
    one = settings.executor
    return executor_named(
        one.kind, workers=workers, address=one.address, cpus=one.cpus_per_item, gpus=one.gpus_per_item, shared=shared
    )


@dataclass
class Run:
    """Settings, method, data, networks and folder of one run; it travels to worker processes.

    Args:
        net: the supernet, trained in place.
        until: the name of the last stage; all of them by default.
        started: when the clock of ``max_minutes`` started.
        callbacks: the user's own, for the training of the supernet in this process.
        finish_now: whether nothing is trained any more, and the best so far delivered.
        provenance: the fingerprints of data and code, once the run has begun.
    """

    settings: RunSettings
    method: Method
    feed: Feed
    networks: Networks
    net: Supernet
    workspace: Workspace
    display: Display = field(default_factory=Quiet)
    stop: StopRequest = field(default_factory=StopRequest)
    until: str | None = None
    started: float = field(default_factory=time.monotonic)
    callbacks: Sequence[Callback] = ()
    finish_now: bool = False
    provenance: Provenance | None = None

    @classmethod
    def build(
        cls,
        settings: RunSettings,
        workspace: Workspace,
        *,
        data: Dataset | None = None,
        builder: Builder | None = None,
        unlabelled: Any = None,
        **others: Any,
    ) -> Run:
        """Loads the data and makes a supernet with fresh weights from the seed.

        Args:
            data: used instead of what the settings name, as are ``unlabelled`` examples.
            builder: makes the user's own network, instead of the space that the settings name.
            others: fields of the run.
        """
        own = builder or own_builder(settings.space)
        feed = Feed.of(settings, data, unlabelled, indices=own is not None and asks_for_indices(own))
        networks = Networks.of(settings.space, builder, feed.example, feed.task, settings.device)
        net = networks.supernet(settings.seed)
        return cls(settings, method_named(settings.method), feed, networks, net, workspace, **others)

    def __getstate__(self) -> dict[str, Any]:
        """Without caches, and without what belongs to this process: display, stop request and the user's callbacks."""
        kept = {name: value for name, value in self.__dict__.items() if name in self.__dataclass_fields__}
        return {**kept, "display": Quiet(), "stop": StopRequest(), "callbacks": ()}

    @property
    def task(self) -> Task:
        """What is predicted."""
        return self.feed.task

    @property
    def supernet_task(self) -> Task:
        """The same with the label smoothing of the supernet's training."""
        return self.task.smoothed(self.settings.train.label_smoothing)

    @cached_property
    def scores(self) -> Scores:
        """What estimators are made of."""
        return Scores(self.settings.scores, self.feed, self.networks)

    def estimators(self, names: Sequence[str]) -> list[Estimator]:
        """Estimators by name; those of a short run share one."""
        return self.scores.estimators(names)

    @cached_property
    def alone(self) -> Supernet:
        """A supernet whose networks cost what those cost that are trained alone; its weights mean nothing."""
        return self.networks.plain() or self.net

    @cached_property
    def limits(self) -> Limits:
        """The hard limits, cheap ones first."""
        limits = [*self.counted_limits.limits, *self._limited(latency=self.settings.search.max_latency)]
        return Limits(self.net, limits, costs=self.alone)

    @cached_property
    def counted_limits(self) -> Limits:
        """Those that can be counted: limits on measured latency would not give the same draws every time."""
        search = self.settings.search
        return Limits(self.net, self._limited(params=search.max_params, macs=search.max_macs), costs=self.alone)

    def _limited(self, **most: float | None) -> list[Limit]:
        asked = {name: value for name, value in most.items() if value is not None}
        return [Limit(cost, asked[cost.name]) for cost in self.estimators(tuple(asked))] if asked else []

    @cached_property
    def allowed(self) -> Uniform:
        """The uniform distribution over the architectures that keep the counted limits: others need no training."""
        if not self.counted_limits.limits:
            return Uniform(self.net.space)
        return Uniform(self.net.space.constrained(Constraint("limits kept", self.counted_limits.allows)))

    def draw(self, n: int, stream: str, *, besides: Iterable[Architecture] = ()) -> list[Architecture]:
        """Up to n random networks that keep the limits, as `distinct_draws` finds them."""
        return distinct_draws(self.limits, n, seed=self.settings.seed, stream=stream, besides=besides)

    def executor(self) -> Executor:
        """What runs items; on a cluster, all machines must see the folder of the run."""
        return executor_of(self.settings, workers=self.settings.workers, shared=self.workspace.folder)

    def seconds_left(self, share: float = 1.0) -> float:
        """Until this share of ``max_minutes`` is over; infinity without that limit."""
        minutes = self.settings.max_minutes
        return math.inf if minutes is None else self.started + 60 * minutes * share - time.monotonic()
