"""Predictions over HTTP."""

from polyarch.prediction.serving.application import create_application

__all__ = ["create_application"]
