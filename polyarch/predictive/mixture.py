"""Several networks as one predictor that also measures how much they disagree.

Averaging the probabilities of networks: Lakshminarayanan, Pritzel and Blundell (2017), "Simple and Scalable Predictive
Uncertainty Estimation using Deep Ensembles", arXiv:1612.01474.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from polyarch.data import Inputs
from polyarch.errors import InvalidInput
from polyarch.nn import StackedNetworks
from polyarch.objectives import log_marginal
from polyarch.predictive.checks import check_temperature, normalised_weights
from polyarch.predictive.uncertainty import at_least_single, entropy_of_logs, log_probabilities


class Mixture(nn.Module):
    """p(y | x) = sum_k w_k softmax(logits_k(x) / T), with its uncertainty in nats.

    A plain module: it can be saved by its state, compiled and exported (``torch.export``, ONNX). Weights and
    temperature are buffers.

    Args:
        networks: the K members, each (B, ...) -> logits (B, C), or one network that gives the logits (K, B, C) of all.
        weights: (K,) above 0, normalised here; equal by default, but required for one network, as they tell K.
        temperature: T, which divides every member's logits; see `fit_temperature`.
    """

    weights: Tensor
    temperature: Tensor

    def __init__(
        self,
        networks: Sequence[nn.Module] | nn.Module,
        weights: Tensor | Sequence[float] | None = None,
        *,
        temperature: float = 1.0,
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
        # The precision and device of the members: double weights would turn single-precision predictions into double.
        example = next((value for value in self.networks.parameters() if value.is_floating_point()), torch.empty(0))
        dtype, device = at_least_single(example.dtype), example.device
        shares = normalised_weights(weights, members).to(device, dtype)
        if shares.min() <= 0:
            raise InvalidInput(f"Expected weights above 0: leave the other members out. Got {shares.tolist()}.")
        self.register_buffer("weights", shares)
        self.register_buffer("temperature", torch.tensor(temperature, dtype=dtype, device=device))

    def forward(self, x: Inputs) -> tuple[Tensor, Tensor, Tensor]:
        """(B, ...) -> probabilities (B, C), entropy (B,), mutual information (B,), a plain tuple for exporters.

        H[p] = -sum_c p_c log p_c of the mixture; I = H[p] - sum_k w_k H[p_k] measures the disagreement of the
        members: 0 if they are equal, at most log K.
        """
        logits = self.member_logits(x)
        log_members = log_probabilities(logits, self.temperature.to(logits))  # (K, B, C)
        weights = self.weights.to(log_members)
        log_mixture = log_marginal(log_members, weights.log())
        entropy = entropy_of_logs(log_mixture)
        expected = (weights[:, None] * entropy_of_logs(log_members)).sum(0)
        return log_mixture.exp(), entropy, (entropy - expected).clamp_min(0)

    def member_logits(self, x: Inputs) -> Tensor:
        """The logits of every member before the temperature, for `fit_temperature`: (B, ...) -> (K, B, C)."""
        logits: Tensor = self.networks(x)
        if logits.dim() != 3 or len(logits) != len(self.weights):
            raise InvalidInput(
                f"Expected logits ({len(self.weights)}, B, C) of all members. Got shape {tuple(logits.shape)}."
            )
        return logits.to(at_least_single(logits.dtype))
