"""What a reader should take away from the page of a document, and how the settings behind it were chosen."""

from __future__ import annotations

from polyarch_experiments.depth.account import DEPTH
from polyarch_experiments.interchoice.account import INTERCHOICE
from polyarch_experiments.papers import (
    DIFFERENTIABLE_SEARCH,
    INTERCHOICE_WEIGHTS,
    POSTERIOR_GUIDED_SEARCH,
    STOCHASTIC_ARCHITECTURES,
    TRAINING_SPEED,
    VARIATIONAL_DEPTH,
    Account,
)
from polyarch_experiments.posterior_guided.account import GUIDED
from polyarch_experiments.stochastic.account import WIRINGS
from polyarch_experiments.training_speed.account import RANKING, SEARCH

ACCOUNTS: dict[str, Account] = {
    VARIATIONAL_DEPTH: DEPTH,
    TRAINING_SPEED: RANKING,
    DIFFERENTIABLE_SEARCH: SEARCH,
    INTERCHOICE_WEIGHTS: INTERCHOICE,
    STOCHASTIC_ARCHITECTURES: WIRINGS,
    POSTERIOR_GUIDED_SEARCH: GUIDED,
}
"""By the name of the document; one without an account has a page without it."""
