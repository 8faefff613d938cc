"""A network of one's own, for the tests of this folder."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from polyarch.nn import Maybe, OneOf, Repeat
from polyarch.randomness import generator_at


def conv(inputs: int, outputs: int, kernel: int = 3) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()
    )


def normal(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, dtype=dtype, generator=generator_at(0, "inputs"))


class Images(nn.Module):
    """All three kinds of block in a row."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = OneOf(
            "stem", conv3=conv(3, 4), conv5=conv(3, 4, 5), pool=nn.Sequential(nn.AvgPool2d(3, 1, 1), conv(3, 4, 1))
        )
        self.body = Repeat("depth", [conv(4, 4) for _ in range(3)], minimum=0)
        self.gate = Maybe("gate", nn.Sequential(nn.Conv2d(4, 4, 1), nn.Sigmoid()))
        self.head = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.body(self.stem(x))
        logits: Tensor = self.head((x + self.gate(x)).mean((2, 3)))
        return logits
