"""Supernets: one set of weights for a whole space."""

from polyarch.supernets.cell import CellSupernet
from polyarch.supernets.chain import ChainSupernet
from polyarch.supernets.depth import ConvolutionalDepth, DepthSupernet, FullyConnectedDepth
from polyarch.supernets.mlp import MLPSupernet
from polyarch.supernets.module import ModuleSupernet, from_module
from polyarch.supernets.supernet import Supernet

__all__ = [
    "CellSupernet",
    "ChainSupernet",
    "ConvolutionalDepth",
    "DepthSupernet",
    "FullyConnectedDepth",
    "MLPSupernet",
    "ModuleSupernet",
    "Supernet",
    "from_module",
]
