"""The preprocessing of table rows: scaled numbers and one-hot categories, or categories as indices."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from torch import Tensor

from polyarch.data.columns import Column
from polyarch.data.examples import Examples, resident
from polyarch.data.named_inputs import NamedInputs
from polyarch.data.quantile_scaling import Knots, piecewise_linear, quantile_knots
from polyarch.errors import DataError

TABLE_STATISTICS = ("medians", "means", "stds", "marked")

NumberScaling = Literal["standard", "quantile"]
"""How the numbers of a table are scaled: to mean 0 and standard deviation 1, or so that their ranks are normal."""


@dataclass(frozen=True)
class TableStatistics:
    """What is known of the columns of a table from its training rows; subclasses make network inputs with it.

        number    (x - mean) / std, mapped by ``knots`` if there are some; a missing x is replaced by the median
        mark      1 if x is missing, else 0; for each numeric column with missing values in training

    Mean and std are computed on training values after imputation.
    """

    kind: ClassVar[str]

    columns: tuple[Column, ...]  # the columns of the raw rows (N, columns)
    medians: tuple[float, ...]  # one per numeric column, like means and stds
    means: tuple[float, ...]
    stds: tuple[float, ...]
    marked: tuple[int, ...]  # the numeric columns that get a mark, counted among the numeric ones
    knots: tuple[Knots, ...] = ()  # of every numeric column, where numbers are scaled by quantiles

    @classmethod
    def of(cls, train: Examples, columns: Sequence[Column], *, numbers: NumberScaling = "standard") -> Self:
        """Fits the statistics on training rows; a column that never varies gets std 1, an empty one median 0."""
        rows = resident(train).inputs.double().numpy()
        statistics: list[tuple[float, float, float]] = []
        knots: list[Knots] = []
        marked: list[int] = []
        for index in _numeric(columns):
            values = rows[:, index]
            missing = np.isnan(values)
            if missing.any():
                marked.append(len(statistics))
            median = 0.0 if missing.all() else float(np.median(values[~missing]))
            filled = np.where(missing, median, values)
            std = float(filled.std())  # tiny but not zero for a constant column, due to rounding
            varies = filled.min() < filled.max() and std > np.finfo(np.float32).tiny
            mean, std = float(filled.mean()), std if varies else 1.0
            statistics.append((median, mean, std))
            if numbers == "quantile":
                knots.append(quantile_knots((filled - mean) / std))
        medians, means, stds = zip(*statistics, strict=True) if statistics else ((), (), ())
        return cls(tuple(columns), medians, means, stds, tuple(marked), tuple(knots))

    def numbers(self, inputs: Tensor) -> list[Tensor]:
        """The scaled numbers and the marks, (B, ...) each, without those that no column needs."""
        numeric = _numeric(self.columns)
        if not numeric:
            return []
        device = inputs.device
        numbers = inputs.index_select(1, torch.tensor(numeric, device=device))
        missing = numbers.isnan()
        medians, means, stds = (
            torch.tensor(values, dtype=torch.float32, device=device) for values in (self.medians, self.means, self.stds)
        )
        scaled = (torch.where(missing, medians, numbers) - means) / stds
        parts = [piecewise_linear(scaled, self.knots) if self.knots else scaled]
        if self.marked:
            parts.append(missing.index_select(1, torch.tensor(self.marked, device=device)).float())
        return parts

    def require_rows(self, input_shape: tuple[int, ...]) -> None:
        """Refuses examples that are not rows of the table."""
        if input_shape != (len(self.columns),):
            raise DataError(f"Expected rows of {len(self.columns)} columns. Got examples of shape {input_shape}.")

    def to_dict(self) -> dict[str, Any]:
        """Plain values, to write to a file; `preprocessing_from` reads them."""
        numbers = {name: list(getattr(self, name)) for name in TABLE_STATISTICS}
        if self.knots:
            numbers["knots"] = [[list(knot) for knot in column] for column in self.knots]
        return {"kind": self.kind, "columns": [column.to_dict() for column in self.columns], **numbers}


class TableEncoding(TableStatistics):
    """Turns table rows into features: scaled numbers, marks for missing numbers, one-hot categories.

    They are in this order, each in the order of the columns. A category that is missing or unknown is all zeros.
    """

    kind = "table"

    def __call__(self, inputs: Tensor) -> Tensor:
        """(B, columns) raw rows -> (B, features) floats."""
        device = inputs.device
        parts = self.numbers(inputs)
        places = [
            (index, category)
            for index, column in enumerate(self.columns)
            for category in range(len(column.categories or ()))
        ]
        if places:  # NaN and -1 match no category
            index, category = torch.tensor(places, device=device).unbind(1)
            parts.append((inputs.index_select(1, index) == category).float())
        return torch.cat(parts, 1)

    def output_shape(self, input_shape: tuple[int, ...]) -> tuple[int, ...]:
        """(columns,) -> (features,)."""
        self.require_rows(input_shape)
        categories = sum(len(column.categories or ()) for column in self.columns)
        return (len(self.means) + len(self.marked) + categories,)

    @property
    def sizes(self) -> dict[str, Any]:
        """No indices."""
        return {}


class TableIndices(TableStatistics):
    """Turns table rows into two inputs, for networks that embed categories.

    numeric      (B, numbers + marks) floats
    categorical  (B, categorical columns) int64: 0 if missing or unknown, 1 + its index for a known category
    """

    kind = "table indices"

    def __call__(self, inputs: Tensor) -> NamedInputs:
        """(B, columns) raw rows -> ``numeric`` and ``categorical``."""
        numbers = self.numbers(inputs) or [inputs[:, :0]]
        categorical = torch.tensor(_categorical(self.columns), dtype=torch.int64, device=inputs.device)
        codes = inputs.index_select(1, categorical).nan_to_num(-1.0).long() + 1  # the code of an unknown one is -1
        known = (codes > 0) & (codes < torch.tensor(self.sizes["categories"], dtype=torch.int64, device=codes.device))
        return NamedInputs.unchecked({"numeric": torch.cat(numbers, 1), "categorical": codes * known})

    def output_shape(self, input_shape: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
        """(columns,) -> the shapes of ``numeric`` and ``categorical``."""
        self.require_rows(input_shape)
        return {"numeric": (len(self.means) + len(self.marked),), "categorical": (len(_categorical(self.columns)),)}

    @property
    def sizes(self) -> dict[str, Any]:
        """``categories``: the number of indices of every categorical column."""
        known = [column.categories for column in self.columns if column.categories is not None]
        return {"categories": tuple(len(categories) + 1 for categories in known)}


def _numeric(columns: Sequence[Column]) -> list[int]:
    return [index for index, column in enumerate(columns) if column.categories is None]


def _categorical(columns: Sequence[Column]) -> list[int]:
    return [index for index, column in enumerate(columns) if column.categories is not None]
