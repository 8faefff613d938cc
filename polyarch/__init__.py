"""Train one network, get a distribution over architectures."""

import lazy_loader

__version__ = "0.8.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
