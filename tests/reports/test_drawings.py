"""Pictures of architectures are well-formed, show what is used, and keep arbitrary names inside their boxes."""

from __future__ import annotations

import math
import re
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from polyarch.methods.race.candidates import plain_networks
from polyarch.nn import Maybe, OneOf, Repeat
from polyarch.reports import draw
from polyarch.reports.canvas import WIDTH, label, shortened
from polyarch.spaces import darts_space, macro_space, nb101_space, nb201_space, wired_space
from polyarch.supernets import NB201Supernet, PooledSupernet, from_module
from polyarch.supernets.module import RunChoices

HOSTILE = "<script>alert(1)</script>"
NET = NB201Supernet(channels=2, cells=1, operations=("none", "skip_connect", "nor_conv_1x1"))
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
    assert len(elements(svg, "circle")) == (4 if arrows else 2)
    assert ("nothing reaches the output" in texts(svg)) == (arrows == 0)


@pytest.mark.parametrize(
    ("cell", "shown"),
    [
        ("skip|none|none|conv|none|conv", ["conv", "in", "out"]),  # 0->1 leads nowhere, nothing feeds 2->3
        ("none|conv|skip|none|skip|pool", ["conv", "pool", "in", "2", "out"]),  # nothing feeds node 1
        ("conv|none|skip|none|none|pool", ["conv", "skip", "pool", "in", "1", "2", "out"]),
    ],
)
def test_cells_show_only_what_computes(cell: str, shown: list[str]) -> None:
    architecture = dict(zip(CELL, cell.split("|"), strict=True))
    svg = draw(architecture, "nb201")
    assert texts(svg) == shown
    operations = [text for text in shown if text not in ("in", "1", "2", "out")]
    assert svg.count("marker-end") == len(operations)
    spoken = ElementTree.fromstring(svg).attrib["aria-label"]
    assert [part.split()[-1] for part in spoken.split(",")] == operations


@given(cell=st.lists(st.sampled_from(["none", "skip_connect", "nor_conv_1x1"]), min_size=6, max_size=6))
def test_a_cell_is_drawn_with_the_operations_that_it_extracts(cell: list[str]) -> None:
    architecture = NET.space.architecture(cell)
    labels = texts(draw(architecture.to_dict(), "nb201"))
    layers = [layer for name, layer in NET.extract(architecture).named_modules() if name.startswith("layers.0.edges")]
    assert labels.count("conv 1x1") == sum(isinstance(layer, nn.Conv2d) for layer in layers)


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


def test_nb101_cells_have_an_arrow_per_edge_and_no_loose_ends() -> None:
    first = dict(zip(nb101_space(1).choice_names, ["0", "conv1x1-bn-relu", "0,1", "maxpool3x3"], strict=False))
    rest = {"node3_parents": "0,1", "node3_operation": "conv3x3-bn-relu", "node4_parents": "0,2"}
    architecture = {**first, **rest, "node4_operation": HOSTILE, "output_parents": "0,3"}
    svg = draw(architecture, "nb101")
    assert svg.count("marker-end") == 5  # none of those that feed nodes 2 and 4
    assert texts(svg) == ["in", "1x1", "3x3", "out"]
    assert "stroke-dasharray" not in svg
    assert len(elements(draw({**architecture, "output_parents": "5,6"}, "nb101"), "rect")) == 9


def test_wirings_have_a_row_per_stage_and_an_arc_per_skip() -> None:
    names = wired_space(2, 4).choice_names
    architecture = {name: "on" if name in ("stage0_0->2", "stage1_1->4", "stage1_0->out") else "off" for name in names}
    svg = draw(architecture, "wired")
    assert len(elements(svg, "circle")) == 2 * 6 and texts(svg) == ["stage 1", "stage 2"]
    arcs = [node.attrib["d"] for node in elements(svg, "path") if " Q" in node.attrib["d"]]
    assert len(arcs) == 3
    circles = [[float(node.attrib[name]) for name in ("cx", "cy", "r")] for node in elements(svg, "circle")]
    for arc in arcs:  # from the edge of one circle to the edge of another
        start, _, end = ([float(number) for number in point.split(",")] for point in re.findall(r"[\d.]+,[\d.]+", arc))
        for x, y in (start, end):
            gaps = [abs(math.dist((x, y), (centre_x, centre_y)) - radius) for centre_x, centre_y, radius in circles]
            assert min(gaps) < 0.01
    lines = [node.attrib["d"] for node in elements(svg, "path") if " H" in node.attrib["d"]]
    inputs = [circle for circle in circles if circle[0] == min(x for x, _, _ in circles)]
    assert [float(line[1:].partition(",")[0]) for line in lines] == [x + radius for x, _, radius in inputs]
    for strange in ({"stage0_2->1": "on"}, {"stage0_0->2": "on", "x": "y"}, {"stage99_0->2": "on"}):
        assert len(elements(draw(strange, "wired"), "rect")) == len(strange)  # a box per choice


def test_chains_are_drawn_in_rows_without_skips() -> None:
    svg = draw({f"layer{i}": "skip" if i == 3 else HOSTILE for i in range(8)}, "chain")
    assert len(elements(svg, "rect")) == 7 and "layer3" not in texts(svg)
    assert svg.count("marker-end") == 5


def test_identities_of_macro_networks_compute_where_the_shape_changes() -> None:
    architecture = dict.fromkeys(macro_space().choice_names, "identity")
    assert texts(draw(architecture, "macro"))[::2] == ["layer0", "layer2", "layer5"]


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


def test_choices_inside_of_options_that_do_not_run_are_left_out() -> None:
    inner = Repeat("inner", [nn.Linear(4, 4), nn.Linear(4, 4)])
    net = from_module(nn.Sequential(OneOf("body", plain=inner, none=nn.Identity()), Maybe("last", nn.ReLU())))
    assert isinstance(net.space.canonical, RunChoices)
    nesting = net.space.canonical.described(net.space)
    assert nesting == {"outer": ["body", "last"], "inner": {"body": {"plain": ["inner"]}}}
    architecture = {"body": "none", "inner": "2", "last": "on"}
    assert texts(draw(architecture, "module", nesting=nesting))[::2] == ["body", "last"]
    assert texts(draw({**architecture, "body": "plain"}, "module", nesting=nesting))[::2] == ["body", "inner", "last"]
    assert len(elements(draw(architecture, "module"), "rect")) == 3


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


def test_choices_of_built_in_spaces_inside_of_options_that_do_not_run_are_left_out() -> None:
    net = PooledSupernet(widths=(4, 8), max_depth=1, plain_widths=(4, 8), stages=1)
    assert isinstance(net.space.canonical, RunChoices)
    nesting = net.space.canonical.described(net.space)
    (plain, *_) = plain_networks(net)
    assert texts(draw(plain.to_dict(), "pooled", nesting=nesting))[::2] == ["view", "family", "plain.width"]
