"""Predictions of networks and mixtures, their uncertainty, and how well it is calibrated."""

from polyarch.predictive.calibration import (
    ConfidenceBin,
    brier,
    calibration_error,
    fit_temperature,
    negative_log_likelihood,
    reliability,
)
from polyarch.predictive.corruptions import CORRUPTIONS, SEVERITIES, corrupt
from polyarch.predictive.early_exit import EarlyExit, ExitMeasure, choose_confidence, exit_curve
from polyarch.predictive.member_selection import members_within, most_probable
from polyarch.predictive.member_weights import posterior_weights, responsibilities, stacked_weights
from polyarch.predictive.mixture import Mixture
from polyarch.predictive.selective_prediction import RiskCoverageCurve, risk_coverage, threshold_at
from polyarch.predictive.uncertainty import Detection, detect, entropy, mutual_information, uncertainty_scores

__all__ = [
    "CORRUPTIONS", "SEVERITIES", "ConfidenceBin", "Detection", "EarlyExit", "ExitMeasure", "Mixture",
    "RiskCoverageCurve", "brier", "calibration_error", "choose_confidence", "corrupt", "detect", "entropy",
    "exit_curve", "fit_temperature", "members_within", "most_probable", "mutual_information", "negative_log_likelihood",
    "posterior_weights", "reliability", "responsibilities", "risk_coverage", "stacked_weights", "threshold_at",
    "uncertainty_scores",
]  # fmt: skip
