"""What is chosen for a user who asks for a depth: a network, a schedule and a rule, each with its reason in words."""

from collections.abc import Iterator, Mapping
from typing import Any

from polyarch.data import Dataset
from polyarch.estimators import MACs
from polyarch.methods.depth.choice import require_depths
from polyarch.runs.display import several
from polyarch.runs.own_module import Builder
from polyarch.runs.run import Run
from polyarch.runs.settings import RunSettings
from polyarch.runs.suggestion import (
    FEWEST_EPOCHS,
    SMALLEST_EXAMPLE,
    WORK,
    SpaceProposal,
    Suggestion,
    epochs_within,
    merged,
    trial,
    validation_share,
)
from polyarch.supernets import DepthSupernet, GatedDepthSupernet

FULL_BATCH = 512
"""Training sets up to this size are one batch, as in Antorán et al. (2020); the bound is then known exactly."""
FULL_BATCH_EPOCHS, FULL_BATCH_PATIENCE = 3000, 500

SMALL_DATA = 2000
"""Training sets up to this size take the most probable depth of the exact posterior.

For larger ones this is nearly always the deepest: a depth that fits every example a little better is exp(N) times as
probable. The learned q stays broad there, and Antorán et al. (2020) read it by the 95 % rule: the smallest depth after
which q hardly rises.
"""

SHARE_OF_WORK = 0.5
"""What networks of fixed depths cost on average, of a network of full depth."""

RATE, CAREFUL_RATE = 0.1, 0.01
"""Learning rates: that of Antorán et al. (2020), and one for numbers in the user's own networks.

The errors of numbers have no bound, and residual networks diverge at the higher rate unless they start at zero."""


def suggest_depth(asked: RunSettings, data: Dataset, builder: Builder | None, *, learned: bool) -> Suggestion:
    """A network and a schedule for this data; a space that was named is kept.

    Args:
        learned: whether the depth is learned in one training, or one of several networks of fixed depth is chosen.
    """
    found: dict[str, Any] = {"data": {"validation": validation_share(data)}}
    if asked.space.kind == "auto":
        proposal, run = _widest(asked, data, found)
        found["space"], reason = proposal.settings, proposal.reason
    else:
        run = trial(asked, data, found, builder)
        require_depths(run)
        reason = "your own network" if asked.space.kind == "module" else "as asked for"
    schedule = _schedule(run, learned=learned)
    taken = merged(schedule, asked.model_dump(mode="json", exclude_unset=True))
    examples = len(run.feed.train)
    section = taken["train" if learned else "retrain"]
    chosen = "validation loss chooses the depth"
    if learned:
        chosen = "rule {rule} chooses the depth from the {posterior} posterior".format(**taken["depth"])
    batch = section["batch_size"]
    how = "full batches" if batch >= examples else f"batches of {batch}"
    reasons = [
        f"space {run.settings.space.kind}: {reason}",
        f"schedule: up to {several(section['epochs'], 'epoch')} of {examples:,} training examples in {how}; {chosen}",
    ]
    return Suggestion({**found, **schedule}, reasons, run)


def _widest(asked: RunSettings, data: Dataset, found: Mapping[str, Any]) -> tuple[SpaceProposal, Run]:
    """The widest network with which enough epochs fit into the work, with its run."""
    for proposal in _proposals(data):
        run = trial(asked, data, {**found, "space": proposal.settings})
        if WORK / _epoch_work(run) >= FEWEST_EPOCHS:
            break
    return proposal, run


def _proposals(data: Dataset) -> Iterator[SpaceProposal]:
    """Networks from wide to narrow."""
    if not data.is_image or min(data.input_shape[1:]) < 6:
        width = 20 if data.input_shape == (2,) else 64
        reason = f"a fully connected residual network of width {width}"
        yield SpaceProposal({"kind": "depth_fc", "width": width}, reason)
        return
    for channels in (64, 32, 16):
        yield SpaceProposal(
            {"kind": "depth_cnn", "channels": channels, "inner_channels": channels // 2},
            f"a convolutional residual network of {channels} channels",
        )


def _epoch_work(run: Run) -> float:
    """Multiply-accumulates of an epoch at full depth."""
    example = MACs(run.feed.example.inputs).score(run.net, run.net.space.members[-1])
    return max(example, SMALLEST_EXAMPLE) * len(run.feed.train)


def _schedule(run: Run, *, learned: bool) -> dict[str, Any]:
    """The protocol of Antorán et al. (2020), in as many epochs as the work allows."""
    examples = len(run.feed.train)
    is_own = not isinstance(run.net, DepthSupernet | GatedDepthSupernet)
    rate = CAREFUL_RATE if run.task.starts_at_zero and is_own else RATE
    protocol = {"momentum": 0.5, "weight_decay": 0.0, "learning_rate": rate}
    if examples <= FULL_BATCH:
        schedule = {"epochs": FULL_BATCH_EPOCHS, "batch_size": examples, "final_learning_rate": rate, **protocol}
        patience = FULL_BATCH_PATIENCE
    else:
        epochs = epochs_within(_epoch_work(run))
        schedule = {"epochs": epochs, "batch_size": 128 if examples > 4000 else 64, **protocol}
        patience = max(epochs // 3, 3)
    if learned:
        is_small = examples <= SMALL_DATA
        rule = {"rule": "argmax", "posterior": "exact"} if is_small else {"rule": "95%", "posterior": "learned"}
        return {"train": {"strategy": "variational", "patience": patience, **schedule}, "depth": rule}
    return {"retrain": {"seeds": 1, **schedule}}
