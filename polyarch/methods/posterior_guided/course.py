"""How a posterior-guided search was done, in words."""

from __future__ import annotations

from collections.abc import Iterator

from polyarch.reports.words import SPACE, count, in_words, percent, several
from polyarch.results import GuidedRecord


def done(record: GuidedRecord) -> Iterator[str]:
    """The training, the draws, and what they were compared with."""
    groups, layers = len({layer.group for layer in record.layers}), len(record.layers)
    who = several(layers, "layer") if groups == layers else f"{several(groups, 'group')} of {several(layers, 'layer')}"
    yield (
        f"Kernels were trained together with one drop probability for each of {who}, {record.initial_drop:g} at the "
        f"start; every training example had a relaxed draw of its own, at temperature {record.temperature:g}."
    )
    yield _prior(record)
    if record.depths:
        yield "The depth has a posterior that was learned, too."
    yield (
        f"Then {several(len(record.guided), 'network')} were drawn from the posterior and judged on validation data "
        "with the weights that they came with; the best was kept."
    )
    yield from _limits(record)
    if record.random:
        rate = "" if record.strength else f", {percent(record.keep_rate)}"
        yield (
            f"To compare with, {count(len(record.random))} were drawn at random: with one rate for all channels and "
            f"the same expected share of kept ones{rate}."
        )
    yield f"{several(record.members, 'draw')} form the mixture, which averages their probabilities."


def _prior(record: GuidedRecord) -> str:
    scale = f"d{SPACE}={SPACE}{record.length_scale:.4g} (d²{SPACE}={SPACE}{record.length_scale**2:.4g})"
    if record.constant_decay is None:
        return f"The length scale of the prior is {scale}: a larger one makes smaller networks."
    return (
        f"Kernels had a constant decay of {record.constant_decay:g}, whatever their drop probability, in place of the "
        f"prior's d² (1 - p) / 2N with length scale {scale}."
    )


def _limits(record: GuidedRecord) -> Iterator[str]:
    known = {"params": record.max_params, "macs": record.max_macs}
    limits = {name: value for name, value in known.items() if value is not None}
    if limits:
        how = "beyond them were refused" if not record.strength else "were made smaller to keep the limits"
        why = (
            f" (strength {count(record.strength)}), as hardly any of the posterior's own do" if record.strength else ""
        )
        yield f"Limits: {in_words(limits)}. The posterior was kept within them while it was learned. Draws {how}{why}."
