from __future__ import annotations

import copy
from collections.abc import Iterator

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Generator, Tensor, nn

from polyarch.data import Batch, Batches, load, stratified_split
from polyarch.errors import InvalidInput, NotFiniteError
from polyarch.estimators import (
    ExponentialAverage,
    Failure,
    LastPart,
    Parameters,
    ShortRun,
    SoG,
    SoGN,
    SoTL,
    SoVL,
    TLMini,
    Trace,
    TraceEstimator,
    ValAcc,
    ValAccAfter,
    WholeRun,
    Window,
)
from polyarch.estimators.scoring import Scoring
from polyarch.estimators.short_run import OngoingRun
from polyarch.nn import AdaptedStatistics, RunningStatistics
from polyarch.randomness import generator_at, global_seed
from polyarch.spaces import Architecture
from polyarch.supernets import FullyConnectedDepth, NB201Supernet
from polyarch.testing import same_bits, state_of

TRAIN_DATA, VALID_DATA = stratified_split(load("digits").train.subset(range(120)), 0.5, seed=0)
TRAIN = Batches(TRAIN_DATA, 16, seed=2)  # three batches per epoch
VALID = Batches(VALID_DATA, 20, seed=3)

Values = NDArray[np.float64]


@pytest.fixture(scope="module")
def net() -> NB201Supernet:
    with global_seed(0, "weights"):
        return NB201Supernet(channels=2, cells=1, in_channels=1)


@pytest.fixture(scope="module")
def architecture(net: NB201Supernet) -> Architecture:
    return net.space.architecture(
        ["nor_conv_3x3", "skip_connect", "nor_conv_1x1", "none", "avg_pool_3x3", "nor_conv_3x3"]
    )


class TestWindows:
    """On five losses, by hand."""

    losses = (5.0, 4.0, 3.0, 2.0, 1.0)

    @pytest.mark.parametrize(
        ("window", "name", "total"),
        [
            (WholeRun(), "sotl", 15.0),
            (LastPart(share=0.4), "sotl_last", 3.0),
            (LastPart(share=0.5), "sotl_last", 6.0),  # ceil(2.5) losses
            (LastPart(share=1e-9), "sotl_last", 1.0),
            (LastPart(share=1.0), "sotl_last", 15.0),
            (ExponentialAverage(decay=0.5), "sotl_ema", (5 + 8 + 12 + 16 + 16) / (1 + 2 + 4 + 8 + 16)),
            (ExponentialAverage(decay=0.0), "sotl_ema", 1.0),
        ],
    )
    def test_of_known_losses(self, window: Window, name: str, total: float) -> None:
        estimator = SoTL(ShortRun(TRAIN), window)
        assert estimator.name == name
        assert estimator.value(Trace(self.losses)) == pytest.approx(-total, rel=1e-15)

    def test_an_average_of_equal_losses_is_the_loss(self) -> None:
        assert ExponentialAverage(0.9).total([2.5] * 40) == pytest.approx(2.5, rel=1e-15)

    @pytest.mark.parametrize("share", [0.0, 1.1, float("nan")])
    def test_share_outside(self, share: float) -> None:
        with pytest.raises(InvalidInput, match="share of the run above 0"):
            LastPart(share)

    @pytest.mark.parametrize("decay", [-0.1, 1.0, float("nan")])
    def test_decay_outside(self, decay: float) -> None:
        with pytest.raises(InvalidInput, match="decay from 0 to below 1"):
            ExponentialAverage(decay)


class FewRows:
    """Two fixed batches of two rows in float64, over and over."""

    num_examples = 4

    def __init__(self, shift: float = 0.0) -> None:
        rows = torch.tensor([[1.0, 2.0], [-1.0, 0.5], [0.3, -2.0], [1.5, 1.0]], dtype=torch.float64) + shift
        self.batches = [Batch(rows[:2], torch.tensor([0, 1])), Batch(rows[2:], torch.tensor([1, 1]))]

    def __len__(self) -> int:
        return 2

    def epoch(self, epoch: int, *, start: int = 0) -> Iterator[Batch]:
        return iter(self.batches[start:])


