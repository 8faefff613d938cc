from __future__ import annotations

from itertools import chain, islice

import pytest
import torch
from torch import Generator, Tensor

from polyarch.data import Batches, Normalisation, RandomFlip, RandomShift, TensorData, endless
from polyarch.errors import DataError, InvalidInput
from polyarch.randomness import generator_at


def numbered(count: int, *, classes: int = 3) -> TensorData:
    """Example i holds the number i."""
    return TensorData(torch.arange(float(count)).unsqueeze(1), torch.arange(count) % classes, classes)


def byte_images(count: int = 40) -> TensorData:
    inputs = torch.randint(256, (count, 3, 5, 6), generator=generator_at(0, "images"), dtype=torch.uint8)
    inputs[:, 2] = 77  # a channel that never varies
    return TensorData(inputs, torch.arange(count) % 4, 4)


class TestTensorData:
    @pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
    def test_value_that_is_not_finite_names_its_row(self, bad: float) -> None:
        inputs = torch.zeros(6, 2, 2)
        inputs[4, 1, 0] = bad
        with pytest.raises(DataError, match="NaN or infinity in example 4"):
            TensorData(inputs, torch.zeros(6, dtype=torch.int64), 2)

    @pytest.mark.parametrize(
        ("inputs", "targets", "complaint"),
        [
            (torch.zeros(3, 2), torch.tensor([0, 1, 2]), r"labels in 0\.\.1. Found 0\.\.2"),
            (torch.zeros(3, 2), torch.tensor([0, -1, 1]), r"Found -1\.\.1"),
            (torch.zeros(0, 2), torch.zeros(0, dtype=torch.int64), "empty data set"),
            (torch.zeros(3, 2), torch.tensor([0, 1]), "one label per example. Got 3 and 2"),
            (
                torch.zeros(3, 2),
                torch.tensor([0.0, 1.0, 1.0]),
                r"numbers \(N, T\) of floats or .* Got torch\.float32, \(3,\)",
            ),
            (
                torch.zeros(3, 2),
                torch.zeros(3, 1, dtype=torch.int64),
                r"labels \(N,\) of int64, .* Got torch\.int64, \(3, 1\)",
            ),
            (torch.zeros(3), torch.tensor([0, 1, 1]), r"examples of one dimension or more. Got shape \(3,\)"),
        ],
    )
    def test_what_cannot_be_used(self, inputs: Tensor, targets: Tensor, complaint: str) -> None:
        with pytest.raises(DataError, match=complaint):
            TensorData(inputs, targets, 2)

    def test_subset_keeps_order_and_labels(self) -> None:
        subset = numbered(10).subset([7, 2, 2])
        assert subset.inputs.flatten().tolist() == [7, 2, 2]
        assert subset.targets.tolist() == [1, 2, 2]
        assert subset.input_shape == (1,)


class TestNormalisation:
    def test_bytes_and_floats_agree(self) -> None:
        data = byte_images()
        floats = TensorData(data.inputs.float() / 255, data.targets, 4)
        of_bytes, of_floats = Normalisation.of(data), Normalisation.of(floats)
        assert of_bytes.mean == pytest.approx(of_floats.mean, abs=1e-7)
        assert of_bytes.std == pytest.approx(of_floats.std, abs=1e-7)
        torch.testing.assert_close(of_bytes(data.inputs), of_bytes(floats.inputs), atol=1e-5, rtol=0)

    def test_result_has_mean_zero_and_deviation_one(self) -> None:
        data = byte_images()
        values = Normalisation.of(data)(data.inputs).double()
        assert values.mean((0, 2, 3)).tolist() == pytest.approx([0, 0, 0], abs=1e-5)
        assert values.std((0, 2, 3), correction=0).tolist() == pytest.approx([1, 1, 0], abs=1e-5)

    def test_constant_channel_is_only_moved(self) -> None:
        assert Normalisation.of(byte_images()).std[2] == 1

    def test_features_of_a_table(self) -> None:
        data = TensorData(torch.tensor([[1.0, 5.0], [3.0, 5.0]]), torch.tensor([0, 1]), 2)
        normalisation = Normalisation.of(data)
        assert (normalisation.mean, normalisation.std) == ((2.0, 5.0), (1.0, 1.0))
        assert normalisation(data.inputs).tolist() == [[-1, 0], [1, 0]]


