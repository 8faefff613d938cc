"""The command line: names become parts here, and errors become one sentence."""

import errno
import os
import sys
import warnings
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.console import Console

import polyarch
from polyarch.cli import clock  # noqa: F401 - before anything that takes long to load
from polyarch.cli.copying import copy
from polyarch.cli.data import data_app
from polyarch.cli.experiments import experiment_app
from polyarch.cli.memory import limit_memory, memory_sentence
from polyarch.cli.options import console
from polyarch.cli.overview import compare, list_runs, schema, watch
from polyarch.cli.own_code import own_sentence, own_traceback
from polyarch.cli.prediction import predict, serve, verify
from polyarch.cli.runs import rank, search, train
from polyarch.cli.sizes import extract, front
from polyarch.cli.spaces import spaces_app
from polyarch.cli.truth import truth_app
from polyarch.errors import Interrupted, PolyarchError, UnlikeProcessors
from polyarch.files import reason_of
from polyarch.training import CorruptCheckpoint

app = typer.Typer(
    help="Train one network, get a distribution over architectures.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(search)
for command in (predict, verify, serve, copy, front, extract, compare, watch, schema, train, rank):
    app.command()(command)
app.command("runs")(list_runs)
app.add_typer(data_app, name="data")
app.add_typer(spaces_app, name="spaces")
app.add_typer(truth_app, name="truth")
app.add_typer(experiment_app, name="experiment")


@app.callback(invoke_without_command=True)
def callback(
    version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False,
    max_memory: Annotated[
        str | None,
        typer.Option("--max-memory", help="Most memory of every process, e.g. 4G; before the name of the command."),
    ] = None,
) -> None:
    """Train one network, get a distribution over architectures."""
    if max_memory is not None:
        limit_memory(max_memory)
    if version:
        console.print(f"polyarch {polyarch.__version__}", markup=False)
        raise typer.Exit


def main() -> None:
    """Runs the command line; errors are one sentence and exit code 2, an interruption is 130."""
    warnings.simplefilter("always", CorruptCheckpoint)
    warnings.simplefilter("always", UnlikeProcessors)
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
        _show_lines(own_traceback(error.__cause__))
        _complain(f"error: {error}")
        sys.exit(2)
    except BrokenPipeError:  # whoever read the output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # so that the last flush has nowhere to fail
    except OSError as error:
        _complain(f"error: {_os_sentence(error)}")
        sys.exit(2)
    except Exception as error:
        lines = own_traceback(error)
        short_of_memory = memory_sentence(error)
        if not lines and short_of_memory is None:
            raise  # a defect of ours
        _show_lines(lines)
        _complain(f"error: {short_of_memory or own_sentence(error)}")
        sys.exit(2)


def _show_lines(lines: Sequence[str]) -> None:
    for line in lines:
        _complain(line)


def _os_sentence(error: OSError) -> str:
    """An error of the operating system as a sentence; after a full disk a run goes on where it was."""
    place = error.filename2 or error.filename
    named = f" at {place}" if place else ""
    advice = "; make room and go on with --resume" if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
    return f"Expected to be able to read and write files{named}. Found: {reason_of(error)}{advice}."


def _complain(message: str) -> None:
    Console(stderr=True, highlight=False).print(message, markup=False, soft_wrap=True)


def _show_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, file: Any = None, line: Any = None
) -> None:
    if issubclass(category, (CorruptCheckpoint, UnlikeProcessors)):
        _complain(f"warning: {message}")
