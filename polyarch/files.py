"""Files that are either complete or absent, and journals that survive a kill."""

import json
import os
import tempfile
import zlib
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


CHECKSUM = "crc32"
"""The last key of every line of a journal: the checksum of the record without it."""


class Journal:
    """An append-only file of JSON lines with checksums; opening it drops a last line that a kill cut short.

    A line that does not match its checksum ends the journal: what it and the lines after it told is done again.
    Journals of earlier versions have no checksums and get them when they are opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self.records: list[dict[str, Any]] = []
        if not path.exists():
            return
        content = path.read_bytes()
        lines = content[: content.rfind(b"\n") + 1].split(b"\n")[:-1]
        sealed = any(CHECKSUM.encode() in line for line in lines)
        for line in lines:
            try:
                record = json.loads(line)
                check = record.pop(CHECKSUM, None)
            except (ValueError, TypeError, AttributeError, RecursionError):  # a crash or the disk lost bytes
                break
            if sealed and check != _checksum(record):  # the rest cannot be trusted
                break
            self.records.append(record)
        kept = b"".join(_sealed(record) for record in self.records)
        if kept != content:
            write_atomically(path, kept)

    def append(self, record: Mapping[str, Any]) -> None:
        """Adds one record and forces it to disk."""
        line = _sealed(record)
        with self.path.open("ab") as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
        self.records.append(dict(record))


def _sealed(record: Mapping[str, Any]) -> bytes:
    """A line of a journal."""
    return json.dumps({**record, CHECKSUM: _checksum(record)}, allow_nan=False).encode() + b"\n"


def _checksum(record: Mapping[str, Any]) -> str:
    return f"{zlib.crc32(json.dumps(record).encode()):08x}"
