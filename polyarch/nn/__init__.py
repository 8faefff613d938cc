"""The layers of supernets: choice blocks, search blocks, elastic layers, channel gates, norm policies and recording."""

from polyarch.nn.channel_gates import ChannelGate, run_gated
from polyarch.nn.channel_removal import ChannelGraph
from polyarch.nn.choice_block import ChoiceBlock, adds, gate_for, options_run, plus, skipping_zeros, skips_zeros
from polyarch.nn.choice_vectors import Selection
from polyarch.nn.dropout import drawing_from, dropout_layers, dropping
from polyarch.nn.elastic_convolution import ElasticConv2d
from polyarch.nn.elastic_layers import ElasticLayer, ElasticLinear
from polyarch.nn.elastic_norms import ElasticBatchNorm1d, ElasticBatchNorm2d, ElasticLayerNorm
from polyarch.nn.interchoice import InterChoice, InterChoiceKind, PredecessorRule, SplitCopies, dependent_weights
from polyarch.nn.norm_policies import (
    AdaptedStatistics,
    BatchStatistics,
    NormPolicy,
    ReestimatedStatistics,
    RunningStatistics,
)
from polyarch.nn.operations import ReductionBlock, bottleneck
from polyarch.nn.partial_channels import PartialChannels, require_parts
from polyarch.nn.path_recording import NetworkCost, call, example_input, multiply_accumulates, record
from polyarch.nn.search_blocks import Maybe, OneOf, Repeat
from polyarch.nn.sizes import Sizes
from polyarch.nn.stacked_logits import Exits, StackedNetworks
from polyarch.nn.wired_module import DependentModule, WiredModule, WiringNorm

__all__ = [
    "AdaptedStatistics", "BatchStatistics", "ChannelGate", "ChannelGraph", "ChoiceBlock", "DependentModule",
    "ElasticBatchNorm1d", "ElasticBatchNorm2d", "ElasticConv2d", "ElasticLayer", "ElasticLayerNorm", "ElasticLinear",
    "Exits", "InterChoice", "InterChoiceKind", "Maybe", "NetworkCost", "NormPolicy", "OneOf", "PartialChannels",
    "PredecessorRule", "ReductionBlock", "ReestimatedStatistics", "Repeat", "RunningStatistics", "Selection", "Sizes",
    "SplitCopies", "StackedNetworks", "WiredModule", "WiringNorm", "adds", "bottleneck", "call", "dependent_weights",
    "drawing_from", "dropout_layers", "dropping", "example_input", "gate_for", "multiply_accumulates", "options_run",
    "plus", "record", "require_parts", "run_gated", "skipping_zeros", "skips_zeros",
]  # fmt: skip
