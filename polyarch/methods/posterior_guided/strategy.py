"""From settings to the training of a posterior over kept and dropped channels, and draws from it in brief."""

import math

from polyarch.errors import ConfigError
from polyarch.methods.posterior_guided.search import PosteriorSearch
from polyarch.methods.posterior_guided.settings import GuidedSettings
from polyarch.runs.run import Run
from polyarch.runs.training import Training, early_stopping
from polyarch.spaces import Architecture
from polyarch.supernets import GatedSupernet
from polyarch.training import Callback, WithinLimits
from polyarch.training.within_limits import DESCENT

GATED_SPACES = ("multi_branch", "enas", "inflated_resnet", "densenet", "residual_mlp")


def guided_training(run: Run) -> Training:
    """Kernels and a fresh posterior together, kept within the limits on size."""
    chosen, train, limits = run.settings.section(GuidedSettings), run.settings.train, run.counted_limits
    search = PosteriorSearch(
        length_scale=chosen.length_scale,
        prior_examples=chosen.prior_examples,
        drop=chosen.drop,
        temperature=chosen.temperature,
        constant_decay=chosen.constant_decay,
        q_rate_factor=chosen.q_rate_factor,
        learning_rate=train.learning_rate,
        momentum=train.momentum,
        weight_decay=train.weight_decay,
        depth_ratio=train.prior_ratio,
    )
    strategy = search.strategy(gated(run), num_data=len(run.feed.train), task=run.supernet_task)
    # What was better before the posterior is down at its limits may be too large.
    stopping = early_stopping(run, after=math.ceil(DESCENT * train.epochs) if limits.limits else 0)
    limiting: list[Callback] = [WithinLimits(strategy, limits, seed=run.settings.seed)] if limits.limits else []
    return Training(strategy, strategy.optimizer, [*stopping, *limiting])


def gated(run: Run) -> GatedSupernet:
    """The network of a run, which must have gates."""
    if not isinstance(run.net, GatedSupernet):
        raise ConfigError(
            f"Expected a space with gates for method {run.settings.method}: {', '.join(GATED_SPACES)}, or depth_fc, "
            f"depth_cnn or module with space.gated true. Got {run.settings.space.kind}."
        )
    return run.net


def masks(net: GatedSupernet, architecture: Architecture) -> dict[str, str]:
    """The channels that every gate keeps as ``1`` and those it drops as ``0``, and any other choice by name."""
    others = len(net.space.choices) - len(net.slice_space.choices)  # they come before the slices
    first = dict(zip(net.space.choice_names[:others], architecture.names[:others], strict=True))
    bits = net.by_gate(net.slices(architecture))
    return {**first, **{name: "".join("1" if kept else "0" for kept in row.tolist()) for name, row in bits.items()}}
