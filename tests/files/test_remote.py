"""Results and artifacts in object storage, in memory."""

from __future__ import annotations

import secrets
from pathlib import Path

import fsspec
import pytest
from typer.testing import CliRunner

from polyarch.cli import app
from polyarch.errors import InvalidInput, MissingData
from polyarch.export import Artifact, verify_artifact, write_artifact
from polyarch.remote import download, fetched, upload


@pytest.fixture
def url() -> str:
    return f"memory://bucket/{secrets.token_hex(4)}"


@pytest.fixture
def run(tmp_path: Path, image_artifact: Artifact) -> Path:
    folder = tmp_path / "run"
    write_artifact(folder / "artifact", image_artifact)
    for name in ("results.json", "study.db", ".lock", "checkpoints/rank.jsonl"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(name)
    return folder


def test_results_and_artifacts_go_there_and_back(run: Path, url: str, tmp_path: Path) -> None:
    names = upload(run, url)
    assert set(names) == {"results.json", *(f"artifact/{path.name}" for path in (run / "artifact").iterdir())}
    assert names[-1] == "results.json"
    download(url, tmp_path / "copy")
    for name in names:
        assert (tmp_path / "copy" / name).read_bytes() == (run / name).read_bytes()
    assert verify_artifact(tmp_path / "copy" / "artifact")
    with fetched(f"{url}/artifact") as folder:
        assert verify_artifact(folder)
    assert not folder.exists()


def test_what_is_not_there_leaves_nothing(url: str, tmp_path: Path) -> None:
    with pytest.raises(MissingData, match="results or an artifact at memory://bucket"):
        download(url, tmp_path / "copy")
    with pytest.raises(InvalidInput, match="results or an artifact in"):
        upload(tmp_path, url)
    with pytest.raises(InvalidInput, match="Expected to reach nowhere://"):
        download("nowhere://bucket", tmp_path / "copy")
    assert list(tmp_path.iterdir()) == []


def test_existing_folders_stay(run: Path, url: str, tmp_path: Path) -> None:
    upload(run, url)
    with pytest.raises(InvalidInput, match="a new folder to copy to"):
        download(url, run)


def test_the_command_copies_both_ways(run: Path, url: str, tmp_path: Path) -> None:
    runner = CliRunner()
    assert runner.invoke(app, ["copy", str(run), url]).exit_code == 0
    assert runner.invoke(app, ["copy", url, str(tmp_path / "again")]).exit_code == 0
    assert (tmp_path / "again" / "results.json").read_text() == "results.json"
    assert isinstance(runner.invoke(app, ["copy", url, url]).exception, InvalidInput)
    assert fsspec.filesystem("memory").exists(url)