class LinearOnly(FullyConnectedDepth):
    """Depth 0 is one linear map: logits = W x + b."""

    def __init__(self) -> None:
        super().__init__(features=2, classes=2, max_depth=1, width=2)
        self.stem = nn.Sequential(nn.Identity())
        self.double()


def linear_gradient(weights: Values, inputs: Values, targets: Values) -> tuple[float, Values]:
    """Mean cross-entropy of logits x W^T (B, C) and its gradient (C, D), written out."""
    logits = inputs @ weights.T
    probabilities = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    truth = np.eye(weights.shape[0])[targets.astype(int)]
    loss = -np.log((probabilities * truth).sum(1)).mean()
    return float(loss), (probabilities - truth).T @ inputs / len(inputs)


def numbers(batch: Batch) -> tuple[Values, Values]:
    ones = torch.ones(len(batch.inputs), 1, dtype=torch.float64)  # a column for the bias
    return torch.cat([batch.inputs, ones], 1).numpy(), batch.targets.numpy()


class TestLinearByHand:
    """Everything in the trace of a linear network, against the formulas in float64."""

    steps, rate, momentum, decay = 5, 0.3, 0.8, 0.1

    @pytest.fixture
    def linear(self) -> LinearOnly:
        with global_seed(0, "weights"):
            return LinearOnly()

    def by_hand(self, layer: nn.Linear) -> Trace:
        weights = np.concatenate([layer.weight.detach().numpy(), layer.bias.detach().numpy()[:, None]], 1)
        train, valid = FewRows(), FewRows(shift=0.5)
        velocity = np.zeros_like(weights)
        total = np.zeros_like(weights)
        losses, valid_losses, norm = [], [], 0.0
        for step in range(self.steps):
            valid_losses.append(linear_gradient(weights, *numbers(valid.batches[step % 2]))[0])
            loss, gradient = linear_gradient(weights, *numbers(train.batches[step % 2]))
            losses.append(loss)
            total += gradient
            norm += float(np.abs(gradient).sum())
            velocity = self.momentum * velocity + gradient + self.decay * weights
            weights = weights - self.rate * velocity
        correct = [(inputs @ weights.T).argmax(1) == targets for inputs, targets in map(numbers, valid.batches)]
        return Trace(
            tuple(losses), tuple(valid_losses), float(np.abs(total).sum()), norm, float(np.concatenate(correct).mean())
        )

    def test_trace_and_estimators(self, linear: LinearOnly) -> None:
        architecture = linear.space.architecture(["0"])
        layers = [layer for layer in linear.extract(architecture).modules() if isinstance(layer, nn.Linear)]
        assert len(layers) == 1
        run = ShortRun(
            FewRows(),
            steps=self.steps,
            learning_rate=self.rate,
            momentum=self.momentum,
            weight_decay=self.decay,
            valid=FewRows(shift=0.5),
            gradients=True,
            judge=ValAcc(FewRows(shift=0.5), FewRows(), policy=RunningStatistics()),
        )
        expected = self.by_hand(layers[0])
        assert expected.gradient_sum is not None and expected.gradient_norm is not None and expected.valid_losses
        assert expected.gradient_sum < 0.95 * expected.gradient_norm  # directions change, or the two could be mixed up
        assert run.judge is not None and expected.final_score is not None
        assert expected.final_score != run.judge.score(linear, architecture)  # or the run would not matter
        exact = pytest.approx
        trace = run.trace(linear, architecture)
        assert trace.losses == exact(expected.losses, rel=1e-12)
        assert trace.valid_losses == exact(expected.valid_losses, rel=1e-12)
        values = {
            "sotl": -sum(expected.losses),
            "sovl": -sum(expected.valid_losses),
            "tl_mini": -expected.losses[0],
            "sog": expected.gradient_sum,
            "sogn": expected.gradient_norm,
            "val_acc_after": expected.final_score,
        }
        estimators: list[TraceEstimator] = [SoTL(run), SoVL(run), TLMini(run), SoG(run), SoGN(run), ValAccAfter(run)]
        for estimator in estimators:
            assert estimator.score(linear, architecture) == exact(values[estimator.name], rel=1e-12)
            assert estimator.value(trace) == exact(values[estimator.name], rel=1e-12)


