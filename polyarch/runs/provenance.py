"""Takes the fingerprints of a run, and compares them with those that it began with."""

import hashlib
import inspect
import sys
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from torch import nn

import polyarch
from polyarch.data.digests import digest_of
from polyarch.data.fingerprint import fingerprint, names_fingerprint
from polyarch.errors import ConfigError, CorruptFile
from polyarch.files import write_json
from polyarch.results import Provenance
from polyarch.runs.own_module import Builder
from polyarch.runs.references import references_in
from polyarch.runs.run import Run

SOURCES = {"name", "ood", "unlabelled", "valid", "test"}
"""Settings that say where data are; the examples themselves count, not their place."""


def provenance_of(run: Run, builder: Builder | None = None) -> Provenance:
    """The fingerprints of a run, now.

    Args:
        builder: makes the user's own network, if it was given in Python.
    """
    feed, settings = run.feed, run.settings
    parts = {"training examples": feed.train, "validation examples": feed.valid, "test examples": feed.data.test}
    if feed.unlabelled is not None:
        parts["unlabelled examples"] = feed.unlabelled
    described = settings.model_dump(mode="json")
    of_data = {name: value for name, value in described["data"].items() if name not in SOURCES}
    modules = {name: _file_digest(name) for name in references_in(described)}
    return Provenance(
        data={
            **{name: fingerprint(examples) for name, examples in parts.items()},
            "names of classes and columns": names_fingerprint(feed.data),
        },
        settings=digest_of([of_data, described["task"], described["seed"]]),
        modules={**modules, **({} if builder is None else _sources(builder, run.net))},
        polyarch=[polyarch.__version__],
    )


def begin(run: Run, builder: Builder | None) -> Provenance:
    """Stores the fingerprints of a new run."""
    found = provenance_of(run, builder)
    write_json(run.workspace.provenance, found.model_dump(mode="json"))
    return found


def go_on(run: Run, builder: Builder | None, *, accept_changes: bool) -> Provenance:
    """Compares a resumed run with how it began; refuses what changed, or notes it if the user accepts it.

    A run of an earlier version that has no fingerprints has them from now on.
    """
    found, before = provenance_of(run, builder), _stored(run)
    if before is None:
        run.display.say("The run has no fingerprint of its data yet: changes are noticed from now on.")
        before = found
    changes = [f"{what} changed" for what in before.differences(found)]
    if changes and not accept_changes:
        raise ConfigError(
            f"Expected the data and the code that the run began with. Found that {', '.join(changes)}; go on with "
            "--resume --accept-changes, or choose another --out for a new run."
        )
    after = before.followed_by(found, changes)
    if after.polyarch != before.polyarch:
        run.display.say(
            f"Warning: the run was begun by polyarch {before.polyarch[-1]} and goes on with {after.polyarch[-1]}; "
            "its numbers may differ from those of either."
        )
    for change in changes:
        run.display.say(f"Accepted: {change}.")
        run.workspace.log("accepted", change=change)
    if after != _stored(run):
        write_json(run.workspace.provenance, after.model_dump(mode="json"))
    return after


def _stored(run: Run) -> Provenance | None:
    path = run.workspace.provenance
    if not path.exists():
        return None
    try:
        return Provenance.model_validate_json(path.read_bytes())
    except ValidationError as error:
        first = error.errors()[0]
        raise CorruptFile(f"Expected {path} to hold the fingerprints of a run. Found: {first['msg']}.") from None


def _file_digest(reference: str) -> str:
    """SHA-256 of the file of a reference, which has been imported; empty where there is none."""
    module = sys.modules.get(reference.partition(":")[0])
    file = getattr(module, "__file__", None)
    return hashlib.sha256(Path(file).read_bytes()).hexdigest() if file else ""


def _sources(builder: Builder, net: nn.Module) -> dict[str, str]:
    """SHA-256 of the source of a function that makes a network, and of the network's own classes.

    Not that of their file, which may be the script that resumes the run. A lambda's source is the line around it.
    """
    own: list[Any] = [type(one) for one in net.modules() if not _is_of_a_library(type(one))]
    own += [builder] if inspect.isfunction(builder) and builder.__name__ != "<lambda>" else []
    found = {}
    for one in own:
        try:
            source = inspect.getsource(one)
        except (OSError, TypeError):  # typed into an interpreter
            continue
        found[one.__qualname__] = hashlib.sha256(source.encode()).hexdigest()
    return found


def _is_of_a_library(kind: type) -> bool:
    return kind.__module__.partition(".")[0] in ("torch", "polyarch")
