from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from polyarch.data import Batches, load
from polyarch.errors import InvalidInput, NotFiniteError
from polyarch.estimators import Failure, Parameters, Score, Scoring, ShortRun, SoTL
from polyarch.randomness import generator_at, global_seed
from polyarch.spaces import Architecture
from polyarch.supernets import FullyConnectedDepth, NB201Supernet

DATA = load("digits").train.subset(range(70))
TRAIN = Batches(DATA, 16, seed=2)  # four batches per epoch


@pytest.fixture(scope="module")
def net() -> NB201Supernet:
    with global_seed(0, "weights"):
        return NB201Supernet(channels=2, cells=1, in_channels=1)


@pytest.fixture(scope="module")
def architectures(net: NB201Supernet) -> list[Architecture]:
    return [net.space.sample(generator_at(0, "architecture", index)) for index in range(3)]


def sotl_by_hand(
    net: NB201Supernet, architecture: Architecture, steps: int, *, rate: float, momentum: float, decay: float
) -> float:
    """SGD written out, on a copy of the whole supernet: v <- m v + g + d w, w <- w - lr v."""
    net = copy.deepcopy(net).train()
    batches = [batch for epoch in range(steps // len(TRAIN) + 1) for batch in TRAIN.epoch(epoch)]
    velocity: dict[nn.Parameter, Tensor] = {}
    total = 0.0
    for inputs, targets in batches[:steps]:
        loss = F.cross_entropy(net(inputs, architecture), targets)
        total += loss.item()
        net.zero_grad(set_to_none=True)
        loss.backward()
        with torch.no_grad():
            for weight in net.parameters():
                if weight.grad is not None:
                    gradient = weight.grad + decay * weight
                    velocity[weight] = momentum * velocity[weight] + gradient if weight in velocity else gradient
                    weight.sub_(rate * velocity[weight])
    return -total


@pytest.mark.parametrize(
    ("steps", "rate", "momentum", "decay"),
    [(1, 0.1, 0.0, 0.0), (4, 0.1, 0.0, 0.0), (4, 0.05, 0.9, 0.0), (7, 0.05, 0.9, 0.01)],  # 7: into the next epoch
)
def test_equals_a_loop_written_out(
    net: NB201Supernet, architectures: list[Architecture], steps: int, rate: float, momentum: float, decay: float
) -> None:
    estimator = SoTL(ShortRun(TRAIN, steps=steps, learning_rate=rate, momentum=momentum, weight_decay=decay))
    for architecture in architectures:
        expected = sotl_by_hand(net, architecture, steps, rate=rate, momentum=momentum, decay=decay)
        assert estimator.score(net, architecture) == pytest.approx(expected, rel=1e-5)


def test_all_architectures_see_the_same_batches(net: NB201Supernet, architectures: list[Architecture]) -> None:
    drawn: list[Tensor] = []

    def note(inputs: Tensor, generator: Generator) -> Tensor:
        drawn.append(inputs)
        return inputs

    estimator = SoTL(ShortRun(Batches(DATA, 16, seed=2, augmentations=[note]), steps=6))
    for architecture in architectures:
        estimator.score(net, architecture)
    expected = [batch.inputs for epoch in (0, 1) for batch in TRAIN.epoch(epoch)][:6]
    assert torch.equal(torch.stack(drawn), torch.stack(expected * len(architectures)))


def test_more_steps_add_losses(net: NB201Supernet, architectures: list[Architecture]) -> None:
    short, long = (
        SoTL(ShortRun(TRAIN, steps=steps, learning_rate=0.1)).score(net, architectures[0]) for steps in (2, 4)
    )
    assert long < short < 0


class WithDropout(FullyConnectedDepth):
    """Dropout in front of the exits."""

    def __init__(self) -> None:
        super().__init__(features=64, classes=10, max_depth=2, width=8)
        self.stem = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.Dropout(0.5))


def test_dropout_depends_on_seed_and_architecture_only() -> None:
    net = WithDropout()
    shallow, deep = (net.space.architecture([depth]) for depth in ("0", "2"))
    values = []
    for outside, order in ((1, (shallow, deep)), (2, (deep, shallow))):
        torch.manual_seed(outside)
        values.append({architecture: SoTL(ShortRun(TRAIN, steps=3)).score(net, architecture) for architecture in order})
    assert values[0] == values[1]
    assert SoTL(ShortRun(TRAIN, steps=3, seed=1)).score(net, deep) != values[0][deep]


class TestNotFinite:
    wild = SoTL(ShortRun(TRAIN, steps=8, learning_rate=1e30))

    def test_raises_with_estimator_and_architecture(
        self, net: NB201Supernet, architectures: list[Architecture]
    ) -> None:
        with pytest.raises(NotFiniteError) as caught:
            self.wild.score(net, architectures[0])
        assert str(caught.value) == (
            f"Expected a finite training loss in the short run of {architectures[0].key}. "
            "Got NaN or infinity at step 2."
        )

    def test_scoring_gives_a_failure(self, net: NB201Supernet, architectures: list[Architecture]) -> None:
        result = Scoring(net, [Parameters(), self.wild])(architectures[0])
        assert isinstance(result, Failure)
        assert architectures[0].key in result.reason

    def test_scoring_lets_other_errors_through(self, net: NB201Supernet, architectures: list[Architecture]) -> None:
        class Broken(Parameters):
            def score(self, *_: object) -> float:
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            Scoring(net, [Broken()])(architectures[0])


def test_scoring_keeps_the_order_of_the_estimators(net: NB201Supernet, architectures: list[Architecture]) -> None:
    estimators = [SoTL(ShortRun(TRAIN, steps=2)), Parameters()]
    scores = Scoring(net, estimators)(architectures[0])
    assert not isinstance(scores, Failure)
    assert all(isinstance(score, Score) for score in scores)
    assert [score.estimator for score in scores] == ["sotl", "params"]
    assert [score.value for score in scores] == [estimator.score(net, architectures[0]) for estimator in estimators]


def test_no_steps() -> None:
    with pytest.raises(InvalidInput, match=r"1 or more training steps. Got 0"):
        SoTL(ShortRun(TRAIN, steps=0))
