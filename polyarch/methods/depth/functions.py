"""What a network predicts at every depth over the plane, for data of two numbers."""

import base64
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from polyarch.data import resident
from polyarch.methods.depth.record import DepthFunctions
from polyarch.runs.run import Run
from polyarch.tasks import Classification

SIDE = 56
MARGIN = 0.1
"""Of the range of the training examples, on every side of it."""
MOST_POINTS = 400


def depth_functions(run: Run, exits: nn.Module, depths: Sequence[int]) -> DepthFunctions | None:
    """The most probable class and its probability on a grid, at every depth; None unless classes of two numbers.

    Args:
        exits: preprocessed inputs (B, 2) -> logits (K, B, C), in evaluation mode.
    """
    data = run.feed.data
    is_plane = data.input_shape == (2,) and data.input_dtype == torch.float32
    if not (is_plane and isinstance(run.task, Classification)) or any(column.categories for column in data.columns):
        return None
    train = resident(run.feed.train)
    known = train.inputs[train.inputs.isfinite().all(1)]
    low, high = known.amin(0), known.amax(0)
    room = MARGIN * (high - low).clamp_min(1e-6)
    low, high = low - room, high + room
    x, y = (torch.linspace(float(low[axis]), float(high[axis]), SIDE) for axis in range(2))
    rows, columns = torch.meshgrid(y, x, indexing="ij")  # row by row from the lowest y upwards
    grid = torch.stack([columns.flatten(), rows.flatten()], 1).to(run.settings.device)
    with torch.no_grad():
        outputs = exits(run.feed.preprocessing(grid))  # (K, SIDE * SIDE, C)
    share = outputs.new_ones(1)
    probabilities = torch.stack([run.task.read(one[None], share, {})[0] for one in outputs])
    confidence, classes = probabilities.max(-1)
    shown = train.subset(torch.arange(len(train))[:MOST_POINTS])
    points = [
        (round(float(point[0]), 4), round(float(point[1]), 4), int(target))
        for point, target in zip(shown.inputs, shown.targets, strict=True)
        if point.isfinite().all()
    ]
    names = [column.name for column in run.feed.data.columns] or ["x", "y"]
    return DepthFunctions(
        names=(names[0], names[1]),
        x_range=(float(x[0]), float(x[-1])),
        y_range=(float(y[0]), float(y[-1])),
        side=SIDE,
        depths=list(depths),
        classes=[as_text(one) for one in classes],
        confidence=[as_text((255 * one).round()) for one in confidence],
        points=points,
    )


def as_text(values: Tensor) -> str:
    """Whole numbers from 0 to 255 as base64, a byte each."""
    return base64.b64encode(values.cpu().to(torch.uint8).numpy().tobytes()).decode()
