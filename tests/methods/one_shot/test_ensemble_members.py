"""The members of an ensemble are the best that are different networks."""

from __future__ import annotations

from pathlib import Path

from polyarch.methods.one_shot.record import ScoredArchitecture, ScoreRecord, SearchRecord
from polyarch.methods.one_shot.searching import ensemble_members
from polyarch.runs.run import Run, distinct_networks
from polyarch.runs.settings import RunSettings
from polyarch.runs.workspace import Workspace

CELLS = (
    "skip_connect|nor_conv_3x3|avg_pool_3x3|nor_conv_1x1|avg_pool_3x3|none",
    "none|skip_connect|nor_conv_3x3|nor_conv_1x1|none|avg_pool_3x3",  # the same: what differs goes nowhere
    "nor_conv_3x3|none|none|none|nor_conv_3x3|none",
    "none|nor_conv_1x1|none|none|none|skip_connect",
)


def test_equal_networks_count_once() -> None:
    content = {"space": {"channels": 2}, "search": {"objectives": ["sotl"]}, "retrain": {"members": 3}, "workers": 1}
    run = Run.build(RunSettings.parse(content, "the test"), Workspace(Path("nowhere")))
    scored = []
    for position, key in enumerate(CELLS):
        architecture = run.net.space.architecture(key.split("|"))
        scores = [ScoreRecord(estimator="sotl", value=-float(position), policy="batch")]
        scored.append(ScoredArchitecture(architecture=architecture.to_dict(), scores=scores, parameters=1))
    record = SearchRecord(sampler="random", objectives=["sotl"], limits={}, evaluated=scored[::-1], best=scored[:1])
    members = ensemble_members(run, record)
    assert [member.key for member in members] == [CELLS[0], CELLS[2], CELLS[3]]


def test_wirings_of_the_same_layers_are_different_networks() -> None:
    space = {"kind": "wired", "width": 2, "modules": 2, "stages": 1}
    net = Run.build(RunSettings.parse({"space": space, "workers": 1}, "the test"), Workspace(Path("nowhere"))).net
    wirings = [net.space.architecture(key.split("|")) for key in ("off|off|off", "on|off|off", "off|off|off")]
    assert distinct_networks(wirings, most=3) == wirings[:2]
