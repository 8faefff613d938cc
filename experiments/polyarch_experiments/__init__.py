"""Claims of papers as experiments: a folder per document, a file per claim."""

from polyarch_experiments.experiment import PRESETS, Experiment, Settings, Table
from polyarch_experiments.results import Claim, ExperimentResults

__all__ = ["PRESETS", "Claim", "Experiment", "ExperimentResults", "Settings", "Table"]
