"""`polyarch truth`: tables of true values, official ones and your own."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress, SpinnerColumn, TextColumn
from rich.table import Table
from rich.text import Text

from polyarch.cli.options import (
    AcceptOption,
    AddressOption,
    ConfigOption,
    CpusOption,
    DataOption,
    DeviceOption,
    ExecutorOption,
    GpusOption,
    GroupOption,
    OutOption,
    ResumeOption,
    SeedOption,
    SetOption,
    SpaceOption,
    TargetOption,
    TestOption,
    TimeOption,
    TrustOption,
    ValidOption,
    WorkersOption,
    common_options,
    console,
    trusting,
)
from polyarch.data import data_root
from polyarch.errors import ConfigError, UnknownName
from polyarch.plugins import SUPERNET_METHOD
from polyarch.runs.display import Terminal
from polyarch.runs.settings import RunSettings, parse_assignments, read_toml, with_overrides
from polyarch.runs.start import Beginning
from polyarch.tables import SOURCES, Truth, convert_nasbench101, convert_nats, load_truth, parse_architecture
from polyarch.training import stop_on_signal
from polyarch.truths.building import build_truth, resume_build, start_build, summary_sentences


def build(
    context: typer.Context,
    out: OutOption,
    data: DataOption = None,
    target: TargetOption = None,
    valid: ValidOption = None,
    test: TestOption = None,
    group: GroupOption = None,
    time: TimeOption = None,
    space: SpaceOption = None,
    n: Annotated[
        str | None, typer.Option("--n", metavar="NUMBER|all", help="Random architectures, or all; 64 by default.")
    ] = None,
    epochs: Annotated[int | None, typer.Option("--epochs", help="Epochs per training run.")] = None,
    seeds: Annotated[int | None, typer.Option("--seeds", help="Training runs per architecture.")] = None,
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
    settings: SetOption = None,
) -> None:
    """Train random architectures from scratch with the `retrain` settings and write their learning curves to truth.npz.

    `polyarch rank --truth OUT` compares a supernet with them.
    """
    assigned = parse_assignments(settings or [])
    described = config is not None or resume
    if data is None and not described and "data.name" not in assigned:
        raise ConfigError("Expected --data, a --config or --resume to say which data to train on. Got none of them.")
    described = described or any(key.startswith("space.") for key in assigned)
    options = {
        **common_options(context, default_space=None if described else "auto"),
        "truth.architectures": _count(n),
        "truth.seeds": seeds,
        "retrain.epochs": epochs,
    }
    overrides = {key: value for key, value in options.items() if value is not None} | assigned
    content, origin = (read_toml(config), str(config)) if config else (None, "the command line")
    display = Terminal(console)
    with stop_on_signal() as stop, trusting(overrides, trust_module):
        beginning = Beginning(out, display, stop, accept_changes=accept_changes)
        with closing(beginning.lock):
            if resume:
                run = resume_build(beginning, content, overrides, origin)
            else:
                asked = with_overrides({"method": SUPERNET_METHOD, **(content or {})}, overrides)
                run = start_build(beginning, RunSettings.parse(asked, origin))
            built = build_truth(run)
    for sentence in summary_sentences(built):
        display.say(sentence)
    display.say(f"Truth: {run.workspace.truth}")


def _count(text: str | None) -> int | str | None:
    if text is None or text == "all":
        return text
    if not text.isdecimal():
        raise ConfigError(f"Expected --n to be a number of architectures, or all. Got {text!r}.")
    return int(text)


truth_app = typer.Typer(help="True performance of architectures: tables and learning curves.", no_args_is_help=True)
truth_app.command()(build)

LARGEST_WALK = 100_000
"""The best architecture is looked for in tables up to this size."""

KINDS = ("nats", "nb101")


@truth_app.command("list")
def list_truths() -> None:
    """The tables with a name, and whether they are on this machine."""
    table = Table("name", "what", "here")
    for name, source in SOURCES.items():
        path = data_root() / source.place
        table.add_row(name, source.what, Text(str(path) if path.exists() else "no"))
    console.print(table)
    console.print(f"Data folder: {data_root()} (POLYARCH_DATA names another).", markup=False)
    console.print("A path does as well: an .npz file that `polyarch truth build` or `convert` wrote.", markup=False)


@truth_app.command("show")
def show_truth(
    name: Annotated[str, typer.Argument(metavar="NAME_OR_PATH")],
    architecture: Annotated[
        str | None,
        typer.Option("--architecture", help="Options separated by | or commas, or in the table's own notation."),
    ] = None,
) -> None:
    """What a table knows, or what it knows about one architecture."""
    truth = load_truth(name)
    if architecture is not None:
        _show_architecture(truth, architecture)
        return
    console.print(f"{truth.name}: {len(truth):,} architectures of space {truth.space.name}", markup=False)
    console.print("Learning curves: " + (", ".join(truth.measures) or "none"), markup=False)
    if len(truth) <= LARGEST_WALK:
        best = max(truth.architectures(), key=truth.accuracy)
        console.print(f"Best: {best.key} with {truth.accuracy(best):.2f} %", markup=False)


def _show_architecture(truth: Truth, text: str) -> None:
    architecture = parse_architecture(text, truth.space)
    console.print(f"{architecture.key}: {truth.accuracy(architecture):.2f} %", markup=False)
    if truth.measures:
        table = Table("measure", "epochs", "last value")
        for measure in truth.measures:
            curve = truth.curve(architecture, measure)
            table.add_row(measure, str(len(curve)), f"{curve[-1]:.4g}" if len(curve) else "")
        console.print(table)


@truth_app.command("convert")
def convert_truth(
    kind: Annotated[str, typer.Argument(help="nats (NATS-Bench) or nb101 (NAS-Bench-101).")],
    source: Annotated[Path, typer.Argument(help="The official file, or the folder NATS-tss-v1_0-3ffb9-simple.")],
    out: Annotated[Path, typer.Option("--out", help="File to write; nats adds the name of the data set.")],
) -> None:
    """Convert official files into one compact file."""
    if kind not in KINDS:
        raise UnknownName("kind of file", kind, KINDS)
    with Progress(SpinnerColumn(), TextColumn("{task.completed:,} read"), console=console, transient=True) as bars:
        task = bars.add_task("", total=None)

        def show(count: int) -> None:
            bars.update(task, completed=count)

        written = _converted(kind, source, out, show)
    for path in written:
        console.print(f"Wrote {path} ({path.stat().st_size / 1e6:.1f} MB)", markup=False)


def _converted(kind: str, source: Path, out: Path, show: Callable[[int], None]) -> list[Path]:
    if kind == "nats":
        return convert_nats(source, out, show)
    convert_nasbench101(source, out, show)
    return [out]