class TestValidationLosses:
    def test_are_those_of_the_batch_before_the_step(self, net: NB201Supernet, architecture: Architecture) -> None:
        """The first one at the inherited weights, with the statistics of its own minibatch."""
        trace = ShortRun(TRAIN, steps=2, valid=VALID).trace(net, architecture)
        inputs, targets = next(VALID.epoch(0))
        expected = F.cross_entropy(copy.deepcopy(net).train()(inputs, architecture), targets).item()
        assert trace.valid_losses is not None
        assert trace.valid_losses[0] == pytest.approx(expected, rel=1e-6)

    def test_disturb_nothing(self, net: NB201Supernet, architecture: Architecture) -> None:
        """Losses, weights and running statistics are those of a run without validation or gradients."""
        plain = OngoingRun(ShortRun(TRAIN, steps=5), net, architecture)
        plain.advance(5)
        full = OngoingRun(ShortRun(TRAIN, steps=5, valid=VALID, gradients=True), net, architecture)
        full.advance(5)
        assert plain.losses == full.losses
        assert same_bits(state_of(plain.network), state_of(full.network))


def test_the_judge_disturbs_nothing(net: NB201Supernet, architecture: Architecture) -> None:
    """A run that is judged on its way has the losses, weights and statistics of one that is not."""
    judge = ValAcc(VALID, TRAIN, policy=AdaptedStatistics(2))
    plain = OngoingRun(ShortRun(TRAIN, steps=5), net, architecture)
    plain.advance(5)
    judged = OngoingRun(ShortRun(TRAIN, steps=5, judge=judge), net, architecture)
    judged.advance(2)
    early = judged.trace().final_score
    judged.advance(5)
    late = judged.trace().final_score
    assert plain.losses == judged.losses
    assert same_bits(state_of(plain.network), state_of(judged.network))
    assert plain.trace().final_score is None and early is not None
    assert late == judge.judge(copy.deepcopy(plain.network))


class WithDropout(FullyConnectedDepth):
    def __init__(self) -> None:
        super().__init__(features=64, classes=10, max_depth=2, width=8)
        self.stem = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.Dropout(0.5))


class TestGoingOn:
    def test_elsewhere_has_the_same_bits(self, net: NB201Supernet, architecture: Architecture) -> None:
        self.check(net, architecture)

    def test_with_dropout(self) -> None:
        with global_seed(0, "weights"):
            net = WithDropout()
        self.check(net, net.space.architecture(["2"]))

    def check(self, net: NB201Supernet | WithDropout, architecture: Architecture) -> None:
        run = ShortRun(TRAIN, steps=7, learning_rate=0.1, weight_decay=1e-3)
        straight = OngoingRun(run, net, architecture)
        straight.advance(7)
        state: bytes | None = None
        for until in (2, 3, 7):  # 3 is the end of an epoch
            running = OngoingRun(run, net, architecture)
            if state is not None:
                running.load(state)
            running.advance(until)
            state = running.state()
        assert running.losses == straight.losses
        assert same_bits(state_of(running.network), state_of(straight.network))
        assert run.trace(net, architecture).losses == tuple(straight.losses)

    def test_only_with_training_losses(self, net: NB201Supernet, architecture: Architecture) -> None:
        with pytest.raises(InvalidInput, match="training losses only"):
            OngoingRun(ShortRun(TRAIN, gradients=True), net, architecture).state()


