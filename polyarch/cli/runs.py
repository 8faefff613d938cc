"""`polyarch search`, `train` and `rank`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from polyarch.errors import ConfigError, MissingExtra
from polyarch.facade import FRONT
from polyarch.plugins import ESTIMATORS, METHODS, SAMPLERS, SPACES, STRATEGIES, SUPERNET_METHOD, method_named
from polyarch.reports import write_report
from polyarch.results import Results
from polyarch.runs.display import Terminal
from polyarch.runs.settings import (
    RunSettings,
    fitting_method,
    parse_assignments,
    parse_own_options,
    parse_quantity,
    read_toml,
    with_overrides,
)
from polyarch.runs.stage import perform
from polyarch.runs.start import Beginning
from polyarch.runs.workspace import Workspace
from polyarch.training import stop_on_signal

console = Console(highlight=False)

OutOption = Annotated[Path, typer.Option("--out", help="Folder of the run.")]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Any setting, e.g. train.epochs=20.")
]
WorkersOption = Annotated[int | None, typer.Option("--workers", help="Worker processes; all cores by default.")]


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
FinishOption = Annotated[
    bool,
    typer.Option("--finish-now", help="With --resume: train no more and deliver the best so far (race and front)."),
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


def search(
    context: typer.Context,
    out: OutOption,
    data: DataOption = None,
    target: TargetOption = None,
    task: TaskOption = None,
    metric: MetricOption = None,
    valid: ValidOption = None,
    test: TestOption = None,
    group: GroupOption = None,
    time: TimeOption = None,
    method: Annotated[
        str | None, typer.Option("--method", help=f"{', '.join(METHODS)}, or PACKAGE.MODULE:CLASS.")
    ] = None,
    front: Annotated[
        bool, typer.Option("--front", help="One training, networks of every size; short for --method front.")
    ] = False,
    space: SpaceOption = None,
    module: ModuleOption = None,
    config: ConfigOption = None,
    resume: ResumeOption = False,
    finish_now: FinishOption = False,
    seed: SeedOption = None,
    workers: WorkersOption = None,
    device: DeviceOption = None,
    strategy: StrategyOption = None,
    estimator: EstimatorOption = None,
    budget: Annotated[int | None, typer.Option("--budget", help="Architectures to score.")] = None,
    sampler: Annotated[str | None, typer.Option("--sampler", help=f"{', '.join(SAMPLERS)}.")] = None,
    max_params: Annotated[
        str | None, typer.Option("--max-params", help="Maximum number of parameters, e.g. 100k.")
    ] = None,
    max_macs: Annotated[
        str | None, typer.Option("--max-macs", help="Maximum number of multiply-accumulates, e.g. 5M.")
    ] = None,
    max_latency: Annotated[
        float | None, typer.Option("--max-latency", help="Maximum seconds per forward pass, measured on this machine.")
    ] = None,
    max_minutes: Annotated[
        float | None, typer.Option("--max-minutes", help="Time limit in minutes for the whole run.")
    ] = None,
    evidence: Annotated[
        bool,
        typer.Option(
            "--evidence", help="After a race, train further seeds, random networks and the plain one to compare with."
        ),
    ] = False,
    ood: Annotated[
        str | None, typer.Option("--ood", help="Out-of-distribution images, to try the uncertainty on.")
    ] = None,
    unlabelled: Annotated[
        str | None,
        typer.Option("--unlabelled", help="Unlabelled examples to learn from, for methods that can use them."),
    ] = None,
    settings: SetOption = None,
) -> None:
    """Find an architecture for data, retrain it from scratch, calibrate and export it.

    Settings of the method's own section are options, too: --rule 95%, --members 5, ...
    """
    if front and method not in (None, FRONT):
        raise ConfigError(f"Expected --front without --method. Got --method {method}.")
    described = config is not None or resume or any(word.startswith("space.") for word in settings or [])
    if space is None and module is None and not described:
        space = "auto"
    options = {
        **common_options(
            data=data,
            target=target,
            task=task,
            metric=metric,
            valid=valid,
            test=test,
            group=group,
            time=time,
            space=space,
            module=module,
        ),
        **machine_options(seed, workers, device),
        "train.strategy": strategy,
        "search.objectives": estimator,
        "search.budget": budget,
        "search.sampler": sampler,
        "search.max_params": parse_quantity(max_params),
        "search.max_macs": parse_quantity(max_macs),
        "search.max_latency": max_latency,
        "max_minutes": max_minutes,
        "evidence": evidence or None,
        "data.ood": ood,
        "data.unlabelled": unlabelled,
        "method": FRONT if front else method,
    }
    if finish_now and not resume:
        raise ConfigError("Expected --resume with --finish-now. Got a new run, which has nothing to finish.")
    _run(None, out, config, resume, options, settings, context.args, finish_now=finish_now)


def train(
    out: OutOption,
    data: DataOption = None,
    target: TargetOption = None,
    task: TaskOption = None,
    metric: MetricOption = None,
    valid: ValidOption = None,
    test: TestOption = None,
    group: GroupOption = None,
    time: TimeOption = None,
    space: SpaceOption = None,
    module: ModuleOption = None,
    config: ConfigOption = None,
    resume: ResumeOption = False,
    seed: SeedOption = None,
    workers: WorkersOption = None,
    device: DeviceOption = None,
    epochs: Annotated[int | None, typer.Option("--epochs", help="Epochs of supernet training.")] = None,
    strategy: StrategyOption = None,
    settings: SetOption = None,
) -> None:
    """Train a supernet; `rank` and `search` go on in the same folder with --resume."""
    options = {
        **common_options(
            data=data,
            target=target,
            task=task,
            metric=metric,
            valid=valid,
            test=test,
            group=group,
            time=time,
            space=space,
            module=module,
        ),
        **machine_options(seed, workers, device),
        "train.epochs": epochs,
        "train.strategy": strategy,
    }
    _run("train", out, config, resume, options, settings)


def rank(
    out: OutOption,
    data: DataOption = None,
    target: TargetOption = None,
    task: TaskOption = None,
    metric: MetricOption = None,
    valid: ValidOption = None,
    test: TestOption = None,
    group: GroupOption = None,
    time: TimeOption = None,
    space: SpaceOption = None,
    module: ModuleOption = None,
    config: ConfigOption = None,
    resume: ResumeOption = False,
    seed: SeedOption = None,
    workers: WorkersOption = None,
    device: DeviceOption = None,
    strategy: StrategyOption = None,
    estimator: EstimatorOption = None,
    architectures: Annotated[
        int | None, typer.Option("--architectures", help="How many; all of a truth of your own by default.")
    ] = None,
    truth: Annotated[
        str | None,
        typer.Option(
            "--truth",
            help="True accuracies to compare with: nb201, nb201:cifar10_test_200, macro, a file, or the folder of "
            "`truth build`, whose architectures are then ranked instead of random ones.",
        ),
    ] = None,
    halving: Annotated[
        bool, typer.Option("--halving", help="Successive halving: repeatedly drop the worse half by its losses so far.")
    ] = False,
    settings: SetOption = None,
) -> None:
    """Train a supernet (or take the one in --out with --resume) and rank random architectures, or those of a truth."""
    options = {
        **common_options(
            data=data,
            target=target,
            task=task,
            metric=metric,
            valid=valid,
            test=test,
            group=group,
            time=time,
            space=space,
            module=module,
        ),
        **machine_options(seed, workers, device),
        "train.strategy": strategy,
        "rank.estimators": estimator,
        "rank.architectures": architectures,
        "rank.truth": truth,
        "rank.halving": halving or None,
    }
    _run("rank", out, config, resume, options, settings)


def _run(
    until: str | None,
    out: Path,
    config: Path | None,
    resume: bool,
    options: dict[str, Any],
    assignments: list[str] | None,
    further: Sequence[str] = (),
    *,
    finish_now: bool = False,
) -> None:
    """The common way of `train`, `rank` and `search`.

    Args:
        further: options that the command does not know, but maybe the method.
    """
    overrides = {key: value for key, value in options.items() if value is not None}
    overrides.update(parse_assignments(assignments or []))
    content, origin = (read_toml(config), str(config)) if config else (None, "the command line")
    stored = read_toml(Workspace(out).settings) if resume and Workspace(out).settings.exists() else {}
    known = with_overrides({**stored, **(content or {})}, overrides)
    known.setdefault("method", fitting_method(known) if until is None else SUPERNET_METHOD)
    overrides.update(parse_own_options(further, method_named(str(known["method"]))))
    with stop_on_signal() as stop:
        beginning = Beginning(out, Terminal(console), stop, until, finish_now=finish_now)
        if resume:
            run = beginning.resume(content, overrides, origin)
        else:
            run = beginning.start(RunSettings.parse(with_overrides(known, overrides), origin))
        results = perform(run)
    if until is None:
        try:
            write_report(results, run.workspace.report)
        except MissingExtra as error:
            console.print(f"No report: {error}", markup=False)
    _show_summary(results, out)


def _show_summary(results: Results, out: Path) -> None:
    if results.comparison:
        table = Table("network", f"test {results.task.title}", "runs")
        for contender in results.comparison:
            spread = f" +- {_number(contender.std)}" if len(contender.runs) > 1 else ""
            table.add_row(contender.name, f"{_number(contender.mean)}{spread}", str(len(contender.runs)))
        console.print(table)
    if results.predictors:
        console.print(_predictors(results))
    for line in method_named(results.method).summary(results):
        console.print(line, markup=not isinstance(line, str))
    if results.artifact:
        console.print(f"Parameters of the exported network: {results.artifact['parameters']:,}", markup=False)
        folders = [out / one.folder for one in results.predictors if one.folder]
        console.print(f"Artifacts: {', '.join(map(str, folders))}   Report: {out / 'report.html'}", markup=False)
    console.print(f"Results: {out / 'results.json'}", markup=False)


def _predictors(results: Results) -> Table:
    """Calibrated predictions: their score and likelihood, and what conformal prediction covers."""
    has_sets = any(one.conformal for one in results.predictors)
    sets = ["covered", "set size" if results.task.kind == "classification" else "width"] if has_sets else []
    table = Table("predictions", f"test {results.task.title}", "NLL", "temperature", *sets)
    for one in results.predictors:
        known = [_number(one.conformal.covered), _number(one.conformal.size)] if one.conformal else [""] * len(sets)
        table.add_row(one.name, _number(one.score), _number(one.loss), f"{one.temperature:.2f}", *known)
    return table


def _number(value: float) -> str:
    """Four decimals, or five significant digits of large numbers."""
    return f"{value:.4f}" if abs(value) < 100 else f"{value:.5g}"


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
}
"""Options that several commands have, and the settings behind them."""


def common_options(**options: str | None) -> dict[str, Any]:
    """The settings behind options that commands share, by the names in `SHARED`."""
    space, module = options.get("space"), options.get("module")
    if module is not None and space not in (None, "module"):
        raise ConfigError(f"Expected --module without --space, or with --space module. Got --space {space}.")
    if space is not None:
        SPACES.check(space)
    found: dict[str, Any] = {SHARED[name]: value for name, value in options.items()}
    return found if module is None else {**found, "space.kind": "module"}


def machine_options(seed: int | None, workers: int | None, device: str | None) -> dict[str, Any]:
    """The settings that say where and with which seed a run takes place."""
    return {"seed": seed, "workers": workers, "device": device}
