"""Networks that read tokens or several inputs, for tests in several folders."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from polyarch.data import NamedInputs
from polyarch.nn import OneOf, Repeat
from polyarch.randomness import generator_at


class TwoTowers(nn.Module):
    """An image beside a table, with a choice in both towers."""

    def __init__(self, channels: int = 1, columns: int = 3, classes: int = 2) -> None:
        super().__init__()
        self.picture = OneOf("picture", conv3=nn.Conv2d(channels, 4, 3, padding=1), conv1=nn.Conv2d(channels, 4, 1))
        inner = nn.Sequential(nn.Linear(columns, 6), nn.Tanh(), nn.Linear(6, 4))
        self.row = OneOf("row", plain=nn.Linear(columns, 4), deep=inner)
        self.head = nn.Linear(8, classes)

    def forward(self, image: Tensor, table: Tensor) -> Tensor:
        joint = torch.cat([self.picture(image).tanh().mean((2, 3)), self.row(table)], 1)
        logits: Tensor = self.head(joint)
        return logits


class Sentences(nn.Module):
    """Padded tokens and their mask; the mean is over real tokens."""

    def __init__(self, vocabulary: int = 7, classes: int = 2) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, 4)
        deep = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 4))
        self.mix = OneOf("mix", plain=nn.Linear(4, 4), deep=deep)
        self.head = nn.Linear(4, classes)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        words = self.mix(self.embedding(tokens)).tanh().masked_fill(~mask.unsqueeze(-1), 0.0)
        logits: Tensor = self.head(words.sum(1) / mask.sum(1, keepdim=True))
        return logits


class DeepPair(nn.Module):
    """Two inputs that are joined before a repeated body."""

    def __init__(self, classes: int = 2) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(3, 4), nn.Embedding(5, 4)
        self.body = Repeat("depth", [nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.BatchNorm1d(4)) for _ in range(3)])
        self.head = nn.Linear(4, classes)

    def forward(self, table: Tensor, tokens: Tensor) -> Tensor:
        logits: Tensor = self.head(self.body(self.left(table) + self.right(tokens).mean(1)))
        return logits


class PlainPair(nn.Module):
    """Two towers without blocks, whose channels can be gated."""

    def __init__(self, classes: int = 2) -> None:
        super().__init__()
        self.stem, self.conv = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)
        self.row = nn.Linear(3, 4)
        self.joint, self.head = nn.Linear(8, 6), nn.Linear(6, classes)

    def forward(self, image: Tensor, table: Tensor) -> Tensor:
        picture = self.conv(self.stem(image).relu()).relu().mean((2, 3))
        logits: Tensor = self.head(self.joint(torch.cat([picture, self.row(table).relu()], 1)).relu())
        return logits


def image_and_table(rows: int = 6, dtype: torch.dtype = torch.float64) -> NamedInputs:
    generator = generator_at(0, "towers")
    image = torch.randn(rows, 1, 5, 5, dtype=dtype, generator=generator)
    return NamedInputs({"image": image, "table": torch.randn(rows, 3, dtype=dtype, generator=generator)})


def sentences(rows: int = 6) -> NamedInputs:
    generator = generator_at(0, "sentences")
    tokens = torch.randint(7, (rows, 5), generator=generator)
    lengths = torch.randint(1, 6, (rows, 1), generator=generator)
    return NamedInputs({"tokens": tokens, "mask": torch.arange(5) < lengths})


def table_and_tokens(rows: int = 6, dtype: torch.dtype = torch.float64) -> NamedInputs:
    generator = generator_at(0, "pair")
    table = torch.randn(rows, 3, dtype=dtype, generator=generator)
    return NamedInputs({"table": table, "tokens": torch.randint(5, (rows, 4), generator=generator)})
