"""Which truth a run may be compared with, and which architectures it is about."""

from __future__ import annotations

from pathlib import Path

import pytest

from polyarch.errors import ConfigError, MissingData, UnknownName
from polyarch.spaces import Architecture, Choice, Space, nb201_space
from polyarch.tables import CurveTable, Truth
from polyarch.tables.lookup import known_members, truth_for, whole_name

CELLS = (
    ["none", "none", "none", "skip_connect", "none", "none"],
    ["none", "none", "none", "skip_connect", "nor_conv_1x1", "none"],  # the same network: nothing feeds the convolution
    ["none", "none", "none", "nor_conv_1x1", "none", "none"],
    ["none", "none", "none", "nor_conv_3x3", "none", "none"],
)


@pytest.fixture
def cells(tmp_path: Path) -> Path:
    """The truth of four cells, three networks, in the folder of a build."""
    space = nb201_space()
    indices = [space.architecture(cell).indices for cell in CELLS]
    CurveTable("own", space, indices, [10.0, 10.0, 20.0, 30.0], columns={"other": [4, 3, 2, 1]}).save(
        tmp_path / "truth.npz"
    )
    return tmp_path


def test_a_network_is_ranked_once(cells: Path) -> None:
    space = nb201_space()
    members = known_members(truth_for(str(cells), space), space)
    assert members == [space.architecture(CELLS[index]) for index in (0, 2, 3)]


def test_a_part_of_the_space_ranks_its_own_members(cells: Path) -> None:
    space = nb201_space(("nor_conv_3x3", "skip_connect", "none", "nor_conv_1x1"))
    members = known_members(truth_for(str(cells), space), space)
    assert members is not None and [member.key for member in members] == ["|".join(CELLS[i]) for i in (0, 2, 3)]
    assert all(member.space == space for member in members)
    with pytest.raises(ConfigError, match=r"3 or more architectures of space .* Got own with 2"):
        truth_for(str(cells), nb201_space(("none", "skip_connect", "nor_conv_1x1")))


@pytest.mark.parametrize(
    "other",
    [
        Space("depth", (Choice("depth", ("1", "2")),)),
        Space("nb201+", tuple(Choice(choice.name, (*choice.options, "new")) for choice in nb201_space().choices)),
    ],
    ids=["other choices", "other options"],
)
def test_another_space_is_refused(cells: Path, other: Space) -> None:
    with pytest.raises(ConfigError, match=r"Expected a truth about the space of the run.* about 'nb201'"):
        truth_for(str(cells), other)


class Surrogate(Truth):
    """Knows architectures that it cannot list."""

    name, space = "surrogate", nb201_space()

    def accuracy(self, architecture: Architecture) -> float:
        return 90.0

    def __contains__(self, architecture: object) -> bool:
        return True

    def __len__(self) -> int:
        return 10

    def architectures(self) -> list[Architecture]:
        raise AssertionError("a walk that takes minutes")


def test_only_tables_are_listed() -> None:
    assert known_members(Surrogate(), nb201_space()) is None


def test_names_do_not_depend_on_the_folder(cells: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (cells / "nb201").mkdir()
    monkeypatch.chdir(cells.parent)
    file = str((cells / "truth.npz").resolve())
    assert whole_name(cells.name) == whole_name(f"{cells.name}/truth.npz") == file
    assert whole_name(f"{cells.name}:other") == f"{file}:other"
    assert truth_for(f"{file}:other", nb201_space()).accuracy(nb201_space().architecture(CELLS[0])) == 4
    monkeypatch.chdir(cells)
    for name in ("nb201", "nb201:cifar10_test_200", "cifar10_test_200", "macro", "nobody"):
        assert whole_name(name) == name  # the published table, not the folder


def test_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="truth"):
        truth_for("nobody", nb201_space())
    with pytest.raises(MissingData, match="Found no such file"):
        truth_for(str(tmp_path), nb201_space())


def test_a_column_of_the_published_table_may_stand_alone(
    nb201_table_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POLYARCH_DATA", str(nb201_table_path.parent.parent))
    space = nb201_space(("skip_connect", "nor_conv_3x3"))
    cell = space.architecture(["nor_conv_3x3"] * 6)
    alone, named = truth_for("cifar10_test_200", space), truth_for("nb201:cifar10_test_200", space)
    assert alone.accuracy(cell) == named.accuracy(cell) > 90
    assert alone.name == named.name == "nb201:cifar10_test_200"
    assert known_members(alone, space) is None  # random architectures can be ranked
    with pytest.raises(UnknownName, match="column of the NAS-Bench-201 table"):
        truth_for("cifar10_test_20", space)
