"""Experiments: one file per claim of a document."""

from polyarch.experiments.depth_functions import DEPTH_FUNCTIONS
from polyarch.experiments.depth_updates import DEPTH_UPDATES
from polyarch.experiments.experiment import PRESETS, Experiment
from polyarch.experiments.image_depth import IMAGE_DEPTH
from polyarch.experiments.one_shot_ranking import ONE_SHOT_RANKING
from polyarch.experiments.spiral_depth import SPIRAL_DEPTH
from polyarch.experiments.spiral_sweeps import SPIRAL_MAX_DEPTH, SPIRAL_POINTS, SPIRAL_ROTATION, SPIRAL_WIDTH

EXPERIMENTS: dict[str, Experiment] = {
    item.name: item
    for item in (
        SPIRAL_DEPTH,
        SPIRAL_MAX_DEPTH,
        SPIRAL_WIDTH,
        SPIRAL_ROTATION,
        SPIRAL_POINTS,
        DEPTH_FUNCTIONS,
        DEPTH_UPDATES,
        IMAGE_DEPTH,
        ONE_SHOT_RANKING,
    )
}

__all__ = ["EXPERIMENTS", "PRESETS", "Experiment"]
