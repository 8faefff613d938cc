"""Numbers and names as a reader expects them."""

import math
from collections.abc import Mapping, Sequence

from markupsafe import Markup

from polyarch.reports.canvas import printable
from polyarch.results import CalibrationRecord
from polyarch.runs.display import several as several

SPACE = "\u00a0"
"""Between a number and its unit, so that no line breaks there."""

ASTRONOMIC = 10**24
"""Numbers from here on are shown as powers of ten."""

ESTIMATORS = {
    "sotl": "training speed (SoTL)",
    "sotl_last": "training speed, last part (SoTL)",
    "sotl_ema": "training speed, exponential average (SoTL)",
    "sovl": "validation losses of a short run (SoVL)",
    "tl_mini": "training loss, one minibatch",
    "sog": "sum of gradients (SoG)",
    "sogn": "sum of gradient norms (SoGN)",
    "val_acc": "validation score",
    "val_acc_mini": "validation score, one minibatch",
    "val_acc_after": "validation score after a short run",
    "params": "parameters",
    "macs": "multiply-accumulates",
    "latency": "seconds per forward pass",
    "synflow": "synaptic flow, untrained (SynFlow)",
    "naswot": "distinct activations, untrained (NASWOT)",
    "jacob_cov": "distinct gradients of inputs, untrained",
    "zen": "change of features, untrained (Zen)",
    "grad_norm": "norm of the gradient, untrained",
    "snip": "sensitivity to connections, untrained (SNIP)",
    "grasp": "gradient flow, untrained (GraSP)",
    "fisher": "sensitivity to channels, untrained (Fisher)",
}


def estimator_name(name: str) -> str:
    """What an estimator measures; the name itself where it is not one of ours."""
    return ESTIMATORS.get(name, name)


def key_of(architecture: Mapping[str, str]) -> str:
    """The short text that tells architectures of one space apart."""
    return "|".join(architecture.values())


def breakable(key: str) -> Markup:
    """A key that may break between options."""
    return Markup("|<wbr>").join(printable(part) for part in key.split("|"))


def with_noise(error: float, noise: CalibrationRecord | None) -> str:
    """A calibration error with its interval and its noise floor: 0.0268 (0.0011 to 0.0345, noise alone 0.0312)."""
    shown = f"{error:.4f}"
    return shown if noise is None else f"{shown} ({noise.low:.4f} to {noise.high:.4f}, noise alone {noise.floor:.4f})"


def percent(share: float, digits: int = 2) -> str:
    """0.9731 -> 97.31 %."""
    return f"{100 * share:.{digits}f}{SPACE}%"


def points(difference: float) -> str:
    """0.012 -> 1.20 percentage points."""
    return f"{100 * difference:.2f}{SPACE}percentage points"


def signed(difference: float) -> str:
    """0.012 -> +1.20, in percentage points."""
    return f"{100 * difference:+.2f}"


def count(value: float) -> str:
    """12345 -> 12,345; fractions keep up to six digits, astronomic numbers only their power of ten."""
    if isinstance(value, int) and abs(value) >= ASTRONOMIC:  # may be too large for a float, and for Python to print
        return f"about{SPACE}10^{math.log10(abs(value)):,.0f}"
    if math.isfinite(value) and value == int(value):
        return f"{int(value):,}"
    return f"{value:,.6g}"


def figures(value: float) -> str:
    """A score with four significant digits, large numbers in full."""
    return f"{value:,.0f}" if abs(value) >= 1e4 else f"{value:#.4g}".rstrip(".")


def listed(items: Sequence[str]) -> str:
    """a, b and c."""
    *most, last = items
    return f"{', '.join(most)} and {last}" if most else last


def the(name: str) -> str:
    """A name inside a sentence: the best draw; the best draw, trained further,"""
    return f"the {name}," if "," in name else f"the {name}"


def limits_text(limits: Mapping[str, float]) -> str:
    """The limits of a search: at most 100,000 parameters and ..."""
    return "; ".join(f"{estimator_name(name)} at most {count(value)}" for name, value in limits.items())
