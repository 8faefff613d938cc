"""`make hashes.txt` writes what pip would install, with the hashes of its files."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

MAKEFILE = Path(__file__).parent.parent / "Makefile"


def test_every_package_but_polyarch_has_its_version_and_hash(tmp_path: Path) -> None:
    """With a pip that only says what it would install."""
    archive = {"archive_info": {"hashes": {"sha256": "ab"}}}
    torch = {"metadata": {"name": "torch", "version": "2.0+cpu"}, "download_info": archive}
    folder = {"metadata": {"name": "polyarch", "version": "1"}, "download_info": {"dir_info": {}}}
    found = {"install": [torch, folder]}
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    shutil.copy(MAKEFILE, tmp_path)
    for name in (".venv/pyvenv.cfg", "pyproject.toml", "constraints.txt"):
        (tmp_path / name).touch()
    (programs / "pip").write_text(f"#!/bin/sh\necho '{json.dumps(found)}'\n")
    (programs / "pip").chmod(0o755)
    (programs / "python").symlink_to(sys.executable)
    subprocess.run(["make", "hashes.txt"], cwd=tmp_path, check=True, capture_output=True)
    assert (tmp_path / "hashes.txt").read_text() == "torch==2.0+cpu --hash=sha256:ab\n"
    assert not (tmp_path / "hashes.json").exists()
