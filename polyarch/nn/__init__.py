"""Building blocks of supernets."""

from polyarch.nn.batchnorm import (
    AdaptedStatistics,
    BatchStatistics,
    NormPolicy,
    ReestimatedStatistics,
    RunningStatistics,
)
from polyarch.nn.mixed import ChoiceBlock, Selection, gate_for
from polyarch.nn.own import Maybe, OneOf, Repeat
from polyarch.nn.recording import call, record
from polyarch.nn.residual import ReductionBlock, bottleneck

__all__ = [
    "AdaptedStatistics",
    "BatchStatistics",
    "ChoiceBlock",
    "Maybe",
    "NormPolicy",
    "OneOf",
    "ReductionBlock",
    "ReestimatedStatistics",
    "Repeat",
    "RunningStatistics",
    "Selection",
    "bottleneck",
    "call",
    "gate_for",
    "record",
]
