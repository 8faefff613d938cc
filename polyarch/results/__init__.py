"""What a run found, as one versioned file: reports, tables and tests read it, never the objects behind it."""

from polyarch.results.estimates import Estimate, Judged
from polyarch.results.predictors import (
    VERSION,
    CalibrationRecord,
    ConformalRecord,
    Contender,
    LevelPoint,
    MethodRecord,
    NetworkRecord,
    NumberPoints,
    PredictorRecord,
    Record,
    ReliabilityBin,
    ResampledRecord,
    Role,
    TaskRecord,
)
from polyarch.results.provenance import Provenance
from polyarch.results.runs import Results, TrainingRecord, read_content
from polyarch.results.schema import results_schema
from polyarch.results.sizes import SizeRecord

__all__ = [
    "VERSION", "CalibrationRecord", "ConformalRecord", "Contender", "Estimate", "Judged", "LevelPoint",
    "MethodRecord", "NetworkRecord", "NumberPoints", "PredictorRecord", "Provenance", "Record", "ReliabilityBin",
    "ResampledRecord", "Results", "Role", "SizeRecord", "TaskRecord", "TrainingRecord", "read_content",
    "results_schema",
]  # fmt: skip
