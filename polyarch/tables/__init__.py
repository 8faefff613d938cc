"""The true performance of architectures: published tables, surrogates, and tables of your own."""

from polyarch.tables.curve_table import CurveTable
from polyarch.tables.curves import Curves
from polyarch.tables.nasbench101 import NASBench101, convert_nasbench101
from polyarch.tables.nasbench201 import NASBench201
from polyarch.tables.nasbench301 import NASBench301
from polyarch.tables.nasbench_macro import load_macro
from polyarch.tables.nats import convert_nats
from polyarch.tables.notations import parse_architecture, published_notation
from polyarch.tables.sources import SOURCES, TruthSource, load_truth
from polyarch.tables.spikenas import load_spikenas, spikenas_space
from polyarch.tables.truth import Truth

__all__ = [
    "SOURCES", "CurveTable", "Curves", "NASBench101", "NASBench201", "NASBench301", "Truth", "TruthSource",
    "convert_nasbench101", "convert_nats", "load_macro", "load_spikenas", "load_truth", "parse_architecture",
    "published_notation", "spikenas_space",
]  # fmt: skip
