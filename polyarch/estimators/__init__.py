"""Estimators: scores of architectures that leave the supernet unchanged."""

from polyarch.estimators.accuracy import ValAcc, ValAccMini
from polyarch.estimators.costs import Latency, MACs, Parameters, shared_macs
from polyarch.estimators.estimator import Estimator, Score
from polyarch.estimators.gradient_proxies import SNIP, Fisher, GradientNorm, GradientProxy, GraSP
from polyarch.estimators.input_proxies import JacobianCovariance, Zen
from polyarch.estimators.scoring import Failure, Scoring
from polyarch.estimators.short_run import OngoingRun, ShortRun, Trace
from polyarch.estimators.training_speed import SoG, SoGN, SoTL, SoVL, TLMini, TraceEstimator, ValAccAfter
from polyarch.estimators.windows import ExponentialAverage, LastPart, WholeRun, Window
from polyarch.estimators.zero_cost import NASWOT, SynFlow, ZeroCostEstimator
from polyarch.predictive import Goal

__all__ = [
    "NASWOT", "SNIP", "Estimator", "ExponentialAverage", "Failure", "Fisher", "Goal", "GraSP", "GradientNorm",
    "GradientProxy", "JacobianCovariance", "LastPart", "Latency", "MACs", "OngoingRun", "Parameters", "Score",
    "Scoring", "ShortRun", "SoG", "SoGN", "SoTL", "SoVL", "SynFlow", "TLMini", "Trace", "TraceEstimator", "ValAcc",
    "ValAccAfter", "ValAccMini", "WholeRun", "Window", "Zen", "ZeroCostEstimator", "shared_macs",
]  # fmt: skip
