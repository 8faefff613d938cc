"""Estimators: numbers for architectures, taken without touching the supernet."""

from polyarch.estimators.estimator import Estimator, Goal, Score
from polyarch.estimators.inherited import ValAcc, ValAccMini
from polyarch.estimators.scoring import Failure, Scoring
from polyarch.estimators.short_run import SoTL
from polyarch.estimators.static import Latency, MACs, Parameters

__all__ = [
    "Estimator",
    "Failure",
    "Goal",
    "Latency",
    "MACs",
    "Parameters",
    "Score",
    "Scoring",
    "SoTL",
    "ValAcc",
    "ValAccMini",
]
