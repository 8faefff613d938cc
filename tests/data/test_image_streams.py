from __future__ import annotations

import multiprocessing
import pickle
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from torch import Tensor

from polyarch.data import Batches, ImageFiles, Normalisation, RandomFlip, RandomShift, resident, stratified_split
from polyarch.data.image_files import ImagePaths
from polyarch.errors import CorruptFile, WorkerDied
from polyarch.randomness import generator_at

COUNT = 23


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> ImageFiles:
    folder = tmp_path_factory.mktemp("images")
    paths = []
    for number in range(COUNT):
        pixels = torch.randint(256, (12, 10 + number % 3, 3), generator=generator_at(number, "p"), dtype=torch.uint8)
        paths.append(str(folder / f"{number}.png"))
        Image.fromarray(pixels.numpy()).save(paths[-1])
    return ImageFiles(ImagePaths(tuple(paths)), torch.arange(COUNT), torch.arange(COUNT) % 4, 4, (3, 8, 8))


def children() -> set[int | None]:
    return {child.pid for child in multiprocessing.active_children()}


def streamed(images: ImageFiles, orders: list[Tensor]) -> list[Tensor]:
    return list(images.stream(orders))


class TestStream:
    @settings(max_examples=8)
    @given(st.lists(st.lists(st.integers(0, COUNT - 1), min_size=1, max_size=6), max_size=5))
    def test_any_order_gives_the_bits_of_the_resident_images(self, images: ImageFiles, orders: list[list[int]]) -> None:
        whole = images.resident().inputs
        rows = [torch.tensor(order) for order in orders]
        got = streamed(images, rows)
        assert len(got) == len(rows)
        for expected, batch in zip(rows, got, strict=True):
            assert batch.dtype == torch.uint8
            assert torch.equal(batch, whole[expected])

    def test_subset_of_a_subset(self, images: ImageFiles) -> None:
        part = images.subset([5, 3, 9, 1]).subset(torch.tensor([2, 0]))
        assert part.targets.tolist() == [9 % 4, 5 % 4]
        assert torch.equal(resident(part).inputs, images.resident().inputs[[9, 5]])

    def test_batches_are_those_of_the_resident_images(self, images: ImageFiles) -> None:
        """Also when only the rest of an epoch is asked for, and the global generator is left alone."""
        state = torch.random.get_rng_state()
        for start in (0, 2):
            one, other = (
                list(Batches(data, 5, seed=3, augmentations=[RandomShift(2), RandomFlip()]).epoch(1, start=start))
                for data in (images, images.resident())
            )
            assert len(one) == len(other) == 4 - start
            for got, expected in zip(one, other, strict=True):
                assert torch.equal(got.inputs, expected.inputs)
                assert torch.equal(got.targets, expected.targets)
        assert torch.equal(torch.random.get_rng_state(), state)

    def test_statistics_are_those_of_the_resident_images(self, images: ImageFiles) -> None:
        assert Normalisation.of(images) == Normalisation.of(images.resident())

    def test_split(self, images: ImageFiles) -> None:
        rest, part = stratified_split(images, 0.25, seed=0)
        whole, expected = stratified_split(images.resident(), 0.25, seed=0)
        assert torch.equal(part.targets, expected.targets)
        assert torch.equal(resident(part).inputs, expected.inputs)
        assert len(rest) == len(whole)

    def test_another_size(self, images: ImageFiles) -> None:
        small = images.resized(4)
        assert small.input_shape == (3, 4, 4)
        assert next(small.stream([torch.tensor([0, 1])])).shape == (2, 3, 4, 4)

    def test_pickles(self, images: ImageFiles) -> None:
        copy = pickle.loads(pickle.dumps(images))
        assert torch.equal(resident(copy).inputs, images.resident().inputs)


class TestWorkers:
    def test_they_end_with_the_stream(self, images: ImageFiles) -> None:
        before = children()
        stream = images.stream([torch.tensor([row]) for row in range(COUNT)])
        next(stream)
        assert len(children() - before) >= 1
        stream.close()
        assert children() == before

    def test_they_end_with_an_epoch_that_is_left_early(self, images: ImageFiles) -> None:
        before = children()
        for _ in Batches(images, 2).epoch(0):
            assert len(children() - before) >= 1
            break
        assert children() == before

    def test_in_a_spawned_process(self, images: ImageFiles) -> None:
        orders = [torch.tensor([3, 1]), torch.tensor([2])]
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(1, mp_context=context) as pool:
            got = pool.submit(streamed, images, orders).result(timeout=120)
        for rows, batch in zip(orders, got, strict=True):
            assert torch.equal(batch, images.resident().inputs[rows])

    def test_unreadable_image_is_named(self, images: ImageFiles, tmp_path: Path) -> None:
        broken = tmp_path / "broken.png"
        broken.write_bytes(b"\x89PNG\r\n\x1a\n and no more")
        assert isinstance(images.contents, ImagePaths)
        paths = ImagePaths((*images.contents.paths[:5], str(broken)))
        some = ImageFiles(paths, torch.arange(6), torch.zeros(6, dtype=torch.int64), 2, (3, 8, 8))
        before = children()
        with pytest.raises(CorruptFile) as caught:
            streamed(some, [torch.tensor([0, 1]), torch.tensor([2, 5]), torch.tensor([3])])
        assert str(caught.value).startswith(f"Expected {broken} to be a readable image. Found: ")
        assert "\n" not in str(caught.value)
        assert children() == before
        with pytest.raises(CorruptFile, match=r"broken\.png"):
            some.resident()

    def test_killed_worker_is_a_sentence(self, images: ImageFiles) -> None:
        before = children()
        stream = images.stream([torch.tensor([row % COUNT]) for row in range(500)])
        next(stream)
        for child in multiprocessing.active_children():
            if child.pid not in before:
                child.kill()
        started = time.monotonic()
        with pytest.raises(WorkerDied, match="Expected the worker processes to decode images"):
            list(stream)
        assert time.monotonic() - started < 60
