"""What all parts of a run description share."""

from pydantic import BaseModel, ConfigDict

from polyarch.errors import ConfigError


class Settings(BaseModel):
    """Base: unknown keys are errors, values are fixed once read."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def require_images(kind: str, input_shape: tuple[int, ...]) -> None:
    """Refuses examples of other shapes for a space of networks for images."""
    if len(input_shape) != 3:
        raise ConfigError(
            f"Expected images (channels, height, width) for space {kind!r}. "
            f"Got examples of shape {input_shape}; space mlp takes any shape."
        )
