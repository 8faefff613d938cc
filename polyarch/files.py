"""Files that are either complete or absent, and journals that survive a kill."""

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def write_atomically(path: Path, content: bytes | str) -> None:
    """Writes a temporary file in the same folder and renames it, so that readers see the old or the new content."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = content.encode() if isinstance(content, str) else content
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)  # noqa: PTH101 - mkstemp creates private files
        os.replace(temporary, path)  # noqa: PTH105 - atomic within a folder
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def write_json(path: Path, value: Any) -> None:
    """Writes indented JSON atomically; refuses NaN and infinity."""
    write_atomically(path, json.dumps(value, indent=2, allow_nan=False) + "\n")


def journal_records(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a journal, which stays as it is: another process may be writing it."""
    records: list[dict[str, Any]] = []
    content = path.read_bytes() if path.exists() else b""
    for line in content[: content.rfind(b"\n") + 1].splitlines():
        try:
            records.append(json.loads(line))
        except ValueError:  # a machine crash lost bytes: the rest cannot be trusted
            break
    return records


class Journal:
    """An append-only file of JSON lines; opening it drops a last line that a kill cut short."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self.records = journal_records(path)
        kept = b"".join(json.dumps(record).encode() + b"\n" for record in self.records)
        if path.exists() and kept != path.read_bytes():
            write_atomically(path, kept)

    def append(self, record: Mapping[str, Any]) -> None:
        """Adds one record and forces it to disk."""
        line = json.dumps(record, allow_nan=False)
        with self.path.open("a") as file:
            file.write(line + "\n")
            file.flush()
            os.fsync(file.fileno())
        self.records.append(dict(record))
