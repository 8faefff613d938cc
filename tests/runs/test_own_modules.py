"""Networks that a user names or hands over."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from polyarch.data import NetworkExample
from polyarch.errors import ConfigError, InvalidInput
from polyarch.nn import OneOf
from polyarch.runs.own_module import build_own, import_builder

SOURCE = """
from torch import nn
from polyarch import OneOf

def build(input_shape, classes):
    return nn.Sequential(nn.Flatten(), OneOf("act", relu=nn.ReLU(), tanh=nn.Tanh()), nn.LazyLinear(classes))

number = 3
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "my_test_network.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "my_test_network", raising=False)
    return "my_test_network"


def examples(*shape: int) -> NetworkExample:
    return NetworkExample(torch.randn(2, *shape, generator=torch.Generator().manual_seed(0)))


def network(classes: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), OneOf("act", relu=nn.ReLU(), tanh=nn.Tanh()), nn.Linear(6, classes))


def test_a_function_of_the_current_folder_is_found(package: str) -> None:
    builder = import_builder(f"{package}:build")
    assert isinstance(builder(input_shape=(2, 3), classes=4), nn.Module)


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ("nothing", "such as mypackage.net:build"),
        (":build", "such as mypackage.net:build"),
        ("no_such_module_here:build", "to be importable"),
        ("my_test_network:missing", "to be importable"),
        ("my_test_network:number", "to make a network. Got a int"),
    ],
)
def test_wrong_names_are_refused(package: str, reference: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        import_builder(reference)


def test_builders_get_the_arguments_they_name() -> None:
    net = build_own(lambda classes: network(classes), examples(2, 3), 4)
    assert net.space.choice_names == ("act",)
    assert net(torch.zeros(5, 2, 3), net.space.architecture(["tanh"])).shape == (5, 4)
    build_own(lambda: network(4), examples(2, 3), 4)
    build_own(lambda input_shape, classes: network(classes), examples(2, 3), 4)


def test_networks_of_other_shapes_are_refused() -> None:
    with pytest.raises(InvalidInput, match=r"outputs of shape \(2, 5\). Got \(2, 4\)"):
        build_own(lambda: network(4), examples(2, 3), 5)
    with pytest.raises(InvalidInput, match=r"take a batch of shape \(2, 3, 3\). Found: "):
        build_own(lambda: network(4), examples(3, 3), 4)
    with pytest.raises(InvalidInput, match=r"return an nn\.Module\. Got str"):
        build_own(lambda: "network", examples(2, 3), 4)  # type: ignore[return-value,arg-type]


@pytest.mark.parametrize(("groups", "found"), [(["last"], "list"), (lambda: ["last"], "list")])
def test_groups_of_gates_that_are_none_are_refused(groups: Any, found: str) -> None:
    class Odd(nn.Sequential):
        gate_groups = staticmethod(groups) if callable(groups) else groups

    with pytest.raises(InvalidInput, match=rf"gate_groups\(\) .* names of their modules\. Got {found}"):
        build_own(lambda: Odd(nn.Linear(2, 3), nn.Linear(3, 4)), examples(2), 4, gated=True)


def test_a_network_that_another_would_be_cut_from_is_refused() -> None:
    """A change in place through a view is not in the graph; examples that are zero would not show it."""

    class Changed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Linear(2, 3, bias=False), nn.Linear(3, 4)

        def forward(self, x: Tensor) -> Any:
            inner = self.first(x)
            inner.view(-1).relu_()
            return self.last(inner)

    with pytest.raises(InvalidInput, match="to compute the same as the network"):
        build_own(Changed, examples(2), 4, gated=True)
