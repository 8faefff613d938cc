"""Random architectures, and members of mixtures, are different networks."""

from __future__ import annotations

from pathlib import Path

import pytest

from polyarch.runs.comparison import _posterior
from polyarch.runs.run import Run, distinct_draws
from polyarch.runs.settings import RunSettings
from polyarch.runs.workspace import Workspace

SPACE = {"kind": "nb201", "channels": 2, "operations": ["none", "skip_connect"]}  # 64 cells; 0, x, 2x, 3x and 4x


@pytest.fixture
def run() -> Run:
    content = {"space": SPACE, "workers": 1, "data": {"limit": 60}}
    return Run.build(RunSettings.parse(content, "the test"), Workspace(Path("nowhere")))


def test_draws_are_different_networks(run: Run) -> None:
    draws = run.draw(4, "test")
    assert len({draw.canonical() for draw in draws}) == len(draws) == 4
    assert run.draw(2, "test") == draws[:2]  # fewer are the first of more
    assert len(run.draw(9, "test")) == 5


def test_draws_besides_others(run: Run) -> None:
    best = run.draw(2, "best")
    others = run.draw(9, "random", besides=best)
    assert not {one.canonical() for one in best} & {one.canonical() for one in others}
    assert len(others) == 3
    assert distinct_draws(run.limits, 9, seed=0, stream="random", besides=run.net.space.members) == []


def test_a_mixture_has_every_network_once_with_the_probability_of_all_its_architectures(run: Run) -> None:
    """All cells are equally probable: 32 of them list the most probable, and share out what those have."""
    q = {name: [0.5, 0.5] for name in run.net.space.choice_names}
    found = _posterior(run, q)
    keys = [architecture.canonical() for architecture in found.architectures]
    assert len(set(keys)) == len(keys)
    listed = [cell.canonical() for cell in run.net.space.members[:32]]
    expected = [listed.count(key) / 32 for key in keys]
    assert found.weights == pytest.approx(expected)
