"""Mixtures leave as programs that need no polyarch: torch.export and ONNX, for any number of examples."""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from polyarch.distributions import FactorisedCategorical
from polyarch.predictive import Mixture, most_probable
from polyarch.randomness import generator_at, global_seed
from polyarch.spaces import Space, parse_wiring, wired_space
from polyarch.supernets import ChainSupernet, FullyConnectedDepth, NB201Supernet, Supernet, WiredSupernet

SHAPE = (1, 4, 4)


def depth() -> Mixture:
    return mixture_of(FullyConnectedDepth(features=16, classes=3, max_depth=3, width=5), 1)


def chain() -> Mixture:
    net = ChainSupernet(
        channels=(2, 3), kernels=(3, 5), expansions=(1,), stem_channels=2, head_channels=3, in_channels=1, classes=3
    )
    return mixture_of(net, 3)


def cell() -> Mixture:
    return mixture_of(NB201Supernet(channels=2, cells=1, in_channels=1, classes=3), 3)


def wired(*, own: bool = False) -> Mixture:
    """Wirings with a beginning in common."""
    wirings = [parse_wiring(text, wired_space(2, 2)) for text in ("100-000", "100-100", "000-000")]
    net = WiredSupernet(width=2, modules=2, stages=2, in_channels=1, classes=3, wirings=wirings[::-1] if own else None)
    for parameter in net.parameters():
        nn.init.normal_(parameter, std=0.5)
    return Mixture(net.extract_many(wirings), [0.5, 0.3, 0.2]).eval()


def wired_with_own_weights() -> Mixture:
    return wired(own=True)


def preference(space: Space) -> FactorisedCategorical:
    generator = generator_at(0, "logits")
    return FactorisedCategorical(space, {c.name: torch.randn(len(c), generator=generator) for c in space.choices})


def mixture_of(net: Supernet, most: int) -> Mixture:
    architectures, values = zip(*most_probable(preference(net.space), most), strict=True)
    return Mixture(net.extract_many(architectures), [math.exp(v) for v in values], temperature=1.5).eval()


def inputs(examples: int) -> Tensor:
    return torch.randn(examples, *SHAPE, generator=generator_at(examples, "inputs"))


BATCH = {"x": {0: torch.export.Dim("batch")}}


@pytest.mark.parametrize("make", [depth, chain, cell, wired, wired_with_own_weights])
def test_round_trip_through_torch_export(make: Callable[[], Mixture]) -> None:
    with global_seed(0, "net"):
        mixture = make()
    file = io.BytesIO()
    torch.export.save(torch.export.export(mixture, (inputs(4),), dynamic_shapes=BATCH), file)
    file.seek(0)
    program = torch.export.load(file).module()
    for examples in (4, 7):
        outputs = program(inputs(examples))
        torch.testing.assert_close(outputs, mixture(inputs(examples)), rtol=1e-6, atol=1e-7)
        if make is depth:
            assert outputs[2].eq(0).all()


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")  # torch's own, while it exports
@pytest.mark.parametrize("make", [chain, pytest.param(wired, marks=pytest.mark.slow), wired_with_own_weights])
def test_round_trip_through_onnx(make: Callable[[], Mixture], tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    with global_seed(0, "net"):
        mixture = make()
    program = torch.onnx.export(
        mixture, (inputs(4),), dynamo=True, dynamic_shapes=BATCH, input_names=["x"], verbose=False
    )
    assert program is not None
    program.save(tmp_path / "mixture.onnx")
    session = runtime.InferenceSession(tmp_path / "mixture.onnx")
    for examples in (4, 7):
        outputs = tuple(map(torch.from_numpy, session.run(None, {"x": inputs(examples).numpy()})))
        torch.testing.assert_close(outputs, mixture(inputs(examples)), rtol=1e-5, atol=1e-6)
