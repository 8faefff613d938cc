"""The estimators that settings can name, made of the data and settings of a run."""

from __future__ import annotations

from polyarch.estimators import (
    ExponentialAverage,
    LastPart,
    Latency,
    MACs,
    Parameters,
    SoG,
    SoGN,
    SoTL,
    SoVL,
    TLMini,
    ValAcc,
    ValAccMini,
)
from polyarch.runs.scores import Scores


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
    """Accuracy on all validation examples with inherited weights."""
    return ValAcc(scores.valid, scores.train, policy=scores.policy)


def val_acc_mini(scores: Scores) -> ValAccMini:
    """Accuracy on one validation minibatch with inherited weights."""
    return ValAccMini(scores.valid, scores.train, policy=scores.policy)


def params(scores: Scores) -> Parameters:
    """The number of parameters."""
    return Parameters()


def macs(scores: Scores) -> MACs:
    """Multiply-accumulates of one example."""
    return MACs(scores.input_shape)


def latency(scores: Scores) -> Latency:
    """Measured seconds of a forward pass."""
    return Latency(scores.input_shape, batch_size=scores.settings.latency_batch_size)
