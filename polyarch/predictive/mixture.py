"""Several networks as one predictor that also measures how much they disagree.

Averaging the probabilities of networks: Lakshminarayanan, Pritzel and Blundell (2017), "Simple and Scalable Predictive
Uncertainty Estimation using Deep Ensembles", arXiv:1612.01474.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from polyarch.data import Inputs
from polyarch.errors import InvalidInput
from polyarch.nn import StackedNetworks
from polyarch.predictive.checks import check_temperature, normalised_weights
from polyarch.predictive.uncertainty import at_least_single, class_readouts, log_probabilities

Read = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, ...]]
"""Outputs (K, B, O) of the members, their weights (K,) and the temperature -> what is predicted, tensors (B, ...)."""


def read_classes(logits: Tensor, weights: Tensor, temperature: Tensor) -> tuple[Tensor, ...]:
    """Probabilities (B, C), entropy (B,) and mutual information (B,)."""
    return class_readouts(log_probabilities(logits, temperature), weights)


class Mixture(nn.Module):
    """p(y | x) = sum_k w_k p_k(y | x), by default of classes, p_k = softmax(logits_k(x) / T), with its uncertainty.

    A plain module: it can be saved by its state, compiled and exported (``torch.export``, ONNX). Weights and
    temperature are buffers.

    Args:
        networks: the K members, each (B, ...) -> outputs (B, O), or one network that gives those of all, (K, B, O).
        weights: (K,) above 0, normalised here; equal by default, but required for one network, as they tell K.
        temperature: T; see `fit_temperature`.
        read: what the outputs mean; those of a task, or classes by default.
    """

    weights: Tensor
    temperature: Tensor

    def __init__(
        self,
        networks: Sequence[nn.Module] | nn.Module,
        weights: Tensor | Sequence[float] | None = None,
        *,
        temperature: float = 1.0,
        read: Read = read_classes,
    ) -> None:
        super().__init__()
        check_temperature(temperature)
        if not isinstance(networks, nn.Module) or isinstance(networks, nn.ModuleList):
            networks = StackedNetworks(networks)
        if isinstance(networks, StackedNetworks):
            members = len(networks)
        elif weights is not None:
            members = len(weights)
        else:
            raise InvalidInput("Expected weights for the members of one network. Got none.")
        self.networks = networks
        self.read = read
        # The precision and device of the members: double weights would turn single-precision predictions into double.
        example = next((value for value in self.networks.parameters() if value.is_floating_point()), torch.empty(0))
        dtype, device = at_least_single(example.dtype), example.device
        shares = normalised_weights(weights, members).to(device, dtype)
        if shares.min() <= 0:
            raise InvalidInput(f"Expected weights above 0: leave the other members out. Got {shares.tolist()}.")
        self.register_buffer("weights", shares)
        self.register_buffer("temperature", torch.tensor(temperature, dtype=dtype, device=device))

    def forward(self, x: Inputs) -> tuple[Tensor, ...]:
        """(B, ...) -> what is read, a plain tuple for exporters.

        Of classes: probabilities (B, C), entropy (B,) and mutual information (B,).
        """
        outputs = self.member_outputs(x)
        return self.read(outputs, self.weights.to(outputs), self.temperature.to(outputs))

    def member_outputs(self, x: Inputs) -> Tensor:
        """The outputs of every member before the temperature: (B, ...) -> (K, B, O)."""
        outputs: Tensor = self.networks(x)
        if outputs.dim() != 3 or len(outputs) != len(self.weights):
            raise InvalidInput(
                f"Expected outputs ({len(self.weights)}, B, O) of all members. Got shape {tuple(outputs.shape)}."
            )
        return outputs.to(at_least_single(outputs.dtype))
