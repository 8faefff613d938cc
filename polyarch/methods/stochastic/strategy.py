"""From settings to a training under many architectures: which they are, and what a step does."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from polyarch.distributions import Empirical
from polyarch.errors import ConfigError
from polyarch.methods.stochastic.recipes import nsa, nsa_i
from polyarch.randomness import generator_at
from polyarch.runs.draws import distinct_draws
from polyarch.runs.optimisers import sgd, smoothed_loss
from polyarch.runs.settings import RunSettings
from polyarch.searchers import Limits
from polyarch.spaces import Architecture, Space, erdos_renyi
from polyarch.strategies import Consistency, Strategy, WiringPass
from polyarch.supernets import Supernet, WiredSupernet


def drawn_wirings(space: Space, settings: RunSettings) -> list[Architecture]:
    """The wirings of a wired space that the seed draws."""
    chosen = settings.stochastic
    generator = generator_at(settings.seed, "wirings", 0)
    return erdos_renyi(space, chosen.architectures, chosen.edge_probability, generator=generator)


def drawn_architectures(net: Supernet, settings: RunSettings, limits: Limits) -> list[Architecture]:
    """The architectures that are trained: the wirings with weights of their own, or what the seed draws.

    Args:
        limits: counted ones alone, because measured ones would not give the same draws every time.
    """
    chosen = settings.stochastic
    if chosen.own_weights:
        if not isinstance(net, WiredSupernet):
            raise ConfigError(
                f"Expected stochastic.own_weights false for space {settings.space.kind}: only wirings have weights of "
                "their own. Got true."
            )
        if net.wirings is None or len(net.wirings) != chosen.architectures:
            raise ConfigError(
                f"Expected {chosen.architectures} space.wirings, as many as stochastic.architectures. "
                f"Got {len(net.wirings or ())}."
            )
        return _within(list(net.wirings), limits)
    if isinstance(net, WiredSupernet):
        if net.wirings is not None:
            raise ConfigError("Expected no space.wirings with stochastic.own_weights false. Got some.")
        return _within(drawn_wirings(net.space, settings), limits)
    return distinct_draws(limits, chosen.architectures, seed=settings.seed, stream="stochastic")


def stochastic_strategy(
    net: Supernet, settings: RunSettings, architectures: Sequence[Architecture], *, steps: int | None
) -> tuple[Strategy, torch.optim.Optimizer]:
    """The strategy with its optimiser.

    Args:
        steps: of the whole training, where it also learns from examples without labels.
    """
    chosen, loss = settings.stochastic, smoothed_loss(settings.train)
    optimizer = sgd(net, settings.train)
    if steps is None:
        make = nsa_i if chosen.draws == "example" else nsa
        return make(net, architectures, optimizer, loss=loss), optimizer
    passes = WiringPass(net, Empirical(net.space, architectures), per_example=chosen.draws == "example")
    consistency = Consistency(
        passes, optimizer, ramp_steps=round(chosen.ramp_share * steps), weight=chosen.consistency_weight, loss=loss
    )
    return consistency, optimizer


def refuse_settings_of_stochastic(settings: RunSettings) -> None:
    """Settings of this method mean nothing to others."""
    if settings.method == "stochastic":
        return
    for name, value in (("data.unlabelled", settings.data.unlabelled), ("space.wirings", _wirings(settings))):
        if value:
            raise ConfigError(f"Expected {name} with method stochastic only. Got method {settings.method!r}.")


def _wirings(settings: RunSettings) -> tuple[str, ...]:
    return getattr(settings.space, "wirings", ())


def _within(wirings: list[Architecture], limits: Limits) -> list[Architecture]:
    """All of them: wirings of one space cost the same, but for a few coefficients."""
    if not all(map(limits.allows, wirings)):
        raise limits.impossible()
    return wirings
