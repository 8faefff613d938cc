"""Predictions over HTTP."""

from polyarch.prediction.serving.routes import create_application

__all__ = ["create_application"]
