"""Scores in words: accuracies in percent, errors in their own unit."""

from dataclasses import dataclass

from polyarch.predictive.metrics import Metric
from polyarch.reports.text import SPACE, compared, figures, percent, points, signed, with_spread
from polyarch.results import Results


@dataclass(frozen=True)
class ScoreText:
    """How values of the metric that selection goes by are written."""

    metric: Metric

    @classmethod
    def of(cls, results: Results) -> "ScoreText":
        """That of a run."""
        return cls(results.task.selection)

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

    def with_spread(self, mean: float, std: float | None) -> str:
        """97.31 % ± 0.20, or the mean alone where no spread is known."""
        if self.is_share:
            return with_spread(mean, std)
        return figures(mean) if std is None else f"{figures(mean)}{SPACE}±{SPACE}{figures(std)}"

    def amount(self, difference: float) -> str:
        """1.20 percentage points, or 0.12."""
        return points(difference) if self.is_share else figures(difference)

    def signed(self, difference: float) -> str:
        """+1.20, in percentage points, or +0.12."""
        return signed(difference) if self.is_share else f"{'+' if difference > 0 else ''}{figures(difference)}"

    def compared(self, difference: float) -> str:
        """1.20 percentage points above, or 0.12 below; the same as, where there is no difference."""
        if self.is_share:
            return compared(difference)
        if difference == 0:
            return "the same as"
        return f"{figures(abs(difference))} {'above' if difference > 0 else 'below'}"
