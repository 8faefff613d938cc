"""Loads artifacts as networks."""

from functools import partial
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from torch import Tensor, nn

from polyarch.data import NetworkExample
from polyarch.data.named_inputs import mapped
from polyarch.errors import CorruptFile, InvalidInput, UnknownName
from polyarch.export import Artifact, Extract, read_artifact
from polyarch.export.records import first_problem
from polyarch.nn import StackedNetworks
from polyarch.plugins import SPACES, is_reference
from polyarch.runs.own_module import Builder, build_own
from polyarch.runs.space_settings import SpaceSettings
from polyarch.supernets import Supernet, probe
from polyarch.tasks import Task

MOST_BLOCKS = 1000
"""Files with more blocks are refused: building them would take long before their weights are compared."""


def load_network(folder: Path) -> nn.Module:
    """The network of an artifact's first member, in evaluation mode: preprocessed inputs -> outputs."""
    networks = load_artifact(folder).networks
    if not isinstance(networks, StackedNetworks):
        raise InvalidInput(
            f"Expected an artifact with a network for every member in {folder}. "
            "Got one shared network; use load_artifact(...).networks."
        )
    return networks[0]


def load_artifact(folder: Path, *, module: Builder | None = None, verify: bool = True) -> Artifact:
    """Loads an artifact in evaluation mode.

    Args:
        module: makes the user's own network, or is the class of their space.
        verify: whether files must have the checksums of the metadata, where it has some.
    """

    def build(network: dict[str, Any], example: NetworkExample, task: Task) -> Extract:
        return _extract(network, example, task, module)

    return read_artifact(folder, build, verify=verify)


def is_own_module(network: dict[str, Any]) -> bool:
    """Whether code of the user makes the network, which a file is never trusted to name."""
    kind = str(network.get("kind"))
    return kind == "module" or is_reference(kind)


def _extract(network: dict[str, Any], example: NetworkExample, task: Task, module: Builder | None) -> Extract:
    outputs = task.outputs
    if is_own_module(network):
        if module is None:
            raise CorruptFile("a network of the user's own, which only the function that made it can make again")
        example = NetworkExample(mapped(_with_values, example.inputs), example.sizes)
        with torch.random.fork_rng(devices=[]):
            space: Any = module
            if isinstance(space, type) and issubclass(space, SpaceSettings):
                net = space.model_validate(network).build_on(example, outputs)
            else:
                net = build_own(module, example, outputs, gated=network.get("gated") is True)
        return partial(_networks, net)
    try:
        kind = SPACES[str(network.get("kind"))]
        settings: SpaceSettings = kind.model_validate(kind.stored(network))
    except UnknownName as error:
        raise CorruptFile(f"kind: {error}") from None
    except ValidationError as error:
        place, problem = first_problem(error)
        raise CorruptFile(f"{place}: {problem}") from None
    for name in ("cells", "max_depth", "depth", "blocks", "layers", "branches", "kernels", "members"):
        value = getattr(settings, name, 0)
        if (max(value) if isinstance(value, tuple) else value) > MOST_BLOCKS:
            raise CorruptFile(f"{name} {value}, more than {MOST_BLOCKS}")
    with torch.device("meta"):  # uses neither memory nor random numbers before the weights are loaded
        net = settings.build_on(example, outputs)
    net.mix_by(task.mix_members)

    def extract(architectures: list[dict[str, str]], shared: bool) -> nn.Module:
        networks = _networks(net, architectures, shared).eval()
        found = networks(example.inputs)
        if found.shape != (len(architectures), 2, outputs):
            raise CorruptFile(f"outputs of shape {tuple(found.shape[2:])} instead of {outputs}")
        return networks

    return extract


def _with_values(shape: Tensor) -> Tensor:
    """Values of the shape and type of a tensor on the meta device, as the examples of the data are not in an artifact.

    Token 0 exists in every vocabulary.
    """
    if shape.is_floating_point():
        return probe(shape.shape[1:])
    return (
        torch.ones(shape.shape, dtype=shape.dtype)
        if shape.dtype == torch.bool
        else torch.zeros_like(shape, device="cpu")
    )


def _networks(net: Supernet, architectures: list[dict[str, str]], shared: bool) -> nn.Module:
    members = [net.space.architecture(architecture) for architecture in architectures]
    if not shared:
        return StackedNetworks([net.extract(member) for member in members])
    networks = net.extract_many(members)
    if isinstance(networks, StackedNetworks):
        raise CorruptFile("members that cannot share one network")
    return networks
