"""A depth and kept channels, drawn independently of each other."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Generator, Tensor

from polyarch.distributions.distribution import ArchDistribution, DrawMode, expectation
from polyarch.distributions.finite import Categorical
from polyarch.distributions.keep_drop import KeepDrop
from polyarch.distributions.uniform import Uniform
from polyarch.errors import InvalidInput
from polyarch.spaces import Architecture, Gates, Space


class DepthAndChannels(ArchDistribution):
    """q(d, a) = q(d) q(a): a categorical over the first choice of a space, a `KeepDrop` over all others.

    Args:
        depth: over the space of the first choice alone.
        channels: over the space of the others.
    """

    def __init__(self, space: Space, depth: Categorical, channels: KeepDrop) -> None:
        super().__init__(space)
        if space.choices != (*depth.space.choices, *channels.space.choices):
            raise InvalidInput(
                f"Expected the choices of {space.name!r} to be those of its parts, one after the other. "
                f"Got parts over {depth.space.name!r} and {channels.space.name!r}."
            )
        self.depth = depth
        self.channels = channels

    @property
    def keep_rate(self) -> float:
        """The expected share of channels that are kept."""
        return self.channels.keep_rate

    def tilted(self, costs: Tensor, strength: float) -> DepthAndChannels:
        """With channels that favour small networks, see `KeepDrop.tilted`; the depth stays as it is."""
        return DepthAndChannels(self.space, self.depth, self.channels.tilted(costs, strength))

    def tilt(self, costs: Tensor, strength: float) -> None:
        """Moves the channels, see `KeepDrop.tilt`; the depth stays as it is."""
        self.channels.tilt(costs, strength)

    def flat(self) -> DepthAndChannels:
        """With one probability for all channels, see `KeepDrop.flat`; the depth stays as it is."""
        return DepthAndChannels(self.space, self.depth, self.channels.flat())

    def sample(self, n: int, *, generator: Generator) -> list[Architecture]:
        """n independent draws."""
        depths, masks = (part.sample(n, generator=generator) for part in (self.depth, self.channels))
        return [self._joined(depth, mask) for depth, mask in zip(depths, masks, strict=True)]

    def rsample(self, *, temperature: float, mode: DrawMode = "soft", generator: Generator) -> Gates:
        """One relaxed draw of both."""
        parts = (self.depth, self.channels)
        first, others = (part.rsample(temperature=temperature, mode=mode, generator=generator) for part in parts)
        return {**first, **others}

    def mean(self) -> Gates:
        """The marginal probabilities of every choice."""
        return {**self.depth.mean(), **self.channels.mean()}

    def log_prob(self, architectures: Sequence[Architecture]) -> Tensor:
        """log q(d) + log q(a), shape (S,)."""
        pairs = [self._split(architecture) for architecture in architectures]
        return self.depth.log_prob([depth for depth, _ in pairs]) + self.channels.log_prob([mask for _, mask in pairs])

    def kl(self, prior: ArchDistribution) -> Tensor:
        """The sum of the parts' divergences when the prior is of this kind, log |space| - H[q] when it is uniform.

        Against any other prior, by enumeration of the space.
        """
        if prior.space != self.space:
            raise InvalidInput(f"Expected a prior over space {self.space.name!r}. Got one over {prior.space.name!r}.")
        if isinstance(prior, DepthAndChannels):
            return self.depth.kl(prior.depth) + self.channels.kl(prior.channels)
        if isinstance(prior, Uniform) and not prior.space.constraints:
            return prior.log_count - self.entropy()
        architectures = list(self.space.enumerate())
        log_q = self.log_prob(architectures)
        return expectation(log_q, log_q - prior.log_prob(architectures).to(log_q))

    def entropy(self) -> Tensor:
        """The sum of the parts'."""
        return self.depth.entropy() + self.channels.entropy()

    def mode(self) -> Architecture:
        """The most probable depth with the most probable channels."""
        return self._joined(self.depth.mode(), self.channels.mode())

    def _joined(self, depth: Architecture, channels: Architecture) -> Architecture:
        return Architecture(self.space, (*depth.indices, *channels.indices))

    def _split(self, architecture: Architecture) -> tuple[Architecture, Architecture]:
        depth, *channels = self.space.validate(architecture).indices
        return Architecture(self.depth.space, (depth,)), Architecture(self.channels.space, tuple(channels))
