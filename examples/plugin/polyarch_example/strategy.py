"""A strategy: a supernet trained by single paths of which small ones are drawn more often."""

from __future__ import annotations

from polyarch.distributions import Empirical
from polyarch.methods.one_shot import spos
from polyarch.runs.run import Run
from polyarch.runs.training import Training, sgd

POOL = 64


def narrow_first(run: Run) -> Training:
    """One path per batch out of a pool, with a probability inverse to its number of parameters."""
    pool = run.draw(POOL, "narrow first")
    weights = [1 / run.net.parameter_count(architecture) for architecture in pool]
    optimizer = sgd(run.net, run.settings.train)
    q = Empirical(run.net.space, pool, weights)
    return Training(spos(run.net, optimizer, q=q, task=run.supernet_task), optimizer)
