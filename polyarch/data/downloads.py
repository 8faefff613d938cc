"""Downloads official files and checks them against their published checksums."""

import hashlib
import http.client
import os
import tarfile
import tempfile
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from polyarch.data.idx import IDX_FILES
from polyarch.data.locations import data_root, find
from polyarch.data.sources import DATASETS
from polyarch.errors import CorruptFile, InvalidInput, MissingData, UnknownName, first_line

CHUNK = 2**18
TIMEOUT = 60.0
"""Seconds to wait for an answer."""

Progress = Callable[[str, int, int | None], None]
"""Called with the file's name, the bytes received so far and the total, if the server tells it."""


@dataclass(frozen=True)
class RemoteFile:
    """A file on the network and its MD5 sum."""

    address: str
    md5: str

    @property
    def name(self) -> str:
        """The file name, which is the last part of the address."""
        return self.address.rsplit("/", 1)[1]

    @property
    def is_archive(self) -> bool:
        """Whether the file is an archive to unpack."""
        return self.name.endswith(".tar.gz")


@dataclass(frozen=True)
class Download:
    """The files of a data set and their total size in megabytes."""

    files: tuple[RemoteFile, ...]
    megabytes: int


def _idx(address: str, megabytes: int, *sums: str) -> Download:
    files = (RemoteFile(f"{address}/{name}.gz", md5) for name, md5 in zip(IDX_FILES, sums, strict=True))
    return Download(tuple(files), megabytes)


DOWNLOADS: dict[str, Download] = {
    "mnist": _idx(
        "https://ossci-datasets.s3.amazonaws.com/mnist",
        12,
        "f68b3c2dcbeaaa9fbdd348bbdeb94873",
        "d53e105ee54ea40749a09fcbcd1e9432",
        "9fb629c4189551a2d022fa330f9573f3",
        "ec29112dd5afa0611ce80d1b7f02629c",
    ),
    "fashion_mnist": _idx(
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
        31,
        "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
        "25c81989df183df01b3e8a0aad5dffbe",
        "bef4ecab320f06d8554ea6380940ec79",
        "bb300cfdad3c16e7a12a480ee83cd310",
    ),
    "kmnist": _idx(
        "http://codh.rois.ac.jp/kmnist/dataset/kmnist",
        21,
        "bdb82020997e1d708af4cf47b453dcf7",
        "e144d726b3acfaa3e44228e80efcd344",
        "5c965bf0a639b31b8f53240b1b52f4d7",
        "7320c461ea6c1c855c0b718fb2a4b134",
    ),
    "cifar10": Download(
        (RemoteFile("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530"),),
        170,
    ),
    "cifar100": Download(
        (RemoteFile("https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz", "03b5dce01913d631647c71ecec9e9cb8"),),
        169,
    ),
    "svhn": Download(
        (
            RemoteFile("http://ufldl.stanford.edu/housenumbers/train_32x32.mat", "e26dedcc434d2e4c54c9b2d4a06d8373"),
            RemoteFile("http://ufldl.stanford.edu/housenumbers/test_32x32.mat", "eb5a983be6a315427106f1b164d9cef3"),
        ),
        246,
    ),
}


def present_folder(name: str, root: Path | None = None) -> Path | None:
    """The folder with the files of a named data set; None if they are missing or the set needs none."""
    folder = DATASETS[name].folder
    return folder(root or data_root()) if folder else None


def download(name: str, *, root: Path | None = None, progress: Progress | None = None) -> Path:
    """Fetches the files that are missing and returns their folder."""
    if name in DATASETS and DATASETS[name].folder is None:
        raise InvalidInput(f"Expected a data set with files. Got {name!r}, which needs none.")
    if name not in DOWNLOADS:
        raise UnknownName("data set to download", name, DOWNLOADS)
    root = root or data_root()
    there = present_folder(name, root)
    if there:
        return there
    folder = root / name
    for file in DOWNLOADS[name].files:
        path = folder / file.name
        if file.is_archive and path.is_file():  # the user put it there, so it is not deleted
            unpack(path, folder)
        elif file.is_archive:
            fetch(file, path, progress)
            unpack(path, folder)
            path.unlink()
        elif not find(folder, file.name.removesuffix(".gz")):
            fetch(file, path, progress)
    complete = present_folder(name, root)
    if complete is None:
        raise CorruptFile(f"Expected all files of {name} in {folder} after the download. Found some missing.")
    return complete


def fetch(file: RemoteFile, path: Path, progress: Progress | None) -> None:
    """Downloads a file and moves it to its path only if its checksum matches."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        found = f"{error.strerror}; POLYARCH_DATA sets another data folder"
        raise MissingData(f"Expected to write to {path.parent}. Found: {found}.") from None
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    digest = hashlib.md5(usedforsecurity=False)
    try:
        with os.fdopen(handle, "wb") as target, urllib.request.urlopen(file.address, timeout=TIMEOUT) as source:
            length = source.headers.get("Content-Length")
            done = 0
            while chunk := source.read(CHUNK):
                target.write(chunk)
                digest.update(chunk)
                done += len(chunk)
                if progress:
                    progress(path.name, done, int(length) if length else None)
        if digest.hexdigest() != file.md5:
            raise CorruptFile(f"Expected {file.address} to have MD5 sum {file.md5}. Found {digest.hexdigest()}.")
        Path(temporary).chmod(0o644)  # mkstemp creates private files
        Path(temporary).replace(path)
    except (OSError, http.client.HTTPException) as error:
        if isinstance(error, urllib.error.HTTPError):
            error.close()
        reason = getattr(error, "reason", None) or error
        raise MissingData(
            f"Expected to fetch {file.address}. Found: {reason}. You can also fetch it yourself and save it as {path}"
            f"{', then repeat the command' if file.is_archive else ''}."
        ) from None
    finally:
        Path(temporary).unlink(missing_ok=True)


def unpack(archive: Path, folder: Path) -> None:
    """Unpacks a tar archive to a temporary folder first, so that no file appears before all are unpacked."""
    with tempfile.TemporaryDirectory(dir=folder, prefix=".unpacked.") as temporary:
        try:
            with tarfile.open(archive) as content:
                content.extractall(temporary, filter="data")  # refuses outside paths, devices and foreign owners
        except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
            raise CorruptFile(f"Expected {archive} to be a readable archive. Found: {first_line(error)}.") from None
        for path in sorted(Path(temporary).rglob("*")):
            if path.is_file():
                target = folder / path.relative_to(temporary)
                target.parent.mkdir(parents=True, exist_ok=True)
                path.replace(target)
