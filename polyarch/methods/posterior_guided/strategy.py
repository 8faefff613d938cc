"""From settings to the training of a posterior over kept and dropped channels."""

from __future__ import annotations

from polyarch.errors import ConfigError
from polyarch.methods.posterior_guided.search import PosteriorSearch
from polyarch.runs.gated_spaces import GATED_SPACES
from polyarch.runs.optimisers import smoothed_loss
from polyarch.runs.settings import RunSettings
from polyarch.strategies import PosteriorGuided
from polyarch.supernets import GatedSupernet, Supernet


def guided_strategy(net: Supernet, settings: RunSettings, *, num_data: int) -> PosteriorGuided:
    """The strategy with its optimiser and a fresh posterior."""
    chosen, train = settings.guided, settings.train
    search = PosteriorSearch(
        length_scale=chosen.length_scale,
        drop=chosen.drop,
        temperature=chosen.temperature,
        constant_decay=chosen.constant_decay,
        q_rate_factor=chosen.q_rate_factor,
        learning_rate=train.learning_rate,
        momentum=train.momentum,
        weight_decay=train.weight_decay,
        depth_ratio=train.prior_ratio,
    )
    return search.strategy(gated(net, settings), num_data=num_data, loss=smoothed_loss(train))


def gated(net: Supernet, settings: RunSettings) -> GatedSupernet:
    """The network of a run, which must have gates."""
    if not isinstance(net, GatedSupernet):
        raise ConfigError(
            f"Expected a space with gates for method posterior-guided: {', '.join(GATED_SPACES)}, or depth_fc, "
            f"depth_cnn or module with space.gated true. Got {settings.space.kind}."
        )
    return net


def refuse_gates_elsewhere(net: Supernet, settings: RunSettings) -> None:
    """Other methods have no use for gates."""
    if isinstance(net, GatedSupernet) and settings.method != "posterior-guided":
        raise ConfigError(
            f"Expected method posterior-guided for a network with gates. Got method {settings.method!r} and space "
            f"{settings.space.kind}."
        )
