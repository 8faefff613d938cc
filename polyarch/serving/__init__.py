"""Predictions over HTTP."""

from polyarch.serving.application import create_application

__all__ = ["create_application"]
