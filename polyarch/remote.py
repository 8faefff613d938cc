"""Results and artifacts in object storage, by URLs such as ``s3://bucket/name``, through fsspec."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

import fsspec

from polyarch.errors import InvalidInput, MissingData, first_line
from polyarch.files import rename_folder

LEFT_OUT = ("checkpoints",)
"""Folders of a run that only a resumed run needs."""

LAST = ("architecture.json", "results.json")
"""Files that make a folder complete, and are written last."""


def is_url(text: str) -> bool:
    """Whether a text names a place in object storage rather than a folder."""
    return "://" in text


def upload(folder: Path, url: str) -> list[str]:
    """Writes the results, the report and the artifacts of a run, or one artifact, to a URL; returns their names."""
    if not any((folder / name).is_file() for name in LAST):
        raise InvalidInput(f"Expected a run with results or an artifact in {folder}. Found neither.")
    files = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]
    kept = [path for path in files if path.parts[0] not in LEFT_OUT and not path.name.startswith((".", "study."))]
    names = sorted(map(Path.as_posix, kept), key=lambda name: (PurePosixPath(name).name in LAST, name))
    with _reaching(url) as (system, root):
        for name in names:
            system.makedirs(str(PurePosixPath(root, name).parent), exist_ok=True)
            system.pipe_file(f"{root}/{name}", (folder / name).read_bytes())
    return names


def download(url: str, folder: Path) -> None:
    """Copies what `upload` wrote to a new folder, which appears when it is complete."""
    if folder.exists():
        raise InvalidInput(f"Expected a new folder to copy to. Found {folder}.")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".polyarch-") as place, _reaching(url) as (system, root):
        draft = Path(place) / "draft"
        names = [str(PurePosixPath(found).relative_to(root)) for found in system.find(root)]
        if not any(PurePosixPath(name).name in LAST for name in names):
            raise MissingData(f"Expected results or an artifact at {url}. Found neither.")
        for name in names:
            target = draft / name
            if not target.resolve().is_relative_to(draft.resolve()):
                raise InvalidInput(f"Expected names of files below {url}. Got {name!r}.")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(system.cat_file(f"{root}/{name}"))
        rename_folder(draft, folder)


@contextmanager
def fetched(url: str) -> Iterator[Path]:
    """A temporary copy for the duration of the block, for `load_artifact`, `Results.read` and others.

    Example:
        >>> import tempfile, pathlib
        >>> source = pathlib.Path(tempfile.mkdtemp())
        >>> _ = (source / "results.json").write_text("{}")
        >>> upload(source, "memory://runs/example")
        ['results.json']
        >>> with fetched("memory://runs/example") as folder:
        ...     (folder / "results.json").read_text()
        '{}'
    """
    with tempfile.TemporaryDirectory(prefix="polyarch-") as place:
        download(url, Path(place) / "copy")
        yield Path(place) / "copy"


@contextmanager
def _reaching(url: str) -> Iterator[tuple[Any, str]]:
    """The file system of a URL and the path in it; errors of all kinds of storages are one sentence."""
    try:
        system, root = fsspec.url_to_fs(url)
        yield system, str(root).rstrip("/")
    except (ImportError, ValueError, OSError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(f"Expected to reach {url}. Found: {first_line(error)}.") from error
