"""A depth and a set of kept channels, drawn independently of each other."""

from collections.abc import Sequence

from torch import Generator, Tensor

from polyarch.distributions.distribution import ArchDistribution, DrawMode
from polyarch.distributions.finite import Categorical
from polyarch.distributions.keep_drop import KeepDrop
from polyarch.distributions.uniform import divergence
from polyarch.errors import InvalidInput
from polyarch.spaces import Architecture, Gates, Space


class DepthAndChannels(ArchDistribution):
    """q(d, a) = q(d) q(a): a categorical over the first choice of a space, a `KeepDrop` over all others."""

    def __init__(self, space: Space, depth: Categorical, channels: KeepDrop) -> None:
        super().__init__(space)
        if space.choices != (*depth.space.choices, *channels.space.choices):
            raise InvalidInput(
                f"Expected {space.name!r} to have the choices of the depth followed by those of the channels. "
                f"Got {depth.space.name!r} and {channels.space.name!r}."
            )
        self.depth = depth
        self.channels = channels

    @property
    def keep_rate(self) -> float:
        """The expected share of kept channels."""
        return self.channels.keep_rate

    def tilted(self, costs: Tensor, strength: float) -> "DepthAndChannels":
        """Tilts the channels only, see `KeepDrop.tilted`."""
        return DepthAndChannels(self.space, self.depth, self.channels.tilted(costs, strength))

    def tilt(self, costs: Tensor, strength: float) -> None:
        """Tilts the channels only, in place, see `KeepDrop.tilt`."""
        self.channels.tilt(costs, strength)

    def flat(self) -> "DepthAndChannels":
        """Gives all channels the same probability, see `KeepDrop.flat`; keeps the depth."""
        return DepthAndChannels(self.space, self.depth, self.channels.flat())

    def sample(self, n: int, *, generator: Generator) -> list[Architecture]:
        """Draws n architectures independently."""
        depths, masks = (part.sample(n, generator=generator) for part in (self.depth, self.channels))
        return [self._joined(depth, mask) for depth, mask in zip(depths, masks, strict=True)]

    def rsample(self, *, temperature: float, mode: DrawMode = "soft", generator: Generator) -> Gates:
        """Draws relaxed gates of the depth, then of the channels."""
        parts = (self.depth, self.channels)
        first, others = (part.rsample(temperature=temperature, mode=mode, generator=generator) for part in parts)
        return {**first, **others}

    def mean(self) -> Gates:
        """Marginal probabilities of the options: choice -> (O,)."""
        return {**self.depth.mean(), **self.channels.mean()}

    def log_prob(self, architectures: Sequence[Architecture]) -> Tensor:
        """log q(d) + log q(a), shape (S,)."""
        pairs = [self._split(architecture) for architecture in architectures]
        return self.depth.log_prob([depth for depth, _ in pairs]) + self.channels.log_prob([mask for _, mask in pairs])

    def kl(self, prior: ArchDistribution) -> Tensor:
        """KL of the depths plus KL of the channels if the prior is of this kind, too; otherwise see `divergence`."""
        if isinstance(prior, DepthAndChannels) and prior.space == self.space:
            return self.depth.kl(prior.depth) + self.channels.kl(prior.channels)
        return divergence(self, prior)

    def entropy(self) -> Tensor:
        """H[q] is the sum of the entropies of depth and channels."""
        return self.depth.entropy() + self.channels.entropy()

    def mode(self) -> Architecture:
        """Combines the most probable depth and channels."""
        return self._joined(self.depth.mode(), self.channels.mode())

    def _joined(self, depth: Architecture, channels: Architecture) -> Architecture:
        return Architecture(self.space, (*depth.indices, *channels.indices))

    def _split(self, architecture: Architecture) -> tuple[Architecture, Architecture]:
        depth, *channels = self.space.validate(architecture).indices
        return Architecture(self.depth.space, (depth,)), Architecture(self.channels.space, tuple(channels))
