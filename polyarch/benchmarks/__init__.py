"""Published tables of architectures and their true performance."""

from polyarch.benchmarks.nasbench201 import NASBench201

__all__ = ["NASBench201"]
