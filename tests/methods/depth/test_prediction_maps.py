"""Pictures of what is predicted: the right class at the right place, in a colour of its own."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from io import BytesIO
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest
from depth_examples import photos_results, spirals_results
from PIL import Image
from rendered import page_of

from polyarch.methods.depth.prediction_maps import (
    COLOURS,
    MOST_MAPS,
    colour_of,
    prediction_maps,
    selected,
    training_points,
)
from polyarch.methods.depth.record import DepthFunctions, DepthRecord
from polyarch.reports.specs import MOST_POINTS

SIDE = 3


def record_with(
    classes: list[int], confidence: list[int], points: list[tuple[float, float, int]] | None = None
) -> DepthRecord:
    """A record whose only picture has these bytes, row by row from below."""
    record = spirals_results().found(DepthRecord)
    assert record is not None
    record.functions = DepthFunctions(
        names=("a", "b"),
        x_range=(10.0, 12.0),
        y_range=(-1.0, 1.0),
        side=SIDE,
        depths=[record.chosen],
        classes=[b64encode(bytes(classes)).decode()],
        confidence=[b64encode(bytes(confidence)).decode()],
        points=points or [],
    )
    return record


def pixels(record: DepthRecord, classes: int) -> list[list[tuple[int, ...]]]:
    """Red, green, blue and opacity of every pixel, row by row from above."""
    (found,) = prediction_maps(record, classes)
    encoded = re.search(r"base64,([^\"]+)", found.picture)
    assert encoded is not None
    picture = Image.open(BytesIO(b64decode(encoded[1]))).convert("RGBA")
    return [[tuple(pixel) for pixel in row] for row in np.asarray(picture).tolist()]


def points_of(record: DepthRecord) -> str:
    assert record.functions is not None
    return training_points(record.functions)


def rgb(colour: str) -> tuple[int, int, int]:
    red, green, blue = bytes.fromhex(colour[1:])
    return red, green, blue


def test_class_is_colour_from_below_upwards() -> None:
    found = pixels(record_with([0, 0, 1, 2, 2, 2, 9, 9, 9], [255] * 9), 10)
    assert [[pixel[:3] for pixel in row] for row in found] == [
        [rgb(COLOURS[9])] * 3,
        [rgb(COLOURS[2])] * 3,
        [rgb(COLOURS[0]), rgb(COLOURS[0]), rgb(COLOURS[1])],
    ]


def test_confidence_is_strength_from_a_guess_to_certainty() -> None:
    (bottom,) = pixels(record_with([0] * 9, [128, 192, 255] * 3), 2)[-1:]
    weak, middle, strong = [pixel[3] for pixel in bottom]
    assert weak < 0.2 * 255 < middle < 0.7 * 255 < strong < 255
    (bottom,) = pixels(record_with([0] * 9, [26, 128, 255] * 3), 10)[-1:]
    assert bottom[0][3] < 0.2 * 255 < bottom[1][3] < 0.7 * 255 < bottom[2][3]


def test_more_classes_than_colours_begin_again() -> None:
    record = record_with([12, 2, 0] * 3, [255] * 9)
    assert [pixel[:3] for pixel in pixels(record, 13)[0]] == [rgb(COLOURS[2]), rgb(COLOURS[2]), rgb(COLOURS[0])]
    assert colour_of(12) == COLOURS[2]


def test_points_lie_in_the_middle_of_their_pixels() -> None:
    record = record_with([0] * 9, [255] * 9, [(10.0, -1.0, 0), (12.0, 1.0, 1), (11.0, 0.0, 1)])
    rims, first, second = (node.attrib for node in ElementTree.fromstring(points_of(record)).iter("path"))
    assert first["d"] == "M0.5 2.5h0"
    assert second["d"] == "M2.5 0.5h0M1.5 1.5h0"
    assert (first["stroke"], second["stroke"]) == COLOURS[:2]
    assert rims["d"].count("M") == 3


def test_many_points_are_thinned() -> None:
    record = record_with([0] * 9, [255] * 9, [(10 + index / 1000, 0.0, index % 2) for index in range(2000)])
    assert points_of(record).count("h0") == 2 * MOST_POINTS
    page = page_of(spirals_results(record=record))
    assert "Points: 400 of the 2,000 training examples." in page


@pytest.mark.parametrize("deepest", [20, 23, 24, 50, 100])
def test_many_depths_are_selected_with_ends_and_choice(deepest: int) -> None:
    depths = list(range(deepest + 1))
    for chosen in depths:
        kept = [depth for _, depth in selected(depths, chosen)]
        assert len(kept) == len(set(kept)) == min(len(depths), MOST_MAPS)
        assert kept == sorted(kept)
        assert {0, chosen, deepest} <= set(kept)
        assert max(after - before for before, after in pairwise(kept)) <= 2 * len(depths) / len(kept)


def test_only_data_of_two_numbers_have_pictures() -> None:
    record = photos_results().found(DepthRecord)
    assert record is not None
    assert prediction_maps(record, 1) == []
