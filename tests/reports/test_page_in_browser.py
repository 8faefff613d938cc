"""The report in a real browser, from a file and without a network: charts, tooltips, sorting, colours, sizes."""

from __future__ import annotations

import importlib
import re
import shutil
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image

from polyarch.methods.one_shot.plots import ordered
from polyarch.reports import write_report

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Dialog, Page, Request

pytest.importorskip("altair", reason="needs the extra 'report'")
playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install playwright")

ARGUMENTS = (
    *("--no-sandbox", "--disable-gpu", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--no-first-run"),
)
NAMES = (
    *("cell", "table", "own", "depth", "spirals", "photos", "baseline", "stochastic", "differentiable"),
    *("guided", "guided depth", "guided, unfinished", "unfinished", "hostile"),
)
DRAWN = "html[data-charts]"
TOOLTIP = "#tooltip:not([hidden])"

Opened = Callable[..., "Page"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's or any other chromium on the path."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    path = next(filter(None, map(shutil.which, names)), None)
    if path is None:
        pytest.skip(f"needs a browser: none of {', '.join(names)} is on the path")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=path, args=list(ARGUMENTS))
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def examples() -> ModuleType:
    """The module of example results."""
    return importlib.import_module("report_examples")


@pytest.fixture(scope="module")
def reports(examples: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("reports")
    for name in NAMES:
        write_report(examples.RUNS[name](), folder / f"{name}.html")
    return {name: folder / f"{name}.html" for name in NAMES}


@pytest.fixture
def opened(browser: Browser, reports: dict[str, Path]) -> Iterator[Opened]:
    """Opens a report with the network blocked; at the end nothing must have been asked for or complained about."""
    contexts: list[BrowserContext] = []
    complaints: list[str] = []

    def requested(request: Request) -> None:
        if not request.url.startswith(("file:", "data:")):
            complaints.append(f"request: {request.url}")

    def asked(dialog: Dialog) -> None:
        complaints.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def open_report(name: str, width: int = 1280, colours: Any = "light") -> Page:
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=colours)
        contexts.append(context)
        context.set_offline(True)
        context.route(
            "**/*", lambda route: route.continue_() if route.request.url.startswith("file:") else route.abort()
        )
        page = context.new_page()
        page.on("request", requested)
        page.on("dialog", asked)
        page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
        page.on("console", lambda message: complaints.append(f"{message.type}: {message.text}"))
        page.goto(reports[name].as_uri())
        page.wait_for_selector(DRAWN)
        return page

    yield open_report
    for context in contexts:
        context.close()
    assert complaints == []


def hover(page: Page, selector: str, index: int = 0) -> str:
    """The text of the tooltip over a mark."""
    mark = page.locator(selector).nth(index)
    mark.scroll_into_view_if_needed()
    box = mark.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2 - 1, box["y"] + box["height"] / 2)
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_selector(TOOLTIP)
    return page.locator(TOOLTIP).inner_text()


def column(page: Page, index: int) -> list[str]:
    return page.locator(f"table.sortable tbody td:nth-child({index})").all_inner_texts()


@pytest.mark.parametrize("name", NAMES)
def test_all_charts_are_drawn(opened: Opened, name: str) -> None:
    page = opened(name)
    places = page.locator(".plot")
    assert places.count() == page.evaluate(
        "Object.keys(JSON.parse(document.getElementById('charts').textContent)).length"
    )
    for index in range(places.count()):
        box = places.nth(index).locator("svg.marks").bounding_box()
        assert box is not None
        assert box["width"] > 200
        assert box["height"] > 60


@pytest.mark.slow
def test_a_point_shows_its_architecture(opened: Opened, examples: Any) -> None:
    page = opened("cell")
    best = ordered(examples.cell_results().record.search)[0]
    shown = hover(page, "#chart-sizes path[aria-roledescription=point]")
    assert best.key in shown
    assert f"{best.parameters:,}" in shown
    assert "training speed" in shown


