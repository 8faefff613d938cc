"""`polyarch spaces`: what can be searched."""

import json
import math
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from polyarch.cli.options import SetOption, console, console_beside
from polyarch.errors import InvalidInput
from polyarch.files import write_output
from polyarch.plugins import SPACES
from polyarch.reports import draw
from polyarch.runs.settings import RunSettings, parse_assignments, with_overrides
from polyarch.runs.stage import described_choices
from polyarch.spaces import Architecture, Space
from polyarch.supernets import GatedSupernet, Supernet
from polyarch.tables import parse_architecture

MANY = 10**40
"""Larger sizes are shown as powers of ten."""

spaces_app = typer.Typer(help="Spaces of architectures.", no_args_is_help=True)


@spaces_app.command("list")
def list_spaces() -> None:
    """The spaces and what their networks are."""
    table = Table("space", "network")
    for name, kind in SPACES.items():
        table.add_row(name, (kind.__doc__ or "").strip().splitlines()[0].replace("`", ""))
    console.print(table)


@spaces_app.command("describe")
def describe_space(name: str, settings: SetOption = None) -> None:
    """The choices, options, size and settings of a space."""
    options, net = _supernet(name, settings)
    size = net.space.size
    shown = f"{size:,}" if size < MANY else f"about 10^{math.log10(size):,.0f}"
    console.print(f"{name}: {shown} architectures", markup=False)
    table = Table("choice", "options")
    for choice, found in described_choices(net).items():
        table.add_row(choice, " | ".join(found))
    console.print(table)
    console.print("settings: " + json.dumps(options), markup=False)


@spaces_app.command("draw")
def draw_space(
    name: str,
    architecture: Annotated[
        str | None,
        typer.Option(
            "--architecture",
            help="JSON file, NB201 string, DARTS genotype, digits of NAS-Bench-Macro, or options separated by | or ,.",
        ),
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="SVG file to write; - is standard output.")] = Path(
        "architecture.svg"
    ),
    settings: SetOption = None,
) -> None:
    """Draw an architecture (the last options by default) as SVG."""
    _, net = _supernet(name, settings)
    if isinstance(net, GatedSupernet):
        raise InvalidInput(
            f"Expected a space without gates to draw. Got {name!r}; the report of a run draws what it kept."
        )
    space = net.space
    chosen = _architecture(space, architecture)
    choices = {choice.name: list(choice.options) for choice in space.choices}
    write_output(out, draw(chosen.to_dict(), name, choices=choices))
    console_beside(out).print(f"Drew {chosen.key} to {out}", markup=False)


def _supernet(name: str, assignments: list[str] | None) -> tuple[dict[str, Any], Supernet]:
    overrides = {f"space.{key}": value for key, value in parse_assignments(assignments or []).items()}
    content = with_overrides({"space": {"kind": name}}, overrides)
    settings = RunSettings.parse(content, "the command line").space
    shape = (2,) if name == "depth_fc" else (3, 32, 32)
    return settings.model_dump(mode="json"), settings.build(shape, 10)


def _architecture(space: Space, text: str | None) -> Architecture:
    if text is None:
        return Architecture(space, tuple(len(choice) - 1 for choice in space.choices))
    path = Path(text)
    if path.suffix == ".json":
        try:
            content = json.loads(path.read_text())
        except (OSError, ValueError) as error:
            raise InvalidInput(f"Expected {path} to be a JSON file. Found: {error}.") from None
        options = _options(content)
        if options is None:
            raise InvalidInput(f"Expected {path} to have a key 'members' or 'choices'. Found none that fits.")
        return space.architecture(options)
    return parse_architecture(text, space)


def _options(content: Any) -> dict[str, str] | None:
    """Choice -> option, from the first member of an artifact or from an architecture."""
    match content:
        case {"members": [{"architecture": dict(options)}, *_]} | {"choices": dict(options)}:
            return options
    return None
