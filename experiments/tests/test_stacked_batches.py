"""Several data sets side by side."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from polyarch.data import Batches, BatchSource, Normalisation
from polyarch.errors import InvalidInput
from polyarch.testing import random_data
from polyarch_experiments.depth.stacked_batches import StackedBatches


def batches(seed: int, *, examples: int = 20, size: int = 6, shuffle: bool = True) -> Batches:
    data = random_data((2, 3), examples=examples, seed=seed)
    return Batches(data, size, seed=seed, shuffle=shuffle, preprocessing=Normalisation.of(data))


class TestStackedBatches:
    @pytest.mark.parametrize("shuffle", [True, False])
    def test_every_source_keeps_its_own_batches(self, shuffle: bool) -> None:
        sources = [batches(seed, shuffle=shuffle) for seed in range(3)]
        stacked = StackedBatches(sources)
        assert (stacked.num_examples, len(stacked)) == (20, 3 if shuffle else 4)
        for epoch in range(2):
            apart = zip(*(source.epoch(epoch) for source in sources), strict=True)
            for together, alone in zip(stacked.epoch(epoch), apart, strict=True):
                assert together.inputs.shape == (3, len(alone[0].targets), 2, 3)
                for replica, batch in enumerate(alone):
                    assert together.inputs[replica].equal(batch.inputs)
                    assert together.targets[replica].equal(batch.targets)

    @pytest.mark.parametrize("start", range(4))
    def test_start_gives_exactly_the_tail(self, start: int) -> None:
        stacked = StackedBatches([batches(0), batches(1)])
        whole, tail = list(stacked.epoch(2)), list(stacked.epoch(2, start=start))
        assert len(tail) == 3 - start
        for expected, got in zip(whole[start:], tail, strict=True):
            assert got.inputs.equal(expected.inputs) and got.targets.equal(expected.targets)

    def test_one_source_has_one_replica(self) -> None:
        (batch,) = StackedBatches([batches(0, size=20, shuffle=False)]).epoch(0)
        assert batch.inputs.shape == (1, 20, 2, 3) and batch.targets.shape == (1, 20)

    @pytest.mark.parametrize(
        ("sources", "words"),
        [
            ([], "one or more sources of one size. Got 0"),
            ([batches(0), batches(1, examples=19)], r"Got 2 of \(examples, batches\) \[\(19, 3\), \(20, 3\)\]"),
            ([batches(0), batches(1, size=5)], r"\[\(20, 3\), \(20, 4\)\]"),
        ],
    )
    def test_sources_that_do_not_fit_together(self, sources: Sequence[BatchSource], words: str) -> None:
        with pytest.raises(InvalidInput, match=words):
            StackedBatches(sources)
