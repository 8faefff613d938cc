"""The findings of a built truth: the best network, the spread, the noise between seeds, and the effect of size."""

import numpy as np
from numpy.typing import NDArray

from polyarch.ranking.correlations import correlation
from polyarch.runs.display import several
from polyarch.truths.building import BuiltTruth


def summary_sentences(built: BuiltTruth) -> list[str]:
    """One sentence per finding; correlations need three or more networks."""
    means = built.accuracies.mean(axis=1)  # (networks,)
    best = int(means.argmax())
    low, middle, high = np.quantile(means, [0.0, 0.5, 1.0])
    sentences = [
        f"Best: {built.trained[best].key} with {means[best]:.2f} % test accuracy.",
        f"Spread of {several(len(means), 'network')}: {low:.2f} to {high:.2f} %, median {middle:.2f} %, "
        f"standard deviation {means.std(ddof=min(1, len(means) - 1)):.2f}.",
        _noise(built.accuracies),
    ]
    if len(means) > 2:
        sizes = np.array([built.table.value(architecture, "parameters") for architecture in built.trained])
        sentences.append(f"Spearman of parameters with accuracy: {_shown(correlation('spearman', sizes, means))}.")
    if built.failures:
        name, reason = next(iter(built.failures.items()))
        sentences.append(f"Left out: {several(len(built.failures), 'training')} that diverged, e.g. {name}: {reason}")
    return sentences


def _noise(accuracies: NDArray[np.float64]) -> str:
    """The pooled standard deviation between seeds of (networks, seeds), and the rank correlation of two seeds."""
    networks, seeds = accuracies.shape
    if seeds == 1:
        return "Noise between seeds: not measured with one seed; --seeds 2 or more measures it."
    pooled = np.sqrt(accuracies.var(axis=1, ddof=1).mean())
    sentence = f"Noise between {seeds} seeds: standard deviation {pooled:.2f}"
    if networks > 2:
        agreement = correlation("spearman", accuracies[:, 0], accuracies[:, 1])
        sentence += f"; Spearman of two seeds {_shown(agreement)}"
    return sentence + "."


def _shown(value: float | None) -> str:
    return "undefined, as one side is constant" if value is None else f"{value:.2f}"
