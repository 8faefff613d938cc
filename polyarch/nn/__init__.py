"""Building blocks of supernets."""

from polyarch.nn.batchnorm import (
    AdaptedStatistics,
    BatchStatistics,
    NormPolicy,
    ReestimatedStatistics,
    RunningStatistics,
)
from polyarch.nn.exits import Exits
from polyarch.nn.mixed import ChoiceBlock, Selection, gate_for
from polyarch.nn.own import Maybe, OneOf, Repeat
from polyarch.nn.recording import call, record
from polyarch.nn.residual import ReductionBlock, bottleneck
from polyarch.nn.stacked import Stacked

__all__ = [
    "AdaptedStatistics",
    "BatchStatistics",
    "ChoiceBlock",
    "Exits",
    "Maybe",
    "NormPolicy",
    "OneOf",
    "ReductionBlock",
    "ReestimatedStatistics",
    "Repeat",
    "RunningStatistics",
    "Selection",
    "Stacked",
    "bottleneck",
    "call",
    "gate_for",
    "record",
]
