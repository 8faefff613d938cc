"""The exported module: from raw examples to predictions."""

import copy

import torch
from torch import Tensor, nn

from polyarch.data import Preprocessing
from polyarch.export.artifact import Artifact
from polyarch.nn.channel_selection import with_planes
from polyarch.predictive import EarlyExit, Mixture


class Program(nn.Module):
    """Preprocesses raw examples (B, ...) and applies the mixture; with early exit it also returns the exits used."""

    def __init__(self, preprocessing: Preprocessing, mixture: Mixture | EarlyExit) -> None:
        super().__init__()
        self.preprocessing = preprocessing
        self.mixture = mixture

    @classmethod
    def of(cls, artifact: Artifact) -> "Program":
        """A program of copied networks on the CPU, in evaluation mode and in the contiguous memory format."""
        weights = [member.weight for member in artifact.members]
        networks = with_planes(copy.deepcopy(artifact.networks))
        mixture = Mixture(networks, weights, temperature=artifact.temperature)
        program = cls(artifact.preprocessing, mixture)
        # Channels-last strides would become constants of the exported graph.
        return program.to("cpu").to(memory_format=torch.contiguous_format).eval()  # type: ignore[call-overload, no-any-return]

    def forward(self, inputs: Tensor) -> tuple[Tensor, ...]:
        """(B, ...) raw examples -> probabilities (B, C), entropy (B,) and mutual information (B,) in nats, ..."""
        outputs: tuple[Tensor, ...] = self.mixture(self.preprocessing(inputs))
        return outputs
