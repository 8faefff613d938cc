"""Small artifacts of every kind, and raw examples for them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn

from polyarch.data import Column, Normalisation, Preprocessing, TableData, TableEncoding
from polyarch.export import Artifact, Member, export_programs, write_artifact
from polyarch.nn import StackedNetworks
from polyarch.runs.spaces import CellSettings, ImageDepthSettings, VectorDepthSettings
from polyarch.supernets import Supernet
from polyarch.tasks import Calibration, Classification, MultiLabel, Regression, Task

COLUMNS = (
    Column("age", None),
    Column("colour", ("red", "green", "blue")),
    Column("income", None),
    Column("city", ("=A",)),
)
SETS = {"method": "lac", "coverage": 0.9, "threshold": 0.7, "examples": 40, "penalty": 0.0, "free_ranks": 0}
INTERVALS = {"method": "scaled", "coverage": 0.8, "corrections": (1.4, 1.1), "examples": 40}


def images(count: int, *, seed: int = 0) -> Tensor:
    """(count, 3, 8, 8) bytes."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (count, 3, 8, 8), generator=generator, dtype=torch.uint8)


def vectors(count: int, *, seed: int = 0) -> Tensor:
    """(count, 2) floats."""
    return torch.randn(count, 2, generator=torch.Generator().manual_seed(seed))


def rows(count: int, *, seed: int = 0) -> Tensor:
    """(count, 4) rows of a table with missing values and unknown categories."""
    generator = torch.Generator().manual_seed(seed)
    values = 30 + 10 * torch.randn(count, 4, generator=generator)
    for index, column in enumerate(COLUMNS):
        if column.categories is not None:
            values[:, index] = torch.randint(-1, len(column.categories), (count,), generator=generator).float()
        values[torch.rand(count, generator=generator) < 0.2, index] = torch.nan
    return values


def image_artifact(members: int = 1) -> Artifact:
    settings = CellSettings(channels=4)
    net = settings.build((3, 8, 8), 5).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    preprocessing = Normalisation((0.5, 0.4, 0.6), (0.2, 0.3, 0.25))
    made, networks = _apart(net, members, preprocessing, images(32))
    return Artifact(
        network=settings.model_dump(mode="json"),
        members=made,
        networks=networks,
        preprocessing=preprocessing,
        columns=(),
        input_shape=(3, 8, 8),
        input_dtype=torch.uint8,
        task=Classification(tuple("abcde")),
        calibration=Calibration(1.3, 1.2, SETS),
        metrics={"accuracy": 0.5},
    )


def table_artifact(members: int = 1) -> Artifact:
    train = rows(64)
    preprocessing = TableEncoding.of(TableData(train, torch.zeros(64, dtype=torch.int64), 3), COLUMNS)
    return _depth_artifact(members, preprocessing, train, COLUMNS, Classification(("low", "=high", "-")))


def vector_artifact(members: int = 1) -> Artifact:
    return _vector_artifact(members, Classification(("arm 0", "arm 1")))


def numbers_artifact(members: int = 1) -> Artifact:
    """Of vectors; two numbers of very different size, with conformal intervals."""
    task = Regression(("weight", "=price"), (3.0, 5e5), (0.1, 1e5), coverage=0.8)
    return replace(_vector_artifact(members, task), calibration=Calibration(0.8, 1.1, INTERVALS))


def labels_artifact(members: int = 1) -> Artifact:
    """Of vectors; three labels of which several may be present."""
    artifact = _vector_artifact(members, MultiLabel(("hot", "=wet", "loud")))
    return replace(artifact, calibration=Calibration(0.8, 2.0))


def _vector_artifact(members: int, task: Task) -> Artifact:
    return _depth_artifact(members, Normalisation((0.1, -0.1), (1.0, 0.9)), vectors(64), (), task)


def shared_image_artifact() -> Artifact:
    """A mixture over depths, one network; of images."""
    settings = ImageDepthSettings(max_depth=3, channels=4, inner_channels=2)
    base = image_artifact()
    net = settings.build((3, 8, 8), 5)
    members, networks = _together(net, base.preprocessing, images(32))
    network = settings.model_dump(mode="json")
    return replace(base, network=network, members=members, networks=networks, exit_confidence=0.6)


def shared_vector_artifact() -> Artifact:
    """A mixture over depths, one network; of vectors."""
    base = vector_artifact()
    settings = VectorDepthSettings.model_validate(base.network)
    members, networks = _together(settings.build((2,), 2), base.preprocessing, vectors(64))
    return replace(base, members=members, networks=networks, exit_confidence=0.9)


def write_whole(folder: Path, artifact: Artifact, examples: Tensor, **options: object) -> dict[str, float]:
    """The artifact and its programs; the largest difference of each."""
    write_artifact(folder, artifact)
    return export_programs(folder, artifact, examples, **options)  # type: ignore[arg-type]


def _depth_artifact(
    members: int, preprocessing: Preprocessing, train: Tensor, columns: tuple[Column, ...], task: Task
) -> Artifact:
    settings = VectorDepthSettings(max_depth=3, width=6)
    shape = tuple(train.shape[1:])
    net = settings.build(preprocessing.output_shape(shape), task.outputs)
    made, networks = _apart(net, members, preprocessing, train)
    return Artifact(
        network=settings.model_dump(mode="json"),
        members=made,
        networks=networks,
        preprocessing=preprocessing,
        columns=columns,
        input_shape=shape,
        input_dtype=torch.float32,
        task=task,
        calibration=Calibration(0.8, 0.6),
        metrics={},
    )


def _apart(
    net: Supernet, count: int, preprocessing: Preprocessing, train: Tensor
) -> tuple[tuple[Member, ...], nn.Module]:
    """Random architectures with a network each."""
    generator = torch.Generator().manual_seed(5)
    members, networks = [], []
    for index in range(count):
        architecture = net.space.sample(generator)
        members.append(Member(architecture.to_dict(), 1.0 + index))
        networks.append(_trained(net.extract(architecture), generator, preprocessing(train)))
    return tuple(members), StackedNetworks(networks)


def _together(net: Supernet, preprocessing: Preprocessing, train: Tensor) -> tuple[tuple[Member, ...], nn.Module]:
    """All depths but the last, as one network."""
    depths = list(net.space.enumerate())[:-1]
    members = tuple(Member(architecture.to_dict(), 1.0 + index) for index, architecture in enumerate(depths))
    return members, _trained(net.extract_many(depths), torch.Generator().manual_seed(6), preprocessing(train))


def _trained(network: nn.Module, generator: torch.Generator, inputs: Tensor) -> nn.Module:
    """With batch statistics and weights that are not the initial ones."""
    with torch.no_grad():
        for value in network.parameters():
            value.copy_(torch.randn(value.shape, generator=generator) * 0.4)
        network(inputs)
    return network
