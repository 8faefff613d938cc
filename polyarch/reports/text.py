"""Numbers and names as a reader expects them."""

from __future__ import annotations

import math
from collections.abc import Mapping

from markupsafe import Markup

from polyarch.reports.canvas import printable

SPACE = "\u00a0"
"""Between a number and its unit, so that a line does not break there."""

ASTRONOMIC = 10**24
"""Numbers from here on are shown by their order."""

ESTIMATORS = {
    "sotl": "training speed (SoTL)",
    "sotl_last": "training speed, last part (SoTL)",
    "sotl_ema": "training speed, exponential average (SoTL)",
    "sovl": "validation losses of a short run (SoVL)",
    "tl_mini": "training loss, one minibatch",
    "sog": "sum of gradients (SoG)",
    "sogn": "sum of gradient norms (SoGN)",
    "val_acc": "validation accuracy",
    "val_acc_mini": "validation accuracy, one minibatch",
    "params": "parameters",
    "macs": "multiply-accumulates",
    "latency": "seconds per forward pass",
}
MINIMISED = ("params", "macs", "latency")


def estimator_name(name: str) -> str:
    """What an estimator measures, in words."""
    return ESTIMATORS.get(name, name)


def key_of(architecture: Mapping[str, str]) -> str:
    """The short text that tells architectures of one space apart."""
    return "|".join(architecture.values())


def breakable(key: str) -> Markup:
    """A key that a line may break between options, and only where nothing else helps inside of one."""
    return Markup("|<wbr>").join(printable(part) for part in key.split("|"))


def percent(share: float) -> str:
    """0.9731 -> 97.31 %."""
    return f"{100 * share:.2f}{SPACE}%"


def points(difference: float) -> str:
    """0.012 -> 1.20 points: a difference of two percentages."""
    return f"{100 * difference:.2f}{SPACE}points"


def with_spread(mean: float, std: float | None) -> str:
    """97.31 % ± 0.20, or the mean alone where no spread is known."""
    return percent(mean) if std is None else f"{percent(mean)}{SPACE}±{SPACE}{100 * std:.2f}"


def count(value: float) -> str:
    """12345 -> 12,345; fractions keep up to six digits, and of astronomic numbers the power of ten is told."""
    if isinstance(value, int) and abs(value) >= ASTRONOMIC:  # may be too large for a float, and for Python to print
        return f"about{SPACE}10^{math.log10(abs(value)):,.0f}"
    if math.isfinite(value) and value == int(value):
        return f"{int(value):,}"
    return f"{value:,.6g}"


def figures(value: float) -> str:
    """A score with four significant digits, large numbers in full."""
    return f"{value:,.0f}" if abs(value) >= 1e4 else f"{value:#.4g}".rstrip(".")


def several(number: int, noun: str) -> str:
    """1 seed, 3 seeds."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def in_words(limits: Mapping[str, float]) -> str:
    """The limits of a search: parameters at most 100,000; ..."""
    return "; ".join(f"{estimator_name(name)} at most {count(value)}" for name, value in limits.items())