class TestOneRunForAll:
    def counted(self, drawn: list[Tensor]) -> Batches:
        def note(inputs: Tensor, generator: Generator) -> Tensor:
            drawn.append(inputs)
            return inputs

        return Batches(TRAIN_DATA, 16, seed=2, augmentations=[note])

    def test_shared_runs_are_made_once(self, net: NB201Supernet, architecture: Architecture) -> None:
        drawn: list[Tensor] = []
        judge = ValAcc(VALID, TRAIN, policy=RunningStatistics())
        run = ShortRun(self.counted(drawn), steps=4, valid=VALID, gradients=True, judge=judge)
        readers: list[TraceEstimator] = [
            SoTL(run),
            SoTL(run, LastPart()),
            SoTL(run, ExponentialAverage()),
            SoVL(run),
            TLMini(run),
            SoG(run),
            SoGN(run),
            ValAccAfter(run),
        ]
        scores = Scoring(net, [*readers[:3], Parameters(), *readers[3:]])(architecture)
        assert len(drawn) == 4
        assert not isinstance(scores, Failure)
        assert [score.estimator for score in scores] == [
            "sotl", "sotl_last", "sotl_ema", "params", "sovl", "tl_mini", "sog", "sogn", "val_acc_after"
        ]  # fmt: skip
        alone = {reader.name: reader.score(net, architecture) for reader in readers}
        assert {score.estimator: score.value for score in scores if score.estimator != "params"} == alone
        assert len({score.seconds for score in scores if score.estimator != "params"}) == 1

    def test_other_runs_are_made_for_themselves(self, net: NB201Supernet, architecture: Architecture) -> None:
        drawn: list[Tensor] = []
        train = self.counted(drawn)
        Scoring(net, [SoTL(ShortRun(train, steps=2)), SoTL(ShortRun(train, steps=3))])(architecture)
        assert len(drawn) == 5

    def test_one_loss_alone_takes_one_step(self, net: NB201Supernet, architecture: Architecture) -> None:
        drawn: list[Tensor] = []
        run = ShortRun(self.counted(drawn), steps=50)
        scores = Scoring(net, [TLMini(run)])(architecture)
        assert len(drawn) == 1
        assert not isinstance(scores, Failure)
        assert scores[0].value == -ShortRun(TRAIN, steps=1).trace(net, architecture).losses[0]

    def test_a_shared_run_that_diverges_is_a_failure(self, net: NB201Supernet, architecture: Architecture) -> None:
        run = ShortRun(TRAIN, steps=8, learning_rate=1e30)
        outcome = Scoring(net, [SoTL(run), TLMini(run)])(architecture)
        assert isinstance(outcome, Failure)
        assert architecture.key in outcome.reason


class TestWhatARunMustHave:
    def test_a_judge(self) -> None:
        with pytest.raises(InvalidInput, match="a short run with judge for val_acc_after"):
            ValAccAfter(ShortRun(TRAIN))

    def test_validation_batches(self) -> None:
        with pytest.raises(InvalidInput, match="a short run with valid for sovl"):
            SoVL(ShortRun(TRAIN))

    @pytest.mark.parametrize("estimator", [SoG, SoGN])
    def test_gradients(self, estimator: type[SoG] | type[SoGN]) -> None:
        with pytest.raises(InvalidInput, match=f"a short run with gradients for {estimator.name}"):
            estimator(ShortRun(TRAIN))


def test_validation_losses_that_are_not_finite(net: NB201Supernet, architecture: Architecture) -> None:
    class Broken(FewRows):
        def epoch(self, epoch: int, *, start: int = 0) -> Iterator[Batch]:
            inputs, targets = next(VALID.epoch(0))
            return iter([Batch(inputs * float("nan"), targets)])

    with pytest.raises(NotFiniteError, match=r"finite validation loss in the short run of .* at step 1"):
        ShortRun(TRAIN, steps=2, valid=Broken()).trace(net, architecture)


def test_all_architectures_draw_dropout_of_their_own() -> None:
    with global_seed(0, "weights"):
        net = WithDropout()
    random = torch.get_rng_state()
    run = ShortRun(TRAIN, steps=3)
    first = run.trace(net, net.space.sample(generator_at(0, "a")))
    assert torch.get_rng_state().equal(random)
    assert first == run.trace(net, net.space.sample(generator_at(0, "a")))
