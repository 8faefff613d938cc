"""A page that follows a run while it goes on; it reads the folder of the run and changes nothing."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI
from fastapi.responses import HTMLResponse, JSONResponse
from starlette.middleware.trustedhost import TrustedHostMiddleware

from polyarch.overview.state import NetworkSoFar, RunState, State, answer_of, state_of
from polyarch.prediction.serving.server import listen
from polyarch.reports.page import environment_of, filled
from polyarch.reports.plots import curves
from polyarch.reports.scripts import embedded
from polyarch.reports.section import Tile
from polyarch.reports.specs import Row, Spec, data, evenly, spec_of
from polyarch.reports.text import figures, several
from polyarch.runs.plan import in_words
from polyarch.runs.progress import StepRecord

HOST = "127.0.0.1"
TEMPLATES = Path(__file__).parent / "templates"
MOST_NETWORKS, MOST_CURVES, MOST_ENTRIES = 20, 8, 40
"""What the page shows at most: networks in the table, learning curves, and entries of the diary."""

PLACES = {"training": "Losses of the supernet", "racing": "Losses of the networks", "scores": "Scores so far"}
"""Charts of the page and what they show."""

PARTS = ("now", "networks", "log")


def application(folder: Path) -> FastAPI:
    """The page at ``/`` and what it asks for every two seconds, ``/state``."""
    web = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    web.add_middleware(TrustedHostMiddleware, allowed_hosts=[HOST, "localhost"])

    @web.get("/", response_class=HTMLResponse)
    def page() -> str:
        return render(state_of(folder))

    @web.get("/state")
    def now() -> JSONResponse:
        state = state_of(folder)
        environment, values = environment_of(TEMPLATES / "watch.html"), values_of(state)
        parts = {name: environment.get_template(f"watch_{name}.html").render(values) for name in PARTS}
        title = f"polyarch: {folder.name}, {state.state.value}"
        return JSONResponse({"title": title, "parts": parts, "charts": dict(charts(state))})

    return web


def serve(folder: Path, port: int, announce: Any) -> None:
    """Serves the page on this machine alone until Ctrl-C."""
    listening = listen(HOST, port)
    announce(listening.getsockname()[1])
    config = uvicorn.Config(application(folder), log_config=None, access_log=False, server_header=False)
    with suppress(KeyboardInterrupt):  # uvicorn raises it again once it has stopped
        uvicorn.Server(config).run(sockets=[listening])


def render(state: RunState) -> str:
    """The whole page, as it is at first."""
    follows = embedded((TEMPLATES / "watch.js").read_text(encoding="utf-8"))
    return filled(TEMPLATES / "watch.html", dict(charts(state)), values_of(state), follows=follows)


def values_of(state: RunState) -> dict[str, Any]:
    """What the templates show."""
    answer = None if state.results is None else answer_of(state.results)
    rows = _ordered(state)[:MOST_NETWORKS]
    return {
        "state": state,
        "places": PLACES,
        "tiles": list(tiles(state)),
        "rows": rows,
        "columns": list(dict.fromkeys(name for one in rows for name in one.values)),
        "answer": answer,
        "members": [] if answer is None else sorted(zip(answer.members, answer.weights, strict=True), key=_weight),
        "entries": [_entry(record) for record in reversed(state.log[-MOST_ENTRIES:])],
        "duration": partial(_duration, state=state),
        "in_words": in_words,
    }


def tiles(state: RunState) -> Iterator[Tile]:
    """How the run stands, to be seen at a glance."""
    step = state.step
    yield Tile("state", state.state.value, "" if step is None else step.title)
    if state.elapsed is not None:
        yield Tile("time", in_words(state.elapsed), "since it was started or resumed")
    if state.left is not None:
        yield Tile("left", in_words(state.left), _clock(state))
    if state.networks:
        yield Tile("networks", str(len(state.networks)), "measured so far")
    if state.best is not None:
        _, score, on = state.best
        yield Tile("best so far", figures(score), f"on {on} data")


def _clock(state: RunState) -> str:
    return "by the plan" if state.settings.get("max_minutes") is None else "at most"


def charts(state: RunState) -> Iterator[tuple[str, Spec]]:
    """Losses over the epochs, of networks over the seconds, and scores against costs or in order."""
    history = [record for record in state.log if record.get("event") in ("epoch", "lap")]
    losses = list(_history(history))
    if losses:
        yield "training", curves(losses, "loss")
    racing = [one for one in _ordered(state) if one.curve][:MOST_CURVES]
    rows = [
        {"seconds": point["seconds"], "value": point["loss"], "series": one.name}
        for one in racing
        for point in one.curve
    ]
    if rows:
        yield "racing", curves(rows, "training loss", over="seconds")
    if len(state.networks) > 1:
        yield "scores", scores(state.networks)


def scores(networks: Sequence[NetworkSoFar]) -> Spec:
    """Every network's score: against its parameters where these are known, else in the order of measurement."""
    import altair as alt

    name = next((key for key in ("valid_score", *networks[-1].values) if key in networks[-1].values), "")
    cost = next((key for key in ("parameters", "params", "macs") if all(key in one.values for one in networks)), None)
    rows: list[Row] = [
        {"network": one.name, "at": position if cost is None else one.values[cost], "value": one.values[name]}
        for position, one in enumerate(networks, 1)
        if name in one.values
    ]
    x = alt.X("at:Q", title=cost or "network", scale=alt.Scale(type="linear" if cost is None else "log", nice=False))
    y = alt.Y("value:Q", title=name.replace("_", " "), scale=alt.Scale(zero=False))
    tooltip = [
        alt.Tooltip("network:N"),
        alt.Tooltip("at:Q", title=cost or "number"),
        alt.Tooltip("value:Q", title=name),
    ]
    points = data(rows).mark_point(style="best", filled=True, size=60, opacity=0.8).encode(x=x, y=y, tooltip=tooltip)
    return spec_of([points], f"{name} of {several(len(rows), 'network')}", height=240)


