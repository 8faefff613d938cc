"""What makes the estimators of a run, and those that settings can name."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from polyarch.data import Batches, Inputs, endless
from polyarch.estimators import (
    NASWOT,
    SNIP,
    Estimator,
    ExponentialAverage,
    Fisher,
    GradientNorm,
    GraSP,
    JacobianCovariance,
    LastPart,
    Latency,
    MACs,
    Parameters,
    ShortRun,
    SoG,
    SoGN,
    SoTL,
    SoVL,
    SynFlow,
    TLMini,
    ValAcc,
    ValAccAfter,
    ValAccMini,
    Zen,
)
from polyarch.estimators.zero_cost import FreshNetwork
from polyarch.nn import AdaptedStatistics, BatchStatistics, NormPolicy, ReestimatedStatistics, RunningStatistics
from polyarch.plugins import ESTIMATORS
from polyarch.runs.feed import Feed
from polyarch.runs.networks import Networks
from polyarch.runs.sections import EstimatorSettings


@dataclass
class Scores:
    """Data and settings that estimators are made of; a registered estimator is called with one of these.

    >>> def gradient_norm(scores: Scores) -> Estimator: return GradientNorm(scores.train)
    """

    settings: EstimatorSettings
    feed: Feed
    networks: Networks
    _records: frozenset[str] = frozenset()
    _runs: dict[frozenset[str], ShortRun] = field(default_factory=dict)

    @property
    def train(self) -> Batches:
        """Shuffled, augmented training batches."""
        return self.feed.batches(self.feed.train, self.settings.batch_size, stream="scores")

    @property
    def valid(self) -> Batches:
        """All validation examples in order."""
        return self.feed.in_order(self.feed.valid)

    @property
    def valid_minibatches(self) -> Batches:
        """Shuffled validation batches of the size of training batches, without augmentation."""
        return self.feed.batches(self.feed.valid, self.settings.batch_size, stream="validation scores", augmented=False)

    @property
    def example(self) -> Inputs:
        """A batch of preprocessed examples to try a network on."""
        return self.feed.example.inputs

    @property
    def plain_batch(self) -> Batches:
        """Shuffled training batches without augmentation, of which zero-cost proxies read the first."""
        size = min(self.settings.batch_size, len(self.feed.train))
        return self.feed.batches(self.feed.train, size, stream="scores", augmented=False)

    @property
    def fresh(self) -> FreshNetwork:
        """Makes networks as they are before a training of their own."""
        return partial(self.networks.fresh, seed=self.feed.seed)

    @property
    def policy(self) -> NormPolicy:
        """Which batch statistics an architecture with inherited weights uses."""
        policies: dict[str, Callable[[], NormPolicy]] = {
            "running": RunningStatistics,
            "batch": BatchStatistics,
            "adapt": lambda: AdaptedStatistics(self.settings.policy_batches),
            "reestimate": lambda: ReestimatedStatistics(self.settings.policy_batches),
        }
        return policies[self.settings.policy]()

    def policy_inputs(self) -> Iterator[Inputs]:
        """The inputs that the policy adapts to."""
        return (batch.inputs for batch in endless(self.train))

    def short_run(self, *, valid: bool = False, gradients: bool = False, judge: bool = False) -> ShortRun:
        """The short run that all estimators of training speed read, with what any of them asks it to record."""
        asked = {"valid": valid, "gradients": gradients, "judge": judge}
        self._records |= {name for name, wanted in asked.items() if wanted}
        if self._records not in self._runs:
            self._runs[self._records] = ShortRun(
                self.train,
                steps=self.settings.steps,
                learning_rate=self.settings.learning_rate,
                momentum=self.settings.momentum,
                seed=self.feed.seed,
                valid=self.valid_minibatches if "valid" in self._records else None,
                gradients="gradients" in self._records,
                judge=val_acc(self) if "judge" in self._records else None,
                task=self.feed.task,
            )
        return self._runs[self._records]

    def estimators(self, names: Sequence[str]) -> list[Estimator]:
        """Estimators by name; those of a short run share one."""
        scores, makers = Scores(self.settings, self.feed, self.networks), [ESTIMATORS[name] for name in names]
        for make in makers:  # says what the shared run must record
            make(scores)
        return [make(scores) for make in makers]


def sotl(scores: Scores) -> SoTL:
    """Training speed over the whole short run."""
    return SoTL(scores.short_run())


def sotl_last(scores: Scores) -> SoTL:
    """Training speed over the last part of the short run."""
    return SoTL(scores.short_run(), LastPart(scores.settings.last_share))


def sotl_ema(scores: Scores) -> SoTL:
    """Training speed as an exponential average."""
    return SoTL(scores.short_run(), ExponentialAverage(scores.settings.ema_decay))


def sovl(scores: Scores) -> SoVL:
    """Validation losses along the short run."""
    return SoVL(scores.short_run(valid=True))


def tl_mini(scores: Scores) -> TLMini:
    """The training loss of one minibatch."""
    return TLMini(scores.short_run())


def sog(scores: Scores) -> SoG:
    """The sum of gradients along the short run."""
    return SoG(scores.short_run(gradients=True))


def sogn(scores: Scores) -> SoGN:
    """The sum of gradient norms along the short run."""
    return SoGN(scores.short_run(gradients=True))


def val_acc(scores: Scores) -> ValAcc:
    """The selection metric on all validation examples with inherited weights."""
    return ValAcc(scores.valid, scores.train, policy=scores.policy, task=scores.feed.task)


def val_acc_after(scores: Scores) -> ValAccAfter:
    """The selection metric on all validation examples after the short run."""
    return ValAccAfter(scores.short_run(judge=True))


def val_acc_mini(scores: Scores) -> ValAccMini:
    """The selection metric on one shuffled validation minibatch with inherited weights."""
    return ValAccMini(scores.valid_minibatches, scores.train, policy=scores.policy, task=scores.feed.task)


def params(scores: Scores) -> Parameters:
    """The number of parameters."""
    return Parameters()


def macs(scores: Scores) -> MACs:
    """Multiply-accumulates of one example."""
    return MACs(scores.example)


def latency(scores: Scores) -> Latency:
    """Measured seconds of a forward pass."""
    return Latency(scores.example, batch_size=scores.settings.latency_batch_size)


def synflow(scores: Scores) -> SynFlow:
    """Synaptic flow of the untrained network."""
    return SynFlow(scores.example, fresh=scores.fresh)


def naswot(scores: Scores) -> NASWOT:
    """The log-determinant of the activation kernel of the untrained network."""
    return NASWOT(scores.plain_batch, fresh=scores.fresh)


def jacob_cov(scores: Scores) -> JacobianCovariance:
    """How little the gradients of inputs are correlated in the untrained network."""
    return JacobianCovariance(scores.plain_batch, fresh=scores.fresh)


def zen(scores: Scores) -> Zen:
    """The Zen-score of the architecture with Gaussian weights."""
    return Zen(scores.example, seed=scores.feed.seed, fresh=scores.fresh)


def grad_norm(scores: Scores) -> GradientNorm:
    """The norm of the gradients of the untrained network."""
    return GradientNorm(scores.plain_batch, task=scores.feed.task, fresh=scores.fresh)


def snip(scores: Scores) -> SNIP:
    """The sensitivity of the loss to the connections of the untrained network."""
    return SNIP(scores.plain_batch, task=scores.feed.task, fresh=scores.fresh)


def grasp(scores: Scores) -> GraSP:
    """The gradient flow that the weights of the untrained network carry."""
    return GraSP(scores.plain_batch, task=scores.feed.task, fresh=scores.fresh)


def fisher(scores: Scores) -> Fisher:
    """The sensitivity of the loss to the channels of the untrained network."""
    return Fisher(scores.plain_batch, task=scores.feed.task, fresh=scores.fresh)
