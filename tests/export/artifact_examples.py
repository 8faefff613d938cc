"""Small artifacts of every kind, and raw examples for them."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from polyarch.data import Column, Normalisation, Preprocessing, TableData, TableEncoding
from polyarch.export import Artifact, Member, export_programs, write_artifact
from polyarch.jobs.settings import CellSettings, VectorDepthSettings
from polyarch.supernets import Supernet

COLUMNS = (
    Column("age", None),
    Column("colour", ("red", "green", "blue")),
    Column("income", None),
    Column("city", ("=A",)),
)


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
    return Artifact(
        network=settings.model_dump(mode="json"),
        members=_members(net, members, preprocessing, images(32)),
        preprocessing=preprocessing,
        columns=(),
        input_shape=(3, 8, 8),
        input_dtype=torch.uint8,
        classes=tuple("abcde"),
        temperature=1.3,
        threshold=1.2,
        metrics={"accuracy": 0.5},
    )


def table_artifact(members: int = 1) -> Artifact:
    train = rows(64)
    preprocessing = TableEncoding.of(TableData(train, torch.zeros(64, dtype=torch.int64), 3), COLUMNS)
    return _depth_artifact(members, preprocessing, train, COLUMNS, ("low", "=high", "-"))


def vector_artifact(members: int = 1) -> Artifact:
    return _depth_artifact(members, Normalisation((0.1, -0.1), (1.0, 0.9)), vectors(64), (), ("arm 0", "arm 1"))


def write_whole(folder: Path, artifact: Artifact, examples: Tensor, **options: object) -> dict[str, float]:
    """The artifact and its programs; the largest difference of each."""
    write_artifact(folder, artifact)
    return export_programs(folder, artifact, examples, **options)  # type: ignore[arg-type]


def _depth_artifact(
    members: int, preprocessing: Preprocessing, train: Tensor, columns: tuple[Column, ...], classes: tuple[str, ...]
) -> Artifact:
    settings = VectorDepthSettings(max_depth=3, width=6)
    shape = tuple(train.shape[1:])
    net = settings.build(preprocessing.output_shape(shape), len(classes))
    return Artifact(
        network=settings.model_dump(mode="json"),
        members=_members(net, members, preprocessing, train),
        preprocessing=preprocessing,
        columns=columns,
        input_shape=shape,
        input_dtype=torch.float32,
        classes=classes,
        temperature=0.8,
        threshold=0.6,
        metrics={},
    )


def _members(net: Supernet, count: int, preprocessing: Preprocessing, train: Tensor) -> tuple[Member, ...]:
    """Random architectures whose batch statistics and weights are not the initial ones."""
    generator = torch.Generator().manual_seed(5)
    found = []
    for index in range(count):
        architecture = net.space.sample(generator)
        network = net.extract(architecture)
        with torch.no_grad():
            for value in network.parameters():
                value.copy_(torch.randn(value.shape, generator=generator) * 0.4)
            network(preprocessing(train))
        found.append(Member(architecture.to_dict(), 1.0 + index, network))
    return tuple(found)
