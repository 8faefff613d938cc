"""What training steps take on a machine like ours, counted instead of timed."""

from torch import Tensor

from polyarch.estimators import MACs
from polyarch.runs.run import Run
from polyarch.spaces import Architecture
from polyarch.supernets import PackedMLPSupernet

STEP_SECONDS, PIXEL_SECONDS, MAC_SECONDS = 3.3e-3, 2.4e-7, 1 / 16e9
"""What a training step takes on one core of a machine like ours: in any case, for every pixel of the batch, and for
every multiply-accumulate of its forward pass.

Fitted to pooled and plain networks of 4 to 32 channels and images of 8 to 32 pixels."""

MEMBER_MAC_SECONDS = 1 / 4e9
"""The same for networks that hold members, which also scale, activate and drop every feature of every member.

Measured on 8 to 16 members of width 128 and batches of 256."""


def work_seconds(run: Run, architecture: Architecture, batch_size: int, crop: int | None = None) -> float:
    """What a step counts on the clock ``work``: about what it takes on one core."""
    example = run.feed.example.inputs
    if crop is not None:
        assert isinstance(example, Tensor)
        example = example[:, :, :crop, :crop]
    macs = MACs(example).score(run.net, architecture)
    pixels = example[0, 0].numel() if run.feed.data.is_image and isinstance(example, Tensor) else 0
    mac_seconds = MEMBER_MAC_SECONDS if isinstance(run.net, PackedMLPSupernet) else MAC_SECONDS
    return STEP_SECONDS + batch_size * (pixels * PIXEL_SECONDS + macs * mac_seconds)
