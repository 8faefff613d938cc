"""What programs compute at prediction time is the same after torch.export and ONNX, for any number of examples."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from polyarch.predictive import ConformalIntervals, ConformalSets, GaussianMixture
from polyarch.randomness import generator_at

WEIGHTS = torch.tensor([0.5, 0.3, 0.2])


class Regressor(nn.Module):
    """Everything that a mixture of Gaussians and its intervals give: (B, 5) -> tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.heads = nn.ModuleList(nn.Linear(5, 4) for _ in WEIGHTS)
        self.register_buffer("weights", WEIGHTS)
        self.scaled = ConformalIntervals("scaled", 0.9, (1.3, 2.0), 50)
        self.quantile = ConformalIntervals("quantile", 0.8, (0.2, -0.6), 50)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        outputs = torch.stack([head(x) for head in self.heads])
        means, logs = outputs.chunk(2, -1)
        mixture = GaussianMixture(means, logs.exp(), self.get_buffer("weights")).scaled([1.1, 0.9])
        y = x[:, :2]
        moments = (mixture.mean, mixture.noise, mixture.disagreement, mixture.variance, mixture.deviation)
        densities = (mixture.log_density(y), mixture.log_density_per_target(y), mixture.cdf(y))
        ends = (*self.scaled(mixture), *self.quantile(mixture))
        return *moments, *densities, *ends


class Classifier(nn.Module):
    """The sets of all methods, with and without random numbers, two classes being equal: (B, 5) -> masks (B, 5)."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(5, 4)
        self.lac = ConformalSets("lac", 0.9, 0.6, 50)
        self.aps = ConformalSets("aps", 0.9, 0.7, 50)
        self.raps = ConformalSets("raps", 0.9, 0.75, 50, penalty=0.1, free_ranks=1)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        logits = self.linear(x)
        p = torch.softmax(3 * torch.cat([logits, logits[:, :1]], -1), -1)
        u = torch.sigmoid(x[:, 0])
        return self.lac(p), self.aps(p), self.raps(p), self.aps(p, u), self.raps(p, u), self.raps.scores(p)


def inputs(examples: int) -> Tensor:
    return torch.randn(examples, 5, generator=generator_at(examples, "inputs"))


def made(kind: type[nn.Module]) -> nn.Module:
    network = kind().eval()
    generator = generator_at(0, "weights")
    for parameter in network.parameters():
        nn.init.normal_(parameter, std=0.7, generator=generator)
    return network


BATCH = {"x": {0: torch.export.Dim("batch")}}
KINDS = pytest.mark.parametrize("kind", [Regressor, Classifier])


@KINDS
def test_round_trip_through_torch_export(kind: type[nn.Module]) -> None:
    network = made(kind)
    file = io.BytesIO()
    torch.export.save(torch.export.export(network, (inputs(4),), dynamic_shapes=BATCH), file)
    file.seek(0)
    program = torch.export.load(file).module()
    for examples in (4, 300):
        torch.testing.assert_close(program(inputs(examples)), network(inputs(examples)), rtol=1e-6, atol=1e-6)


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")  # torch's own, while it exports
@KINDS
def test_round_trip_through_onnx(kind: type[nn.Module], tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    network = made(kind)
    program = torch.onnx.export(
        network, (inputs(4),), dynamo=True, dynamic_shapes=BATCH, input_names=["x"], verbose=False
    )
    assert program is not None
    program.save(tmp_path / "program.onnx")
    session = runtime.InferenceSession(tmp_path / "program.onnx")
    for examples in (4, 300):
        outputs = tuple(map(torch.from_numpy, session.run(None, {"x": inputs(examples).numpy()})))
        torch.testing.assert_close(outputs, network(inputs(examples)), rtol=1e-5, atol=1e-5)


def test_the_networks_above_have_sets_of_all_sizes() -> None:
    """Otherwise equal masks would say little."""
    for mask in made(Classifier)(inputs(300))[:5]:
        assert set(mask.sum(1).tolist()) >= {1, 2}
