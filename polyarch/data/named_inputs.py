"""Several named tensors with one row per example: what a network with more than one input reads."""

import keyword
from collections.abc import Callable, Iterator, KeysView, Mapping, Sequence
from typing import Any, TypeVar, overload

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from polyarch.errors import DataError


class NamedInputs:
    """A frozen mapping of names to tensors (B, ...) with the same number of rows; ``len`` is that number.

    ``network(**inputs)`` passes every tensor by its name. Torch sees through it (it is a pytree node), so that
    ``functional_call``, ``vmap`` and activation checkpointing treat it like a dictionary of tensors.

    >>> inputs = NamedInputs({"image": torch.zeros(4, 1, 8, 8), "table": torch.ones(4, 3)})
    >>> len(inputs), inputs["table"].shape, inputs[:2]
    (4, torch.Size([4, 3]), NamedInputs(image (2, 1, 8, 8), table (2, 3)))

    Args:
        tensors: names, which are arguments of a network's ``forward``, and their tensors.
    """

    __slots__ = ("_tensors",)
    _tensors: dict[str, Tensor]

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        if not tensors:
            raise DataError("Expected one named input or more. Got none.")
        for name in tensors:
            if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name) or name == "self":
                raise DataError(f"Expected names of inputs that can be arguments of a forward. Got {name!r}.")
        counts = {name: len(tensor) if tensor.dim() else 0 for name, tensor in tensors.items()}
        if len(set(counts.values())) > 1:
            found = ", ".join(f"{count} in {name!r}" for name, count in counts.items())
            raise DataError(f"Expected as many examples in every input. Got {found}.")
        self._tensors = dict(tensors)

    @classmethod
    def unchecked(cls, tensors: dict[str, Any]) -> "NamedInputs":
        """Without checks: inside of a transformation values may be no tensors, or have no known number of rows."""
        made = cls.__new__(cls)
        made._tensors = tensors
        return made

    def keys(self) -> KeysView[str]:
        """The names, in order."""
        return self._tensors.keys()

    def items(self) -> Iterator[tuple[str, Tensor]]:
        """Names and tensors, in order."""
        return iter(self._tensors.items())

    @overload
    def __getitem__(self, index: str) -> Tensor: ...
    @overload
    def __getitem__(self, index: "slice | Tensor | Sequence[int]") -> "NamedInputs": ...
    def __getitem__(self, index: Any) -> "Tensor | NamedInputs":
        """The tensor of a name, or the rows of every tensor."""
        return self._tensors[index] if isinstance(index, str) else self.map(lambda tensor: tensor[index])

    def __len__(self) -> int:
        return len(next(iter(self._tensors.values())))

    def __repr__(self) -> str:
        return f"NamedInputs({shape_text(self)})"

    @property
    def device(self) -> torch.device:
        """Of the first tensor."""
        return next(iter(self._tensors.values())).device

    def map(self, function: Callable[[Tensor], Tensor]) -> "NamedInputs":
        """The same names with ``function`` applied to every tensor."""
        return self.unchecked({name: function(tensor) for name, tensor in self._tensors.items()})

    def to(self, *args: Any, **kwargs: Any) -> "NamedInputs":
        """``Tensor.to`` of every tensor."""
        return self.map(lambda tensor: tensor.to(*args, **kwargs))

    def cpu(self) -> "NamedInputs":
        """The tensors on the CPU."""
        return self.map(Tensor.cpu)

    def split(self, size: int) -> list["NamedInputs"]:
        """Parts of up to ``size`` rows."""
        return [self[start : start + size] for start in range(0, len(self), size)]


pytree.register_pytree_node(
    NamedInputs,
    lambda inputs: (list(inputs._tensors.values()), tuple(inputs._tensors)),
    lambda tensors, names: NamedInputs.unchecked(dict(zip(names, tensors, strict=True))),
    serialized_type_name="polyarch.NamedInputs",
)

Inputs = Tensor | NamedInputs
"""A batch: one tensor (B, ...), or several by name."""

AnyInputs = TypeVar("AnyInputs", bound=Inputs)

InputShape = tuple[int, ...] | dict[str, tuple[int, ...]]
"""The shape of one example, or of every named input of one."""

InputType = torch.dtype | dict[str, torch.dtype]
"""The type of examples, or of every named input."""


def tensors_of(inputs: Inputs) -> list[Tensor]:
    """The tensor, or all named ones in order."""
    return [tensor for _, tensor in inputs.items()] if isinstance(inputs, NamedInputs) else [inputs]


def mapped(function: Callable[[Tensor], Tensor], inputs: AnyInputs) -> AnyInputs:
    """``function`` of the tensor, or of every named one."""
    found: AnyInputs = pytree.tree_map(function, inputs)
    return found


def joined(parts: Sequence[AnyInputs]) -> AnyInputs:
    """Batches one after the other: (B_1, ...), (B_2, ...) -> (B_1 + B_2, ...)."""
    joint: AnyInputs = pytree.tree_map(lambda *tensors: torch.cat(tensors), *parts)
    return joint


def cycled(inputs: AnyInputs, rows: int) -> AnyInputs:
    """A batch of ``rows`` examples: the given ones, repeated from the start or cut off."""
    return mapped(lambda tensor: tensor[torch.arange(rows, device=tensor.device) % len(tensor)], inputs)


def shape_of(inputs: Inputs) -> InputShape:
    """The shape of one example of a batch."""
    if isinstance(inputs, NamedInputs):
        return {name: tuple(tensor.shape[1:]) for name, tensor in inputs.items()}
    return tuple(inputs.shape[1:])


def type_of(inputs: Inputs) -> InputType:
    """The type of a batch."""
    if isinstance(inputs, NamedInputs):
        return {name: tensor.dtype for name, tensor in inputs.items()}
    return inputs.dtype


def shape_text(inputs: Inputs) -> str:
    """The shape of a batch in words: ``(2, 8)``, or ``image (2, 1, 8, 8), table (2, 3)``."""
    if isinstance(inputs, NamedInputs):
        return ", ".join(f"{name} {tuple(tensor.shape)}" for name, tensor in inputs.items())
    return str(tuple(inputs.shape))


def call_by_name(network: nn.Module) -> None:
    """Lets a network be called with `NamedInputs`, whose tensors reach its ``forward`` by name.

    A hook does it, so that the network stays the user's own and still takes plain arguments; `call_plainly` removes it.
    """
    if not called_by_name(network):
        network.register_forward_pre_hook(_by_name, with_kwargs=True)


def called_by_name(network: nn.Module) -> bool:
    """Whether `call_by_name` has been applied to the network."""
    return _by_name in network._forward_pre_hooks.values()


def call_plainly(network: nn.Module) -> None:
    """Undoes `call_by_name`: the network then refers to nothing of this package, and can be pickled for elsewhere."""
    for key, hook in list(network._forward_pre_hooks.items()):
        if hook is _by_name:
            del network._forward_pre_hooks[key]
            del network._forward_pre_hooks_with_kwargs[key]


def _by_name(
    network: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    if len(args) == 1 and isinstance(args[0], NamedInputs):
        return (), {**kwargs, **args[0]}
    return None
