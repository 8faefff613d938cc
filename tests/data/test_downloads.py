from __future__ import annotations

import gzip
import hashlib
import io
import struct
import tarfile
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from polyarch.data import DATASETS, load
from polyarch.data.downloads import DOWNLOADS, Download, RemoteFile, download, present_folder
from polyarch.data.idx import IDX_FILES
from polyarch.errors import CorruptFile, InvalidInput, MissingData, UnknownName


class Quiet(SimpleHTTPRequestHandler):
    asked: list[str] = []  # noqa: RUF012 - one list for all requests, emptied by the fixture

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        self.asked.append(self.path)
        super().do_GET()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A folder and the address under which it is served."""
    folder = tmp_path / "served"
    folder.mkdir()
    Quiet.asked.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield folder, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def offered(folder: Path, address: str, files: dict[str, bytes]) -> Download:
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return Download(
        tuple(RemoteFile(f"{address}/{name}", hashlib.sha256(content).hexdigest()) for name, content in files.items()),
        1,
    )


def idx_files() -> dict[str, bytes]:
    images = b"\x00\x00\x08\x03" + struct.pack(">3I", 10, 28, 28) + bytes(10 * 28 * 28)
    labels = b"\x00\x00\x08\x01" + struct.pack(">I", 10) + bytes(range(10))
    return {f"{name}.gz": gzip.compress(images if "images" in name else labels) for name in IDX_FILES}


def archive(members: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as content:
        for name, value in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(value)
            content.addfile(member, io.BytesIO(value))
    return stream.getvalue()


CIFAR100_MEMBERS = {
    "cifar-100-binary/train.bin": (b"\x01\x02" + bytes(3072)) * 4,
    "cifar-100-binary/test.bin": (b"\x01\x03" + bytes(3072)) * 2,
    "cifar-100-binary/fine_label_names.txt": "\n".join(f"n{i}" for i in range(100)).encode(),
}


class TestFetched:
    def test_files_then_load(self, tmp_path: Path, served: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(DOWNLOADS, "kmnist", offered(*served, idx_files()))
        seen: list[tuple[str, int, int | None]] = []
        root = tmp_path / "data"
        assert present_folder("kmnist", root) is None
        assert download("kmnist", root=root, progress=lambda *step: seen.append(step)) == root / "kmnist"
        assert load("kmnist", root=root).train.targets.tolist() == list(range(10))
        assert sorted(path.name for path in (root / "kmnist").iterdir()) == sorted(idx_files())
        assert {name for name, _, _ in seen} == set(idx_files())
        assert all(done <= (length or 0) for _, done, length in seen)
        assert (root / "kmnist" / seen[0][0]).stat().st_mode & 0o777 == 0o644

    def test_only_what_is_missing(
        self, tmp_path: Path, served: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(DOWNLOADS, "kmnist", offered(*served, idx_files()))
        download("kmnist", root=tmp_path)
        Quiet.asked.clear()
        assert download("kmnist", root=tmp_path) == tmp_path / "kmnist"
        assert Quiet.asked == []
        (tmp_path / "kmnist" / "t10k-labels-idx1-ubyte.gz").unlink()
        download("kmnist", root=tmp_path)
        assert Quiet.asked == ["/t10k-labels-idx1-ubyte.gz"]

    def test_archive_is_unpacked(
        self, tmp_path: Path, served: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        files = {"cifar-100-binary.tar.gz": archive(CIFAR100_MEMBERS)}
        monkeypatch.setitem(DOWNLOADS, "cifar100", offered(*served, files))
        root = tmp_path / "data"
        assert download("cifar100", root=root) == root / "cifar100" / "cifar-100-binary"
        assert load("cifar100", root=root).class_names[3] == "n3"
        assert list((root / "cifar100").iterdir()) == [root / "cifar100" / "cifar-100-binary"]

    def test_archive_put_there_by_hand(
        self, tmp_path: Path, served: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        files = {"cifar-100-binary.tar.gz": archive(CIFAR100_MEMBERS)}
        monkeypatch.setitem(DOWNLOADS, "cifar100", offered(*served, files))
        by_hand = tmp_path / "cifar100" / "cifar-100-binary.tar.gz"
        by_hand.parent.mkdir()
        by_hand.write_bytes(files[by_hand.name])
        download("cifar100", root=tmp_path)
        assert Quiet.asked == []
        assert by_hand.is_file()
        assert len(load("cifar100", root=tmp_path).train) == 4


class TestNotFetched:
    def check_nothing_left(self, folder: Path) -> None:
        assert not folder.exists() or list(folder.iterdir()) == []

    def test_wrong_checksum_leaves_nothing(
        self, tmp_path: Path, served: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(DOWNLOADS, "kmnist", offered(*served, idx_files()))
        (served[0] / "train-images-idx3-ubyte.gz").write_bytes(b"something else")
        with pytest.raises(CorruptFile, match=r"train-images-idx3-ubyte\.gz to have SHA-256 \w+\. Found \w+\."):
            download("kmnist", root=tmp_path / "data")
        self.check_nothing_left(tmp_path / "data" / "kmnist")

    def test_refused(self, tmp_path: Path, served: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(DOWNLOADS, "svhn", Download((RemoteFile(f"{served[1]}/train_32x32.mat", "0"),), 1))
        with pytest.raises(MissingData) as caught:
            download("svhn", root=tmp_path / "data")
        path = tmp_path / "data" / "svhn" / "train_32x32.mat"
        assert str(caught.value) == (
            f"Expected to fetch {served[1]}/train_32x32.mat. Found: File not found. "
            f"You can also fetch it yourself and save it as {path}."
        )
        self.check_nothing_left(path.parent)

    def test_offline(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        address = "http://127.0.0.1:9/cifar-100-binary.tar.gz"
        monkeypatch.setitem(DOWNLOADS, "cifar100", Download((RemoteFile(address, "0"),), 1))
        with pytest.raises(MissingData, match=rf"fetch {address}\. Found: .*refused.*, then repeat the command\."):
            download("cifar100", root=tmp_path)
        self.check_nothing_left(tmp_path / "cifar100")

    def test_interrupted(self, tmp_path: Path, served: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(DOWNLOADS, "kmnist", offered(*served, idx_files()))

        def stop(*step: object) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            download("kmnist", root=tmp_path, progress=stop)
        self.check_nothing_left(tmp_path / "kmnist")

    @pytest.mark.parametrize("member", ["../outside.bin", "/tmp/polyarch-outside.bin"])
    def test_hostile_archive(
        self, tmp_path: Path, served: tuple[Path, str], monkeypatch: pytest.MonkeyPatch, member: str
    ) -> None:
        files = {"cifar-100-binary.tar.gz": archive({member: b"x"})}
        monkeypatch.setitem(DOWNLOADS, "cifar100", offered(*served, files))
        with pytest.raises(CorruptFile):
            download("cifar100", root=tmp_path / "data")
        assert not (tmp_path / "data" / "outside.bin").exists()
        assert not (tmp_path / "data" / "cifar100" / "outside.bin").exists()
        assert not Path("/tmp/polyarch-outside.bin").exists()

    def test_damaged_archive_by_hand(self, tmp_path: Path) -> None:
        path = tmp_path / "cifar100" / "cifar-100-binary.tar.gz"
        path.parent.mkdir()
        path.write_bytes(archive(CIFAR100_MEMBERS)[:50])
        with pytest.raises(CorruptFile, match=r"cifar-100-binary\.tar\.gz to be a readable archive"):
            download("cifar100", root=tmp_path)
        assert list(path.parent.iterdir()) == [path]

    def test_archive_without_the_files(
        self, tmp_path: Path, served: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(DOWNLOADS, "cifar100", offered(*served, {"other.tar.gz": archive({"a.txt": b"x"})}))
        with pytest.raises(CorruptFile, match=r"all files of cifar100 in \S*cifar100 after the download"):
            download("cifar100", root=tmp_path)

    def test_folder_that_cannot_be_made(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("x")
        with pytest.raises(MissingData, match=r"write to \S*file/mnist\. Found: .*POLYARCH_DATA"):
            download("mnist", root=tmp_path / "file")

    def test_sets_without_files(self) -> None:
        with pytest.raises(InvalidInput, match=r"a data set with files\. Got 'digits'"):
            download("digits")

    def test_unknown_name(self) -> None:
        with pytest.raises(UnknownName, match=r"data set to download out of mnist, .*Did you mean 'cifar10'\?"):
            download("cifar_10")


def test_every_set_with_files_can_be_fetched() -> None:
    """But the one that is only given to those who register."""
    assert {*DOWNLOADS, "imagenet16_120"} == {name for name, source in DATASETS.items() if source.folder}
    for offer in DOWNLOADS.values():
        for file in offer.files:
            assert file.address.startswith(("http://", "https://"))
            assert len(bytes.fromhex(file.sha256)) == 32


def test_checksums_are_those_of_real_files(data_root: Path) -> None:
    """Fashion-MNIST lies there as it was published."""
    folder = data_root / "fashion_mnist"
    for file in DOWNLOADS["fashion_mnist"].files:
        if not (folder / file.name).is_file():
            pytest.skip(f"needs {folder / file.name}")
        content = (folder / file.name).read_bytes()
        assert hashlib.sha256(content).hexdigest() == file.sha256
