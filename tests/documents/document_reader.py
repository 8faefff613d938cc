"""A reader who does what a page says: files as the page tells them to have, and budgets small enough for tests."""

from __future__ import annotations

import contextlib
import csv
import fcntl
import hashlib
import io
import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import typer.main
from PIL import Image

from polyarch.cli import app
from polyarch.data.downloads import DOWNLOADS
from polyarch.facade import SearchResult
from polyarch.plugins import EXPERIMENTS
from polyarch.runs.settings import RunSettings
from polyarch_experiments import PRESETS

ROOT = Path(__file__).resolve().parent.parent.parent
MEASURED = (
    "RESULTS.md",
    "BENCHMARKS.md",
    "variational-depth.md",
    "one-shot.md",
    "differentiable.md",
    "stochastic-architectures.md",
)
"""Their commands take an hour and gave the stored numbers: they are parsed, not run."""

TINY: dict[str, Any] = {
    "workers": 1,
    "checkpoint_seconds": 1000.0,
    "data.limit": 160,
    "train.epochs": 3,
    "train.batch_size": 32,
    "scores.steps": 2,
    "scores.policy_batches": 2,
    "rank.architectures": 3,
    "rank.supernets": 1,
    "rank.estimators": ["sotl", "params"],
    "search.budget": 4,
    "search.window": 2,
    "search.population": 2,
    "search.tournament": 2,
    "retrain.epochs": 3,
    "retrain.seeds": 1,
    "retrain.members": 2,
    "retrain.random_architectures": 1,
}
TINY_METHOD = {key: value for key, value in TINY.items() if not key.startswith("search.")}
"""Depths and q are learned: budgets of a search would be refused."""

TINY_FRONT = {**TINY_METHOD, "front.seconds": 0.5}

EXPORTED: dict[str, dict[str, Any]] = {
    "runs/customers": {"programs": ["pt2", "onnx"]},
    "runs/own": {"programs": ["onnx"], "retrain.members": 1},
    "runs/texts": {"programs": ["pt2", "onnx"], "retrain.members": 1},
}
"""Folders of runs whose exported programs a page uses; others leave them out, because exporting takes longest."""
WITHOUT_PROGRAMS = ("README.md",)
"""Pages that tell to make such a run, but do not use its programs."""

CLASSES = ("birds", "cats", "dogs")
PRELOADED = Path(__file__).parent.parent / "processes" / "preloaded.py"


