"""Weights as safetensors files, which hold named tensors and nothing executable."""

from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from polyarch.errors import CorruptFile, InvalidInput


def weights_of(network: nn.Module) -> dict[str, Tensor]:
    """The state of a network as separate, contiguous tensors on the CPU."""
    state = network.state_dict()
    for name, value in state.items():
        if not isinstance(value, Tensor):
            raise InvalidInput(f"Expected a network whose state is tensors. Got {type(value).__name__} for {name!r}.")
    return {name: value.detach().cpu().contiguous().clone() for name, value in state.items()}


def distinct_weights_of(network: nn.Module) -> dict[str, Tensor]:
    """Like `weights_of`, with every shared tensor only once, under its first name."""
    first = _first_names(network)
    return {name: value for name, value in weights_of(network).items() if first[name] == name}


def weights_bytes(weights: dict[str, Tensor]) -> bytes:
    """Weights in safetensors format; equal weights give equal bytes."""
    return save(dict(sorted(weights.items())))


def read_weights(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file."""
    try:
        return load(path.read_bytes())
    except (OSError, SafetensorError) as error:
        raise CorruptFile(f"Expected {path} to hold weights. Found: {error}.") from None


def load_weights(network: nn.Module, weights: dict[str, Tensor]) -> None:
    """Loads weights whose names, shapes and types match the state of the network.

    A shared tensor needs only its first name. A network on the meta device adopts the tensors and is then on the CPU.
    """
    state, first = network.state_dict(), _first_names(network)
    weights = {name: weights[first[name]] for name in state if first[name] in weights} | weights
    for name in sorted(state.keys() ^ weights.keys()):
        problem = "is missing" if name in state else "is not part of the network"
        raise CorruptFile(f"Expected the weights of the described network. Found that {name!r} {problem}.")
    for name, value in state.items():
        wanted, found = (value.dtype, tuple(value.shape)), (weights[name].dtype, tuple(weights[name].shape))
        if wanted != found:
            raise CorruptFile(
                f"Expected {name!r} as {wanted[0]} of shape {wanted[1]}. Found {found[0]} of shape {found[1]}."
            )
    network.load_state_dict(weights, assign=any(value.is_meta for value in state.values()))
    tensors = network.state_dict(keep_vars=True)
    for name in state:  # adopted tensors are no longer shared
        owner, _, leaf = name.rpartition(".")
        setattr(network.get_submodule(owner), leaf, tensors[first[name]])


def _first_names(network: nn.Module) -> dict[str, str]:
    """The name of every tensor -> its first name."""
    found: dict[int, str] = {}
    return {name: found.setdefault(id(value), name) for name, value in network.state_dict(keep_vars=True).items()}
