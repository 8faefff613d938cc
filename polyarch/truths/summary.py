"""What a built truth says, in words: the best, the spread, the noise between seeds, and what size explains."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from polyarch.ranking.correlations import correlation
from polyarch.truths.building import BuiltTruth


def in_sentences(built: BuiltTruth) -> list[str]:
    """One sentence for each finding; correlations where there are three or more networks."""
    means = built.accuracies.mean(axis=1)  # (networks,)
    best = int(means.argmax())
    low, middle, high = np.quantile(means, [0.0, 0.5, 1.0])
    sentences = [
        f"Best: {built.trained[best].key} with {means[best]:.2f} % test accuracy.",
        f"Spread of {len(means)} networks: {low:.2f} to {high:.2f} %, median {middle:.2f} %, "
        f"standard deviation {means.std(ddof=min(1, len(means) - 1)):.2f}.",
        _noise(built.accuracies),
    ]
    if len(means) > 2:
        sizes = np.array([built.table.value(architecture, "parameters") for architecture in built.trained])
        sentences.append(f"Spearman of parameters with accuracy: {_shown(correlation('spearman', sizes, means))}.")
    if built.failures:
        name, reason = next(iter(built.failures.items()))
        plural = "s" if len(built.failures) > 1 else ""
        sentences.append(f"Left out: {len(built.failures)} training{plural} that diverged, e.g. {name}: {reason}")
    return sentences


def _noise(accuracies: NDArray[np.float64]) -> str:
    """The pooled standard deviation between seeds, (networks, seeds), and how alike two seeds rank the networks."""
    networks, seeds = accuracies.shape
    if seeds == 1:
        return "Noise between seeds: not measured with one seed; --seeds 2 or more measures it."
    pooled = np.sqrt(accuracies.var(axis=1, ddof=1).mean())
    sentence = f"Noise between {seeds} seeds: standard deviation {pooled:.2f}"
    if networks > 2:
        alike = correlation("spearman", accuracies[:, 0], accuracies[:, 1])
        sentence += f"; two seeds rank the networks with Spearman {_shown(alike)}"
    return sentence + "."


def _shown(value: float | None) -> str:
    return "none, as one side does not vary" if value is None else f"{value:.2f}"
