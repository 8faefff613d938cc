"""The tests' own commands."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import Process


def test_a_command_that_does_not_end_is_killed_and_says_where_it_stood(
    folders: dict[str, Path], preloaded: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    """Before, its open socket failed whichever test came next."""
    serving = ["serve", str(folders["vector"]), "--port", "0"]
    process = Process(preloaded, serving, environment, tmp_path / "errors")
    with pytest.raises(AssertionError, match=r"(?s)has not ended after 0.5 s:.*File .* in main"):
        process.wait(0.5)
    with pytest.raises(ValueError, match="file descriptor"):
        process.ends_within(0)  # its connection is closed
