"""Artifacts: what leaves the house."""

from polyarch.export.artifact import Artifact, read_artifact, read_weights, write_artifact

__all__ = ["Artifact", "read_artifact", "read_weights", "write_artifact"]
