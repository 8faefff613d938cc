"""The strategies of sampled paths that ``train.strategy`` can name.

Where a strategy takes inner steps, the optimiser of the settings is that of the inner steps.
"""

from collections.abc import Callable
from typing import Any

from polyarch.errors import ConfigError
from polyarch.methods.one_shot import strategies
from polyarch.runs.run import Run
from polyarch.runs.training import Training, early_stopping, sgd, weight_splitting
from polyarch.strategies import OneShot


def single_path(run: Run) -> Training:
    """One random path per batch."""
    return _training(run, strategies.spos, q=run.allowed)


def fair(run: Run) -> Training:
    """Paths that use every operation once."""
    if run.allowed.space.constraints:
        raise ConfigError(
            "Expected no search.max_params and search.max_macs with train.strategy fair, whose paths use every "
            "operation. Got such a limit."
        )
    return _training(run, strategies.fairnas)


def multi_path(run: Run) -> Training:
    """Several random paths per batch."""
    return _training(run, strategies.multi_path, q=run.allowed, count=run.settings.train.paths)


def reptile(run: Run) -> Training:
    """Several steps on one path."""
    return _training(run, strategies.reptile, **_inner(run))


def meta_prox(run: Run) -> Training:
    """Several proximal steps on one path."""
    return _training(run, strategies.meta_prox, proximal=run.settings.train.proximal, **_inner(run))


def multi_path_meta_prox(run: Run) -> Training:
    """Several proximal steps on each of several paths."""
    train = run.settings.train
    return _training(run, strategies.multi_path_meta_prox, count=train.paths, proximal=train.proximal, **_inner(run))


def _inner(run: Run) -> dict[str, Any]:
    train = run.settings.train
    options = {"steps": train.inner_steps, "outer_rate": train.outer_rate, "same_batch": train.same_batch}
    return {**options, "q": run.allowed}


def _training(run: Run, make: Callable[..., OneShot], **options: Any) -> Training:
    optimizer = sgd(run.net, run.settings.train)
    strategy = make(run.net, optimizer, task=run.supernet_task, **options)
    return Training(strategy, optimizer, [*early_stopping(run), *weight_splitting(run, optimizer)])
