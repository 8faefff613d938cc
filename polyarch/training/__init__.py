"""Training: the loop, its callbacks, checkpoints and interruption."""

from polyarch.training.callbacks import (
    Callback,
    EarlyStopping,
    EpochLog,
    FitState,
    Row,
    Schedule,
    StepProgress,
    cosine,
    piecewise,
)
from polyarch.training.checkpoint import CheckpointStore, CorruptCheckpoint
from polyarch.training.collapse_guard import CollapseGuard, CollapseLimits
from polyarch.training.expectation_step import ExpectationStep, exact_log_posterior
from polyarch.training.interruption import StopRequest, stop_on_signal
from polyarch.training.laps import Laps
from polyarch.training.loggers import MLflow, TensorBoard
from polyarch.training.loop import History, fit
from polyarch.training.search_diagnostics import SearchDiagnostics, SearchingStrategy
from polyarch.training.search_schedules import DropoutSchedule, TemperatureAnnealing, WeightsFirst
from polyarch.training.split_weights import SplitWeights, split_weights
from polyarch.training.time_budget import TimeBudget, TimeProgress, Trapezoid
from polyarch.training.weight_average import BestAverage, WeightAverage
from polyarch.training.within_limits import WithinLimits

__all__ = [
    "BestAverage", "Callback", "CheckpointStore", "CollapseGuard", "CollapseLimits", "CorruptCheckpoint",
    "DropoutSchedule", "EarlyStopping", "EpochLog", "ExpectationStep", "FitState", "History", "Laps", "MLflow", "Row",
    "Schedule", "SearchDiagnostics", "SearchingStrategy", "SplitWeights", "StepProgress", "StopRequest",
    "TemperatureAnnealing", "TensorBoard", "TimeBudget", "TimeProgress", "Trapezoid", "WeightAverage",
    "WeightsFirst", "WithinLimits", "cosine", "exact_log_posterior", "fit", "piecewise", "split_weights",
    "stop_on_signal",
]  # fmt: skip
