"""Artifacts with mistakes in their files."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from polyarch.errors import CorruptFile
from polyarch.prediction.loading import load_artifact

Change = Callable[[dict[str, Any]], object]


def damage(folder: Path, name: str, change: Change) -> None:
    """Changes a file of JSON; the artifact is refused then."""
    content = json.loads((folder / name).read_text())
    change(content)
    (folder / name).write_text(json.dumps(content))
    assert_refused(folder)


def assert_refused(folder: Path) -> None:
    """In one sentence that names the folder."""
    with pytest.raises(CorruptFile, match="Expected") as caught:
        load_artifact(folder, verify=False)
    assert "\n" not in str(caught.value) and str(folder) in str(caught.value)


def damage_at_random(folder: Path, *, times: int) -> None:
    """Loads the artifact with random letters in its files, one file at a time."""
    generator = random.Random(0)
    for name in ("architecture.json", "metadata.json", "weights.safetensors"):
        whole = (folder / name).read_bytes()
        for _ in range(times):
            content = bytearray(whole)
            for _ in range(3):
                content[generator.randrange(min(len(content), 2000))] = generator.randrange(32, 127)
            (folder / name).write_bytes(content)
            try:
                load_artifact(folder, verify=False)
            except CorruptFile as error:
                assert "\n" not in str(error)
        (folder / name).write_bytes(whole)
