"""Imports inside the package point one way only."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "polyarch"

ROOMS = (
    "errors",
    "randomness",
    "files",
    "data",
    "spaces",
    "distributions",
    "nn",
    "networks",
    "supernets",
    "objectives",
    "predictive",
    "strategies",
    "estimators",
    "executors",
    "ranking",
    "searchers",
    "training",
    "export",
    "benchmarks",
    "methods",
    "results",
    "jobs",
    "reports",
    "serving",
    "facade",
    "classifier",
    "testing",
    "cli",
)
"""A room imports only from rooms before it, and from itself."""

FORBIDDEN = {"torchvision", "timm"}

SOURCES = sorted(PACKAGE.rglob("*.py"))


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imported_modules(tree: ast.AST, package: tuple[str, ...]) -> Iterator[str]:
    """Dotted names of all imports, wherever they stand, relative ones resolved against the file's package."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield from (f"{module}.{alias.name}" for alias in node.names)


def imports_of(path: Path) -> list[str]:
    package = (PACKAGE.name, *path.relative_to(PACKAGE).parent.parts)
    return list(imported_modules(ast.parse(path.read_text()), package))


def wrong_way(room: str, names: list[str]) -> list[str]:
    """The imports from inside the package that do not come from an earlier room or the same one."""
    allowed = {*ROOMS[: ROOMS.index(room) + 1], "__version__"}
    inside = [name for name in names if name.startswith(f"{PACKAGE.name}.")]
    return [name for name in inside if name.split(".")[1] not in allowed]


def test_every_room_is_on_the_list() -> None:
    folders = {path.name for path in PACKAGE.iterdir() if path.is_dir() and any(path.rglob("*.py"))}
    files = {path.stem for path in PACKAGE.glob("*.py")} - {"__init__", "__main__"}
    assert folders | files <= set(ROOMS)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_one_way(path: Path) -> None:
    names = imports_of(path)
    assert not FORBIDDEN & {name.split(".")[0] for name in names}
    if room_of(path) not in ("__init__", "__main__"):
        assert wrong_way(room_of(path), names) == []


@pytest.mark.parametrize(
    ("room", "source", "wrong"),
    [
        ("spaces", "from polyarch.errors import InvalidInput", False),
        ("spaces", "from polyarch.spaces.space import Space", False),
        ("spaces", "from polyarch import errors, __version__", False),
        ("spaces", "from . import space", False),
        ("spaces", "from ..errors import InvalidInput", False),
        ("spaces", "import polyarch.supernets.nb201 as cell", True),
        ("spaces", "from polyarch import supernets", True),
        ("spaces", "from ..supernets import cell", True),
        ("spaces", "from .. import supernets", True),
        ("spaces", "import polyarch", False),
        ("spaces", "if TYPE_CHECKING:\n    from polyarch.supernets import Supernet", True),
        ("supernets", "def later():\n    from polyarch.strategies import Strategy", True),
    ],
)
def test_the_check_itself(room: str, source: str, wrong: bool) -> None:
    names = list(imported_modules(ast.parse(source), (PACKAGE.name, room)))
    assert bool(wrong_way(room, names)) == wrong