@pytest.mark.slow
def test_marks_of_other_charts_show_their_numbers(opened: Opened, examples: Any) -> None:
    page = opened("cell")
    shown = hover(page, "#chart-contenders path[aria-roledescription=point]", -1).replace("\u00a0", " ")
    assert "98.20 % [97." in shown
    ensemble = examples.cell_results().predictors[1]
    largest = max(one.count for one in ensemble.reliability)
    assert f"{largest}" in hover(page, "#chart-reliability path[aria-roledescription=point]", -1)
    assert "choice" in hover(page, "#chart-options path[aria-roledescription='rect mark']")


@pytest.mark.slow
def test_charts_of_depths_show_their_numbers(opened: Opened) -> None:
    page = opened("spirals")
    assert "18.81" in hover(page, "#chart-depth-posterior path[aria-roledescription=bar]", 9)
    shown = hover(page, "#chart-depth-exits path[aria-roledescription=point]", -1)
    assert "90\u00a0%" in shown
    assert "mean depth used" in shown
    assert "depth" in hover(page, "#chart-depth-score path[aria-roledescription=point]", 30)


@pytest.mark.slow
@pytest.mark.parametrize("width", [400, 1200])
def test_kept_channels_fit_their_place(opened: Opened, width: int) -> None:
    page = opened("guided", width=width)
    place = page.locator("#guided").bounding_box()
    assert place is not None
    for text in page.locator("#guided svg text").all():
        box = text.bounding_box()
        assert box is not None
        assert box["x"] >= place["x"]
        assert box["x"] + box["width"] <= place["x"] + place["width"]
    names, numbers = (page.locator(f"#guided svg text[text-anchor={side}]").all() for side in ("start", "end"))
    for name, number in zip(names, numbers, strict=True):
        left, right = name.bounding_box(), number.bounding_box()
        assert left is not None
        assert right is not None
        assert left["x"] + left["width"] < right["x"]
    assert "from the posterior" in hover(page, "#chart-draws-macs path[aria-roledescription=point]", 30)


@pytest.mark.slow
@pytest.mark.parametrize("colours", ["light", "dark"])
def test_pictures_of_depths_are_coloured_and_framed(opened: Opened, colours: str) -> None:
    page = opened("spirals", colours=colours)
    figures = page.locator(".panels figure")
    assert figures.count() == 21
    box = figures.nth(9).bounding_box()
    assert box is not None
    assert abs(box["width"] - box["height"]) < 40
    assert page.locator(".panels figure.chosen").all_inner_texts() == ["depth 9, q\u00a018.8\u00a0%"]
    figures.nth(9).scroll_into_view_if_needed()
    picture = Image.open(BytesIO(figures.nth(9).locator("svg").screenshot())).convert("RGB")
    colours_shown = np.asarray(picture).astype(int)
    red_over_blue = colours_shown[..., 0] - colours_shown[..., 2]
    for share in ((red_over_blue > 60).mean(), (red_over_blue < -60).mean()):  # orange and blue
        assert 0.1 < share < 0.9


@pytest.mark.slow
def test_headings_sort_by_click_and_by_keyboard(opened: Opened) -> None:
    page = opened("cell")
    heading = page.locator("table.sortable th").nth(2)
    keys = column(page, 2)
    assert page.locator("table.sortable th").first.get_attribute("aria-sort") == "ascending"
    heading.locator("button").click()
    assert heading.get_attribute("aria-sort") == "ascending"
    numbers = [int(text.replace(",", "")) for text in column(page, 3)]
    assert numbers == sorted(numbers)
    assert any(len(str(numbers[0])) != len(str(number)) for number in numbers)  # text would sort differently
    heading.locator("button").press("Enter")
    assert heading.get_attribute("aria-sort") == "descending"
    assert [int(text.replace(",", "")) for text in column(page, 3)] == numbers[::-1]
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Space")
    assert page.locator("table.sortable th").nth(1).get_attribute("aria-sort") == "ascending"
    assert heading.get_attribute("aria-sort") is None
    assert column(page, 2) != keys
    assert sorted(column(page, 2)) == sorted(keys)


