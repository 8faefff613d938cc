"""One run of a method: what every stage of it is given."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from polyarch.data import Dataset
from polyarch.distributions import Uniform
from polyarch.estimators import Estimator
from polyarch.executors import Executor, Processes, Serial
from polyarch.plugins import method_named
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
from polyarch.training import StopRequest

if TYPE_CHECKING:
    from polyarch.methods.method import Method


from collections.abc import Iterable

from torch import nn

from polyarch.randomness import generator_at
from polyarch.supernets import WiredSupernet

ATTEMPTS = 20
"""Draws for every architecture that is wanted."""


def distinct_draws(limits: Limits, n: int, *, seed: int, stream: str) -> list[Architecture]:
    """Up to n distinct random architectures that keep the limits; fewer only in a very small space."""
    found: dict[Architecture, None] = {}
    for position in range(ATTEMPTS * n):
        found[limits.sample(generator_at(seed, stream, position))] = None
        if len(found) == n:
            break
    return list(found)


def distinct_networks(net: Supernet, architectures: Iterable[Architecture], *, most: int) -> list[Architecture]:
    """The first of them that have other layers, or another wiring, than those before, up to ``most``."""
    found: dict[tuple[str, ...], Architecture] = {}
    for architecture in architectures:
        # All wirings have the same layers, and are different networks.
        is_wiring = isinstance(net, WiredSupernet)
        found.setdefault(architecture.names if is_wiring else _layers(net.extract(architecture)), architecture)
        if len(found) == most:
            break
    return list(found.values())


def _layers(network: nn.Module) -> tuple[str, ...]:
    """What a network is made of, in words."""
    return tuple(sorted(repr(module) for module in network.modules() if not list(module.children())))


@dataclass
class Run:
    """Settings, method, data, networks and folder of one run; it travels to worker processes.

    Args:
        net: the supernet, trained in place.
        until: the name of the last stage; all of them by default.
        started: when the clock of ``max_minutes`` started.
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
        indices = own is not None and asks_for_indices(own)
        feed = Feed.of(settings.data, settings.seed, settings.device, data, unlabelled, indices=indices)
        networks = Networks.of(settings.space, builder, feed.example, feed.data.classes, settings.device)
        net = networks.supernet(settings.seed)
        return cls(settings, method_named(settings.method), feed, networks, net, workspace, **others)

    def __getstate__(self) -> dict[str, Any]:
        """Without caches, and without what belongs to this process: display and stop request."""
        kept = {name: value for name, value in self.__dict__.items() if name in self.__dataclass_fields__}
        return {**kept, "display": Quiet(), "stop": StopRequest()}

    @cached_property
    def scores(self) -> Scores:
        """What estimators are made of."""
        return Scores(self.settings.scores, self.feed)

    def estimators(self, names: Sequence[str]) -> list[Estimator]:
        """Estimators by name; those of a short run share one."""
        return self.scores.estimators(names)

    @cached_property
    def limits(self) -> Limits:
        """The hard limits, cheap ones first."""
        return Limits(self.net, [*self.counted_limits.limits, *self._limited(latency=self.settings.search.max_latency)])

    @cached_property
    def counted_limits(self) -> Limits:
        """Those that can be counted: limits on measured latency would not give the same draws every time."""
        search = self.settings.search
        return Limits(self.net, self._limited(params=search.max_params, macs=search.max_macs))

    def _limited(self, **most: float | None) -> list[Limit]:
        asked = {name: value for name, value in most.items() if value is not None}
        return [Limit(cost, asked[cost.name]) for cost in self.estimators(tuple(asked))] if asked else []

    @cached_property
    def allowed(self) -> Uniform:
        """The uniform distribution over the architectures that keep the counted limits: others need no training."""
        if not self.counted_limits.limits:
            return Uniform(self.net.space)
        return Uniform(self.net.space.constrained(Constraint("limits kept", self.counted_limits.allows)))

    def draw(self, n: int, stream: str) -> list[Architecture]:
        """Up to n distinct random architectures that keep the limits; fewer only in a very small space."""
        return distinct_draws(self.limits, n, seed=self.settings.seed, stream=stream)

    def executor(self) -> Executor:
        """Worker processes, or this one."""
        return Serial() if self.settings.workers == 1 else Processes(self.settings.workers)

    def seconds_left(self, share: float = 1.0) -> float:
        """Until this share of ``max_minutes`` is over; infinity without that limit."""
        minutes = self.settings.max_minutes
        return math.inf if minutes is None else self.started + 60 * minutes * share - time.monotonic()
