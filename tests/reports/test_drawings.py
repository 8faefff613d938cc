"""Pictures of architectures are well-formed, show what is used, and keep arbitrary names inside their boxes."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyarch.reports import draw
from polyarch.reports.canvas import WIDTH, label, shortened
from polyarch.spaces import darts_space, nb101_space, nb201_space, wired_space

HOSTILE = "<script>alert(1)</script>"
CELL = dict.fromkeys(nb201_space().choice_names, "nor_conv_3x3")
KINDS = ("nb201", "nb101", "darts", "wired", "macro", "chain", "depth_fc", "depth_cnn", "mlp", "module")


def elements(svg: str, name: str) -> list[ElementTree.Element]:
    return [node for node in ElementTree.fromstring(svg).iter() if node.tag.endswith(f"}}{name}")]


def texts(svg: str) -> list[str]:
    """What is written, without what shows under the pointer."""
    return [(node[0].tail or "") for node in elements(svg, "text")]


def widths(svg: str) -> list[float]:
    return [float(node.attrib["width"]) for node in elements(svg, "rect")]


@pytest.mark.parametrize(("operation", "arrows"), [("none", 0), ("skip_connect", 6), ("my own operation", 6)])
def test_cells_are_drawn_without_none(operation: str, arrows: int) -> None:
    svg = draw(dict.fromkeys(CELL, operation), "nb201")
    assert svg.count("marker-end") == arrows
    assert len(elements(svg, "circle")) == 4


def test_darts_cells_show_the_inputs_of_every_node() -> None:
    architecture = {
        name: "0,1" if name.endswith("inputs") else "skip_connect" if name.endswith("first") else "sep_conv_5x5"
        for name in darts_space().choice_names
    }
    architecture["reduce5_inputs"] = "2,4"
    svg = draw(architecture, "darts")
    assert svg.count("marker-end") == 16 and len(elements(svg, "circle")) == 24
    assert svg.count("stroke-dasharray") == 8
    assert texts(svg).count("sep 5x5") == 8
    assert [text for text in texts(svg) if text in "0123456789"] == [*"2345234", "2", "4", "5"]
    assert len(elements(draw({**architecture, "reduce5_inputs": "x"}, "darts"), "rect")) == 24  # a box per choice


def test_nb101_cells_have_an_arrow_per_edge_and_dashed_loose_ends() -> None:
    first = dict(zip(nb101_space(1).choice_names, ["0", "conv1x1-bn-relu", "0,1", "maxpool3x3"], strict=False))
    rest = {"node3_parents": "0,1", "node3_operation": "conv3x3-bn-relu", "node4_parents": "0,2"}
    architecture = {**first, **rest, "node4_operation": HOSTILE, "output_parents": "0,3"}
    svg = draw(architecture, "nb101")
    assert svg.count("marker-end") == 9
    assert texts(svg)[:4] == ["in", "1x1", "pool", "3x3"] and texts(svg)[-1] == "out"
    rects = elements(svg, "rect")
    assert ["stroke-dasharray" in rect.attrib for rect in rects] == [False, False, True, False, True, False]
    assert svg.count("stroke-dasharray") == 2 + 4  # nodes 2 and 4, and what feeds them
    assert len(elements(draw({**architecture, "output_parents": "5,6"}, "nb101"), "rect")) == 9


def test_wirings_have_a_row_per_stage_and_an_arc_per_skip() -> None:
    names = wired_space(2, 4).choice_names
    architecture = {name: "on" if name in ("stage0_0->2", "stage1_1->4", "stage1_0->4") else "off" for name in names}
    svg = draw(architecture, "wired")
    assert len(elements(svg, "circle")) == 2 * 5 and texts(svg) == ["stage 1", "stage 2"]
    arcs = [node.attrib["d"] for node in elements(svg, "path") if " Q" in node.attrib["d"]]
    assert len(arcs) == 3
    heights = {float(node.attrib["cy"]) for node in elements(svg, "circle")}
    assert {float(arc.partition(",")[2].partition(" ")[0]) for arc in arcs} == heights
    for strange in ({"stage0_2->1": "on"}, {"stage0_0->2": "on", "x": "y"}, {"stage99_0->2": "on"}):
        assert len(elements(draw(strange, "wired"), "rect")) == len(strange)  # a box per choice


def test_chains_are_drawn_in_rows_with_skips_dashed() -> None:
    svg = draw({f"layer{i}": "skip" if i == 3 else HOSTILE for i in range(8)}, "chain")
    assert len(elements(svg, "rect")) == 8
    assert svg.count("stroke-dasharray") == 1
    assert svg.count("marker-end") == 6


def test_depth_fills_the_used_blocks() -> None:
    choices = {"depth": [str(depth) for depth in range(13)]}
    svg = draw({"depth": "5"}, "depth_fc", choices=choices)
    assert len(elements(svg, "rect")) == 12
    assert svg.count("fill-opacity") == 5
    assert "5 of 12 blocks used" in texts(svg)
    assert "1 block used" in texts(draw({"depth": "1"}, "depth_fc"))
    assert len(elements(draw({"depth": "5"}, "depth_cnn"), "rect")) == 5
    assert elements(draw({"depth": "0"}, "depth_fc"), "rect") == []


def test_mlp_draws_only_the_used_blocks_as_wide_as_they_are() -> None:
    architecture = {"depth": "2", "block0": "h64", "block1": "h128", "block2": "h256"}
    svg = draw(architecture, "mlp")
    first, second = widths(svg)
    assert second == 2 * first
    assert "h256" not in texts(svg)
    choices = {"depth": ["1", "2", "3"], **{f"block{i}": ["h64", "h128", "h1024"] for i in range(3)}}
    narrow = widths(draw(architecture, "mlp", choices=choices))
    assert narrow[1] < second
    assert all(width < WIDTH for width in narrow)


def test_modules_have_a_box_per_choice_and_no_order() -> None:
    architecture = {"encoder.stages.0.mixer": "attention", "encoder.stages.0.mixer.heads": "4", "head": "linear"}
    svg = draw(architecture, "module")
    assert len(elements(svg, "rect")) == 3
    assert "marker-end" not in svg
    assert {"attention", "4", "linear", "head"} <= set(texts(svg))


@pytest.mark.parametrize("kind", KINDS)
@given(architecture=st.dictionaries(st.text(), st.text(), max_size=5))
def test_any_names_give_well_formed_pictures(kind: str, architecture: dict[str, str]) -> None:
    svg = draw(architecture, kind)
    ElementTree.fromstring(svg)
    svg.encode()


@pytest.mark.parametrize("depth", ["", "many", "3 blocks", "999999"])
@pytest.mark.parametrize("kind", ["depth_fc", "mlp"])
def test_odd_depths_are_drawn_all_the_same(kind: str, depth: str) -> None:
    svg = draw({"depth": depth, "block0": "wide", "norm": HOSTILE}, kind)
    ElementTree.fromstring(svg)
    assert len(svg) < 10_000


def test_long_names_are_shortened_and_show_whole_under_the_pointer() -> None:
    name = "encoder.blocks.17.attention.projection & more"
    assert shortened(name, 11) == "encod… more"
    assert shortened("short", 11) == "short"
    text = ElementTree.fromstring(label(0, 0, name, 85))
    assert text[0].text == name
    assert len(text[0].tail or "") == 11
