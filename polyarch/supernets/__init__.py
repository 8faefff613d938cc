"""Supernets: one set of weights for all architectures of a space."""

from polyarch.supernets.chain import ChainSupernet, fairnas_chain
from polyarch.supernets.darts import DartsSupernet
from polyarch.supernets.depth import ConvolutionalDepth, DepthSupernet, FullyConnectedDepth
from polyarch.supernets.elastic import ElasticSupernet
from polyarch.supernets.elastic_mlp import ElasticMLPSupernet
from polyarch.supernets.gated import GatedSupernet, gate, probe
from polyarch.supernets.gated_depth import GatedDepthSupernet
from polyarch.supernets.ladder import ladder
from polyarch.supernets.macro import MacroSupernet
from polyarch.supernets.mlp import MLPSupernet
from polyarch.supernets.mobile import MobileSupernet
from polyarch.supernets.module import ModuleSupernet, from_module
from polyarch.supernets.narrowing import Narrowed, UniformWidth, narrowed, uniform_width
from polyarch.supernets.nb101 import NB101Supernet
from polyarch.supernets.nb201 import NB201Supernet
from polyarch.supernets.packed_mlp import PackedMLPSupernet
from polyarch.supernets.pooled import PooledSupernet
from polyarch.supernets.relaxation import (
    ChosenOptions,
    DartsRelaxation,
    NB101Relaxation,
    Relaxation,
    relaxation_of,
    without_option,
)
from polyarch.supernets.repeated import RepeatSupernet
from polyarch.supernets.resnet import ResNetSupernet
from polyarch.supernets.supernet import Supernet
from polyarch.supernets.wired import WiredSupernet

__all__ = [
    "ChainSupernet", "ChosenOptions", "ConvolutionalDepth", "DartsRelaxation", "DartsSupernet", "DepthSupernet",
    "ElasticMLPSupernet", "ElasticSupernet", "FullyConnectedDepth", "GatedDepthSupernet", "GatedSupernet",
    "MLPSupernet", "MacroSupernet", "MobileSupernet", "ModuleSupernet", "NB101Relaxation", "NB101Supernet",
    "NB201Supernet", "Narrowed", "PackedMLPSupernet", "PooledSupernet", "Relaxation", "RepeatSupernet",
    "ResNetSupernet", "Supernet", "UniformWidth", "WiredSupernet", "fairnas_chain", "from_module", "gate", "ladder",
    "narrowed", "probe", "relaxation_of", "uniform_width", "without_option",
]  # fmt: skip
