"""What the commands have in common: the console and the options of more than one."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

console = Console(highlight=False)

OutOption = Annotated[Path, typer.Option("--out", help="Folder of the run.")]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Any setting, e.g. train.epochs=20.")
]
WorkersOption = Annotated[int | None, typer.Option("--workers", help="Worker processes; all cores by default.")]
