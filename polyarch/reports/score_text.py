"""Scores in words: accuracies in percent, errors in their own unit."""

from dataclasses import dataclass

from polyarch.predictive.metrics import Metric
from polyarch.reports.text import SPACE, figures, percent, points, signed
from polyarch.results import Estimate, Judged, Results


@dataclass(frozen=True)
class ScoreText:
    """How values of the metric that selection goes by are written.

    Args:
        examples: the number of test examples, where it is known.
    """

    metric: Metric
    examples: int | None = None

    @classmethod
    def of(cls, results: Results) -> "ScoreText":
        """That of a run."""
        return cls(results.task.selection, results.data.get("test"))

    @property
    def title(self) -> str:
        """What a person calls the metric."""
        return self.metric.title

    @property
    def heading(self) -> str:
        """The same with a capital letter first."""
        return self.title[:1].upper() + self.title[1:]

    @property
    def is_share(self) -> bool:
        """Whether values are written in percent."""
        return self.metric.unit == "share"

    @property
    def axis_format(self) -> str:
        """Of an axis."""
        return "~%" if self.is_share else ".3~g"

    @property
    def exact_format(self) -> str:
        """Of a tooltip."""
        return ".2%" if self.is_share else ".4~g"

    @property
    def unit(self) -> str:
        """Of a difference."""
        return "points" if self.is_share else f"in {self.title}"

    def value(self, value: float) -> str:
        """97.31 %, or 0.1234."""
        return percent(value) if self.is_share else figures(value)

    def measured(self, *runs: Judged, stream: str = "") -> Estimate:
        """The mean score of networks that were tested together."""
        return Estimate.of(runs, examples=self.examples if self.is_share else None, stream=stream)

    def score_of(self, *runs: Judged) -> str:
        """Their mean score with its interval."""
        return self.estimate(self.measured(*runs))

    def loss_of(self, *runs: Judged) -> str:
        """0.1234 [0.1100, 0.1368]: their mean negative log-likelihood with its interval."""
        return _four_decimals(Estimate.of(runs, "loss"))

    def log_p_of(self, one: Judged) -> str:
        """-0.1234 [-0.1368, -0.1100]: the mean log-likelihood with its interval."""
        return _four_decimals(Estimate.of([one], "loss").negated)

    def estimate(self, estimate: Estimate) -> str:
        """97.31 % [96.20, 98.40] with its interval, or the value alone where that is not known."""
        return f"{self.value(estimate.value)}{self._brackets(estimate.interval)}"

    def amount(self, difference: float) -> str:
        """1.20 percentage points, or 0.12."""
        return points(difference) if self.is_share else figures(difference)

    def signed(self, difference: float) -> str:
        """+1.20, in percentage points, or +0.12."""
        return signed(difference) if self.is_share else f"{'+' if difference > 0 else ''}{figures(difference)}"

    def signed_estimate(self, difference: Estimate) -> str:
        """+1.20 [0.10, 2.30], in percentage points, or +0.12."""
        return f"{self.signed(difference.value)}{self._brackets(difference.interval)}"

    def compared(self, difference: Estimate) -> str:
        """1.20 percentage points [0.10, 2.30] above, or 0.12 below; the same as, where there is no difference."""
        amount = self.amount(abs(difference.value))
        if amount == self.amount(0.0):
            return "the same as"
        interval, is_above = difference.interval, difference.value > 0
        if interval is not None and not is_above:
            interval = -interval[1], -interval[0]
        return f"{amount}{self._brackets(interval)} {'above' if is_above else 'below'}"

    def _brackets(self, interval: tuple[float, float] | None) -> str:
        """Numbers without a unit, which stands before."""
        if interval is None:
            return ""
        low, high = (f"{100 * end:.2f}" if self.is_share else figures(end) for end in interval)
        return f"{SPACE}[{low}, {high}]"


def _four_decimals(estimate: Estimate) -> str:
    value, interval = f"{estimate.value:.4f}", estimate.interval
    return value if interval is None else f"{value}{SPACE}[{interval[0]:.4f}, {interval[1]:.4f}]"
