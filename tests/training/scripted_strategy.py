"""A strategy whose validation follows a script."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Generator, nn

from polyarch.data import Batch, Batches, TensorData
from polyarch.strategies import Stateful, Strategy


class Scripted(Strategy):
    """Its weight counts the steps; its validation follows a script, one value per epoch."""

    def __init__(self, script: Sequence[float] = (0.5,)) -> None:
        self.module = nn.Linear(1, 1)
        nn.init.zeros_(self.module.weight)
        self.optimizer = torch.optim.SGD(self.module.parameters(), lr=1.0)
        self.script = list(script)

    def step(self, train: Sequence[Batch], held_out: Sequence[Batch] = (), *, generator: Generator) -> dict[str, float]:
        with torch.no_grad():
            self.module.weight += 1
        return {"loss": 1.0}

    def evaluate(self, batches: Iterable[Batch], *, generator: Generator) -> dict[str, float]:
        return {"accuracy": self.script.pop(0)}

    def parts(self) -> Mapping[str, Stateful]:
        return {"module": self.module, "optimizer": self.optimizer}


def two_batches() -> Batches:
    return Batches(TensorData(torch.zeros(4, 1), torch.zeros(4, dtype=torch.int64), 2), 2)
