"""How well predicted scores rank architectures against the truth, and how far to trust them without one."""

from polyarch.ranking.bootstrap import Interval
from polyarch.ranking.comparison import TOP, Comparison, Difference, TopArchitectures, compare_estimators
from polyarch.ranking.halving import (
    Elimination,
    geometric_rungs,
    halving_counts,
    halving_on_curves,
    halving_steps,
    successive_halving,
)
from polyarch.ranking.norm_modes import NormModes, norm_modes
from polyarch.ranking.quality import RankQuality, rank_quality, top_k
from polyarch.ranking.samples import RankSamples
from polyarch.ranking.trust import Trust, trust

__all__ = [
    "TOP", "Comparison", "Difference", "Elimination", "Interval", "NormModes", "RankQuality", "RankSamples",
    "TopArchitectures", "Trust", "compare_estimators", "geometric_rungs", "halving_counts", "halving_on_curves",
    "halving_steps", "norm_modes", "rank_quality", "successive_halving", "top_k", "trust",
]  # fmt: skip
