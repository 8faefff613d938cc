"""Predictions of networks and mixtures, their uncertainty, how well it is calibrated, and metrics."""

from polyarch.predictive.calibration import (
    ConfidenceBin,
    brier,
    calibration_error,
    fit_temperature,
    negative_log_likelihood,
    reliability,
)
from polyarch.predictive.calibration_noise import CalibrationNoise, calibration_noise
from polyarch.predictive.classification_metrics import (
    accuracy,
    auroc,
    balanced_accuracy,
    macro_f1,
    set_coverage,
    set_size,
)
from polyarch.predictive.conformal_intervals import ConformalIntervals, IntervalMethod, fit_intervals
from polyarch.predictive.conformal_quantile import conformal_quantile, least_examples
from polyarch.predictive.conformal_sets import ConformalSets, SetMethod, fit_sets
from polyarch.predictive.corruptions import CORRUPTIONS, SEVERITIES, corrupt
from polyarch.predictive.early_exit import EarlyExit, ExitMeasure, choose_confidence, exit_curve
from polyarch.predictive.gaussian_mixture import GaussianMixture, fit_scale
from polyarch.predictive.member_selection import members_within, most_probable
from polyarch.predictive.member_weights import posterior_weights, responsibilities, stacked_weights
from polyarch.predictive.metrics import METRICS, Goal, Metric
from polyarch.predictive.mixture import Mixture
from polyarch.predictive.multi_label_metrics import (
    exact_match,
    label_accuracy,
    label_auroc,
    label_calibration_error,
    label_macro_f1,
    label_micro_f1,
)
from polyarch.predictive.regression_metrics import (
    crps,
    interval_coverage,
    interval_width,
    mae,
    mixture_negative_log_likelihood,
    r2,
    rmse,
)
from polyarch.predictive.selective_prediction import RiskCoverageCurve, risk_coverage, threshold_at
from polyarch.predictive.uncertainty import Detection, detect, entropy, mutual_information, uncertainty_scores

__all__ = [
    "CORRUPTIONS", "METRICS", "SEVERITIES", "CalibrationNoise", "ConfidenceBin", "ConformalIntervals", "ConformalSets",
    "Detection", "EarlyExit", "ExitMeasure", "GaussianMixture", "Goal", "IntervalMethod", "Metric", "Mixture",
    "RiskCoverageCurve", "SetMethod", "accuracy", "auroc", "balanced_accuracy", "brier", "calibration_error",
    "calibration_noise", "choose_confidence", "conformal_quantile", "corrupt", "crps", "detect", "entropy",
    "exact_match", "exit_curve", "fit_intervals",
    "fit_scale", "fit_sets", "fit_temperature", "interval_coverage", "interval_width", "label_accuracy", "label_auroc",
    "label_calibration_error", "label_macro_f1", "label_micro_f1", "least_examples", "macro_f1", "mae",
    "members_within", "mixture_negative_log_likelihood", "most_probable", "mutual_information",
    "negative_log_likelihood", "posterior_weights", "r2", "reliability", "responsibilities", "risk_coverage", "rmse",
    "set_coverage", "set_size", "stacked_weights", "threshold_at", "uncertainty_scores",
]  # fmt: skip
