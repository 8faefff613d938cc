"""Claims of papers as experiments: a folder per document, a file per claim."""

from polyarch_experiments.experiment import PRESETS, Experiment

__all__ = ["PRESETS", "Experiment"]
