"""The wheel alone, in an environment of its own: no repository, no development packages."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.slow


def succeeded(command: list[str | Path], folder: Path, **variables: str) -> str:
    """What a command prints, in a folder and without this environment's own packages."""
    inherited = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(
        command, cwd=folder, env={**inherited, **variables}, capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the source distribution."""
    folder = tmp_path_factory.mktemp("dist")
    succeeded([sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT], folder)
    return folder


def test_the_wheel_holds_the_package_alone(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as content:
        names = content.namelist()
    tops = {name.partition("/")[0] for name in names}
    assert len(tops) == 2 and "polyarch" in tops and any(name.endswith(".dist-info") for name in tops)
    for path in (ROOT / "polyarch").rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            assert str(path.relative_to(ROOT)) in names


def test_the_sources_can_be_tested(built: Path) -> None:
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as sources:
        names = {name.partition("/")[2] for name in sources.getnames()}
    assert {"Makefile", "constraints.txt", "conftest.py", "tests/test_imports.py", "CITATION.cff"} <= names


def test_the_demo_runs_from_the_wheel(built: Path, tmp_path: Path) -> None:
    (wheel,) = built.glob("*.whl")
    succeeded([sys.executable, "-m", "venv", tmp_path / "venv"], tmp_path)
    constraints = str(ROOT / "constraints.txt")
    python, command = tmp_path / "venv" / "bin" / "python", tmp_path / "venv" / "bin" / "polyarch"
    succeeded(
        [python, "-m", "pip", "install", "--quiet", f"{wheel}[report,onnx]"], tmp_path, PIP_CONSTRAINT=constraints
    )
    where = succeeded([python, "-c", "import polyarch; print(polyarch.__file__)"], tmp_path)
    assert Path(where.strip()).is_relative_to(tmp_path)
    succeeded([command, "search", "--data", "digits", "--max-minutes", "1", "--out", "run"], tmp_path)
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert next(one for one in results["predictors"] if one["folder"] == results["default"])["score"] > 0.95
    assert (tmp_path / "run" / "report.html").exists() and (tmp_path / "run" / "artifact" / "model.onnx").exists()
