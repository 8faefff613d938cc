"""What a network or a mixture of networks predicts, how sure it is, and whether that can be trusted."""

from polyarch.predictive.budget import JointCost, members_within
from polyarch.predictive.calibration import (
    ConfidenceBin,
    brier,
    calibration_error,
    fit_temperature,
    negative_log_likelihood,
    reliability,
)
from polyarch.predictive.corruptions import CORRUPTIONS, SEVERITIES, corrupt
from polyarch.predictive.early_exit import (
    LEAST_MASS,
    EarlyExit,
    ExitMeasure,
    ExitOutput,
    choose_confidence,
    exit_curve,
)
from polyarch.predictive.member_weights import posterior_weights, stacked_weights
from polyarch.predictive.mixture import Mixture
from polyarch.predictive.most_probable import most_probable
from polyarch.predictive.responsibilities import responsibilities
from polyarch.predictive.selective_prediction import RiskCoverageCurve, area, risk_coverage, threshold_at
from polyarch.predictive.uncertainty import (
    Detection,
    aupr,
    auroc,
    detect,
    entropy,
    fpr_at_tpr,
    max_probability,
    mutual_information,
    uncertainty_scores,
)

__all__ = [
    "CORRUPTIONS",
    "LEAST_MASS",
    "SEVERITIES",
    "ConfidenceBin",
    "JointCost",
    "RiskCoverageCurve",
    "Detection",
    "EarlyExit",
    "ExitMeasure",
    "ExitOutput",
    "Mixture",
    "area",
    "aupr",
    "auroc",
    "brier",
    "calibration_error",
    "choose_confidence",
    "corrupt",
    "detect",
    "entropy",
    "exit_curve",
    "fit_temperature",
    "fpr_at_tpr",
    "max_probability",
    "members_within",
    "most_probable",
    "mutual_information",
    "negative_log_likelihood",
    "posterior_weights",
    "reliability",
    "responsibilities",
    "risk_coverage",
    "stacked_weights",
    "uncertainty_scores",
    "threshold_at",
]
