"""Artifacts that are exported once for all tests of this folder."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest
from torch import Tensor

from polyarch.export import Artifact


class Whole(NamedTuple):
    """An artifact with its programs in a folder, raw examples, and the differences that were measured."""

    folder: Path
    artifact: Artifact
    inputs: Tensor
    differences: dict[str, float]


@pytest.fixture(scope="session")
def examples() -> ModuleType:
    """What `artifact_examples` makes; tests are no package, so it is found by its folder."""
    sys.path.insert(0, str(Path(__file__).parent))
    try:
        return importlib.import_module("artifact_examples")
    finally:
        sys.path.pop(0)


@pytest.fixture(scope="session", params=["image", "image ensemble", "table", "table ensemble", "vector"])
def whole(request: pytest.FixtureRequest, examples: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Whole:
    kind, _, ensemble = request.param.partition(" ")
    artifact = getattr(examples, f"{kind}_artifact")(3 if ensemble else 1)
    inputs = {"image": examples.images, "table": examples.rows, "vector": examples.vectors}[kind](20, seed=1)
    folder = tmp_path_factory.mktemp(request.param.replace(" ", "_"))
    return Whole(folder, artifact, inputs, examples.write_whole(folder, artifact, inputs))
