"""Imports inside the package point one way only, and what is imported comes when it is needed."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import polyarch
from polyarch.plugins import METHODS, SPACES, STRATEGIES

PACKAGE = Path(__file__).resolve().parent.parent / "polyarch"

ROOMS = (
    "errors",
    "randomness",
    "files",
    "locks",
    "remote",
    "settings",
    "plugins",
    "data",
    "spaces",
    "distributions",
    "nn",
    "networks",
    "supernets",
    "objectives",
    "predictive",
    "tasks",
    "strategies",
    "estimators",
    "executors",
    "ranking",
    "searchers",
    "training",
    "export",
    "tables",
    "results",
    "runs",
    "truths",
    "prediction",
    "reports",
    "methods",
    "overview",
    "facade",
    "scikit",
    "testing",
    "cli",
)
"""A room imports only from rooms before it, and from itself."""

FORBIDDEN = {"torchvision", "timm"}

PROTOCOL = "polyarch.methods.method.Method"
KNOW_THE_PROTOCOL = ("plugins", "runs")
"""Rooms that may name the protocol of methods in annotations, though methods come later."""

SOURCES = sorted(PACKAGE.rglob("*.py"))

Imports = list[tuple[str, bool]]


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imported_modules(tree: ast.AST, package: tuple[str, ...]) -> Iterator[tuple[str, bool]]:
    """Dotted names of all imports, wherever they stand, and whether only annotations need them.

    Relative ones are resolved against the file's package.
    """
    blocks = [node for node in ast.walk(tree) if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    for_types = {inner for block in blocks for statement in block.body for inner in ast.walk(statement)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node in for_types) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield from ((f"{module}.{alias.name}", node in for_types) for alias in node.names)


def imports_of(path: Path) -> Imports:
    package = (PACKAGE.name, *path.relative_to(PACKAGE).parent.parts)
    return list(imported_modules(ast.parse(path.read_text()), package))


def wrong_way(room: str, imports: Imports) -> list[str]:
    """The imports from inside the package that do not come from an earlier room or the same one."""
    allowed = {*ROOMS[: ROOMS.index(room) + 1], "__version__"}
    if room in KNOW_THE_PROTOCOL:
        imports = [found for found in imports if found != (PROTOCOL, True)]
    inside = [name for name, _ in imports if name.startswith(f"{PACKAGE.name}.")]
    return [name for name in inside if name.split(".")[1] not in allowed]


def test_every_room_is_on_the_list() -> None:
    folders = {path.name for path in PACKAGE.iterdir() if path.is_dir() and any(path.rglob("*.py"))}
    files = {path.stem for path in PACKAGE.glob("*.py")} - {"__init__", "__main__"}
    assert folders | files == set(ROOMS)


@pytest.mark.parametrize("room", ROOMS)
def test_imports_point_one_way(room: str) -> None:
    for path in (path for path in SOURCES if room_of(path) == room):
        imports = imports_of(path)
        assert not FORBIDDEN & {name.split(".")[0] for name, _ in imports}, path
        assert wrong_way(room, imports) == [], path


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
        ("runs", "if TYPE_CHECKING:\n    from polyarch.methods.method import Method", False),
        ("runs", "from polyarch.methods.method import Method", True),
        ("runs", "if TYPE_CHECKING:\n    pass\nelse:\n    from polyarch.methods.method import Method", True),
        ("runs", "if TYPE_CHECKING:\n    from polyarch.methods.depth.method import VariationalDepth", True),
        ("spaces", "if TYPE_CHECKING:\n    from polyarch.methods.method import Method", True),
    ],
)
def test_the_check_itself(room: str, source: str, wrong: bool) -> None:
    imports = list(imported_modules(ast.parse(source), (PACKAGE.name, room)))
    assert bool(wrong_way(room, imports)) == wrong


def test_methods_are_known_by_name_to_the_registry_only() -> None:
    """Names that spaces, strategies, styles of charts or options have, too, do not count."""
    names = set(METHODS) - {*SPACES, *STRATEGIES, "front"}
    assert {"variational-depth", "deterministic-depth", "posterior-guided", "stochastic", "sotl-darts"} <= names
    for path in (path for path in SOURCES if room_of(path) not in ("methods", "plugins")):
        nodes = ast.walk(ast.parse(path.read_text()))
        texts = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
        assert not names & texts, path


LOSSES = ("cross_entropy", "nll_loss", "mse_loss", "binary_cross_entropy", "CrossEntropyLoss", "MSELoss")


def test_only_tasks_name_a_loss() -> None:
    """Whatever else needs one is handed a task."""
    found = {
        str(path.relative_to(PACKAGE)): name
        for path in PACKAGE.rglob("*.py")
        if path.parent.name != "tasks"
        for name in LOSSES
        if name in path.read_text()
    }
    assert not found


def test_rooms_are_listed_and_imported_when_they_are_needed() -> None:
    listed = {room for room in ROOMS if (PACKAGE / room).is_dir()} - {"cli"}
    assert listed <= set(dir(polyarch)) == set(polyarch.__all__)
    source = """
import sys, polyarch
assert not {"torch", "numpy"} & set(sys.modules)
assert polyarch.__version__
assert polyarch.spaces.nb201_space().size == 5**6
assert "torch" in sys.modules and "polyarch.runs" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", source], check=True)


def test_the_command_line_needs_no_extra() -> None:
    """`make demo` installs the extras report and onnx only."""
    code = """
import sys
from importlib.abc import MetaPathFinder
class Missing(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("fastapi", "starlette", "uvicorn", "pyarrow", "datasets", "polyarch_experiments"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Missing())
import polyarch.cli, polyarch.scikit
"""
    subprocess.run([sys.executable, "-c", code], check=True)
