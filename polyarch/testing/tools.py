"""Tools of the contracts: random data, a stop at a step, and whether states agree bit for bit."""

import copy
import io
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from polyarch.data import TensorData
from polyarch.randomness import generator_at
from polyarch.training import Callback, FitState, StopRequest


def same_bits(first: object, second: object) -> bool:
    """Whether two states (tensors, plain values and containers of them) are identical; NaN equals itself."""
    match first, second:
        case Tensor(), Tensor():
            return first.dtype == second.dtype and first.shape == second.shape and _bytes(first).equal(_bytes(second))
        case Mapping(), Mapping():
            return first.keys() == second.keys() and all(same_bits(first[key], second[key]) for key in first)
        case ((str() | bytes()), _):
            return first == second
        case Sequence(), Sequence():
            return len(first) == len(second) and all(map(same_bits, first, second))
    return type(first) is type(second) and repr(first) == repr(second)


def state_of(module: nn.Module) -> dict[str, Any]:
    """A copy of everything that a call could change: weights, buffers and training flags."""
    return {
        "tensors": copy.deepcopy(module.state_dict()),
        "training": {name: part.training for name, part in module.named_modules()},
    }


def saved_and_loaded(state: Any) -> Any:
    """The state after a round trip through ``torch.save`` and ``torch.load`` without unpickling."""
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


def _bytes(tensor: Tensor) -> Tensor:
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)


def random_data(shape: Sequence[int], *, examples: int = 32, classes: int = 3, seed: int = 0) -> TensorData:
    """Normal inputs (examples, \\*shape) with learnable labels: the class shifts the mean."""
    targets = torch.arange(examples) % classes
    noise = torch.randn(examples, *shape, generator=generator_at(seed, "data"))
    return TensorData(noise + targets.view(-1, *[1] * len(shape)), targets, classes)


class StopAt(Callback):
    """Requests a stop after a step, like Ctrl-C: ``fit(..., callbacks=[stop], stop=stop.request)``."""

    def __init__(self, step: int) -> None:
        self.step = step
        self.request = StopRequest()

    def on_step_end(self, state: FitState, metrics: Mapping[str, float]) -> None:
        """Requests the stop at its step."""
        if state.step == self.step:
            self.request.ask()
