"""What all parts of a run description share."""

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict

from polyarch.errors import ConfigError


class Settings(BaseModel):
    """Base: unknown keys are errors, values are fixed once read."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def flat(value: Any, name: str = "", *, lists: bool = True) -> Iterator[tuple[str, Any]]:
    """Nested plain values by dotted names.

    Args:
        lists: whether lists stay lists, or become text.
    """
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from flat(inner, f"{name}.{key}" if name else str(key), lists=lists)
    elif isinstance(value, list) and not lists:
        yield name, " ".join(map(str, value))
    else:
        yield name, value


def require_images(kind: str, input_shape: tuple[int, ...]) -> None:
    """Refuses examples of other shapes for a space of networks for images."""
    if len(input_shape) != 3:
        raise ConfigError(
            f"Expected images (channels, height, width) for space {kind!r}. "
            f"Got examples of shape {input_shape}; space mlp takes any shape."
        )
