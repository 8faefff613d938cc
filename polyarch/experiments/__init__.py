"""Experiments: one file per claim of a document."""

from polyarch.experiments.experiment import PRESETS, Experiment
from polyarch.experiments.one_shot_ranking import ONE_SHOT_RANKING
from polyarch.experiments.spiral_depth import SPIRAL_DEPTH

EXPERIMENTS: dict[str, Experiment] = {item.name: item for item in (SPIRAL_DEPTH, ONE_SHOT_RANKING)}

__all__ = ["EXPERIMENTS", "PRESETS", "Experiment"]
