"""What a run found, as one versioned file: reports, tables and tests read it, never the objects behind it."""

from polyarch.results.predictors import VERSION, Accuracy, Contender, PredictorRecord, Record, ReliabilityBin, Role
from polyarch.results.runs import Results, TrainingRecord, read_content

__all__ = [
    "VERSION", "Accuracy", "Contender", "PredictorRecord", "Record", "ReliabilityBin", "Results", "Role",
    "TrainingRecord", "read_content",
]  # fmt: skip