class Reader:
    """Runs the blocks of one page in order, in one folder and one namespace."""

    def __init__(self, page: Path, folder: Path, environment: Mapping[str, str], cache: Path) -> None:
        self.page = page
        self.folder = folder
        self.environment = dict(environment)
        self.cache = cache
        self.namespace: dict[str, Any] = {"__name__": "__main__"}
        self.servers: list[subprocess.Popen[str]] = []
        self.addresses: dict[str, str] = {}

    def run(self, language: str, text: str) -> str:
        """Does what the block says and returns what it prints."""
        match language:
            case "python":
                return self._python(text)
            case "sh":
                return "".join(self._line(line) for line in text.replace("\\\n", " ").splitlines() if _command(line))
            case "toml":
                self._keep(text)
                RunSettings.parse(tomllib.loads(text), self.page.name)
                return ""
            case "text" | "nginx" | "ini" | "yaml":  # settings of other programs
                return ""
        raise AssertionError(f"{self.page.name} has a block of {language or 'no language'}, which no test understands")

    def close(self) -> None:
        """Ends what the page left running."""
        for server in self.servers:
            server.terminate()
            server.communicate(timeout=30)

    def _python(self, text: str) -> str:
        self._keep(text)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(text, self.page.name, "exec"), self.namespace)
        return printed.getvalue()

    def _keep(self, text: str) -> None:
        """A block that starts with the name of a file is what the user should put there."""
        found = re.match(r"# (\w+\.(py|toml))\n", text)
        if found:
            (self.folder / found[1]).write_text(text)

    def _line(self, line: str) -> str:
        command = _command(line)
        if self.page.name in MEASURED:
            parse(command)
            return ""
        for pattern, check in FOR_PEOPLE.items():
            if re.match(pattern, command):
                check(command)
                return ""
        if command.startswith("polyarch serve"):
            return self._serve(command)
        if command.startswith("polyarch search") and "--resume" not in command:
            return self._once(command)
        for shown, real in self.addresses.items():
            command = command.replace(shown, real)
        return self._bash(
            re.sub(
                r"^curl ", "curl --silent --show-error --fail --retry 30 --retry-connrefused --retry-delay 1 ", command
            )
        )

    def _bash(self, command: str) -> str:
        finished = subprocess.run(
            ["bash", "-c", command], cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=300
        )
        assert finished.returncode == 0, f"{self.page.name}: {command}\n{finished.stdout}{finished.stderr}"
        return finished.stdout

    def _once(self, command: str) -> str:
        """A search that several pages tell to run is run for the first of them; the others get a copy."""
        out = parse(command)["out"]
        module = re.search(r"--module (\w+):", command)
        code = (self.folder / f"{module[1]}.py").read_text() if module else ""
        meaning = f"{self.page.name in WITHOUT_PROGRAMS} {command} {code}"
        stored = self.cache / hashlib.sha256(meaning.encode()).hexdigest()
        with (self.cache / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not stored.exists():
                printed = self._bash(command)
                shutil.copytree(self.folder / out, stored)
                (stored / "printed.txt").write_text(printed)
                return printed
        shutil.copytree(stored, self.folder / out)
        return (stored / "printed.txt").read_text()

    def _serve(self, command: str) -> str:
        """Starts the service on a free port; later lines of the page find it there."""
        shown = f"127.0.0.1:{parse(command)['port']}"
        server = subprocess.Popen(
            ["bash", "-c", "exec " + re.sub(r"--port \d+", "--port 0", command)],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.servers.append(server)
        assert server.stdout is not None
        announced = server.stdout.readline()
        found = re.search(r"http://(127\.0\.0\.1:\d+)", announced)
        assert found, f"{self.page.name}: {command}\n{announced}"
        self.addresses[shown] = found[1]
        return announced


def parse(command: str) -> dict[str, Any]:
    """The options of a polyarch command, as the command line understands them."""
    words = [word for word in shlex.split(command, comments=True) if not re.match(r"[A-Z_]+=", word)]
    assert words[0] == "polyarch", f"{command} is no polyarch command"
    found: Any = typer.main.get_command(app)
    words = words[1:]
    while hasattr(found, "commands"):
        found = found.commands[words.pop(0)]
    options: dict[str, Any] = found.make_context(found.name, words).params
    return options


def _command(line: str) -> str:
    return line.partition(" #")[0].strip() if not line.lstrip().startswith("#") else ""


def _is_a_target(command: str) -> None:
    _, target = shlex.split(command)
    assert f"\n{target}:" in (ROOT / "Makefile").read_text(), f"{command} has no target"


def _installs_known_extras(command: str) -> None:
    found = re.fullmatch(r"pip install -e '\.\[([a-z,]+)\]'", command)
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert found and set(found[1].split(",")) <= set(known), f"{command} has an unknown extra"


def _fetches_a_known_set(command: str) -> None:
    assert parse(command)["name"] in DOWNLOADS, f"{command} has an unknown name"


def _runs_a_known_experiment(command: str) -> None:
    options = parse(command)
    assert options["name"] in EXPERIMENTS and options["preset"] in PRESETS, f"{command} has an unknown name"


def _writes_the_page_of_a_document(command: str) -> None:
    documents = {experiment.document for experiment in EXPERIMENTS.values()}
    assert set(parse(command)["documents"]) <= documents, f"{command} has an unknown document"


FOR_PEOPLE: dict[str, Callable[[str], object]] = {
    r"make ": _is_a_target,
    r"pip install ": _installs_known_extras,
    r"polyarch data download ": _fetches_a_known_set,
    r"polyarch experiment run ": _runs_a_known_experiment,
    r"polyarch experiment page ": _writes_the_page_of_a_document,
    r"polyarch rank --data cifar10 ": parse,
    r"polyarch search .*--executor ray": parse,
}
"""Lines that install, fetch, need other data or take minutes, and what is checked of them instead."""


@dataclass(frozen=True)
class TinySearch:
    """`polyarch.search` in which budgets only get smaller."""

    real: Callable[..., SearchResult]

    def __call__(self, *args: Any, settings: Mapping[str, Any] | None = None, **options: Any) -> SearchResult:
        given = dict(settings or {})
        tiny = TINY_FRONT if "front" in options else TINY_METHOD if "method" in options else TINY
        small = {key: min(value, given.get(key, value)) for key, value in tiny.items()}
        options = {**options, "workers": 1, "quiet": True}
        exported = EXPORTED.get(str(options.get("out")), {"programs": []})
        return self.real(*args, settings={**given, **small, **exported}, **options)


def shim(address: Path, page: Path) -> str:
    """The real command line, with tiny budgets for the commands that train."""
    exported = {} if page.name in WITHOUT_PROGRAMS else EXPORTED
    folders = "\n".join(f'*{folder}*) set -- "$@" {_options(settings)} ;;' for folder, settings in exported.items())
    python = shlex.quote(sys.executable)
    run = f"exec {python} -S {shlex.quote(str(PRELOADED))} run {address}"
    return f"""#!/bin/sh
case "$1" in
search|train|rank)
    case "$*" in
    *"--method race"*) set -- "$@" --max-minutes 0.2 {_options({**TINY_METHOD, "programs": []})} ;;
    *--front*) set -- "$@" {_options({**TINY_FRONT, "programs": []})} ;;
    *--method*) set -- "$@" {_options({**TINY_METHOD, "programs": []})} ;;
    *) set -- "$@" {_options({**TINY, "programs": []})} ;;
    esac
    case "$*" in
    {folders}
    esac
    {run} "$@" ;;
serve) exec {python} -m polyarch.cli "$@" ;;
*) {run} "$@" ;;
esac
"""


def _options(settings: Mapping[str, Any]) -> str:
    return " ".join(f"--set {shlex.quote(f'{key}={json.dumps(value)}')}" for key, value in settings.items())


def write_customers(folder: Path) -> None:
    """Two tables; the new customers have no label yet."""
    generator = np.random.default_rng(0)
    header = ["age", "plan", "spend", "left"]
    for name, rows, columns in (("customers.csv", 200, 4), ("new_customers.csv", 12, 3)):
        with (folder / name).open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(header[:columns])
            for _ in range(rows):
                age, plan = int(generator.integers(18, 80)), str(generator.choice(["basic", "family", "business"]))
                spend = "" if generator.random() < 0.1 else f"{generator.normal(30, 8):.2f}"
                left = (age > 45) != (plan == "family") if generator.random() < 0.9 else bool(generator.random() < 0.5)
                writer.writerow([age, plan, spend, "yes" if left else "no"][:columns])


def write_photos(folder: Path) -> None:
    """A folder per class; the images differ in colour and a little in size."""
    generator = np.random.default_rng(0)
    for channel, name in enumerate(CLASSES):
        (folder / "photos" / name).mkdir(parents=True)
        for number in range(8):
            pixels = generator.integers(0, 90, (20 + number % 3, 24, 3), dtype=np.uint8)
            pixels[..., channel] += 120
            Image.fromarray(pixels).save(folder / "photos" / name / f"{number:03}.png")
    (folder / "new_photos").mkdir()  # of any class
    for number in range(4):
        Image.fromarray(generator.integers(0, 256, (20, 24, 3), dtype=np.uint8)).save(
            folder / "new_photos" / f"{number}.png"
        )