@pytest.mark.slow
def test_hostile_names_are_text(opened: Opened, examples: Any) -> None:
    page = opened("hostile")
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 3
    assert examples.IMAGE in page.locator("h1").inner_text()
    assert examples.HOSTILE in page.locator("#use").inner_text()
    assert examples.HOSTILE in page.locator("#decisions").inner_text()
    cells = page.locator("#chart-options path[aria-roledescription='rect mark']").count()
    shown = [hover(page, "#chart-options path[aria-roledescription='rect mark']", index) for index in range(cells)]
    assert any(examples.HOSTILE in text for text in shown)
    assert any(examples.IMAGE in text for text in shown)
    assert "|" in hover(page, "#chart-sizes path[aria-roledescription=point]")
    assert page.locator("#tooltip img, #tooltip script, #tooltip b").count() == 0


@pytest.mark.slow
def test_other_scripts_do_not_run(browser: Browser, reports: dict[str, Path]) -> None:
    page = browser.new_page()
    page.goto(reports["cell"].as_uri())
    page.wait_for_selector(DRAWN)
    page.evaluate(
        "() => { const script = document.createElement('script'); script.textContent = 'window.ran = 1';"
        " document.body.append(script);"
        " document.body.insertAdjacentHTML('beforeend', '<i onclick=\"window.ran = 2\">');"
        " document.querySelector('i').click(); }"
    )
    assert page.evaluate("window.ran") is None
    page.close()


@pytest.mark.slow
def test_dark_colours_follow_the_system_while_the_page_is_open(opened: Opened) -> None:
    page = opened("cell")
    background = "getComputedStyle(document.body).backgroundColor"
    label = "document.querySelector('#chart-sizes .role-axis-label text').getAttribute('fill')"
    light = page.evaluate(background), page.evaluate(label)
    page.emulate_media(color_scheme="dark")
    page.wait_for_selector("html[data-charts=dark]")
    dark = page.evaluate(background), page.evaluate(label)
    assert light[0] != dark[0]
    assert light[1] != dark[1]
    assert page.locator(".plot svg.marks").count() == page.locator(".plot").count()


@pytest.mark.slow
def test_tooltips_stay_inside_a_small_window(opened: Opened) -> None:
    page = opened("cell", width=390)
    points = page.locator("#chart-sizes path[aria-roledescription=point]").count()
    for index in range(0, points, 7):
        hover(page, "#chart-sizes path[aria-roledescription=point]", index)
        box = page.locator(TOOLTIP).bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 390
    page.mouse.move(5, 5)
    assert page.locator("#tooltip").is_hidden()


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_telephone_needs_no_sideways_scrolling(opened: Opened, name: str) -> None:
    page = opened(name, width=390, colours="dark")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    for chart in page.locator(".plot svg.marks").all():
        box = chart.bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 390


@pytest.mark.slow
def test_charts_follow_the_width_of_the_window(opened: Opened) -> None:
    page = opened("cell")
    chart = page.locator("#chart-sizes svg.marks")
    wide = chart.bounding_box()
    page.set_viewport_size({"width": 700, "height": 900})
    playwright.expect(chart).to_have_attribute("width", re.compile(r"^[3-6]\d\d(\.\d+)?$"))
    narrow = chart.bounding_box()
    assert wide is not None
    assert narrow is not None
    assert narrow["width"] < wide["width"]


@pytest.mark.slow
def test_code_can_be_copied(opened: Opened) -> None:
    page = opened("cell")
    button = page.locator("button.copy").first
    button.click()
    playwright.expect(button).to_have_text(re.compile("Copied|Selected"))
    page.locator("#settings summary").click()
    assert page.locator("#settings pre").is_visible()
