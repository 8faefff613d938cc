"""Artifacts: networks with their weights and metadata, as files that other programs can use."""

from polyarch.export.artifact import Artifact, Build, Extract, Member, read_artifact, write_artifact
from polyarch.export.checksums import verify_artifact
from polyarch.export.formats import export_programs
from polyarch.export.programs import OnnxSession, Program
from polyarch.export.records import Description, Metadata, read_records
from polyarch.export.weights import read_weights, weights_bytes, weights_of

__all__ = [
    "Artifact", "Build", "Description", "Extract", "Member", "Metadata", "OnnxSession", "Program", "export_programs",
    "read_artifact", "read_records", "read_weights", "verify_artifact", "weights_bytes", "weights_of", "write_artifact",
]  # fmt: skip
