"""Estimators: numbers for architectures, taken without touching the supernet."""

from polyarch.estimators.estimator import Estimator, Goal, Score
from polyarch.estimators.inherited import ValAcc, ValAccMini
from polyarch.estimators.scoring import Failure, Scoring, Tracing
from polyarch.estimators.short_run import Running, ShortRun
from polyarch.estimators.static import Latency, MACs, Parameters, shared_macs
from polyarch.estimators.trace import Trace
from polyarch.estimators.training_speed import SoG, SoGN, SoTL, SoVL, TLMini, TraceEstimator
from polyarch.estimators.windows import Average, LastPart, Whole, Window

__all__ = [
    "Average",
    "Estimator",
    "Failure",
    "Goal",
    "LastPart",
    "Latency",
    "MACs",
    "Parameters",
    "Running",
    "Score",
    "Scoring",
    "ShortRun",
    "SoG",
    "SoGN",
    "SoTL",
    "SoVL",
    "TLMini",
    "Trace",
    "TraceEstimator",
    "Tracing",
    "ValAcc",
    "ValAccMini",
    "Whole",
    "Window",
    "shared_macs",
]
