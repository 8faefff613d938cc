"""The papers whose claims are tested, by the name of the document."""

from __future__ import annotations

from dataclasses import dataclass

_THESIS = (
    '"Improving weight-sharing Neural Architecture Search with a marginal likelihood estimator", MSc thesis, '
    "University of Oxford, 2021, which builds on Ru, Lyle, Schut, Fil, van der Wilk and Gal (2021), "
    '"Speedy Performance Estimation for Neural Architecture Search", arXiv:2006.04492'
)

VARIATIONAL_DEPTH = "variational depth"
TRAINING_SPEED = "training speed"
DIFFERENTIABLE_SEARCH = "differentiable search"
STOCHASTIC_ARCHITECTURES = "networks with stochastic architectures"
INTERCHOICE_WEIGHTS = "inter-choice weights"
POSTERIOR_GUIDED_SEARCH = "posterior-guided search"

PAPERS: dict[str, str] = {
    VARIATIONAL_DEPTH: "Antorán, Allingham and Hernández-Lobato (2020), "
    '"Variational Depth Search in ResNets", arXiv:2002.02797',
    TRAINING_SPEED: _THESIS,
    DIFFERENTIABLE_SEARCH: _THESIS,
    STOCHASTIC_ARCHITECTURES: "Deng, Dong, Zhang and Zhu (2020), "
    '"Understanding and Exploring the Network with Stochastic Architectures", NeurIPS',
    INTERCHOICE_WEIGHTS: 'Laube and Zell (2021), "Inter-choice dependent super-network weights", arXiv:2104.11522',
    POSTERIOR_GUIDED_SEARCH: "Zhou, Sun, Luo, Zha and Zeng (2020), "
    '"Posterior-Guided Neural Architecture Search", arXiv:1906.09557',
}


@dataclass(frozen=True)
class Account:
    """What stands on the page of a document besides its claims.

    Attributes:
        takeaway: two sentences, the first on the page: what a reader should take away.
        choices: how the settings were chosen, and what was selected on the way.
    """

    takeaway: str
    choices: str
