"""`polyarch predict`, `verify` and `serve`."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from polyarch.cli.options import console, console_beside
from polyarch.errors import InvalidInput
from polyarch.export import verify_artifact
from polyarch.export.records import ARCHITECTURE_FILE
from polyarch.files import check_output
from polyarch.prediction.inputs import read_inputs
from polyarch.prediction.modes import load_predictor
from polyarch.prediction.outputs import write_predictions
from polyarch.prediction.predictor import Predictor
from polyarch.prediction.serving.application import require_packages
from polyarch.runs.display import Terminal
from polyarch.runs.settings import parse_quantity
from polyarch.runs.workspace import Workspace
from polyarch.tasks import Classification, MultiLabel, Regression

FolderArgument = Annotated[
    Path, typer.Argument(help="Folder of a run or of an artifact, e.g. runs/demo or runs/demo/artifact.")
]

NoVerifyOption = Annotated[
    bool, typer.Option("--no-verify", help="Load files although their checksums are not those of metadata.json.")
]


def predict(
    folder: FolderArgument,
    input: Annotated[
        Path, typer.Argument(help="A table (.csv, .csv.gz, .parquet), an .npz file, an image or a folder of images.")
    ],
    out: Annotated[Path, typer.Option("--out", help="CSV file to write; - is standard output.")] = Path(
        "predictions.csv"
    ),
    flag_above: Annotated[
        float | None,
        typer.Option(
            "--flag-above",
            help="Flag above this uncertainty: an entropy in nats, or a standard deviation in units of the number's "
            "own; the artifact's threshold by default.",
        ),
    ] = None,
    mode: Annotated[
        str | None,
        typer.Option(
            "--mode",
            help="Which predictor of the run: single (the best network), ensemble (several together), marginal (the "
            "mixture over the learned distribution) or early-exit (that mixture, until it is sure; also of an "
            "artifact). By default whichever the run calls its answer.",
        ),
    ] = None,
    exit_above: Annotated[
        float | None,
        typer.Option("--exit-above", help="Exit early at this probability; the artifact's confidence by default."),
    ] = None,
    no_verify: NoVerifyOption = False,
) -> None:
    """Predict classes, numbers or labels with their uncertainty, and flag predictions to check."""
    check_output(out)
    if flag_above is not None and not 0 <= flag_above < math.inf:
        raise InvalidInput(f"Expected --flag-above as an uncertainty of 0 or more. Got {flag_above}.")
    if out.exists() and input.exists() and out.samefile(input):
        raise InvalidInput(f"Expected --out to be another file than the input. Got {out} for both.")
    beside = console_beside(out)
    predictor = load_predictor(folder, mode, exit_above, verify=not no_verify)
    if flag_above is not None:
        predictor = replace(predictor, threshold=flag_above)
    inputs = read_inputs(input, predictor)
    with Terminal(beside).stage("predict") as report:
        written = write_predictions(out, predictor, inputs, report)
    share = written.flagged / written.examples
    beside.print(
        f"{written.examples:,} examples, {written.flagged:,} flagged ({share:.1%}): {_limit_in_words(predictor)}",
        markup=False,
    )
    if written.mean_depth is not None:
        beside.print(f"Depth: {written.mean_depth:.2f} of {predictor.exits[-1]} on average", markup=False)
    for name, value in written.metrics.items():
        beside.print(f"{name}: {value:.4f} against column {inputs.target!r}", markup=False)
    beside.print(f"Predictions: {out}", markup=False, soft_wrap=True)


def verify(folder: FolderArgument) -> None:
    """Compare every file of an artifact, or of all artifacts of a run, with its SHA-256 checksum."""
    inside = sorted(path.parent for path in folder.glob(f"*/{ARCHITECTURE_FILE}"))
    for one in inside if Workspace(folder).results.exists() else [folder]:
        console.print(f"{one}: {', '.join(verify_artifact(one))} as written", markup=False, soft_wrap=True)


def _limit_in_words(predictor: Predictor) -> str:
    """Which predictions are flagged."""
    threshold = f"{predictor.threshold:.4g}"
    match predictor.task:
        case Classification() | MultiLabel():
            return f"entropy above {threshold} nats"
        case Regression(names=names):
            whose = "that of the target" if len(names) == 1 else "those of the targets, on average"
            return f"standard deviation above {threshold} times {whose}"
    return f"disagreement above {threshold}"


def serve(
    folder: FolderArgument,
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", help="Port to listen on; 0 takes a free one.")] = 8000,
    max_bytes: Annotated[
        str, typer.Option("--max-bytes", help="Maximum size of a request in bytes, e.g. 10M.")
    ] = "10M",
    max_instances: Annotated[
        int, typer.Option("--max-instances", help="Maximum number of examples per request.")
    ] = 256,
    token_file: Annotated[
        Path | None,
        typer.Option("--token-file", help="A file with a token that all requests but GET /health have to know."),
    ] = None,
    workers: Annotated[
        int, typer.Option("--workers", help="Processes that share the port; each holds the networks.")
    ] = 1,
    no_verify: NoVerifyOption = False,
) -> None:
    """Serve predictions over HTTP: POST /predict, GET /health, GET /docs, GET /metrics."""
    require_packages()
    from polyarch.prediction.serving.token import read_token
    from polyarch.prediction.serving.workers import Plan, serve_plan

    token = read_token(token_file) if token_file else None
    most = int(parse_quantity(max_bytes) or 0)
    plan = Plan(folder, host, port, most, max_instances, token, workers, verify=not no_verify)
    address = f"[{host}]" if ":" in host else host

    def announce(port: int) -> None:
        console.print(
            f"Serving {folder} on http://{address}:{port} (how to use it: /docs); Ctrl-C stops.",
            markup=False,
            soft_wrap=True,
        )

    serve_plan(plan, announce)
    console.print("Stopped.", markup=False)
