"""SHA-256 checksums of the files of an artifact, which stand in its metadata."""

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from polyarch.data.digests import digest_of
from polyarch.errors import CorruptFile
from polyarch.export.records import ARCHITECTURE_FILE, METADATA_FILE, PROGRAM_FILES, WEIGHTS_FILE, read_object
from polyarch.files import write_json

CHECKSUMS = "checksums"
"""The key of the metadata: file name -> SHA-256. That of the metadata is of its values without this key."""


def sha256(content: bytes | str) -> str:
    """The checksum of a file's content."""
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()


def write_metadata(folder: Path, content: Mapping[str, Any], checksums: Mapping[str, str]) -> None:
    """Writes ``metadata.json`` with the checksums of the other files and its own."""
    values = {name: value for name, value in content.items() if name != CHECKSUMS}
    own = {METADATA_FILE: digest_of(values)}
    write_json(folder / METADATA_FILE, {**values, CHECKSUMS: {**checksums, **own}})


def stored_checksums(folder: Path) -> dict[str, str]:
    """The checksums of an artifact, after those of the metadata were compared; empty in artifacts that have none."""
    content = read_object(folder / METADATA_FILE)
    found = content.pop(CHECKSUMS, {})
    if not found:
        return {}
    if not isinstance(found, dict) or found.get(METADATA_FILE) != digest_of(content):
        raise _mismatch(folder / METADATA_FILE)
    return found


def check_files(folder: Path, names: Iterable[str]) -> None:
    """Refuses files whose content is not that of their checksums; artifacts without checksums are taken as they are."""
    checksums = stored_checksums(folder)
    for name in names if checksums else ():
        path = folder / name
        try:
            content = path.read_bytes()
        except OSError as error:
            raise CorruptFile(f"Expected the file {path}. Found: {error.strerror}.") from None
        if checksums.get(name) != sha256(content):
            raise _mismatch(path)


def verify_artifact(folder: Path) -> list[str]:
    """Compares every file of an artifact with its checksum; returns their names."""
    checksums = stored_checksums(folder)
    if not checksums:
        raise CorruptFile(f"Expected checksums in {folder / METADATA_FILE}. Found none: an earlier version wrote it.")
    programs = [name for name in PROGRAM_FILES.values() if name in checksums or (folder / name).exists()]
    names = [ARCHITECTURE_FILE, WEIGHTS_FILE, *programs]
    check_files(folder, names)
    return [METADATA_FILE, *names]


def _mismatch(path: Path) -> CorruptFile:
    return CorruptFile(
        f"Expected {path} to have its SHA-256 checksum in {METADATA_FILE}. Found another: it was damaged or changed; "
        "--no-verify (verify=False) loads it nevertheless."
    )
