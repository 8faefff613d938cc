"""What a user would do instead of a search on images: one ordinary residual network, for the same processor time."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from polyarch.data import Augmentation, RandomFlip, RandomShift
from polyarch.randomness import global_seed
from polyarch.runs.feed import Feed
from polyarch.runs.networks import to_device

BATCH, PEAK, WEIGHT_DECAY, RISING = 64, 0.1, 5e-4, 0.3


class Block(nn.Module):
    """norm-relu-conv twice, with a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first, self.second = nn.BatchNorm2d(inputs), nn.BatchNorm2d(outputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.shortcut = nn.Conv2d(inputs, outputs, 1, bias=False) if stride > 1 else None
        self.pool = nn.AvgPool2d(stride, ceil_mode=True)

    def forward(self, x: Tensor) -> Tensor:
        a = F.relu(self.first(x))
        b: Tensor = self.conv2(F.relu(self.second(self.conv1(a))))
        return b + (x if self.shortcut is None else self.shortcut(self.pool(a)))


def resnet(channels: int, classes: int, width: int = 16) -> nn.Module:
    """Pre-activation, one block per stage: 16, 32 and 64 channels, or so many times another width."""
    blocks = [Block(width, width, 1), Block(width, 2 * width, 2), Block(2 * width, 4 * width, 2)]
    end = [nn.BatchNorm2d(4 * width), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4 * width, classes)]
    return nn.Sequential(nn.Conv2d(channels, width, 3, 1, 1, bias=False), *blocks, *end)


def width_of(macs: float, input_shape: Sequence[int], classes: int) -> int:
    """The width whose network has about so many multiply-accumulates for one example."""
    return min(range(4, 65), key=lambda width: abs(plain_macs(width, input_shape, classes) - macs))


def plain_macs(width: int, input_shape: Sequence[int], classes: int) -> float:
    """Multiply-accumulates of one example."""
    counter = FlopCounterMode(display=False)
    with counter, torch.device("meta"):
        resnet(input_shape[0], classes, width).eval()(torch.empty(1, *input_shape))
    return counter.get_total_flops() / 2


def plain_parameters(channels: int, classes: int) -> int:
    """How many parameters the plain network has."""
    return sum(parameter.numel() for parameter in resnet(channels, classes).parameters())


@dataclass(frozen=True)
class PlainTraining:
    """Trains a plain network by a one-cycle schedule for so many processor seconds."""

    feed: Feed
    seconds: float
    width: int = 16

    def __call__(self, seed: int) -> tuple[Tensor, Tensor, int]:
        """Logits on validation and on test examples, and the number of steps."""
        torch.set_num_threads(1)
        channels, height, _ = self.feed.data.input_shape
        with global_seed(seed, "plain"):
            network = to_device(resnet(channels, len(self.feed.data.class_names), self.width), torch.device("cpu"))
        optimizer = torch.optim.SGD(
            network.parameters(), lr=PEAK, momentum=0.9, nesterov=True, weight_decay=WEIGHT_DECAY, foreach=True
        )
        shift, flip = RandomShift(max(height // 8, 1)), RandomFlip()
        augmentations: list[Augmentation] = [shift, flip] if channels == 3 else [shift]
        feed = replace(self.feed, augmentations=augmentations)
        batches = feed.batches(feed.train, BATCH, stream=f"plain {seed}")
        started, steps, epoch = time.process_time(), 0, 0
        share = 0.0
        while share < 1:
            for batch in batches.epoch(epoch):
                share = (time.process_time() - started) / self.seconds
                if share >= 1:
                    break
                for group in optimizer.param_groups:
                    group["lr"] = PEAK * one_cycle(share)
                optimizer.zero_grad()
                F.cross_entropy(network(batch.inputs), batch.targets).backward()
                optimizer.step()
                steps += 1
            epoch += 1
        network.eval()
        with torch.no_grad():
            valid, test = (
                torch.cat([network(batch.inputs) for batch in feed.in_order(data).epoch(0)])
                for data in (feed.valid, feed.data.test)
            )
        return valid.double(), test.double(), steps


def one_cycle(share: float) -> float:
    """From 1/25 up to 1 and down to 0 along cosines. Smith and Topin (2018), arXiv:1708.07120."""
    if share < RISING:
        return 1 / 25 + (1 - 1 / 25) * (1 - math.cos(math.pi * share / RISING)) / 2
    return (1 + math.cos(math.pi * (share - RISING) / (1 - RISING))) / 2
