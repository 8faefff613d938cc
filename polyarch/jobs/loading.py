"""Loading an artifact back as a network."""

from __future__ import annotations

from pathlib import Path

from pydantic import TypeAdapter, ValidationError
from torch import nn

from polyarch.errors import CorruptFile, PolyarchError
from polyarch.export import read_artifact
from polyarch.jobs.settings import SpaceSettings


def load_network(folder: Path) -> nn.Module:
    """The standalone network of an artifact folder, in evaluation mode: normalised inputs -> logits (B, classes)."""
    artifact = read_artifact(folder)
    try:
        settings = TypeAdapter(SpaceSettings).validate_python(artifact.network)
        net = settings.build(artifact.input_shape, len(artifact.classes))
        network = net.extract(net.space.architecture(artifact.architecture))
        network.load_state_dict(artifact.weights)
    except (ValidationError, RuntimeError, PolyarchError) as error:
        raise CorruptFile(f"Expected the artifact in {folder} to describe its network. Found: {error}.") from None
    return network.eval()
