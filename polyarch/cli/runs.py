"""`polyarch search`, `train` and `rank`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from polyarch.cli.common import OutOption, SetOption, WorkersOption, console
from polyarch.errors import UnknownName
from polyarch.jobs.context import Context
from polyarch.jobs.display import Terminal
from polyarch.jobs.overrides import parse_assignments, parse_quantity, resumed_settings, with_overrides
from polyarch.jobs.parts import Parts
from polyarch.jobs.pipeline import Stage, check, run
from polyarch.jobs.plan import in_words, plan
from polyarch.jobs.settings import SPACES, RunSettings, read_toml
from polyarch.jobs.workspace import Workspace
from polyarch.reports import write_report
from polyarch.results import Results
from polyarch.training import stop_on_signal

DataOption = Annotated[str | None, typer.Option("--data", help="Data set: digits, spirals, mnist, ...")]
SpaceOption = Annotated[str | None, typer.Option("--space", help=f"Space: {', '.join(SPACES)}.")]
ConfigOption = Annotated[Path | None, typer.Option("--config", help="Run description in TOML.")]
ResumeOption = Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")]
SeedOption = Annotated[int | None, typer.Option("--seed", help="Seed of everything random.")]
DeviceOption = Annotated[str | None, typer.Option("--device", help="cpu, cuda, cuda:1, ...")]
MaxParamsOption = Annotated[str | None, typer.Option("--max-params", help="Most parameters, e.g. 100k.")]
MaxMacsOption = Annotated[str | None, typer.Option("--max-macs", help="Most multiply-accumulates, e.g. 5M.")]
MaxLatencyOption = Annotated[float | None, typer.Option("--max-latency", help="Most seconds per forward pass.")]


def search(
    out: OutOption,
    data: DataOption = None,
    space: SpaceOption = None,
    config: ConfigOption = None,
    resume: ResumeOption = False,
    seed: SeedOption = None,
    workers: WorkersOption = None,
    device: DeviceOption = None,
    budget: Annotated[int | None, typer.Option("--budget", help="Architectures to score.")] = None,
    sampler: Annotated[str | None, typer.Option("--sampler", help="random, exhaustive, evolution, nsga2.")] = None,
    max_params: MaxParamsOption = None,
    max_macs: MaxMacsOption = None,
    max_latency: MaxLatencyOption = None,
    settings: SetOption = None,
) -> None:
    """Train a supernet, rank, search, extract the best architecture, retrain it and compare."""
    options = {
        **_common(data, space, seed, workers, device),
        "search.budget": budget,
        "search.sampler": sampler,
        "search.max_params": parse_quantity(max_params),
        "search.max_macs": parse_quantity(max_macs),
        "search.max_latency": max_latency,
    }
    _run("search", out, config, resume, options, settings)


def train(
    out: OutOption,
    data: DataOption = None,
    space: SpaceOption = None,
    config: ConfigOption = None,
    resume: ResumeOption = False,
    seed: SeedOption = None,
    workers: WorkersOption = None,
    device: DeviceOption = None,
    epochs: Annotated[int | None, typer.Option("--epochs", help="Epochs of supernet training.")] = None,
    strategy: Annotated[str | None, typer.Option("--strategy", help="single_path or variational.")] = None,
    settings: SetOption = None,
) -> None:
    """Train a supernet; `rank` and `search` go on in the same folder with --resume."""
    options = {
        **_common(data, space, seed, workers, device),
        "train.epochs": epochs,
        "train.strategy": strategy,
    }
    _run("train", out, config, resume, options, settings)


def rank(
    out: OutOption,
    data: DataOption = None,
    space: SpaceOption = None,
    config: ConfigOption = None,
    resume: ResumeOption = False,
    seed: SeedOption = None,
    workers: WorkersOption = None,
    device: DeviceOption = None,
    architectures: Annotated[int | None, typer.Option("--architectures", help="How many random ones.")] = None,
    truth: Annotated[str | None, typer.Option("--truth", help="Column of the NAS-Bench-201 table.")] = None,
    settings: SetOption = None,
) -> None:
    """Train a supernet (or take the one in --out with --resume) and rank random architectures."""
    options = {
        **_common(data, space, seed, workers, device),
        "rank.architectures": architectures,
        "rank.truth": truth,
    }
    _run("rank", out, config, resume, options, settings)


def _run(
    until: Stage,
    out: Path,
    config: Path | None,
    resume: bool,
    options: dict[str, Any],
    assignments: list[str] | None,
) -> None:
    """The common way of `train`, `rank` and `search`."""
    overrides = {key: value for key, value in options.items() if value is not None}
    overrides.update(parse_assignments(assignments or []))
    content, origin = (read_toml(config), str(config)) if config else (None, "the command line")
    if resume:
        workspace, settings = Workspace.resume(out)
        settings = resumed_settings(settings, content, overrides, origin)
    else:
        settings = RunSettings.parse(with_overrides(content or {}, overrides), origin)
    display = Terminal(console)
    with stop_on_signal() as stop:
        parts = Parts.build(settings)
        if not resume:
            check(Context(parts, Workspace(out), display, stop), until)
            workspace = Workspace.start(out, settings)
        context = Context(parts, workspace, display, stop)
        _show_plan(context, until, resume)
        results = run(context, until)
    if until == "search":
        write_report(results, workspace.report)
    _show_summary(results, out)


def _show_plan(context: Context, until: Stage, resume: bool) -> None:
    planned = plan(context, until)
    table = Table("stage", "work", "about")
    for stage in planned:
        table.add_row(stage.name, stage.work, in_words(stage.seconds))
    total = in_words(sum(stage.seconds for stage in planned))
    workers = context.parts.settings.workers
    context.display.say(table)
    again = "; what is already done is not done again" if resume else ""
    context.display.say(f"About {total} with {workers} worker{'s' if workers > 1 else ''} from the start{again}.")


def _show_summary(results: Results, out: Path) -> None:
    if results.ranking:
        table = Table("estimator", f"Spearman with {results.ranking.reference}", "95 % interval")
        for name, quality in results.ranking.quality.items():
            interval = quality["spearman"]
            shown = ["-" if interval[key] is None else f"{interval[key]:.2f}" for key in ("value", "low", "high")]
            table.add_row(name, shown[0], f"{shown[1]} to {shown[2]}")
        console.print(table)
    if results.comparison:
        table = Table("network", "test accuracy", "runs")
        for contender in results.comparison:
            spread = f" +- {contender.std:.4f}" if len(contender.runs) > 1 else ""
            table.add_row(contender.name, f"{contender.mean:.4f}{spread}", str(len(contender.runs)))
        console.print(table)
    if results.artifact:
        key = "|".join(results.artifact["architecture"].values())
        console.print(f"Best architecture: {key}, {results.artifact['parameters']:,} parameters", markup=False)
        console.print(f"Artifact: {out / 'artifact'}   Report: {out / 'report.html'}", markup=False)
    console.print(f"Results: {out / 'results.json'}", markup=False)


def _common(
    data: str | None, space: str | None, seed: int | None, workers: int | None, device: str | None
) -> dict[str, Any]:
    if space is not None and space not in SPACES:
        raise UnknownName("space", space, SPACES)
    return {"data.name": data, "space.kind": space, "seed": seed, "workers": workers, "device": device}
