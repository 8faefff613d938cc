"""`polyarch predict`, `verify` and `serve`."""

import math
import socket
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from polyarch.cli.options import console, console_beside
from polyarch.errors import InvalidInput, MissingExtra
from polyarch.export import verify_artifact
from polyarch.export.records import ARCHITECTURE_FILE
from polyarch.files import check_output
from polyarch.prediction.inputs import read_inputs
from polyarch.prediction.modes import load_predictor
from polyarch.prediction.outputs import write_predictions
from polyarch.prediction.predictor import Predictor
from polyarch.prediction.serving import create_application
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
    no_verify: NoVerifyOption = False,
) -> None:
    """Serve predictions over HTTP: POST /predict, GET /health, GET /docs."""
    most = int(parse_quantity(max_bytes) or 0)
    predictor = load_predictor(folder, verify=not no_verify)
    application = create_application(predictor, max_bytes=most, max_instances=max_instances)
    try:
        import uvicorn
    except ImportError:
        raise MissingExtra("Serving predictions", "serve") from None
    listening = _listen(host, port)
    address = f"[{host}]" if ":" in host else host
    console.print(
        f"Serving {folder} on http://{address}:{listening.getsockname()[1]} (how to use it: /docs); Ctrl-C stops.",
        markup=False,
        soft_wrap=True,
    )
    server = uvicorn.Server(uvicorn.Config(application, ws="none", log_level="warning", timeout_graceful_shutdown=5))
    try:
        server.run(sockets=[listening])
    except KeyboardInterrupt:  # raised again by the server once it has stopped: this is how it is meant to end
        console.print("Stopped.", markup=False)
    finally:
        listening.close()


def _listen(host: str, port: int) -> socket.socket:
    """A socket that is bound before anything is announced."""
    if not 0 <= port <= 65535:  # larger ones would be cut to 16 bits without a word
        raise InvalidInput(f"Expected a port 0..65535. Got {port}.")
    problem = "Expected a free port and an address of this machine"
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        raise InvalidInput(f"{problem}. Got {host}:{port}: {error}.") from None
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen()  # before the address is announced: a client may come at once
    except OSError as error:
        listening.close()
        raise InvalidInput(f"{problem}. Got {host}:{port}: {error.strerror}.") from None
    return listening
