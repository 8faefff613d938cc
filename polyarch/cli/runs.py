"""`polyarch search`, `train` and `rank`."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from polyarch.cli.clock import start_of_command
from polyarch.cli.options import (
    AcceptOption,
    AddressOption,
    ConfigOption,
    CpusOption,
    DataOption,
    DeviceOption,
    EstimatorOption,
    ExecutorOption,
    FinishOption,
    GpusOption,
    GroupOption,
    MetricOption,
    ModuleOption,
    OutOption,
    ResumeOption,
    SeedOption,
    SetOption,
    SpaceOption,
    StrategyOption,
    TargetOption,
    TaskOption,
    TestOption,
    TimeOption,
    TrustOption,
    ValidOption,
    WorkersOption,
    common_options,
    console,
    trusting,
)
from polyarch.cli.summary import show_summary
from polyarch.errors import ConfigError, MissingExtra
from polyarch.facade import FRONT
from polyarch.plugins import METHODS, SAMPLERS, SUPERNET_METHOD, method_named
from polyarch.reports import write_model_cards, write_report
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
    accept_changes: AcceptOption = False,
    trust_module: TrustOption = False,
    finish_now: FinishOption = False,
    seed: SeedOption = None,
    workers: WorkersOption = None,
    executor: ExecutorOption = None,
    address: AddressOption = None,
    cpus_per_item: CpusOption = None,
    gpus_per_item: GpusOption = None,
    device: DeviceOption = None,
    strategy: StrategyOption = None,
    estimator: EstimatorOption = None,
    budget: Annotated[int | None, typer.Option("--budget", help="Architectures to score.")] = None,
    storage: Annotated[
        str | None,
        typer.Option("--storage", help="Of the study: NAME.db (SQLite), another file (a journal), or postgresql://..."),
    ] = None,
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
    options = {
        **common_options(context, default_space=None if described else "auto"),
        "train.strategy": strategy,
        "search.objectives": estimator,
        "search.budget": budget,
        "search.sampler": sampler,
        "search.storage": storage,
        "search.max_params": parse_quantity(max_params),
        "search.max_macs": parse_quantity(max_macs),
        "search.max_latency": max_latency,
        "max_minutes": max_minutes,
        "evidence": evidence or None,
        "data.ood": ood,
        "data.unlabelled": unlabelled,
        "method": FRONT if front else method,
    }
    again = Resumption(resume, accept_changes, finish_now)
    _run(None, out, config, again, options, settings, context.args, trust_module=trust_module)


def train(
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
    space: SpaceOption = None,
    module: ModuleOption = None,
    config: ConfigOption = None,
    resume: ResumeOption = False,
    accept_changes: AcceptOption = False,
    trust_module: TrustOption = False,
    seed: SeedOption = None,
    workers: WorkersOption = None,
    device: DeviceOption = None,
    epochs: Annotated[int | None, typer.Option("--epochs", help="Epochs of supernet training.")] = None,
    strategy: StrategyOption = None,
    settings: SetOption = None,
) -> None:
    """Train a supernet; `rank` and `search` go on in the same folder with --resume."""
    options = {**common_options(context), "train.epochs": epochs, "train.strategy": strategy}
    _run("train", out, config, Resumption(resume, accept_changes), options, settings, trust_module=trust_module)


def rank(
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
    space: SpaceOption = None,
    module: ModuleOption = None,
    config: ConfigOption = None,
    resume: ResumeOption = False,
    accept_changes: AcceptOption = False,
    trust_module: TrustOption = False,
    seed: SeedOption = None,
    workers: WorkersOption = None,
    executor: ExecutorOption = None,
    address: AddressOption = None,
    cpus_per_item: CpusOption = None,
    gpus_per_item: GpusOption = None,
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
    seeds: Annotated[
        int | None, typer.Option("--seeds", help="Supernets of different seeds, over which to average; 1 by default.")
    ] = None,
    halving: Annotated[
        bool, typer.Option("--halving", help="Successive halving: repeatedly drop the worse half by its losses so far.")
    ] = False,
    settings: SetOption = None,
) -> None:
    """Train a supernet (or take the one in --out with --resume) and rank random architectures, or those of a truth."""
    options = {
        **common_options(context),
        "train.strategy": strategy,
        "rank.estimators": estimator,
        "rank.architectures": architectures,
        "rank.truth": truth,
        "rank.seeds": seeds,
        "rank.halving": halving or None,
    }
    _run("rank", out, config, Resumption(resume, accept_changes), options, settings, trust_module=trust_module)


@dataclass(frozen=True)
class Resumption:
    """Whether a run goes on, and how."""

    asked: bool
    accept_changes: bool = False
    finish_now: bool = False

    def __post_init__(self) -> None:
        if self.finish_now and not self.asked:
            raise ConfigError("Expected --resume with --finish-now. Got a new run, which has nothing to finish.")
        if self.accept_changes and not self.asked:
            raise ConfigError("Expected --resume with --accept-changes. Got a new run, which has nothing to accept.")


def _run(
    until: str | None,
    out: Path,
    config: Path | None,
    again: Resumption,
    options: dict[str, Any],
    assignments: list[str] | None,
    further: Sequence[str] = (),
    *,
    trust_module: bool,
) -> None:
    """The common way of `train`, `rank` and `search`.

    Args:
        further: options that the command does not know, but maybe the method.
        trust_module: whether code is imported that only files name.
    """
    overrides = {key: value for key, value in options.items() if value is not None}
    overrides.update(parse_assignments(assignments or []))
    with trusting(overrides, trust_module):
        results = _performed(until, out, config, again, overrides, further)
    show_summary(results, out)


def _performed(
    until: str | None,
    out: Path,
    config: Path | None,
    again: Resumption,
    overrides: dict[str, Any],
    further: Sequence[str],
) -> Results:
    content, origin = (read_toml(config), str(config)) if config else (None, "the command line")
    stored = read_toml(Workspace(out).settings) if again.asked and Workspace(out).settings.exists() else {}
    known = with_overrides({**stored, **(content or {})}, overrides)
    known.setdefault("method", fitting_method(known) if until is None else SUPERNET_METHOD)
    overrides.update(parse_own_options(further, method_named(str(known["method"]))))
    with stop_on_signal() as stop:
        beginning = Beginning(
            out,
            Terminal(console),
            stop,
            until,
            finish_now=again.finish_now,
            accept_changes=again.accept_changes,
            started=start_of_command(),
        )
        with closing(beginning.lock):
            if again.asked:
                described = None if content is None else {"method": known["method"], **content}
                run = beginning.resume(described, overrides, origin)
            else:
                run = beginning.start(RunSettings.parse(with_overrides(known, overrides), origin))
            results = perform(run)
    write_model_cards(results, out)
    if until is None:
        try:
            write_report(results, run.workspace.report)
        except MissingExtra as error:
            console.print(f"No report: {error}", markup=False)
    return results
