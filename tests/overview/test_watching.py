"""The page that follows a run."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from overview_examples import finished

from polyarch.runs.display import Quiet
from polyarch.runs.plan import PlannedStage
from polyarch.runs.progress import RecordedDisplay
from polyarch.runs.workspace import Workspace

pytest.importorskip("altair", reason="needs the extra 'report'")
pytest.importorskip("fastapi", reason="needs the extra 'serve'")


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    folder = tmp_path / "<i>run"
    folder.mkdir()
    (folder / "config.toml").write_text('method = "race"\n\n[data]\nname = "digits"\n')
    workspace = Workspace(folder)
    workspace.log("started")
    return workspace


class TestPage:
    @pytest.fixture
    def client(self, workspace: Workspace) -> object:
        from fastapi.testclient import TestClient

        from polyarch.overview.watching import application

        return TestClient(application(workspace.folder), base_url="http://127.0.0.1")

    def test_follows_what_is_written(self, workspace: Workspace, client) -> None:  # type: ignore[no-untyped-def]
        assert "No network has been measured yet." in client.get("/").text
        assert client.get("/state").json()["charts"] == {}
        display = RecordedDisplay(Quiet(), workspace, [PlannedStage("race", "8 networks", 60.0)], None)
        journal = workspace.journal("race rung 0")
        with display.stage("rung 0") as report:
            for place, name in enumerate(("a<b>", "c")):
                curve = [{"seconds": 1.0, "loss": 2.0}, {"seconds": 2.0, "loss": 1.0 + place}]
                value = {"valid_score": 0.8, "valid_loss": 0.6 + place, "parameters": 10, "curve": curve}
                journal.append({"key": name, "value": value})
            report(2, 2, "")
        for epoch in range(2):
            workspace.log("epoch", epoch=epoch, step=epoch, loss=1.0 / (epoch + 1))
        state = client.get("/state").json()
        assert set(state["charts"]) == {"training", "racing", "scores"}
        networks = state["parts"]["networks"]
        assert "a&lt;b&gt;" in networks and "<b>" not in networks and networks.index("a&lt;") < networks.index(">c<")
        assert "rung 0" in state["parts"]["now"] and "8 networks" in state["parts"]["now"]
        assert "loss 0.5000" in state["parts"]["log"]

    def test_shows_the_members_of_the_answer(self, workspace: Workspace, client) -> None:  # type: ignore[no-untyped-def]
        finished(0.97).write(workspace.results)
        assert "Members of ensemble of 5" in client.get("/state").json()["parts"]["now"]

    def test_other_hosts_are_refused(self, client) -> None:  # type: ignore[no-untyped-def]
        """A name of someone else's that leads to this machine must not open the page."""
        assert client.get("/state", headers={"Host": "elsewhere.example"}).status_code == 400
        policy = re.search(r'Content-Security-Policy" content="([^"]*)"', client.get("/").text)
        assert (
            policy is not None
            and "connect-src &#39;self&#39;" in policy[1]
            and "default-src &#39;none&#39;" in policy[1]
        )

    def test_repeated_epochs_count_once(self, workspace: Workspace, client) -> None:  # type: ignore[no-untyped-def]
        for epoch, loss in ((0, 9.0), (0, 1.0), (1, 0.5)):
            workspace.log("epoch", epoch=epoch, loss=loss)
        spec = json.dumps(client.get("/state").json()["charts"]["training"])
        assert "9.0" not in spec and '"value": 0.5' in spec


@pytest.mark.slow
def test_a_whole_run_in_a_browser(tmp_path: Path, environment: dict[str, str]) -> None:
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install playwright")
    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("needs a browser")
    command = [sys.executable, "-m", "polyarch.cli"]
    words = [
        "search",
        "--data",
        "digits",
        "--max-minutes",
        "0.8",
        "--set",
        "programs=[]",
        "--out",
        str(tmp_path / "run"),
    ]
    with (
        (tmp_path / "log").open("w") as log,
        subprocess.Popen([*command, *words], env=environment, stdout=log, stderr=log) as run,
    ):
        while not (tmp_path / "run" / "progress.json").exists():
            assert run.poll() is None
            time.sleep(0.2)
        watch = subprocess.Popen(
            [*command, "watch", str(tmp_path / "run"), "--port", "0"],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert watch.stdout is not None
        address = re.search(r"http://127\.0\.0\.1:\d+", watch.stdout.readline())
        assert address is not None
        complaints: list[str] = []
        with playwright.sync_playwright() as started:
            arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
            browser = started.chromium.launch(executable_path=path, args=arguments)
            page = browser.new_page()
            page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
            page.on("pageerror", lambda error: complaints.append(str(error)))
            page.goto(address[0])
            page.wait_for_selector("#part-now .tile:has-text('running')", timeout=60_000)
            page.wait_for_selector("#figure-racing:not([hidden]) svg", timeout=90_000)
            page.wait_for_selector("#part-now .tile:has-text('finished')", timeout=180_000)
            assert "Members of" in page.text_content("#part-now")
            assert page.locator("#part-networks tr").count() > 2
            browser.close()
        assert run.wait(60) == 0 and complaints == []
        os.kill(watch.pid, signal.SIGINT)
        assert watch.wait(30) == 0
