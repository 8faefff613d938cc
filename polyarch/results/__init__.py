"""What a run found, as one versioned file: reports, tables and tests read it, never the objects behind it."""

from polyarch.methods.depth.record import DepthFunctions, DepthMeasure, DepthPredictor, DepthRecord, ExitPoint
from polyarch.methods.differentiable.record import DifferentiableRecord
from polyarch.methods.posterior_guided.record import GatedLayer, GuidedDraw, GuidedRecord
from polyarch.methods.stochastic.record import EnsemblePoint, NormModesRecord, StochasticMember, StochasticRecord
from polyarch.results.experiments import Claim, ExperimentResults
from polyarch.results.predictors import Accuracy, Contender, PredictorRecord, ReliabilityBin
from polyarch.results.record import VERSION, Record
from polyarch.results.runs import Results
from polyarch.results.stages import (
    EliminatedArchitecture,
    EliminationRecord,
    IntervalRecord,
    RankingRecord,
    ScoredArchitecture,
    ScoreRecord,
    SearchRecord,
    TrainingRecord,
    TrustRecord,
)

__all__ = [
    "VERSION",
    "Accuracy",
    "Claim",
    "Contender",
    "DepthFunctions",
    "DepthMeasure",
    "DepthPredictor",
    "DepthRecord",
    "DifferentiableRecord",
    "EliminatedArchitecture",
    "EliminationRecord",
    "EnsemblePoint",
    "ExitPoint",
    "ExperimentResults",
    "GatedLayer",
    "GuidedDraw",
    "GuidedRecord",
    "IntervalRecord",
    "NormModesRecord",
    "PredictorRecord",
    "RankingRecord",
    "Record",
    "ReliabilityBin",
    "Results",
    "ScoreRecord",
    "ScoredArchitecture",
    "SearchRecord",
    "StochasticMember",
    "StochasticRecord",
    "TrainingRecord",
    "TrustRecord",
]
