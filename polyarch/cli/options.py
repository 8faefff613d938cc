"""Options that several commands have, and the console that all print to."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated, Any, get_args

import typer
from rich.console import Console

from polyarch.errors import ConfigError
from polyarch.executors import ExecutorName
from polyarch.files import is_stream
from polyarch.plugins import ESTIMATORS, SPACES, STRATEGIES, trusting_only
from polyarch.runs.references import references_in
from polyarch.runs.settings import with_overrides

console = Console(highlight=False)


def console_beside(out: Path) -> Console:
    """Where messages go beside an output file: to standard error if the output itself may be on standard output."""
    return Console(stderr=True, highlight=False) if is_stream(out) else console


OutOption = Annotated[Path, typer.Option("--out", help="Folder of the run.")]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Any setting, e.g. train.epochs=20.")
]
WorkersOption = Annotated[int | None, typer.Option("--workers", help="Worker processes; all cores by default.")]
ExecutorOption = Annotated[
    str | None, typer.Option("--executor", help=f"Where items run: {', '.join(get_args(ExecutorName))}.")
]
AddressOption = Annotated[
    str | None,
    typer.Option("--address", help="Of a Ray cluster, HOST:PORT or auto; by default one is started on this machine."),
]
CpusOption = Annotated[float | None, typer.Option("--cpus-per-item", help="Processors of a Ray cluster for each item.")]
GpusOption = Annotated[
    float | None, typer.Option("--gpus-per-item", help="GPUs of a Ray cluster for each item, e.g. 0.25.")
]
DataOption = Annotated[
    str | None, typer.Option("--data", help="A name (see `polyarch data list`), a folder of images, a table, ...")
]
TargetOption = Annotated[
    str | None, typer.Option("--target", help="The column of a table to predict, or several, separated by commas.")
]
TaskOption = Annotated[
    str | None,
    typer.Option("--task", help="classification, regression or multi-label; by default what the target looks like."),
]
MetricOption = Annotated[
    str | None,
    typer.Option("--metric", help="What selection goes by: accuracy, balanced_accuracy, nll, auroc, f1; rmse, mae."),
]
ValidOption = Annotated[str | None, typer.Option("--valid", help="Validation examples: a file or folder of their own.")]
TestOption = Annotated[str | None, typer.Option("--test", help="Test examples: a file or folder of their own.")]
GroupOption = Annotated[
    str | None, typer.Option("--group", metavar="COLUMN", help="Hold out whole groups, the values of this column.")
]
TimeOption = Annotated[
    str | None,
    typer.Option("--time", metavar="COLUMN", help="Hold out the latest rows, by this column of dates or numbers."),
]
SpaceOption = Annotated[
    str | None, typer.Option("--space", help=f"Space: {', '.join(SPACES)}, or PACKAGE.MODULE:CLASS.")
]
ConfigOption = Annotated[Path | None, typer.Option("--config", help="Run description in TOML.")]
ResumeOption = Annotated[bool, typer.Option("--resume", help="Continue the run in --out.")]
AcceptOption = Annotated[
    bool,
    typer.Option("--accept-changes", help="With --resume: go on although data or your own code changed; it is noted."),
]
TrustOption = Annotated[
    bool,
    typer.Option("--trust-module", help="Import the code (PACKAGE.MODULE:NAME) that --config or the run itself names."),
]
FinishOption = Annotated[
    bool, typer.Option("--finish-now", help="With --resume: train no more and deliver the best so far (race, front).")
]
SeedOption = Annotated[int | None, typer.Option("--seed", help="Seed of everything random.")]
StrategyOption = Annotated[
    str | None, typer.Option("--strategy", help=f"How the supernet is trained: {', '.join(STRATEGIES)}.")
]
EstimatorOption = Annotated[
    list[str] | None,
    typer.Option(
        "--estimator", help=f"What scores architectures, may be repeated: {', '.join(ESTIMATORS)}, PACKAGE.MODULE:NAME."
    ),
]
DeviceOption = Annotated[str | None, typer.Option("--device", help="cpu, cuda, cuda:1, ...")]
ModuleOption = Annotated[
    str | None, typer.Option("--module", metavar="PACKAGE.MODULE:FUNCTION", help="Your own network or supernet.")
]

SHARED = {
    "data": "data.name",
    "target": "data.target",
    "task": "task.kind",
    "metric": "task.metric",
    "valid": "data.valid",
    "test": "data.test",
    "group": "data.group",
    "time": "data.time",
    "space": "space.kind",
    "module": "space.module",
    "seed": "seed",
    "workers": "workers",
    "device": "device",
    "executor": "executor.kind",
    "address": "executor.address",
    "cpus_per_item": "executor.cpus_per_item",
    "gpus_per_item": "executor.gpus_per_item",
}
"""Arguments that several commands have, and the settings behind them."""

CLUSTER = ("executor.address", "executor.cpus_per_item", "executor.gpus_per_item")
"""What only a Ray cluster has, which --executor ray is not needed for."""


def trusting(options: Mapping[str, Any], trust_module: bool) -> AbstractContextManager[None]:
    """Imports only the code that these options name; what files name only if they are trusted."""
    return trusting_only(None if trust_module else references_in(with_overrides({}, options)))


def common_options(context: typer.Context, *, default_space: str | None = None) -> dict[str, Any]:
    """The settings behind those arguments of a command that are in `SHARED`, None where they were not given.

    Args:
        default_space: where neither a space nor a module is named.
    """
    found: dict[str, Any] = {setting: context.params.get(name) for name, setting in SHARED.items()}
    space, module = found["space.kind"], found["space.module"]
    if module is not None and space not in (None, "module"):
        raise ConfigError(f"Expected --module without --space, or with --space module. Got --space {space}.")
    if space is not None:
        SPACES.check(space)
    of_cluster = [key for key in CLUSTER if found[key] is not None]
    if of_cluster and found["executor.kind"] not in (None, "ray"):
        raise ConfigError(f"Expected {', '.join(of_cluster)} with --executor ray. Got {found['executor.kind']!r}.")
    if of_cluster:
        found["executor.kind"] = "ray"
    return {**found, "space.kind": space or default_space if module is None else "module"}
