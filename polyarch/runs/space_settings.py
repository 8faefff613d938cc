"""What the settings of every space are made of: a name, and what builds the supernet."""

import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self

from pydantic import PositiveInt, model_validator
from torch import Tensor

from polyarch.data import NetworkExample
from polyarch.errors import ConfigError, InvalidInput
from polyarch.nn import InterChoice, InterChoiceKind, PredecessorRule
from polyarch.settings import Settings, require_images
from polyarch.supernets import Supernet


def float_shape(kind: str, example: NetworkExample) -> tuple[int, ...]:
    """The shape of examples of one input of floats; polyarch's own spaces take no others."""
    inputs = example.inputs
    if isinstance(inputs, Tensor) and inputs.is_floating_point():
        return tuple(inputs.shape[1:])
    found, otherwise = (
        ("integer tokens", ", or turn numbers into floats")
        if isinstance(inputs, Tensor)
        else (f"several inputs, {', '.join(inputs.keys())}", "")
    )
    raise ConfigError(
        f"Expected one input of floats for space {kind!r}. "
        f"Got {found}: bring a network of your own with --module{otherwise}."
    )


class SpaceSettings(Settings):
    """Names a space and builds its supernet; every space that a run description can name is a subclass.

    ``kind`` is the name under which the space is registered, or where its class lies.
    """

    kind: str

    @classmethod
    def stored(cls, content: Mapping[str, Any]) -> Mapping[str, Any]:
        """Settings that were stored with a run or a network, with what earlier versions left out."""
        return content

    def build(self, input_shape: tuple[int, ...], classes: int) -> Supernet:
        """A supernet with fresh weights for examples of this shape."""
        raise NotImplementedError

    def build_on(self, example: NetworkExample, classes: int) -> Supernet:
        """A supernet with fresh weights for data like these examples; spaces that try it on them override this."""
        return self.build(float_shape(self.kind, example), classes)


class ImageSpaceSettings(SpaceSettings):
    """A space for images, whose settings are the arguments of the function or class that makes its supernet.

    Widths that are not given are half the height of the images, between 4 and 16.
    """

    network: ClassVar[Callable[..., Any]]

    def build(self, input_shape: tuple[int, ...], classes: int) -> Supernet:
        """A supernet for images of this shape."""
        require_images(self.kind, input_shape)
        net: Supernet = self.network(in_channels=input_shape[0], classes=classes, **self.options(input_shape))
        return net

    def options(self, input_shape: tuple[int, ...]) -> dict[str, Any]:
        """The arguments that do not follow from the data."""
        found = self.model_dump(exclude={"kind"})
        for name in {"channels", "width"} & set(found):
            found[name] = found[name] or min(max(input_shape[1] // 2, 4), 16)
        if "interchoice" in found:
            interchoice = interchoice_of(self)
            found["interchoice"] = None if interchoice is None else interchoice.value()
        return found


class VectorSpaceSettings(SpaceSettings):
    """A space for any data, of which images are flattened; its settings are the arguments of its network."""

    network: ClassVar[Callable[..., Any]]

    def build(self, input_shape: tuple[int, ...], classes: int) -> Supernet:
        """A supernet for examples of this shape."""
        net: Supernet = self.network(
            features=math.prod(input_shape), classes=classes, **self.model_dump(exclude={"kind"})
        )
        return net


class InterChoiceSettings(Settings):
    """Weights of the supernet that depend on several choices; see `InterChoice`.

    ``split_epoch`` is the number of epochs after which ``split`` weights are trained apart.
    """

    kind: InterChoiceKind
    previous: PositiveInt = 1
    predecessors: PredecessorRule = "order"
    split_epoch: PositiveInt | None = None

    @model_validator(mode="after")
    def _fits(self) -> Self:
        self.value()
        if (self.kind == "split") != (self.split_epoch is not None):
            raise InvalidInput(f"Expected split_epoch with kind split, and only there. Got {self.split_epoch}.")
        return self

    def value(self) -> InterChoice:
        """What a supernet takes."""
        return InterChoice(self.kind, self.previous, self.predecessors)


def interchoice_of(space: SpaceSettings) -> InterChoiceSettings | None:
    """The inter-choice weights of a space, if its supernet has any."""
    return getattr(space, "interchoice", None)
