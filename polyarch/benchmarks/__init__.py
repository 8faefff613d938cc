"""Published tables of architectures and their true performance, and tables of your own."""

from polyarch.benchmarks.curve_table import CurveTable
from polyarch.benchmarks.curves import Curves
from polyarch.benchmarks.macro import load_macro
from polyarch.benchmarks.nasbench101 import NASBench101, convert_nasbench101
from polyarch.benchmarks.nasbench201 import NASBench201
from polyarch.benchmarks.nasbench301 import NASBench301
from polyarch.benchmarks.nats import convert_nats
from polyarch.benchmarks.notations import parse_architecture, published_notation
from polyarch.benchmarks.sources import SOURCES, Source, load_truth
from polyarch.benchmarks.spikenas import load_spikenas, spikenas_space
from polyarch.benchmarks.truth import Truth

__all__ = [
    "SOURCES",
    "CurveTable",
    "Curves",
    "NASBench101",
    "NASBench201",
    "NASBench301",
    "Source",
    "Truth",
    "convert_nasbench101",
    "convert_nats",
    "load_macro",
    "load_spikenas",
    "load_truth",
    "parse_architecture",
    "published_notation",
    "spikenas_space",
]
