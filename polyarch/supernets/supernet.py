"""The interface of all supernets, and what several of them share."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from polyarch.data.named_inputs import Inputs
from polyarch.errors import InvalidInput, PolyarchError, first_line
from polyarch.nn import ChoiceBlock, StackedNetworks, multiply_accumulates, record
from polyarch.nn.member_layers import Mix
from polyarch.spaces import Architecture, Choice, Gates, Space


class Supernet(nn.Module, ABC):
    """One set of weights for all architectures of a space.

    The architecture is an argument of ``forward``, never state of the module, so that threads can use different
    architectures at the same time. In evaluation mode ``net(x, a)``, ``net(x, a.one_hot())`` and ``net.extract(a)(x)``
    agree numerically.

    A subclass needs a space and a ``forward``, which calls its torch modules through `polyarch.nn.call`, so that
    `extract` can follow it:

    >>> from polyarch.nn import call
    >>> class Net(Supernet):
    ...     takes_gates = False
    ...     def __init__(self):
    ...         super().__init__(Space("widths", (Choice("width", ("narrow", "wide")),)))
    ...         self.options = nn.ModuleList(
    ...             nn.Sequential(nn.Linear(4, width), nn.ReLU(), nn.Linear(width, 3)) for width in (8, 16)
    ...         )
    ...
    ...     def forward(self, x, architecture):
    ...         return call(self.options[self.space.validate(architecture)["width"]], x)
    >>> net = Net()
    >>> net.extract(net.space.architecture(["wide"]))(torch.zeros(2, 4)).shape
    torch.Size([2, 3])

    Attributes:
        takes_gates: whether ``forward`` can also mix options by gates. What needs gates, such as a differentiable
            search, refuses supernets without.
    """

    space: Space
    takes_gates: ClassVar[bool] = True

    def __init__(self, space: Space) -> None:
        super().__init__()
        self.space = space

    @abstractmethod
    def forward(self, x: Any, architecture: Architecture | Gates) -> Tensor:
        """Logits (B, classes) of an architecture, which runs only what reaches the output, or of mixed options.

        Args:
            x: a batch (B, ...), or `NamedInputs` for networks with several inputs.
        """

    def forward_many(self, x: Any, architectures: Sequence[Architecture]) -> Tensor:
        """Logits of several architectures on the same batch: (S, B, classes)."""
        return torch.stack([self(x, architecture) for architecture in architectures])

    def extract(self, architecture: Architecture) -> nn.Module:
        """The architecture as a plain module with its own copy of the weights and no polyarch class inside.

        It leaves out operations that cannot reach the output. The forward pass is recorded on a symbol: it should call
        torch modules through `polyarch.nn.call`, has to call those with a training mode so (normalisation, dropout),
        and must not ask for the values of a tensor.
        """
        self.space.validate(architecture)
        try:
            return record(self, lambda x: self.forward(x, architecture))
        except PolyarchError:
            raise
        except Exception as error:  # whatever torch, or a user's forward, raises on a symbol
            raise InvalidInput(
                f"Expected the forward pass of {type(self).__name__} to call its torch modules through "
                f"polyarch.nn.call and to ask for no values of tensors, so that extract can follow it. "
                f"Got {type(error).__name__}: {first_line(error)}."
            ) from error

    def extract_many(self, architectures: Sequence[Architecture]) -> nn.Module:
        """Several architectures as one module with its own copy of the weights: (B, ...) -> (S, B, classes).

        In evaluation mode it computes what ``forward_many`` computes. By default every architecture is a separate
        network; supernets whose architectures share computation do it once.
        """
        return StackedNetworks([self.extract(architecture) for architecture in architectures])

    def start_at_zero(self) -> None:
        """Makes all outputs of fresh weights zero, in networks whose outputs would be large at first; else nothing.

        Tasks whose losses have no bound ask for it: see `Task.starts_at_zero`.
        """

    def mix_by(self, mix: Mix) -> None:
        """Takes over how a task mixes outputs, in networks that hold several members; else nothing.

        Args:
            mix: see `Task.mix_members`.
        """

    def parameter_count(self, architecture: Architecture) -> int:
        """The number of weights of the extracted network; inter-choice weights, where there are any, do not count."""
        return count_parameters(self.extract(architecture))

    def mac_count(self, architecture: Architecture, example: Inputs | Sequence[int]) -> float:
        """Multiply-accumulates of the extracted network on one example; see `multiply_accumulates`."""
        return multiply_accumulates(self.extract(architecture), example)

    @cached_property
    def _parameter_table(self) -> tuple[int, dict[tuple[str, int], int]]:
        """Parameters outside all choice blocks, and those of every (choice, option)."""
        fixed = count_parameters(self)
        options: dict[tuple[str, int], int] = {}
        for block in self.modules():
            if isinstance(block, ChoiceBlock):
                for index in block.passing:
                    key = (block.choice, index)
                    options[key] = options.get(key, 0) + count_parameters(block.operation(index))
                if block.interchoice is not None:
                    fixed -= count_parameters(block.interchoice)
        return fixed - sum(options.values()), options


def require_gates_for(purpose: str, net: Supernet) -> None:
    """Requires a supernet that takes gates."""
    if not net.takes_gates:
        raise InvalidInput(
            f"Expected a supernet whose options gates can mix, for {purpose}. "
            f"Got {type(net).__name__}, which takes one architecture at a time."
        )


def count_parameters(*modules: nn.Module) -> int:
    """The number of weights of the modules."""
    return sum(parameter.numel() for module in modules for parameter in module.parameters())


def pooled_head(*before: nn.Module, width: int, classes: int, dropout: float = 0.0) -> nn.Sequential:
    """Given modules, global average pooling, dropout if any, a linear layer: (B, width, H, W) -> (B, classes)."""
    dropped = [nn.Dropout(dropout)] if dropout else []
    return nn.Sequential(*before, nn.AdaptiveAvgPool2d(1), nn.Flatten(), *dropped, nn.Linear(width, classes))


def require_sizes(classes: int, **sizes: int) -> None:
    """Requires 1 or more of everything; ``classes`` are the outputs, whatever is predicted."""
    if classes < 1 or min(sizes.values()) < 1:
        found = ", ".join(f"{name}={size}" for name, size in sizes.items())
        raise InvalidInput(f"Expected 1 or more {', '.join(sizes)} and classes. Got {found}, {classes=}.")


def require_gates(gates: Gates, choice: Choice) -> Tensor:
    """The weights (O,) or (B, O) that the gates have for a choice."""
    weights = gates.get(choice.name)
    if weights is None or weights.dim() not in (1, 2) or weights.shape[-1] != len(choice):
        found = "nothing" if weights is None else f"shape {tuple(weights.shape)}"
        raise InvalidInput(
            f"Expected gates ({len(choice)},) or (batch, {len(choice)}) for {choice.name!r}. Got {found}."
        )
    return weights


def mix_logits(weights: Tensor, logits: Tensor) -> Tensor:
    """sum_d weight_d logits_d, with weights (D,) or per example (B, D): (D, B, ...) -> (B, ...)."""
    return torch.einsum("d,db...->b..." if weights.dim() == 1 else "bd,db...->b...", weights.to(logits), logits)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients inside the ``with`` block; the mode of every module is restored."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, mode in modes:
            module.training = mode
