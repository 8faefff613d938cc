"""The one batch that small data in full batches are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Generator, Tensor

from polyarch.data import Batches, Normalisation, TensorData, spirals


@dataclass(frozen=True)
class Counted(TensorData):
    """Notes how often examples are asked for."""

    asked: list[int] = field(default_factory=list)

    def stream(self, orders: Sequence[Tensor], /) -> Iterator[Tensor]:
        self.asked.append(len(orders))
        return super().stream(orders)


def counted() -> Counted:
    data = spirals(12, seed=0)
    return Counted(data.inputs, data.targets, data.classes)


class TestTheWholeAsOneBatch:
    def test_it_is_made_once_and_is_what_it_was(self) -> None:
        data = counted()
        normalisation = Normalisation.of(data)
        source = Batches(data, 50, shuffle=False, preprocessing=normalisation)
        first, second = (list(source.epoch(epoch)) for epoch in (0, 7))
        assert data.asked == [1]
        assert len(source) == len(first) == len(second) == 1
        assert first[0].inputs is second[0].inputs
        assert first[0].inputs.equal(normalisation(data.inputs)) and first[0].targets.equal(data.targets)
        assert not list(source.epoch(3, start=1))

    def test_whatever_changes_from_epoch_to_epoch_is_made_anew(self) -> None:
        def noisy(inputs: Tensor, generator: Generator) -> Tensor:
            return inputs + torch.rand(inputs.shape, generator=generator)

        for source in (
            Batches(counted(), 50, shuffle=True),
            Batches(counted(), 50, shuffle=False, augmentations=[noisy]),
        ):
            ((first, _),), ((second, _),), ((again, _),) = (list(source.epoch(epoch)) for epoch in (0, 1, 0))
            assert not first.equal(second)
            assert first.equal(again)

    def test_several_batches_are_not_kept(self) -> None:
        data = counted()
        source = Batches(data, 6, shuffle=False)
        assert [len(list(source.epoch(0))) for _ in range(2)] == [2, 2]
        assert data.asked == [2, 2]
