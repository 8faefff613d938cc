"""What training steps take on a machine like ours, counted instead of timed."""

from torch import Tensor

from polyarch.estimators import MACs
from polyarch.runs.run import Run
from polyarch.spaces import Architecture

STEP_SECONDS, PIXEL_SECONDS, MAC_SECONDS = 2e-3, 3.7e-7, 1 / 13e9
"""What a training step takes on one core of a machine like ours: in any case, for every pixel of the batch, and for
every multiply-accumulate of its forward pass.

Measured on residual networks of 4 to 32 channels and images of 8 to 32 pixels."""


def work_seconds(run: Run, architecture: Architecture, batch_size: int, crop: int | None = None) -> float:
    """What a step counts on the clock ``work``: about what it takes on one core."""
    example = run.feed.example.inputs
    if crop is not None:
        assert isinstance(example, Tensor)
        example = example[:, :, :crop, :crop]
    macs = MACs(example).score(run.net, architecture)
    pixels = example[0, 0].numel() if run.feed.data.is_image and isinstance(example, Tensor) else 0
    return STEP_SECONDS + batch_size * (pixels * PIXEL_SECONDS + macs * MAC_SECONDS)
