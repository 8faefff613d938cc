"""Building blocks of supernets."""

from polyarch.nn.batch_means import MeanVariance, batch_mean_variances
from polyarch.nn.batchnorm import (
    AdaptedStatistics,
    BatchStatistics,
    NormPolicy,
    ReestimatedStatistics,
    RunningStatistics,
)
from polyarch.nn.channel_removal import ChannelGraph, Cost
from polyarch.nn.choice_vectors import Selection
from polyarch.nn.counting import input_of, multiply_accumulates
from polyarch.nn.dropout import drawing_from, dropout_layers, dropping
from polyarch.nn.exits import Exits
from polyarch.nn.gated import Gate, run_gated
from polyarch.nn.interchoice import InterChoice, InterChoiceKind, PredecessorRule, dependent_weights
from polyarch.nn.mixed import ChoiceBlock, adds, gate_for, options_run, plus, skipping_zeros, skips_zeros
from polyarch.nn.own import Maybe, OneOf, Repeat
from polyarch.nn.partial import PartialChannels, partial_channels, require_parts
from polyarch.nn.recording import call, record
from polyarch.nn.residual import ReductionBlock, bottleneck
from polyarch.nn.split_copies import SplitCopies
from polyarch.nn.stacked import Stacked
from polyarch.nn.wiring import DependentModule, WiredModule, WiringNorm

__all__ = [
    "AdaptedStatistics",
    "BatchStatistics",
    "ChannelGraph",
    "ChoiceBlock",
    "Cost",
    "DependentModule",
    "Exits",
    "Gate",
    "InterChoice",
    "InterChoiceKind",
    "Maybe",
    "MeanVariance",
    "NormPolicy",
    "OneOf",
    "PartialChannels",
    "PredecessorRule",
    "ReductionBlock",
    "ReestimatedStatistics",
    "Repeat",
    "RunningStatistics",
    "Selection",
    "SplitCopies",
    "Stacked",
    "WiredModule",
    "WiringNorm",
    "adds",
    "batch_mean_variances",
    "bottleneck",
    "call",
    "dependent_weights",
    "drawing_from",
    "dropout_layers",
    "dropping",
    "gate_for",
    "input_of",
    "multiply_accumulates",
    "options_run",
    "partial_channels",
    "plus",
    "record",
    "require_parts",
    "run_gated",
    "skipping_zeros",
    "skips_zeros",
]
