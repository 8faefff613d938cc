"""Train one network, get a distribution over architectures."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from polyarch.facade import Found, search
    from polyarch.nn import Maybe, OneOf, Repeat
    from polyarch.prediction.predictor import Predictor
    from polyarch.scikit import PolyarchClassifier
    from polyarch.supernets import from_module, gate

__version__ = "0.7.0"

__all__ = ["Found", "Maybe", "OneOf", "PolyarchClassifier", "Predictor", "Repeat", "from_module", "gate", "search"]

_PLACES = {
    "Found": "polyarch.facade",
    "Maybe": "polyarch.nn",
    "OneOf": "polyarch.nn",
    "PolyarchClassifier": "polyarch.scikit",
    "Predictor": "polyarch.prediction.predictor",
    "Repeat": "polyarch.nn",
    "from_module": "polyarch.supernets",
    "gate": "polyarch.supernets",
    "search": "polyarch.facade",
}


def __getattr__(name: str) -> Any:
    """Names and rooms are imported when they are first used: `import polyarch` stays instant."""
    if name in _PLACES:
        return getattr(importlib.import_module(_PLACES[name]), name)
    if name == "data":
        return importlib.import_module("polyarch.data")
    raise AttributeError(f"module 'polyarch' has no attribute {name!r}")
