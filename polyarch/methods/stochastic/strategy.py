"""From settings to a training under many architectures: which they are, and what a step does."""

from polyarch.distributions import Empirical
from polyarch.errors import ConfigError
from polyarch.methods.stochastic.recipes import nsa
from polyarch.methods.stochastic.settings import StochasticSettings
from polyarch.randomness import generator_at
from polyarch.runs.run import Run, distinct_draws
from polyarch.runs.settings import RunSettings
from polyarch.runs.training import Training, early_stopping, sgd, weight_splitting
from polyarch.searchers import Limits
from polyarch.spaces import Architecture, Space, erdos_renyi
from polyarch.strategies import Consistency, Strategy, WiringPass
from polyarch.supernets import WiredSupernet


def drawn_wirings(space: Space, settings: RunSettings) -> list[Architecture]:
    """The wirings of a wired space that the seed draws."""
    chosen = settings.section(StochasticSettings)
    generator = generator_at(settings.seed, "wirings", 0)
    return erdos_renyi(space, chosen.architectures, chosen.edge_probability, generator=generator)


def drawn_architectures(run: Run) -> list[Architecture]:
    """The architectures that are trained, the same in every call: wirings with weights of their own, or drawn ones."""
    net, settings, limits = run.net, run.settings, run.counted_limits
    chosen = settings.section(StochasticSettings)
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


def stochastic_training(run: Run) -> Training:
    """One architecture for every batch or example; with unlabelled examples, also a distance between two answers."""
    train, chosen = run.settings.train, run.settings.section(StochasticSettings)
    task = run.supernet_task
    architectures = drawn_architectures(run)
    optimizer = sgd(run.net, train)
    if run.feed.unlabelled is None:
        strategy: Strategy = nsa(run.net, architectures, optimizer, draws=chosen.draws, task=task)
    else:
        steps = train.epochs * len(run.feed.training_batches(train.batch_size))
        passes = WiringPass(run.net, Empirical(run.net.space, architectures), draws=chosen.draws)
        ramp = round(chosen.ramp_share * steps)
        strategy = Consistency(passes, optimizer, ramp_steps=ramp, weight=chosen.consistency_weight, task=task)
    return Training(strategy, optimizer, [*early_stopping(run), *weight_splitting(run, optimizer)])


def _within(wirings: list[Architecture], limits: Limits) -> list[Architecture]:
    """All of them: wirings of one space cost the same, but for a few coefficients."""
    if not all(map(limits.allows, wirings)):
        raise limits.impossible()
    return wirings
