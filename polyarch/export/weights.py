"""Weights of networks as safetensors files: tensors by name and nothing that could run."""

from __future__ import annotations

from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from polyarch.errors import CorruptFile, InvalidInput


def weights_of(network: nn.Module) -> dict[str, Tensor]:
    """A network's state as separate, contiguous tensors on the CPU."""
    state = network.state_dict()
    for name, value in state.items():
        if not isinstance(value, Tensor):
            raise InvalidInput(f"Expected a network whose state is tensors. Got {type(value).__name__} for {name!r}.")
    return {name: value.detach().cpu().contiguous().clone() for name, value in state.items()}


def weights_bytes(weights: dict[str, Tensor]) -> bytes:
    """Weights in safetensors format; the same weights give the same bytes."""
    return save(dict(sorted(weights.items())))


def read_weights(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file."""
    try:
        return load(path.read_bytes())
    except (OSError, SafetensorError) as error:
        raise CorruptFile(f"Expected {path} to hold weights. Found: {error}.") from None


def load_weights(network: nn.Module, weights: dict[str, Tensor]) -> None:
    """Gives a network the weights; names, shapes and types must be those of its state.

    A network on the meta device takes the tensors over and is on the CPU afterwards.
    """
    state = network.state_dict()
    for name in sorted(state.keys() ^ weights.keys()):
        where = "has none in its file" if name in state else "is not in the network"
        raise CorruptFile(f"Expected the weights of the described network. Found that {name!r} {where}.")
    for name, value in state.items():
        wanted, found = (value.dtype, tuple(value.shape)), (weights[name].dtype, tuple(weights[name].shape))
        if wanted != found:
            raise CorruptFile(
                f"Expected {name!r} as {wanted[0]} of shape {wanted[1]}. Found {found[0]} of shape {found[1]}."
            )
    network.load_state_dict(weights, assign=any(value.is_meta for value in state.values()))
