"""The whole job as one function: what `polyarch search` does, from Python."""

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike
from torch import nn

from polyarch.data import Dataset, load
from polyarch.data.sources import with_held_out
from polyarch.data.split_keys import SplitKeys
from polyarch.errors import ConfigError, InvalidInput, MissingExtra
from polyarch.executors import one_thread
from polyarch.export.records import ARCHITECTURE_FILE
from polyarch.methods.method import Method
from polyarch.overview.frames import Frames, frames_of
from polyarch.plugins import METHODS, SUPERNET_METHOD, method_named, trusting_only
from polyarch.prediction.modes import load_predictor
from polyarch.prediction.predictor import Predictor
from polyarch.reports import write_model_card, write_model_cards, write_report
from polyarch.results import PredictorRecord, Results, SizeRecord
from polyarch.results.sizes import best_within, size_at
from polyarch.runs.display import Display, Quiet, Terminal
from polyarch.runs.own_module import Builder
from polyarch.runs.references import references_in
from polyarch.runs.settings import RunSettings, with_overrides
from polyarch.runs.stage import perform
from polyarch.runs.start import Beginning
from polyarch.runs.workspace import Workspace
from polyarch.tasks import Task
from polyarch.training import Callback, stop_on_signal

IN_PYTHON = "<given in Python>"
"""Stands in the settings for a network or data that no file names."""

FRONT = "front"
"""The method behind ``front=True`` and ``--front``."""


@dataclass(frozen=True)
class ExtractedSize:
    """A size of a front that has become an artifact of its own.

    Args:
        index: its place in `SearchResult.front`.
        folder: of the artifact.
        record: how good and how honest its predictions are on test data.
        builder: makes the user's own network, if there is one.
    """

    index: int
    folder: Path
    record: PredictorRecord
    builder: Builder | None = None

    def predictor(self) -> Predictor:
        """What predicts, with its calibration."""
        return Predictor.load(self.folder, module=self.builder)


@dataclass(frozen=True)
class SearchResult:
    """What a search found, and where it is.

    Args:
        results: every number of the run.
        folder: of the run, with ``report.html``, ``artifact/``, and ``ensemble/`` and ``posterior/`` if it has them.
        builder: makes the user's own network, if there is one.
        data: what was given in Python instead of a name or a path.
    """

    results: Results
    folder: Path
    builder: Builder | None = None
    data: Dataset | None = None

    def predictor(self, mode: str | None = None, *, exit_above: float | None = None) -> Predictor:
        """What predicts, with its calibration.

        Args:
            mode: ``single`` is the best network alone, ``ensemble`` several together, ``marginal`` the mixture over a
                learned distribution, ``early-exit`` that mixture until it is sure. By default the run's answer.
            exit_above: the confidence of ``early-exit``; by default the one chosen on validation data.
        """
        return load_predictor(self.folder, mode, exit_above, module=self.builder)

    def frames(self) -> Frames:
        """Results, the networks that were looked at, the front and the learning curves, as tables of pandas."""
        return frames_of(self.results)

    @property
    def front(self) -> list[SizeRecord]:
        """The sizes of a search with ``front=True``, from few multiply-accumulates to many."""
        sizes: list[SizeRecord] = self._method.sizes(self.results)
        return sizes

    def extract(
        self,
        *,
        at: int | None = None,
        max_params: float | None = None,
        max_macs: float | None = None,
        max_latency: float | None = None,
        tune_minutes: float | None = None,
        out: str | Path | None = None,
        display: Display | None = None,
    ) -> ExtractedSize:
        """Writes the artifact of one size of the front: the best on validation data within limits, or one by its index.

        Args:
            at: an index into `front`, instead of limits.
            max_params, max_macs, max_latency: hard limits; latency in seconds.
            tune_minutes: further training, with the largest size as teacher.
            out: the folder of the artifact; by default ``sizes/INDEX`` in that of the run.
            display: shows what happens; nothing by default.
        """
        limits = {"max_params": max_params, "max_macs": max_macs, "max_latency": max_latency}
        given = [name for name, value in limits.items() if value is not None]
        if (at is None) == (not given):
            raise InvalidInput(f"Expected the index of a size, or limits. Got {'both' if given else 'neither'}.")
        if tune_minutes is not None and not 0 < tune_minutes < math.inf:
            raise InvalidInput(f"Expected more than 0 minutes to tune. Got {tune_minutes}.")
        sizes = self.front
        index = best_within(sizes, self.results.task.selection, **limits) if at is None else size_at(sizes, at)
        folder = self.folder / "sizes" / str(index) if out is None else Path(out)
        is_free = not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))
        if not is_free and not (folder / ARCHITECTURE_FILE).exists():
            raise InvalidInput(f"Expected a new or empty folder, or an artifact to replace. Found neither in {folder}.")
        with stop_on_signal("the same command") as stop, one_thread():
            beginning = Beginning(self.folder, display or Quiet(), stop, data=self.data, builder=self.builder)
            with closing(beginning.lock):
                run = beginning.reopen(None, {}, "the run")
                record = self._method.extract(run, self.results, index, folder, tune_minutes)
        write_model_card(self.results, record, folder)
        return ExtractedSize(index, folder, record, self.builder)

    @property
    def _method(self) -> Method:
        method: Method = method_named(self.results.method)
        return method


