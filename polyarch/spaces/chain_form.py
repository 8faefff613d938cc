"""The canonical form of chains in which layers can be left out."""

from dataclasses import dataclass

from polyarch.spaces.architecture import Architecture


@dataclass(frozen=True)
class ChainForm:
    """A canonical key for chains: between layers of equal shape it does not matter which of them is left out.

    Args:
        skip: the option that leaves a layer out.
        keeps_shape: for every layer, whether its output has the shape of its input, so that ``skip`` leaves it out. In
            other layers the option is a layer like any other.
    """

    skip: str
    keeps_shape: tuple[bool, ...]

    def __call__(self, architecture: Architecture) -> str:
        """The options in order, without skips; layers that change the shape are marked by ``>``."""
        layers = zip(architecture.names, self.keeps_shape, strict=True)
        return "|".join(name if keeps else f">{name}" for name, keeps in layers if not keeps or name != self.skip)
