"""What a choice decides is known, and does not tell choices, spaces or architectures apart."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from torch import nn

from polyarch.errors import InvalidInput
from polyarch.nn import Maybe, OneOf, Repeat
from polyarch.spaces import Choice, Space, macro_space, nb201_space
from polyarch.supernets import MLPSupernet
from polyarch.supernets.depth import depth_space


def test_kinds_do_not_tell_choices_apart() -> None:
    first, second = Choice("x", ("a", "b")), Choice("x", ("a", "b"), "wiring")
    assert first == second and hash(first) == hash(second)
    spaces = [Space("s", (choice,)) for choice in (first, second)]
    assert spaces[0] == spaces[1] and hash(spaces[0]) == hash(spaces[1])
    architecture = spaces[0].architecture(["b"])
    assert spaces[1].architecture(architecture.to_dict()) == architecture
    assert pickle.loads(pickle.dumps(spaces[1])).choices[0].kind == "wiring"


def test_unknown_kinds_are_refused() -> None:
    kind: Any = "edge"
    with pytest.raises(InvalidInput, match=r"'operation', 'wiring', 'node_operation'.*Got 'edge'"):
        Choice("x", ("a",), kind)


def test_depths_are_wirings_and_blocks_are_operations() -> None:
    assert [choice.kind for choice in depth_space(3).choices] == ["wiring"]
    net = MLPSupernet(features=2, classes=2, width=2, max_depth=2, inner_widths=(2, 3))
    assert [choice.kind for choice in net.space.choices] == ["wiring", "operation", "operation"]
    for space in (nb201_space(), macro_space()):
        assert {choice.kind for choice in space.choices} == {"operation"}
    assert Repeat("depth", [nn.Identity(), nn.Identity()]).choice.kind == "wiring"
    assert OneOf("block", a=nn.Identity()).choice.kind == Maybe("se", nn.Identity()).choice.kind == "operation"
