"""`polyarch truth build`: a truth of your own."""

from typing import Annotated

import typer

from polyarch.cli.common import OutOption, SetOption, WorkersOption, console
from polyarch.cli.runs import (
    ConfigOption,
    DataOption,
    DeviceOption,
    ResumeOption,
    SeedOption,
    SpaceOption,
    TargetOption,
    common_options,
)
from polyarch.errors import ConfigError
from polyarch.runs.display import Terminal
from polyarch.runs.settings import RunSettings, parse_assignments, read_toml, with_overrides
from polyarch.runs.start import Beginning
from polyarch.training import stop_on_signal
from polyarch.truths.building import build_truth, resume_build, start_build
from polyarch.truths.summary import summary_sentences


def build(
    out: OutOption,
    data: DataOption = None,
    target: TargetOption = None,
    space: SpaceOption = None,
    n: Annotated[
        str | None, typer.Option("--n", metavar="NUMBER|all", help="Random architectures, or all; 64 by default.")
    ] = None,
    epochs: Annotated[int | None, typer.Option("--epochs", help="Epochs per training run.")] = None,
    seeds: Annotated[int | None, typer.Option("--seeds", help="Training runs per architecture.")] = None,
    config: ConfigOption = None,
    resume: ResumeOption = False,
    seed: SeedOption = None,
    workers: WorkersOption = None,
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
    if space is None and not described and not any(key.startswith("space.") for key in assigned):
        space = "auto"
    options = {
        **common_options(data, target, space, seed, workers, device),
        "truth.architectures": _count(n),
        "truth.seeds": seeds,
        "retrain.epochs": epochs,
    }
    overrides = {key: value for key, value in options.items() if value is not None} | assigned
    content, origin = (read_toml(config), str(config)) if config else (None, "the command line")
    display = Terminal(console)
    with stop_on_signal() as stop:
        beginning = Beginning(out, display, stop)
        if resume:
            run = resume_build(beginning, content, overrides, origin)
        else:
            run = start_build(beginning, RunSettings.parse(with_overrides(content or {}, overrides), origin))
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
