"""Training of several depth networks of one shape as one batched computation: what each does is what it would do alone.

Small networks spend their time between operations, so that several side by side take little longer than one.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from polyarch.data import BatchSource
from polyarch.distributions import Categorical
from polyarch.errors import InvalidInput
from polyarch.methods.depth.search import DepthSearch, DepthTraining, depth_prior
from polyarch.supernets import FullyConnectedDepth
from polyarch.training import History, fit
from polyarch_experiments.depth.replica_stopping import ReplicaStopping
from polyarch_experiments.depth.replicas import FullyConnectedReplicas
from polyarch_experiments.depth.replicated import (
    Replicated,
    ReplicatedDepths,
    ReplicatedSupervised,
    ReplicatedVariational,
    loss_name,
)
from polyarch_experiments.depth.stacked_batches import StackedBatches


def search_together(
    search: DepthSearch, nets: Sequence[FullyConnectedDepth], sources: Sequence[BatchSource], *, seed: int
) -> list[tuple[FullyConnectedDepth, Categorical, History]]:
    """Learns the depth of several networks, each with its own data and its own q.

    Each does what `DepthSearch.fit` without validation examples would do, up to rounding. ``nets`` stay as they are.
    """
    if search.updates != "gradient":
        raise InvalidInput(f"Expected updates by the gradient for networks side by side. Got {search.updates!r}.")
    together = _replicas(nets, sources)
    prior = depth_prior(nets[0].space, search.prior, search.prior_ratio).to(together.weight)
    q = ReplicatedDepths(together.replicas, prior.log_probabilities()).to(together.weight.device)
    optimizer = search.joint_optimizer(together, q)
    num_data = sources[0].num_examples
    strategy = ReplicatedVariational(together, q, optimizer, num_data=num_data)
    histories = _run(search, strategy, optimizer, sources, seed=seed)
    found = []
    for net, logits, history in zip(together.split(), q.logits[0].detach(), histories, strict=True):
        for row in history.rows:
            row["elbo"] = -row["loss"] * num_data
        found.append((net, Categorical(net.space, logits), history))
    return found


def train_together(
    training: DepthTraining, nets: Sequence[FullyConnectedDepth], sources: Sequence[BatchSource], *, seed: int
) -> list[tuple[FullyConnectedDepth, History]]:
    """Trains several networks at their full depth, each on its own data; ``nets`` stay as they are."""
    together = _replicas(nets, sources)
    optimizer = training.optimizer(together)
    histories = _run(training, ReplicatedSupervised(together, optimizer), optimizer, sources, seed=seed)
    return list(zip(together.split(), histories, strict=True))


def _replicas(nets: Sequence[FullyConnectedDepth], sources: Sequence[BatchSource]) -> FullyConnectedReplicas:
    if len(nets) != len(sources):
        raise InvalidInput(f"Expected a source of data for every network. Got {len(sources)} for {len(nets)}.")
    return FullyConnectedReplicas(nets)


def _run(
    training: DepthTraining,
    strategy: Replicated,
    optimizer: torch.optim.Optimizer,
    sources: Sequence[BatchSource],
    *,
    seed: int,
) -> list[History]:
    """Trains every replica until its own objective stops getting better."""
    stopping = ReplicaStopping(patience=training.patience)
    train = StackedBatches(sources)
    callbacks = [*training.schedule(optimizer, len(train)), stopping]
    whole = fit(strategy, train, epochs=training.epochs, seed=seed, callbacks=callbacks)
    histories = []
    for replica, stopped in enumerate(stopping.stopped):
        rows = whole.rows if stopped is None else whole.rows[: stopped + 1]
        kept = ({"epoch": row["epoch"], "step": row["step"], "loss": row[loss_name(replica)]} for row in rows)
        histories.append(History(list(kept)))
    return histories