LOSSES = {"loss": "training loss", "valid_loss": "validation loss"}


def _history(records: Sequence[Mapping[str, Any]]) -> Iterator[Row]:
    """Points of the losses over epochs, the last ones of epochs that were done twice; laps of fronts have seconds."""
    by_epoch = {float(record["epoch"]): record for record in records if "epoch" in record}
    known = [by_epoch[epoch] for epoch in sorted(by_epoch)]
    for key, name in LOSSES.items():
        found = [record for record in known if isinstance(record.get(key), int | float)]
        for index in evenly(len(found)):
            yield {"epoch": found[index]["epoch"], "value": found[index][key], "series": name}


def _ordered(state: RunState) -> list[NetworkSoFar]:
    """The best by validation loss first, where it is known; else the latest first."""
    known = [one for one in state.networks if "valid_loss" in one.values]
    if known:
        return sorted(known, key=lambda one: one.values["valid_loss"])
    return list(reversed(state.networks))


def _weight(pair: tuple[Any, float]) -> float:
    return -pair[1]


def _entry(record: Mapping[str, Any]) -> dict[str, str]:
    values = {key: value for key, value in record.items() if key not in ("time", "event", "words")}
    words = record.get("words") or ", ".join(f"{key} {_short(value)}" for key, value in values.items())
    return {"time": str(record.get("time", "")), "event": str(record.get("event", "")), "words": str(words)}


def _short(value: Any) -> str:
    return figures(value) if isinstance(value, float) else str(value)[:200]


def _duration(step: StepRecord, *, state: RunState) -> str:
    end = step.ended
    if end is None:
        end = time.time() if state.state is State.RUNNING or state.progress is None else state.progress.updated
    return in_words(max(end - step.started, 0.0))
