"""Downloads official files and checks them against their published checksums."""

import hashlib
import http.client
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
from polyarch.files import new_file

CHUNK = 2**18
TIMEOUT = 60.0
"""Seconds to wait for an answer."""

Progress = Callable[[str, int, int | None], None]
"""Called with the file's name, the bytes received so far and the total, if the server tells it."""


@dataclass(frozen=True)
class RemoteFile:
    """A file on the network and its SHA-256."""

    address: str
    sha256: str

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
    files = (RemoteFile(f"{address}/{name}.gz", sha256) for name, sha256 in zip(IDX_FILES, sums, strict=True))
    return Download(tuple(files), megabytes)


DOWNLOADS: dict[str, Download] = {
    "mnist": _idx(
        "https://ossci-datasets.s3.amazonaws.com/mnist",
        12,
        "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
    ),
    "fashion_mnist": _idx(
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
        31,
        "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
        "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
        "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
        "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
    ),
    "kmnist": _idx(
        "http://codh.rois.ac.jp/kmnist/dataset/kmnist",
        21,
        "51467d22d8cc72929e2a028a0428f2086b092bb31cfb79c69cc0a90ce135fde4",
        "e38f9ebcd0f3ebcdec7fc8eabdcdaef93bb0df8ea12bee65224341c8183d8e17",
        "edd7a857845ad6bb1d0ba43fe7e794d164fe2dce499a1694695a792adfac43c5",
        "20bb9a0ef54c7db3efc55a92eef5582c109615df22683c380526788f98e42a1c",
    ),
    "cifar10": Download(
        (
            RemoteFile(
                "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
                "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
            ),
        ),
        170,
    ),
    "cifar100": Download(
        (
            RemoteFile(
                "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
                "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
            ),
        ),
        169,
    ),
    "svhn": Download(
        (
            RemoteFile(
                "http://ufldl.stanford.edu/housenumbers/train_32x32.mat",
                "435e94d69a87fde4fd4d7f3dd208dfc32cb6ae8af2240d066de1df7508d083b8",
            ),
            RemoteFile(
                "http://ufldl.stanford.edu/housenumbers/test_32x32.mat",
                "cdce80dfb2a2c4c6160906d0bd7c68ec5a99d7ca4831afa54f09182025b6a75b",
            ),
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
    digest = hashlib.sha256()
    try:
        with new_file(path) as target, urllib.request.urlopen(file.address, timeout=TIMEOUT) as source:
            length = source.headers.get("Content-Length")
            done = 0
            while chunk := source.read(CHUNK):
                target.write(chunk)
                digest.update(chunk)
                done += len(chunk)
                if progress:
                    progress(path.name, done, int(length) if length else None)
            if digest.hexdigest() != file.sha256:
                raise CorruptFile(f"Expected {file.address} to have SHA-256 {file.sha256}. Found {digest.hexdigest()}.")
    except (OSError, http.client.HTTPException) as error:
        if isinstance(error, urllib.error.HTTPError):
            error.close()
        reason = getattr(error, "reason", None) or error
        raise MissingData(
            f"Expected to fetch {file.address}. Found: {reason}. You can also fetch it yourself and save it as {path}"
            f"{', then repeat the command' if file.is_archive else ''}."
        ) from None


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
