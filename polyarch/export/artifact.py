"""One architecture and its weights in a folder."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from polyarch.errors import CorruptFile
from polyarch.files import write_atomically, write_json

FORMAT = 1


@dataclass(frozen=True)
class Artifact:
    """What the folder holds.

    Args:
        architecture: choice name -> option name.
        network: what builds the supernet that the architecture belongs to.
        preprocessing: how raw inputs become network inputs.
        input_shape: the shape of one example.
        classes: class names in the order of the outputs.
        weights: the standalone network's state, by name.
    """

    architecture: dict[str, str]
    network: dict[str, Any]
    preprocessing: dict[str, Any]
    input_shape: tuple[int, ...]
    classes: tuple[str, ...]
    weights: dict[str, Tensor]


def write_artifact(folder: Path, artifact: Artifact) -> None:
    """Writes ``weights.safetensors`` and then ``architecture.json``, each atomically."""
    write_atomically(folder / "weights.safetensors", weights_bytes(artifact.weights))
    write_json(
        folder / "architecture.json",
        {
            "format": FORMAT,
            "architecture": artifact.architecture,
            "network": artifact.network,
            "preprocessing": artifact.preprocessing,
            "input_shape": list(artifact.input_shape),
            "classes": list(artifact.classes),
        },
    )


def read_artifact(folder: Path) -> Artifact:
    """Reads what ``write_artifact`` wrote."""
    path = folder / "architecture.json"
    try:
        content = json.loads(path.read_text())
        if content["format"] != FORMAT:
            raise CorruptFile(f"Expected {path} to have format {FORMAT}. Found {content['format']!r}.")
        return Artifact(
            architecture=content["architecture"],
            network=content["network"],
            preprocessing=content["preprocessing"],
            input_shape=tuple(content["input_shape"]),
            classes=tuple(content["classes"]),
            weights=read_weights(folder / "weights.safetensors"),
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CorruptFile(f"Expected an artifact in {folder}. Found: {error}.") from None


def read_weights(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file."""
    try:
        return load(path.read_bytes())
    except (OSError, SafetensorError) as error:
        raise CorruptFile(f"Expected {path} to hold weights. Found: {error}.") from None


def weights_of(network: nn.Module) -> dict[str, Tensor]:
    """A network's state as separate, contiguous tensors on the CPU."""
    return {name: value.detach().cpu().contiguous().clone() for name, value in network.state_dict().items()}


def weights_bytes(weights: dict[str, Tensor]) -> bytes:
    """Weights in safetensors format; the same weights give the same bytes."""
    return save(dict(sorted(weights.items())))
