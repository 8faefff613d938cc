"""The registry: parts by name, by reference, added in Python, and the sentences for what is not there."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from polyarch.errors import ConfigError, UnknownName
from polyarch.plugins import METHODS, Registry, import_reference, is_reference, method_named

GROUP = "polyarch.test_colours"
ENTRIES = """
[polyarch.test_colours]
red = test_colours_module:RED
absent = no_such_module_here:RED
missing = test_colours_module:BLUE
failing = test_colours_failing:RED
"""


@pytest.fixture
def colours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registry:
    """The registry of a kind for which a package, as pip installs it, has four parts."""
    information = tmp_path / "test_colours-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: test-colours\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(ENTRIES)
    (tmp_path / "test_colours_module.py").write_text("RED = 'the red part'\n")
    (tmp_path / "test_colours_failing.py").write_text("import no_such_module_here\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("test_colours_module", "test_colours_failing"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return Registry("colour", GROUP)


def test_names_are_known_before_anything_is_imported(colours: Registry) -> None:
    assert list(colours) == ["red", "absent", "missing", "failing"] and len(colours) == 4
    assert "red" in colours and "blue" not in colours
    assert [colours.check(name) for name in ("red", "absent", "package.module:part")]
    assert "test_colours_module" not in sys.modules
    assert colours["red"] == "the red part"


def test_an_unknown_name_lists_all(colours: Registry) -> None:
    expected = r"Expected a colour out of red, absent, missing, failing\. Got 'rad'\. Did you mean 'red'\?"
    with pytest.raises(UnknownName, match=expected):
        colours["rad"]
    with pytest.raises(UnknownName, match=expected):
        colours.check("rad")


def test_a_reference_says_where_the_part_lies(colours: Registry) -> None:
    assert colours["test_colours_module:RED"] == "the red part" == import_reference("test_colours_module:RED")
    assert is_reference("test_colours_module:RED") and not is_reference("red")


@pytest.mark.parametrize("reference", [":RED", "test_colours_module:", "test_colours_module"])
def test_half_a_reference(colours: Registry, reference: str) -> None:
    with pytest.raises(ConfigError, match=r"such as mypackage\.net:build"):
        import_reference(reference)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("absent", "Expected colour 'absent' to be importable from 'no_such_module_here:RED'. Found: No module"),
        ("missing", "Expected colour 'missing' to be importable from 'test_colours_module:BLUE'. Found: module"),
        ("failing", "Expected colour 'failing' to be importable from 'test_colours_failing:RED'. Found: No module"),
        ("no_such_module_here:RED", "Expected 'no_such_module_here:RED' to be importable. Found: No module"),
        ("test_colours_module:BLUE", "Expected 'test_colours_module:BLUE' to be importable. Found: module"),
    ],
)
def test_a_part_that_cannot_be_imported_is_one_sentence(colours: Registry, name: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        colours[name]
    assert str(caught.value).startswith(sentence) and "\n" not in str(caught.value)


def test_parts_are_added_in_place_of_others(colours: Registry) -> None:
    colours.add("green", "mine")
    colours.add("red", "mine, too")
    assert (colours["green"], colours["red"]) == ("mine", "mine, too")
    assert list(colours) == ["red", "absent", "missing", "failing", "green"] and len(colours) == 5
    assert colours.check("green") == "green"


@pytest.mark.parametrize("name", METHODS)
def test_methods_know_their_names(name: str) -> None:
    assert method_named(name).name == name
