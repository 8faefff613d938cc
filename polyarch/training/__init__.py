"""Training: the loop, what hangs onto it, checkpoints and interruption."""

from polyarch.training.annealing import Annealing, SkipDropout, WeightsFirst
from polyarch.training.callbacks import (
    Callback,
    EarlyStopping,
    EpochLog,
    Row,
    Run,
    Schedule,
    StepProgress,
    TensorBoard,
    cosine,
    piecewise,
)
from polyarch.training.checkpoint import CheckpointStore, CorruptCheckpoint
from polyarch.training.collapse_guard import CollapseGuard, CollapseLimits
from polyarch.training.expectation_step import ExpectationStep
from polyarch.training.interruption import StopRequest, stop_on_signal
from polyarch.training.loop import History, fit
from polyarch.training.search_diagnostics import SearchDiagnostics, Searching
from polyarch.training.split_weights import SplitWeights, split_weights
from polyarch.training.within_limits import WithinLimits

__all__ = [
    "Annealing",
    "Callback",
    "CheckpointStore",
    "CollapseGuard",
    "CollapseLimits",
    "CorruptCheckpoint",
    "EarlyStopping",
    "EpochLog",
    "ExpectationStep",
    "History",
    "Row",
    "Run",
    "Schedule",
    "SearchDiagnostics",
    "Searching",
    "SkipDropout",
    "SplitWeights",
    "StepProgress",
    "StopRequest",
    "TensorBoard",
    "WeightsFirst",
    "WithinLimits",
    "cosine",
    "fit",
    "piecewise",
    "split_weights",
    "stop_on_signal",
]
