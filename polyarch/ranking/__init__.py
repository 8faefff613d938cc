"""How well predicted scores rank architectures against the truth, and how far to trust them without one."""

from polyarch.ranking.bootstrap import Interval
from polyarch.ranking.consistency import SelfConsistency, self_consistency
from polyarch.ranking.curves import accumulated, correlation_along
from polyarch.ranking.halving import (
    Elimination,
    geometric_rungs,
    halving_counts,
    halving_on_curves,
    halving_steps,
    successive_halving,
    top_kept,
)
from polyarch.ranking.improvement import ImprovementCurve, improvement
from polyarch.ranking.norm_modes import NormModes, norm_modes
from polyarch.ranking.quality import RankQuality, rank_quality, regret, top_k
from polyarch.ranking.top import TopOne, top_one
from polyarch.ranking.trust import Trust, trust

__all__ = [
    "Elimination",
    "ImprovementCurve",
    "Interval",
    "NormModes",
    "RankQuality",
    "SelfConsistency",
    "TopOne",
    "Trust",
    "accumulated",
    "correlation_along",
    "geometric_rungs",
    "halving_counts",
    "halving_on_curves",
    "halving_steps",
    "improvement",
    "norm_modes",
    "rank_quality",
    "regret",
    "self_consistency",
    "successive_halving",
    "top_k",
    "top_kept",
    "top_one",
    "trust",
]
