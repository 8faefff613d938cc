"""Files that are either whole or not there, and journals that survive a kill."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def write_atomically(path: Path, content: bytes | str) -> None:
    """Writes through a temporary file in the same folder, so that a reader sees the old or the new file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = content.encode() if isinstance(content, str) else content
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)  # noqa: PTH101 - mkstemp makes files private
        os.replace(temporary, path)  # noqa: PTH105 - same folder, so this is atomic
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def write_json(path: Path, value: Any) -> None:
    """Writes readable JSON atomically; NaN and infinity are refused."""
    write_atomically(path, json.dumps(value, indent=2, allow_nan=False) + "\n")


class Journal:
    """An append-only file of JSON lines; a line torn by a kill is dropped when the journal is opened."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self.records: list[dict[str, Any]] = []
        if not path.exists():
            return
        content = path.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        for line in whole.splitlines():
            try:
                self.records.append(json.loads(line))
            except ValueError:  # bytes lost in a crash of the machine: what follows cannot be trusted
                break
        kept = b"".join(json.dumps(record).encode() + b"\n" for record in self.records)
        if kept != content:
            write_atomically(path, kept)

    def append(self, record: Mapping[str, Any]) -> None:
        """Adds one record and forces it to disk."""
        line = json.dumps(record, allow_nan=False)
        with self.path.open("a") as file:
            file.write(line + "\n")
            file.flush()
            os.fsync(file.fileno())
        self.records.append(dict(record))
