"""How many small errors in the mathematics the tests notice.

Draws random mutants of the rooms, one changed operator, comparison, number or condition each, and runs the tests of the
room on each in a fork of a process that has imported everything below the room::

    python benchmarks/mutation_score.py --sample 300 --out mutants.jsonl [ROOM ...]

A mutant is killed if a test fails, an import fails or the tests take ten times as much of a processor as without it.
The score is the share of killed mutants with its 95 % interval (Wilson); survivors are listed, to be killed by a test
or explained. A second call goes on with the same file.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import math
import os
import random
import resource
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("distributions", "objectives", "estimators", "ranking", "predictive")
BELOW = (
    "data", "spaces", "distributions", "nn", "networks", "supernets", "objectives", "predictive", "tasks", "strategies",
)  # fmt: skip
"""The rooms in the order of their imports, as far as others of these rooms need them."""
SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Pow: ast.Mult, ast.MatMult: ast.Mult, ast.And: ast.Or, ast.Or: ast.And, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip


def mutant(source: str, position: int) -> tuple[str, ast.Module]:
    """The change at a place in words, with its line, and the changed module."""
    tree = ast.parse(source)
    node, field = places(tree)[position]
    before, value = ast.unparse(node), getattr(node, field)
    changed: object
    if field == "ops":
        changed = [SWAPS[type(value[0])](), *value[1:]]
    elif field == "test":
        changed = ast.UnaryOp(ast.Not(), value)
    elif field == "value":
        changed = not value if isinstance(value, bool) else value + 1
    else:
        changed = ast.UAdd() if isinstance(value, ast.USub) else SWAPS[type(value)]()
    setattr(node, field, changed)
    words = f"{getattr(node, 'lineno', 0)}: {_short(before)} -> {_short(ast.unparse(node))}"
    return words, ast.fix_missing_locations(tree)


def _short(code: str) -> str:
    line = code.splitlines()[0]
    return line if len(line) <= 100 else f"{line[:97]}..."


def places(tree: ast.Module) -> list[tuple[ast.AST, str]]:
    """What can be changed: nodes and their fields; annotations, texts and messages stay."""
    found: list[tuple[ast.AST, str]] = []

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.Raise | ast.JoinedStr):
            return
        if isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPS:
            found.append((node, "ops"))
        elif isinstance(node, ast.BinOp | ast.BoolOp | ast.UnaryOp) and type(node.op) in (*SWAPS, ast.USub):
            found.append((node, "op"))
        elif isinstance(node, ast.If | ast.IfExp | ast.While):
            found.append((node, "test"))
        elif isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float):
            found.append((node, "value"))
        for name, value in ast.iter_fields(node):
            if name not in ("annotation", "returns", "decorator_list"):
                for one in value if isinstance(value, list) else [value]:
                    if isinstance(one, ast.AST):
                        visit(one)

    visit(tree)
    return found


class Mutated(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports the changed module instead of the file of that name."""

    def __init__(self, name: str, path: Path, tree: ast.Module) -> None:
        self.name, self.path, self.tree = name, path, tree

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != self.name:
            return None
        return importlib.util.spec_from_file_location(name, self.path, loader=self)

    def exec_module(self, module: ModuleType) -> None:
        exec(compile(self.tree, str(self.path), "exec"), module.__dict__)


def tests_pass(room: str, finder: Mutated | None, most: int) -> tuple[bool, float]:
    """Runs the fast tests of a room in a fork with at most so many seconds of a processor; also returns its own."""
    process = os.fork()
    if process == 0:
        resource.setrlimit(resource.RLIMIT_CPU, (most, most))
        with (
            Path(os.devnull).open("w") as nothing,
            contextlib.redirect_stdout(nothing),
            contextlib.redirect_stderr(nothing),
        ):
            if finder is not None:
                sys.meta_path.insert(0, finder)
            code = 1
            with contextlib.suppress(BaseException):
                options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", "not slow"]
                code = int(pytest.main([*options, str(ROOT / "tests" / room)]))
            os._exit(min(code, 1))
    end = time.monotonic() + 4 * most  # tests that wait take no processor
    while time.monotonic() < end:
        ended, status, usage = os.wait4(process, os.WNOHANG)
        if ended:
            return status == 0, usage.ru_utime + usage.ru_stime
        time.sleep(0.02)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return False, float(most)


def interval(killed: int, total: int, z: float = 1.96) -> tuple[float, float]:
    """Wilson's interval of a share."""
    share, square = killed / total, z * z / total
    centre = (share + square / 2) / (1 + square)
    half = z * math.sqrt(share * (1 - share) / total + square / total / 4) / (1 + square)
    return centre - half, centre + half


def measure(room: str, sample: int, seed: int, out: Path) -> None:
    """Tries mutants of one room in a process of its own, which imports the rooms below it first."""
    for below in BELOW[: BELOW.index(room)] if room in BELOW else BELOW:
        importlib.import_module(f"polyarch.{below}")
    loaded = [name for name in sys.modules if name.startswith(f"polyarch.{room}.")]
    assert not loaded, f"{room} is imported by a room below it: {loaded}"
    files = [path for path in sorted((ROOT / "polyarch" / room).glob("*.py")) if path.name != "__init__.py"]
    found = [(path, position) for path in files for position in range(len(places(ast.parse(path.read_text()))))]
    random.Random(f"{seed} {room}").shuffle(found)
    done = {json.loads(line)["mutant"] for line in out.read_text().splitlines()} if out.exists() else set()
    passed, took = tests_pass(room, None, 3600)
    assert passed, f"the tests of {room} fail without a mutant"
    for path, position in found[:sample]:
        change, tree = mutant(path.read_text(), position)
        name = f"{room}/{path.name}:{change}"
        if name in done:
            continue
        passed, _ = tests_pass(room, Mutated(f"polyarch.{room}.{path.stem}", path, tree), math.ceil(10 * took))
        with out.open("a") as file:
            file.write(json.dumps({"room": room, "mutant": name, "killed": not passed, "of": len(found)}) + "\n")


def report(out: Path) -> None:
    """Prints the score of every room and the survivors."""
    records = [json.loads(line) for line in out.read_text().splitlines()]
    for room in ROOMS:
        own = [record for record in records if record["room"] == room]
        if own:
            killed = sum(record["killed"] for record in own)
            low, high = interval(killed, len(own))
            score = f"{killed / len(own):.0%} ({low:.0%} to {high:.0%})"
            print(f"{room}: {killed} of {len(own)} mutants killed, {score}, drawn of {own[0]['of']}")
    for record in records:
        if not record["killed"]:
            print("survived:", record["mutant"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rooms", nargs="*", default=ROOMS, metavar="ROOM")
    parser.add_argument("--sample", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("mutants.jsonl"))
    options = parser.parse_args()
    out = options.out.absolute()
    os.chdir(ROOT)
    for room in options.rooms:
        process = os.fork()
        if process == 0:
            measure(room, options.sample, options.seed, out)
            os._exit(0)
        assert os.waitpid(process, 0)[1] == 0, room
    report(out)


if __name__ == "__main__":
    main()