def load_run(folder: str | Path, *, module: Builder | None = None, data: Dataset | None = None) -> SearchResult:
    """A run that has been made before, by `search` or by the command line.

    Args:
        module: makes the user's own network, if there is one.
        data: what was given in Python instead of a name or a path.
    """
    path = Workspace(Path(folder)).results
    if not path.exists():
        raise ConfigError(f"Expected a run in {folder}. Found no {path.name} there.")
    return SearchResult(Results.read(path), Path(folder), module, data)


def search(
    data: Any,
    *,
    out: str | Path,
    target: str | None = None,
    task: str | Task | None = None,
    metric: str | None = None,
    validation: Any = None,
    test: Any = None,
    groups: str | ArrayLike | None = None,
    times: str | ArrayLike | None = None,
    method: str | Method | None = None,
    front: bool = False,
    space: str | None = None,
    module: str | nn.Module | Builder | None = None,
    max_params: float | None = None,
    max_macs: float | None = None,
    max_latency: float | None = None,
    max_minutes: float | None = None,
    evidence: bool = False,
    ood: str | None = None,
    unlabelled: Any = None,
    callbacks: Sequence[Callback] = (),
    seed: int = 0,
    workers: int = 1,
    device: str = "cpu",
    resume: bool = False,
    finish_now: bool = False,
    accept_changes: bool = False,
    trust_module: bool = False,
    quiet: bool = False,
    report: bool = True,
    settings: Mapping[str, Any] | None = None,
) -> SearchResult:
    """Finds an architecture for the data, trains it alone, calibrates it and writes artifacts and a report.

    Args:
        data: a known name, a path, a torch ``Dataset`` or ``DataLoader``, a pair (X, y), in which X may be a mapping of
            names to several inputs, or a `polyarch.data.Dataset`.
        out: the folder of the run; new or empty, unless ``resume``.
        target: the column of a table to predict, or several, separated by commas.
        task: ``classification``, ``regression`` or ``multi-label``, what the target looks like by default; or a
            `polyarch.tasks.Task`, such as an `OwnTask` with a loss of your own, which a resumed run needs again.
        metric: what selection goes by, e.g. ``balanced_accuracy`` or ``mae``.
        validation, test: examples to validate and to test on, as anything that ``data`` may be; by default those of the
            data, or a part of its training examples.
        groups: a column of a table, or an array with one value for every example: examples of one group are held out
            together for validation and testing.
        times: the same for times: the latest examples are held out. Neither column is an input of the network.
        method: how the architecture is found, by name (see `polyarch.plugins.METHODS`) or as an object; by default a
            race, or ``one-shot`` if there are callbacks or settings for a supernet.
        front: one training for networks of every size, `SearchResult.front`; short for ``method="front"``.
        space: one of `polyarch spaces list`, or ``"package.module:Space"``; ``auto`` unless ``settings`` describe one.
        module: your own network with `OneOf`, `Repeat` and `Maybe` blocks, your own `Supernet`, or any network for
            methods that gate channels: a module, a function or class that makes one (polyarch passes ``input_shape``,
            ``outputs`` or ``classes``, ``vocabulary`` and ``categories`` if they are declared), or
            ``"package.module:function"``.
        max_params, max_macs, max_latency, max_minutes: hard limits; latency in seconds.
        evidence: after a race, train further seeds, random networks and the plain one to compare with.
        ood: out-of-distribution images, to try the uncertainty on.
        unlabelled: more examples to learn from, for methods that can: a known name, a path, an array, or a data set
            whose labels are ignored.
        callbacks: your own, called in the training of the supernet, in this process: not in that of a second supernet
            that checks the ranking, nor when networks are trained alone. What their ``state_dict`` returns is kept in
            checkpoints; to resume, pass the same callbacks again.
        workers: processes. More than one needs ``if __name__ == "__main__":`` around the call in a script, and a
            network that is defined in an importable file.
        resume: go on with the run in ``out``.
        finish_now: with ``resume``, train no more and deliver the best so far; for ``race`` and ``front``.
        accept_changes: with ``resume``, go on although data or your own code changed since the run began; the change is
            noted in ``results.json``.
        trust_module: with ``resume``, import code (``package.module:name``) that the run names and these arguments do
            not.
        report: whether to write ``report.html``.
        settings: any other setting by its dotted name, e.g. ``{"train.epochs": 20}``.
    """
    if front and method not in (None, FRONT):
        raise ConfigError(f"Expected front without another method. Got {method!r}.")
    if isinstance(method, Method):
        METHODS.add(method.name, lambda name: method)
    if module is not None and space not in (None, "module"):
        raise ConfigError(f"Expected a space or a module, not both. Got space {space!r} and a module.")
    builder = None if module is None or isinstance(module, str) else _builder(module)
    held_out = {"valid": validation, "test": test, "groups": groups, "times": times}
    given = _loaded(data, target, task, held_out, (settings or {}).get("data.size"))
    more = None if isinstance(unlabelled, str | Path) else unlabelled
    described = any(name.startswith("space.") for name in settings or {})
    name = method.name if isinstance(method, Method) else method
    overrides: dict[str, Any] = {
        "data.name": _named(data),
        "task.kind": "own" if isinstance(task, Task) else task,
        "task.metric": metric,
        "data.target": target,
        **{SETTING[key]: _named(value) for key, value in held_out.items()},
        "data.ood": ood,
        "data.unlabelled": None if unlabelled is None else str(unlabelled) if more is None else IN_PYTHON,
        "method": FRONT if front else name or (SUPERNET_METHOD if callbacks else None),
        "space.kind": space or (None if described else "auto") if module is None else "module",
        "space.module": None if module is None else module if isinstance(module, str) else IN_PYTHON,
        "search.max_params": max_params,
        "search.max_macs": max_macs,
        "search.max_latency": max_latency,
        "max_minutes": max_minutes,
        "evidence": evidence or None,
        "seed": seed,
        "workers": workers,
        "device": device,
        **(settings or {}),
    }
    asked = {key: value for key, value in overrides.items() if value is not None}
    display: Display = Quiet() if quiet else Terminal()
    with stop_on_signal() as stop, trusting_only(None if trust_module else references_in(with_overrides({}, asked))):
        beginning = Beginning(
            Path(out),
            display,
            stop,
            data=given,
            builder=builder,
            unlabelled=more,
            callbacks=callbacks,
            finish_now=finish_now,
            accept_changes=accept_changes,
        )
        with closing(beginning.lock):
            if resume:
                run = beginning.resume(None, {"workers": workers, "device": device}, "the arguments of search")
            else:
                run = beginning.start(RunSettings.parse(with_overrides({}, asked), "the arguments of search"))
            results = perform(run)
    write_model_cards(results, Path(out))
    if report:
        try:
            write_report(results, run.workspace.report)
        except MissingExtra as error:
            display.say(f"No report: {error}")
    return SearchResult(results, Path(out), builder, given)


