"""What graphs hold at most, and the time, of exact SoTL gradients through T steps: in segments, and in one graph."""

from __future__ import annotations

import weakref
from typing import Any

import torch
import torch.nn.functional as F
from measure import Goal, interleaved, medians, options, report
from torch import Tensor, nn

from polyarch.data import Batch
from polyarch.objectives import InnerSGD, direct_gradient, module_loss, unrolled_gradient
from polyarch.randomness import generator_at, global_seed

NAME = "unrolled_memory"
GOAL = Goal("<=", 2.5)
"""Memory at 16 times as many steps: 4 by the square root of T is 4 / 16 of what one graph takes; see `main`."""
SEED = 0
FEATURES, WIDTH, CLASSES, BATCH = 784, 200, 10, 100
MEGABYTE = 1 << 20


class Held:
    """Counts the bytes that graphs keep for their backward passes; a storage counts once, however often it is kept."""

    def __init__(self) -> None:
        self.now = self.most = 0
        self.kept: dict[int, int] = {}

    def pack(self, tensor: Tensor) -> _Packed:
        packed, storage = _Packed(tensor), tensor.untyped_storage()
        address, size = storage.data_ptr(), storage.nbytes()
        self.kept[address] = self.kept.get(address, 0) + 1
        if self.kept[address] == 1:
            self.now += size
            self.most = max(self.most, self.now)
        weakref.finalize(packed, self._freed, address, size)
        return packed

    def _freed(self, address: int, size: int) -> None:
        self.kept[address] -= 1
        if not self.kept[address]:
            self.now -= size

    def unpack(self, packed: _Packed) -> Tensor:
        return packed.tensor


class _Packed:
    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor
