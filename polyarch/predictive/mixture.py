"""Several networks as one predictor that also says how far they agree."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from polyarch.distributions import ArchDistribution
from polyarch.errors import InvalidInput
from polyarch.nn import StackedNetworks
from polyarch.objectives import log_marginal
from polyarch.predictive.checks import check_temperature, normalised_weights
from polyarch.predictive.log_space import at_least_single, entropy_of_logs, log_probabilities
from polyarch.predictive.most_probable import most_probable
from polyarch.spaces import Architecture
from polyarch.supernets import Supernet


class Mixture(nn.Module):
    """p(y | x) = sum_k w_k softmax(logits_k(x) / T), with its uncertainty in nats.

    A plain module: it can be saved by its state, compiled and exported (``torch.export``, ONNX), with weights and
    temperature among the buffers.

    Args:
        networks: the K members, each (B, ...) -> logits (B, C); or one network that gives the logits (K, B, C) of all.
        weights: (K,) above 0, normalised here; equal by default, but for one network they say how many there are.
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
        # The precision and place of the members: double weights would make single predictions double, and back.
        example = next((value for value in self.networks.parameters() if value.is_floating_point()), torch.empty(0))
        dtype, device = at_least_single(example.dtype), example.device
        shares = normalised_weights(weights, members).to(device, dtype)
        if shares.min() <= 0:
            raise InvalidInput(f"Expected weights above 0: leave the other members out. Got {shares.tolist()}.")
        self.register_buffer("weights", shares)
        self.register_buffer("temperature", torch.tensor(temperature, dtype=dtype, device=device))

    @classmethod
    def of(
        cls,
        net: Supernet,
        architectures: Sequence[Architecture],
        weights: Sequence[float] | None = None,
        *,
        temperature: float = 1.0,
    ) -> Mixture:
        """Architectures extracted from a supernet, in evaluation mode; a repeated one is one member with the sum.

        The members own copies of the weights and of the batch statistics as they are: where single paths need their
        own statistics, extract and calibrate the networks and pass them to the constructor. Members that share their
        way (`Supernet.extract_many`) are one network.
        """
        if not architectures:
            raise InvalidInput("Expected at least one architecture. Got none.")
        shares: list[float] = normalised_weights(weights, len(architectures)).tolist()
        merged: dict[Architecture, float] = {}
        for architecture, share in zip(architectures, shares, strict=True):
            merged[architecture] = merged.get(architecture, 0.0) + share
        return cls(net.extract_many(list(merged)), list(merged.values()), temperature=temperature).eval()

    @classmethod
    def under(cls, net: Supernet, q: ArchDistribution, *, most: int, temperature: float = 1.0) -> Mixture:
        """The ``most`` most probable architectures of q (all where it has no more), weighted by q, renormalised.

        `most_probable` says which they are and how much of q they hold.
        """
        pairs = most_probable(q, most)
        best = pairs[0][1]
        # What single precision would round to a weight of 0 says nothing and costs a network.
        kept = {a: math.exp(value - best) for a, value in pairs if math.exp(value - best) > _SMALLEST}
        return cls.of(net, list(kept), list(kept.values()), temperature=temperature)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(B, ...) -> probabilities (B, C), entropy (B,), mutual information (B,), a plain tuple for exporters.

        H[p] = -sum_c p_c log p_c of the mixture, and I = H[p] - sum_k w_k H[p_k], what the members disagree about:
        0 for one member or equal members, at most log K.
        """
        log_members = self._log_members(x)  # (K, B, C)
        weights = self.weights.to(log_members)
        log_mixture = log_marginal(log_members, weights.log())
        entropy = entropy_of_logs(log_mixture)
        expected = (weights[:, None] * entropy_of_logs(log_members)).sum(0)
        return log_mixture.exp(), entropy, (entropy - expected).clamp_min(0)

    def member_logits(self, x: Tensor) -> Tensor:
        """The logits of every member before the temperature, as `fit_temperature` takes them: (B, ...) -> (K, B, C)."""
        logits: Tensor = self.networks(x)
        if logits.dim() != 3 or len(logits) != len(self.weights):
            raise InvalidInput(
                f"Expected logits ({len(self.weights)}, B, C) of all members. Got shape {tuple(logits.shape)}."
            )
        return logits.to(at_least_single(logits.dtype))

    def member_probabilities(self, x: Tensor) -> Tensor:
        """softmax(logits_k / T) of every member: (B, ...) -> (K, B, C)."""
        return self._log_members(x).exp()

    def _log_members(self, x: Tensor) -> Tensor:
        logits = self.member_logits(x)
        return log_probabilities(logits, self.temperature.to(logits))


_SMALLEST = torch.finfo(torch.float32).tiny
