"""polyarch: train one network, get a distribution over architectures."""

__version__ = "0.1.0"
