"""Experiments: one file per claim of a document."""

from polyarch.experiments.cell_search import CELL_SEARCH
from polyarch.experiments.cell_shape import CELL_SHAPE
from polyarch.experiments.curve_ranking import CURVE_RANKING
from polyarch.experiments.depth_functions import DEPTH_FUNCTIONS
from polyarch.experiments.depth_updates import DEPTH_UPDATES
from polyarch.experiments.evidence_bound import EVIDENCE_BOUND
from polyarch.experiments.experiment import PRESETS, Experiment
from polyarch.experiments.fine_tuning import FINE_TUNING
from polyarch.experiments.fourier_degree import FOURIER_DEGREE
from polyarch.experiments.guided_draws import GUIDED_DRAWS
from polyarch.experiments.guided_families import GUIDED_FAMILIES
from polyarch.experiments.guided_limits import GUIDED_LIMITS
from polyarch.experiments.guided_settings import GUIDED_SETTINGS
from polyarch.experiments.image_depth import IMAGE_DEPTH
from polyarch.experiments.interchoice_ranking import INTERCHOICE_RANKING
from polyarch.experiments.learning_rate import LEARNING_RATE
from polyarch.experiments.shared_wirings import SHARED_WIRINGS
from polyarch.experiments.spiral_depth import SPIRAL_DEPTH
from polyarch.experiments.spiral_sweeps import SPIRAL_MAX_DEPTH, SPIRAL_POINTS, SPIRAL_ROTATION, SPIRAL_WIDTH
from polyarch.experiments.strategy_ranking import STRATEGY_RANKING
from polyarch.experiments.supernet_recipe import SUPERNET_RECIPE
from polyarch.experiments.wiring_consistency import WIRING_CONSISTENCY
from polyarch.experiments.wiring_ensemble import WIRING_ENSEMBLE

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
        STRATEGY_RANKING,
        SUPERNET_RECIPE,
        FINE_TUNING,
        CURVE_RANKING,
        INTERCHOICE_RANKING,
        CELL_SEARCH,
        CELL_SHAPE,
        EVIDENCE_BOUND,
        FOURIER_DEGREE,
        LEARNING_RATE,
        SHARED_WIRINGS,
        WIRING_ENSEMBLE,
        WIRING_CONSISTENCY,
        GUIDED_DRAWS,
        GUIDED_FAMILIES,
        GUIDED_SETTINGS,
        GUIDED_LIMITS,
    )
}

__all__ = ["EXPERIMENTS", "PRESETS", "Experiment"]
