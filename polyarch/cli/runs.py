"""`polyarch search`, `train` and `rank`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Column, Table
from rich.text import Text

from polyarch.cli.common import OutOption, SetOption, WorkersOption, console
from polyarch.errors import ConfigError, MissingExtra, UnknownName
from polyarch.methods.depth.search import RULES
from polyarch.reports import write_report
from polyarch.results import EliminationRecord, GuidedRecord, Results, StochasticRecord
from polyarch.runs.display import Terminal
from polyarch.runs.overrides import parse_assignments, parse_prior, parse_quantity, with_overrides
from polyarch.runs.pipeline import Stage, run
from polyarch.runs.settings import METHODS, STRATEGIES, RunSettings, read_toml
from polyarch.runs.spaces import SPACES
from polyarch.runs.start import Beginning
from polyarch.training import stop_on_signal

DataOption = Annotated[
    str | None, typer.Option("--data", help="A name (see `polyarch data list`), a folder of images, a table, ...")
]
TargetOption = Annotated[str | None, typer.Option("--target", help="The label column of a table.")]
SpaceOption = Annotated[str | None, typer.Option("--space", help=f"Space: {', '.join(SPACES)}.")]
ConfigOption = Annotated[Path | None, typer.Option("--config", help="Run description in TOML.")]
ResumeOption = Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")]
SeedOption = Annotated[int | None, typer.Option("--seed", help="Seed of everything random.")]
StrategyOption = Annotated[
    str | None, typer.Option("--strategy", help=f"How the supernet is trained: {', '.join(STRATEGIES)}.")
]
DeviceOption = Annotated[str | None, typer.Option("--device", help="cpu, cuda, cuda:1, ...")]


def search(
    out: OutOption,
    data: DataOption = None,
    target: TargetOption = None,
    method: Annotated[str | None, typer.Option("--method", help=f"{', '.join(METHODS)}.")] = None,
    space: SpaceOption = None,
    module: Annotated[
        str | None, typer.Option("--module", metavar="PACKAGE.MODULE:FUNCTION", help="Search your own network.")
    ] = None,
    config: ConfigOption = None,
    resume: ResumeOption = False,
    seed: SeedOption = None,
    workers: WorkersOption = None,
    device: DeviceOption = None,
    strategy: StrategyOption = None,
    budget: Annotated[int | None, typer.Option("--budget", help="Architectures to score.")] = None,
    sampler: Annotated[str | None, typer.Option("--sampler", help="random, exhaustive, evolution, nsga2.")] = None,
    max_params: Annotated[str | None, typer.Option("--max-params", help="Most parameters, e.g. 100k.")] = None,
    max_macs: Annotated[str | None, typer.Option("--max-macs", help="Most multiply-accumulates, e.g. 5M.")] = None,
    max_latency: Annotated[
        float | None, typer.Option("--max-latency", help="Most seconds per forward pass, measured here.")
    ] = None,
    max_minutes: Annotated[float | None, typer.Option("--max-minutes", help="Most minutes for all of it.")] = None,
    rule: Annotated[str | None, typer.Option("--rule", help=f"How a depth is chosen: {', '.join(RULES)}.")] = None,
    prior: Annotated[
        str | None, typer.Option("--prior", help="Over depths: geometric, uniform, or weights as 1,2,4,...")
    ] = None,
    updates: Annotated[str | None, typer.Option("--updates", help="Of the depth posterior: gradient or em.")] = None,
    outside: Annotated[
        str | None, typer.Option("--outside", help="Images of another kind, to try the uncertainty on.")
    ] = None,
    unlabelled: Annotated[
        str | None,
        typer.Option("--unlabelled", help="More examples to learn from, without labels; with --method stochastic."),
    ] = None,
    settings: SetOption = None,
) -> None:
    """Find an architecture for data: train a supernet, rank, search, train the best alone, calibrate and export."""
    if module is not None and space not in (None, "module"):
        raise ConfigError(f"Expected --module without --space, or with --space module. Got --space {space}.")
    described = config is not None or resume or any(word.startswith("space.") for word in settings or [])
    if space is None and not described:
        space = "auto"
    if module is not None:
        space = "module"
    options = {
        **common_options(data, target, space, seed, workers, device),
        "space.module": module,
        "train.strategy": strategy,
        "search.budget": budget,
        "search.sampler": sampler,
        "search.max_params": parse_quantity(max_params),
        "search.max_macs": parse_quantity(max_macs),
        "search.max_latency": max_latency,
        "max_minutes": max_minutes,
        "data.outside": outside,
        "data.unlabelled": unlabelled,
        "method": method,
        "depth.rule": rule,
        "depth.prior": parse_prior(prior),
        "depth.updates": updates,
    }
    _run("search", out, config, resume, options, settings)


def train(
    out: OutOption,
    data: DataOption = None,
    target: TargetOption = None,
    space: SpaceOption = None,
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
        **common_options(data, target, space, seed, workers, device),
        "train.epochs": epochs,
        "train.strategy": strategy,
    }
    _run("train", out, config, resume, options, settings)


def rank(
    out: OutOption,
    data: DataOption = None,
    target: TargetOption = None,
    space: SpaceOption = None,
    config: ConfigOption = None,
    resume: ResumeOption = False,
    seed: SeedOption = None,
    workers: WorkersOption = None,
    device: DeviceOption = None,
    strategy: StrategyOption = None,
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
        bool, typer.Option("--halving", help="Eliminate the worse half by its losses so far, again and again.")
    ] = False,
    settings: SetOption = None,
) -> None:
    """Train a supernet (or take the one in --out with --resume) and rank random architectures, or those of a truth."""
    options = {
        **common_options(data, target, space, seed, workers, device),
        "train.strategy": strategy,
        "rank.architectures": architectures,
        "rank.truth": truth,
        "rank.halving": halving or None,
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
    with stop_on_signal() as stop:
        beginning = Beginning(out, until, Terminal(console), stop)
        if resume:
            context = beginning.resume(content, overrides, origin)
        else:
            context = beginning.start(RunSettings.parse(with_overrides(content or {}, overrides), origin))
        results = run(context, until)
    if until == "search":
        try:
            write_report(results, context.workspace.report)
        except MissingExtra as error:
            console.print(f"No report: {error}", markup=False)
    _show_summary(results, out)


def _show_summary(results: Results, out: Path) -> None:
    if results.ranking:
        table = Table("estimator", f"Spearman with {results.ranking.reference}", "95 % interval")
        for name, quality in results.ranking.quality.items():
            interval = quality["spearman"]
            shown = ["-" if interval[key] is None else f"{interval[key]:.2f}" for key in ("value", "low", "high")]
            table.add_row(name, shown[0], f"{shown[1]} to {shown[2]}")
        console.print(table)
    if results.elimination:
        _show_elimination(results.elimination)
    if results.comparison:
        table = Table("network", "test accuracy", "runs")
        for contender in results.comparison:
            spread = f" +- {contender.std:.4f}" if len(contender.runs) > 1 else ""
            table.add_row(contender.name, f"{contender.mean:.4f}{spread}", str(len(contender.runs)))
        console.print(table)
    if results.predictors:
        table = Table("predictions", "test accuracy", "NLL", "calibration error", "temperature")
        for predictor in results.predictors:
            values = (predictor.accuracy, predictor.loss, predictor.calibration_error)
            table.add_row(predictor.name, *(f"{value:.4f}" for value in values), f"{predictor.temperature:.2f}")
        console.print(table)
    if results.artifact:
        found = "Best architecture: " + "|".join(results.artifact["architecture"].values())
        if results.stochastic:
            found = _show_stochastic(results.stochastic) or found
        if results.guided:
            found = _show_guided(results.guided)
        if results.depth:
            deepest = max(one.depth for one in results.depth.depths)
            found = f"Depth: {results.depth.chosen} of {deepest} by rule {results.depth.rule}"
        console.print(f"{found}, {results.artifact['parameters']:,} parameters", markup=False)
        folders = [out / name for name in ("artifact", "ensemble", "posterior") if (out / name).exists()]
        console.print(f"Artifacts: {', '.join(map(str, folders))}   Report: {out / 'report.html'}", markup=False)
    console.print(f"Results: {out / 'results.json'}", markup=False)


def _show_stochastic(found: StochasticRecord) -> str | None:
    """What the ensemble is made of, and what it costs; returns the best wiring, where there are wirings."""
    shares = [f"{member.weight:.3f}" for member in found.members if member.weight]
    times = found.ensemble_macs / max(found.member_macs, 1.0)
    console.print(
        f"Ensemble: {len(shares)} of {found.drawn:,} architectures with shares {', '.join(shares)}, "
        f"{found.parameters:,} parameters, {found.ensemble_macs:,.0f} multiply-accumulates per example "
        f"({times:.2f} times those of the best)",
        markup=False,
    )
    best = found.members[0].notation
    return best and f"Best wiring: {best}"


def _show_guided(found: GuidedRecord) -> str:
    """What was learned and drawn, in two lines."""
    dropped = sum(not layer.share for layer in found.layers)
    best = found.best_draw
    console.print(
        f"Posterior: {found.keep_rate:.0%} of channels kept on average; {len(found.guided)} draws, the best keeps "
        f"{best.parameters / found.full_parameters:.0%} of parameters and {best.macs / found.full_macs:.0%} of "
        f"multiply-accumulates, and drops {dropped} of {len(found.layers)} layers wholly",
        markup=False,
    )
    if found.strength:
        console.print(
            "Draws were made smaller than the posterior has them, to keep the limits; more train.epochs, or a larger "
            "guided.length_scale, would make it smaller itself.",
            markup=False,
        )
    depth = "" if found.best_depth is None else f" of depth {found.best_depth}"
    return f"Best draw: number {found.best}{depth}"


def _show_elimination(found: EliminationRecord) -> None:
    """The best ten, and what the others were spared."""
    table = Table("rank", Column("architecture", overflow="fold"), "steps", "sum of losses")
    for place, one in enumerate(found.architectures[:10], 1):
        loss = "diverged" if one.value is None else f"{-one.value:.2f}"
        table.add_row(str(place), Text("|".join(one.architecture.values())), str(one.steps), loss)
    console.print(table)
    share = found.spent / found.full_steps
    console.print(f"Steps: {found.spent:,} instead of {found.full_steps:,} ({share:.0%}).", markup=False)


def common_options(
    data: str | None, target: str | None, space: str | None, seed: int | None, workers: int | None, device: str | None
) -> dict[str, Any]:
    """The settings behind the options that these commands share."""
    if space is not None and space not in SPACES:
        raise UnknownName("space", space, SPACES)
    return {
        "data.name": data,
        "data.target": target,
        "space.kind": space,
        "seed": seed,
        "workers": workers,
        "device": device,
    }
