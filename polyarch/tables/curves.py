"""Compact learning curves of many runs."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polyarch.errors import InvalidInput

MISSING = np.iinfo(np.uint16).max
"""Pads packed curves after the end of a shorter run."""


@dataclass(frozen=True, eq=False)
class Curves:
    """One measure of every run, (runs, epochs): float32 padded with NaN, or uint16 multiples of ``step``."""

    values: NDArray[Any]
    step: float | None = None
    _lengths: NDArray[np.int32] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        kind = np.float32 if self.step is None else np.uint16
        if self.values.ndim != 2 or self.values.dtype != kind:
            raise InvalidInput(
                f"Expected curves of shape (runs, epochs) as {np.dtype(kind)}. "
                f"Got {self.values.dtype} of shape {self.values.shape}."
            )
        if self.step is not None and not (np.isfinite(self.step) and self.step > 0):
            raise InvalidInput(f"Expected the step of packed curves to be a positive number. Got {self.step}.")
        present = ~np.isnan(self.values) if self.step is None else self.values != MISSING
        lengths = present.sum(axis=1, dtype=np.int32)
        if self.values.shape[1] and (present[:, 1:] & ~present[:, :-1]).any():
            raise InvalidInput("Expected curves without gaps. Got a missing epoch before the end of a run.")
        object.__setattr__(self, "_lengths", lengths)

    @classmethod
    def plain(cls, values: ArrayLike) -> "Curves":
        """Curves as float32; NaN after the end of a shorter run."""
        return cls(np.ascontiguousarray(values, dtype=np.float32))

    @classmethod
    def packed(cls, values: ArrayLike, step: float) -> "Curves":
        """Curves rounded to multiples of a step, in half the memory."""
        given = np.asarray(values, dtype=np.float64)
        counts = np.where(np.isnan(given), MISSING, np.rint(given / step))
        if counts.size and (counts.min() < 0 or counts[~np.isnan(given)].max(initial=0) >= MISSING):
            raise InvalidInput(f"Expected values in [0, {MISSING * step:g}) to pack by {step:g}. Got one outside.")
        return cls(counts.astype(np.uint16), step)

    def __len__(self) -> int:
        return len(self.values)

    def row(self, index: int) -> NDArray[np.float64]:
        """The curve of one run without padding: (epochs of this run,)."""
        values = self.values[index, : self._lengths[index]].astype(np.float64)
        return values if self.step is None else values * self.step

    def array(self) -> NDArray[np.float64]:
        """The curves of all runs, NaN after the end of a shorter one: (runs, epochs)."""
        if self.step is None:
            return self.values.astype(np.float64)
        return np.where(self.values == MISSING, np.nan, self.values * self.step)
