"""The section ``guided`` of a run description."""

from pydantic import NonNegativeInt, PositiveFloat, PositiveInt

from polyarch.methods.posterior_guided.search import DEFAULT_LENGTH_SCALE, PRIOR_EXAMPLES, Q_RATE_FACTOR
from polyarch.runs.sections import Fraction, NonNegative, Rate
from polyarch.settings import Settings


class GuidedSettings(Settings):
    """How a posterior over kept and dropped channels is learned and drawn from, by the method ``posterior-guided``.

    ``length_scale`` is d of the prior, ``prior_examples`` its N: d^2 / N is the weight decay of kernels that are kept
    for sure. Limits on the size make networks small, not d. ``drop`` is the drop probability of all layers at the
    start, ``temperature`` that of relaxed draws, ``q_rate_factor`` how much faster than the kernels drop probabilities
    are learned. ``constant_decay`` stands in place of d^2 (1 - p) / (2N), if it is given. After the training
    ``candidates`` are drawn, and ``random_candidates`` with one drop rate for all to compare with. The best on
    validation examples is trained further for ``tune_epochs`` with ``tune_learning_rate``; it is exported as it was
    drawn if that is better. With ``distillation``, it and the network of uniform width also learn from the whole
    network. ``members`` draws form the mixture.
    """

    length_scale: NonNegative = DEFAULT_LENGTH_SCALE
    prior_examples: PositiveInt = PRIOR_EXAMPLES
    drop: Fraction = 0.1
    temperature: PositiveFloat = 0.2
    q_rate_factor: Rate = Q_RATE_FACTOR
    constant_decay: NonNegative | None = None
    candidates: PositiveInt = 200
    random_candidates: NonNegativeInt = 50
    members: PositiveInt = 5
    tune_epochs: NonNegativeInt = 3
    tune_learning_rate: Rate = 0.01
    distillation: bool = False
