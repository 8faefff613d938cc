"""Files that are either complete or absent, and journals that survive a kill."""

import errno
import json
import math
import os
import stat
import sys
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from polyarch.errors import InvalidInput, NotFiniteError

TEMPORARY = ".polyarch-"
"""How the names of temporary files begin, whose writers were killed if they stay."""

STANDARD_OUTPUT = Path("-")
"""What a user calls standard output where a file is asked for."""


@contextmanager
def new_file(path: Path) -> Iterator[IO[bytes]]:
    """A file that appears complete at the end of the block, in place of an earlier one, unless the block raises.

    It is written as a temporary file in the same folder and renamed, so that readers see the old or the new content. A
    link stays and its target is replaced. What is no regular file, such as a device or a pipe, is written through.
    """
    if is_stream(path):
        with path.open("wb") as stream:
            yield stream
        return
    path = path.resolve() if path.is_symlink() else path
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=TEMPORARY)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)  # noqa: PTH101 - mkstemp creates private files
        os.replace(name, path)  # noqa: PTH105 - atomic within a folder
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def write_atomically(path: Path, content: bytes | str) -> None:
    """Writes a `new_file`."""
    with new_file(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


@contextmanager
def output_file(path: Path) -> Iterator[IO[bytes]]:
    """A `new_file` that a user has named; ``-`` is standard output, and folders are refused."""
    if path == STANDARD_OUTPUT:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    check_output(path)
    try:
        with new_file(path) as file:
            yield file
    except BrokenPipeError:
        raise
    except OSError as error:
        raise InvalidInput(f"Expected to be able to write {path}. Found: {reason_of(error)}.") from None


def check_output(path: Path) -> None:
    """Refuses what cannot become a file, before there is anything to write."""
    try:
        if is_stream(path):
            return
        if path.is_dir():
            raise InvalidInput(f"Expected a file to write to. Got the folder {path}.")
        path.resolve().exists()  # whether the name is too long, and whether links end
        check_folder(path.resolve().parent)
    except (OSError, RuntimeError) as error:
        raise InvalidInput(f"Expected to be able to write {path}. Found: {reason_of(error)}.") from None


def check_folder(folder: Path) -> None:
    """Raises the `OSError` that creating a file in a folder, which may not exist yet, would raise."""
    nearest = next(one for one in (folder, *folder.parents) if os.path.lexists(one))
    if not nearest.is_dir():
        number = errno.ENOENT if nearest.is_symlink() else errno.ENOTDIR
    elif not os.access(nearest, os.W_OK | os.X_OK):
        number = errno.EROFS if os.statvfs(nearest).f_flag & os.ST_RDONLY else errno.EACCES
    else:
        return
    raise OSError(number, os.strerror(number), str(nearest))


def reason_of(error: Exception) -> str:
    """What an error of the operating system says, without its number."""
    return getattr(error, "strerror", None) or str(error)


def write_output(path: Path, content: bytes | str) -> None:
    """Writes an `output_file`."""
    with output_file(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def is_stream(path: Path) -> bool:
    """Whether what is written there goes somewhere else: to standard output, a device or a pipe."""
    if path == STANDARD_OUTPUT:
        return True
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def remove_temporaries(folder: Path) -> None:
    """Removes what killed writers left below a folder that has no other writer."""
    for path in folder.rglob(f"{TEMPORARY}*"):
        path.unlink(missing_ok=True)


def rename_folder(draft: Path, target: Path) -> None:
    """Gives a complete folder its name, and forces the name to disk."""
    draft.rename(target)
    _sync_folder(target.parent)


def _sync_folder(folder: Path) -> None:
    """Forces the new name to disk, too, where folders can be opened."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def json_text(value: Any, *, indent: int | None = 2, origin: str = "the file") -> str:
    """A line of JSON, or an indented one; refuses NaN and infinity, naming their place in the ``origin``."""
    try:
        return json.dumps(value, indent=indent, allow_nan=False) + "\n"
    except ValueError:
        place = _not_finite(value)
        if place is None:
            raise
        raise NotFiniteError(f"Expected finite numbers in {origin}. Got NaN or infinity at {place!r}.") from None


def _not_finite(value: Any, place: str = "") -> str | None:
    """The dotted place of the first number that JSON cannot hold."""
    if isinstance(value, float):
        return None if math.isfinite(value) else place
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list | tuple) else ()
    found = (_not_finite(part, f"{place}.{name}" if place else str(name)) for name, part in parts)
    return next((one for one in found if one is not None), None)


def write_json(path: Path, value: Any) -> None:
    """Writes indented JSON atomically."""
    write_atomically(path, json_text(value, origin=str(path)))


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
        self.records += _records(content)
        kept = b"".join(_sealed(record) for record in self.records)
        if kept != content:
            write_atomically(path, kept)

    def append(self, record: Mapping[str, Any]) -> None:
        """Adds one record and forces it to disk."""
        line = _sealed(record, origin=str(self.path))
        with self.path.open("ab") as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
        self.records.append(dict(record))


def read_journal(path: Path) -> list[dict[str, Any]]:
    """The records of a journal that another process may be writing to; nothing where there is none."""
    try:
        return list(_records(path.read_bytes()))
    except OSError:
        return []


def _records(content: bytes) -> Iterator[dict[str, Any]]:
    lines = content[: content.rfind(b"\n") + 1].split(b"\n")[:-1]
    sealed = any(CHECKSUM.encode() in line for line in lines)
    for line in lines:
        try:
            record = json.loads(line)
            check = record.pop(CHECKSUM, None)
        except (ValueError, TypeError, AttributeError, RecursionError):  # a crash or the disk lost bytes
            return
        if sealed and check != _checksum(record):  # the rest cannot be trusted
            return
        yield record


def _sealed(record: Mapping[str, Any], origin: str = "the journal") -> bytes:
    """A line of a journal."""
    return json_text({**record, CHECKSUM: _checksum(record)}, indent=None, origin=origin).encode()


def _checksum(record: Mapping[str, Any]) -> str:
    return f"{zlib.crc32(json.dumps(record).encode()):08x}"
