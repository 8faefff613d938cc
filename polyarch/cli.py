"""The command line: names become parts here, and errors become one sentence."""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Annotated, Any

import optuna
import typer
from rich.console import Console
from rich.table import Table

import polyarch
from polyarch.errors import Interrupted, InvalidInput, PolyarchError, UnknownName
from polyarch.experiments import EXPERIMENTS, PRESETS
from polyarch.jobs.context import Context
from polyarch.jobs.display import Terminal
from polyarch.jobs.overrides import parse_assignments, parse_quantity, resumed_settings, with_overrides
from polyarch.jobs.parts import Parts
from polyarch.jobs.pipeline import Stage, check, run
from polyarch.jobs.plan import in_words, plan
from polyarch.jobs.settings import SPACES, RunSettings, read_toml
from polyarch.jobs.workspace import Workspace
from polyarch.reports import draw, write_report
from polyarch.results import Results
from polyarch.spaces import Architecture, Space, parse_nb201
from polyarch.training import CorruptCheckpoint, stop_on_signal

app = typer.Typer(
    help="Train one network, get a distribution over architectures.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
spaces_app = typer.Typer(help="Spaces of architectures.", no_args_is_help=True)
experiment_app = typer.Typer(help="Claims of the documents, as experiments.", no_args_is_help=True)
app.add_typer(spaces_app, name="spaces")
app.add_typer(experiment_app, name="experiment")

console = Console(highlight=False)

DataOption = Annotated[str | None, typer.Option("--data", help="Data set: digits, spirals, mnist, ...")]
SpaceOption = Annotated[str | None, typer.Option("--space", help=f"Space: {', '.join(SPACES)}.")]
OutOption = Annotated[Path, typer.Option("--out", help="Folder of the run.")]
ConfigOption = Annotated[Path | None, typer.Option("--config", help="Run description in TOML.")]
ResumeOption = Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Any setting, e.g. train.epochs=20.")
]
SeedOption = Annotated[int | None, typer.Option("--seed", help="Seed of everything random.")]
WorkersOption = Annotated[int | None, typer.Option("--workers", help="Worker processes; all cores by default.")]
DeviceOption = Annotated[str | None, typer.Option("--device", help="cpu, cuda, cuda:1, ...")]
MaxParamsOption = Annotated[str | None, typer.Option("--max-params", help="Most parameters, e.g. 100k.")]
MaxMacsOption = Annotated[str | None, typer.Option("--max-macs", help="Most multiply-accumulates, e.g. 5M.")]
MaxLatencyOption = Annotated[float | None, typer.Option("--max-latency", help="Most seconds per forward pass.")]


@app.command()
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


@app.command()
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


@app.command()
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


@spaces_app.command("list")
def list_spaces() -> None:
    """The spaces and what their networks are."""
    table = Table("space", "network")
    for name, kind in SPACES.items():
        table.add_row(name, (kind.__doc__ or "").strip().splitlines()[0])
    console.print(table)


@spaces_app.command("describe")
def describe_space(name: str, settings: SetOption = None) -> None:
    """The choices, options, size and settings of a space."""
    options, space = _space(name, settings)
    console.print(f"{name}: {space.size:,} architectures", markup=False)
    table = Table("choice", "options")
    for choice in space.choices:
        table.add_row(choice.name, ", ".join(choice.options))
    console.print(table)
    console.print("settings: " + json.dumps(options), markup=False)


@spaces_app.command("draw")
def draw_space(
    name: str,
    architecture: Annotated[
        str | None, typer.Option("--architecture", help="JSON file, NB201 string, or options separated by commas.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="SVG file to write.")] = Path("architecture.svg"),
    settings: SetOption = None,
) -> None:
    """Draw an architecture (the last options by default) as SVG."""
    _, space = _space(name, settings)
    chosen = _architecture(space, architecture)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(draw(chosen.to_dict(), name))
    console.print(f"Drew {chosen.key} to {out}", markup=False)


@experiment_app.command("list")
def list_experiments() -> None:
    """The experiments and the claims they test."""
    table = Table("experiment", "document", "claim")
    for name, experiment in EXPERIMENTS.items():
        table.add_row(name, experiment.document, experiment.claim)
    console.print(table)


@experiment_app.command("run")
def run_experiment(
    name: str,
    out: OutOption,
    preset: Annotated[str, typer.Option("--preset", help=f"{', '.join(PRESETS)}.")] = "quick",
    workers: WorkersOption = None,
) -> None:
    """Run an experiment, or go on with it, and write results.json."""
    if name not in EXPERIMENTS:
        raise UnknownName("experiment", name, EXPERIMENTS)
    if preset not in PRESETS:
        raise UnknownName("preset", preset, PRESETS)
    with stop_on_signal() as stop:
        results = EXPERIMENTS[name].run(preset, out, Terminal(console), stop, workers)
    table = Table("claim", "supported", "numbers")
    for claim in results.claims:
        verdict = "not tested" if claim.supported is None else ("yes" if claim.supported else "no")
        table.add_row(claim.text, verdict, claim.numbers)
    console.print(table)
    console.print(f"Wrote {out / 'results.json'}", markup=False)


@app.callback(invoke_without_command=True)
def callback(version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False) -> None:
    """Train one network, get a distribution over architectures."""
    if version:
        console.print(f"polyarch {polyarch.__version__}", markup=False)
        raise typer.Exit


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


def _space(name: str, assignments: list[str] | None) -> tuple[dict[str, Any], Space]:
    if name not in SPACES:
        raise UnknownName("space", name, SPACES)
    overrides = {f"space.{key}": value for key, value in parse_assignments(assignments or []).items()}
    content = with_overrides({"space": {"kind": name}}, overrides)
    settings = RunSettings.parse(content, "the command line").space
    shape = (2,) if name == "depth_fc" else (3, 32, 32)
    return settings.model_dump(mode="json"), settings.build(shape, 10).space


def _architecture(space: Space, text: str | None) -> Architecture:
    if text is None:
        return Architecture(space, tuple(len(choice) - 1 for choice in space.choices))
    path = Path(text)
    if path.suffix == ".json":
        try:
            content = json.loads(path.read_text())
        except (OSError, ValueError) as error:
            raise InvalidInput(f"Expected {path} to be a JSON file. Found: {error}.") from None
        options = content.get("architecture", content.get("choices")) if isinstance(content, dict) else None
        if not isinstance(options, dict):
            raise InvalidInput(f"Expected {path} to have a key 'architecture' or 'choices'. Found none.")
        return space.architecture(options)
    if text.startswith("|"):
        return parse_nb201(text, space)
    return space.architecture(text.split(","))


def main() -> None:
    """Runs the command line; errors are one sentence and exit code 2, an interruption is 130."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    warnings.simplefilter("always", CorruptCheckpoint)
    warnings.showwarning = _show_warning
    try:
        app()
    except Interrupted as error:
        _complain(str(error))
        sys.exit(130)
    except KeyboardInterrupt:
        _complain("Stopped at once; --resume goes on from the last checkpoint.")
        sys.exit(130)
    except PolyarchError as error:
        _complain(f"error: {error}")
        sys.exit(2)


def _complain(message: str) -> None:
    Console(stderr=True, highlight=False).print(message, markup=False, soft_wrap=True)


def _show_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, file: Any = None, line: Any = None
) -> None:
    if issubclass(category, CorruptCheckpoint):
        _complain(f"warning: {message}")


if __name__ == "__main__":
    main()
