"""Supernets: one set of weights for a whole space."""

from polyarch.supernets.cell import CellSupernet
from polyarch.supernets.chain import ChainSupernet
from polyarch.supernets.depth import ConvolutionalDepth, DepthSupernet, FullyConnectedDepth
from polyarch.supernets.mlp import MLPSupernet
from polyarch.supernets.module import ModuleSupernet, from_module
from polyarch.supernets.repeated import RepeatSupernet
from polyarch.supernets.replicas import FullyConnectedReplicas
from polyarch.supernets.supernet import Supernet

__all__ = [
    "CellSupernet",
    "ChainSupernet",
    "ConvolutionalDepth",
    "DepthSupernet",
    "FullyConnectedDepth",
    "FullyConnectedReplicas",
    "MLPSupernet",
    "ModuleSupernet",
    "RepeatSupernet",
    "Supernet",
    "from_module",
]