class TestBatches:
    def rows(self, batches: Batches, epoch: int, start: int = 0) -> list[list[float]]:
        return [batch.inputs.flatten().tolist() for batch in batches.epoch(epoch, start=start)]

    def test_an_epoch_is_a_permutation_and_each_has_its_own(self) -> None:
        batches = Batches(numbered(24), 6)
        first, second = (list(chain(*self.rows(batches, epoch))) for epoch in (0, 1))
        assert sorted(first) == sorted(second) == list(range(24))
        assert first != second

    def test_same_seed_and_epoch_give_the_same_order(self) -> None:
        one, other, third = (Batches(numbered(24), 6, seed=seed) for seed in (5, 5, 6))
        assert self.rows(one, 3) == self.rows(other, 3)
        assert self.rows(one, 3) != self.rows(third, 3)

    @pytest.mark.parametrize(("shuffle", "lengths"), [(True, [7, 7, 7]), (False, [7, 7, 7, 4])])
    def test_incomplete_last_batch(self, shuffle: bool, lengths: list[int]) -> None:
        batches = Batches(numbered(25), 7, shuffle=shuffle)
        assert [len(rows) for rows in self.rows(batches, 0)] == lengths
        assert len(batches) == len(lengths)
        assert batches.num_examples == 25

    def test_without_shuffling_the_given_order(self) -> None:
        assert list(chain(*self.rows(Batches(numbered(10), 4, shuffle=False), 8))) == list(range(10))

    def test_targets_stay_with_their_inputs(self) -> None:
        for inputs, targets in Batches(numbered(30), 4).epoch(2):
            assert torch.equal(inputs.flatten().long() % 3, targets)

    @pytest.mark.parametrize("start", range(6))
    def test_start_gives_exactly_the_tail(self, start: int) -> None:
        batches = Batches(byte_images(), 8, augmentations=[RandomShift(2), RandomFlip()], seed=4)
        whole, tail = list(batches.epoch(1)), list(batches.epoch(1, start=start))
        assert len(tail) == len(whole) - start == 5 - start
        for expected, got in zip(whole[start:], tail, strict=True):
            assert torch.equal(expected.inputs, got.inputs)
            assert torch.equal(expected.targets, got.targets)

    def test_augmentation_depends_on_epoch_and_batch(self) -> None:
        drawn: dict[tuple[int, int], float] = {}

        def note(inputs: Tensor, generator: Generator) -> Tensor:
            drawn[len(drawn) // 5, len(drawn) % 5] = torch.rand((), generator=generator).item()
            return inputs

        batches = Batches(byte_images(), 8, augmentations=[note])
        for epoch in (0, 1):
            assert len(list(batches.epoch(epoch))) == 5
        assert len(set(drawn.values())) == 10
        for (epoch, index), value in drawn.items():
            assert value == torch.rand((), generator=generator_at(0, "augment", epoch, index)).item()

    def test_augmentation_sees_bytes_and_normalisation_comes_last(self) -> None:
        data = byte_images()
        seen: list[torch.dtype] = []

        def blacken(inputs: Tensor, generator: Generator) -> Tensor:
            seen.append(inputs.dtype)
            return torch.zeros_like(inputs)

        normalisation = Normalisation.of(data)
        batch = next(iter(Batches(data, 8, augmentations=[blacken], preprocessing=normalisation).epoch(0)))
        assert seen == [torch.uint8]
        torch.testing.assert_close(batch.inputs, normalisation(torch.zeros_like(data.inputs[:8])))

    def test_images_are_channels_last_floats(self) -> None:
        batch = next(iter(Batches(byte_images(), 8).epoch(0)))
        assert batch.inputs.dtype == torch.float32
        assert batch.inputs.is_contiguous(memory_format=torch.channels_last)
        assert batch.inputs.shape == (8, 3, 5, 6)

    def test_batch_larger_than_the_data(self) -> None:
        batches = Batches(numbered(5), 64)
        assert (len(batches), len(self.rows(batches, 0)[0])) == (1, 5)

    @pytest.mark.parametrize("size", [0, -1])
    def test_batch_size_below_one(self, size: int) -> None:
        with pytest.raises(InvalidInput, match=f"batch size of 1 or more. Got {size}"):
            Batches(numbered(5), size)

    def test_endless_goes_through_the_epochs(self) -> None:
        batches = Batches(numbered(12), 4)
        expected = self.rows(batches, 0) + self.rows(batches, 1) + self.rows(batches, 2)[:1]
        assert [batch.inputs.flatten().tolist() for batch in islice(endless(batches), 7)] == expected

    @pytest.mark.parametrize("start", [1, 3, 5])  # three batches per epoch
    def test_endless_from_the_middle(self, start: int) -> None:
        batches = Batches(numbered(12), 4)
        whole = [batch.inputs.flatten().tolist() for batch in islice(endless(batches), 7)]
        later = islice(endless(batches, start=start), 7 - start)
        assert [batch.inputs.flatten().tolist() for batch in later] == whole[start:]