SETTING = {"valid": "data.valid", "test": "data.test", "groups": "data.group", "times": "data.time"}


def _named(value: Any) -> str | None:
    """What the settings say of a source or a column."""
    return value if value is None else str(value) if isinstance(value, str | Path) else IN_PYTHON


def _loaded(
    data: Any, target: str | None, task: str | Task | None, held_out: Mapping[str, Any], size: int | None
) -> Dataset | None:
    """The data, with the user's own task if there is one, unless the settings name all of it."""
    if isinstance(task, Task):
        given = data if isinstance(data, Dataset) else load(data, target=target, size=size, **held_out)
        return replace(given, task=task)
    if all(value is None or isinstance(value, str | Path) for value in (data, *held_out.values())):
        return None
    kind: Any = task
    if not isinstance(data, Dataset):
        return load(data, target=target, size=size, task=kind, **held_out)
    keys = SplitKeys(held_out["groups"], held_out["times"])
    if keys.given:
        raise InvalidInput("Expected groups or times beside data that is yet to be split. Got a Dataset, which is.")
    return with_held_out(data, valid=held_out["valid"], test=held_out["test"])


@dataclass(frozen=True)
class _Copies:
    """Gives copies of one network, with the weights it came with."""

    module: nn.Module

    def __call__(self) -> nn.Module:
        return copy.deepcopy(self.module)


def _builder(module: nn.Module | Callable[..., nn.Module]) -> Builder:
    return _Copies(module) if isinstance(module, nn.Module) else module
