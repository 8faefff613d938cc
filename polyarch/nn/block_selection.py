"""How a block of a network of one's own learns what to run, without an argument of ``forward`` and without state.

The supernet sets a context variable for the time of its call, and the blocks read it: nothing is stored on a module,
so threads do not disturb each other.

Activation checkpointing runs a part of the network once more during the backward pass. By then the call is over, and
others with other architectures may have followed it. Autograd goes through the calls from the last to the first, so
`marked` puts a node behind the output of each that notes its selection when the backward pass comes by, and blocks that
run inside a backward pass go by the note. (The order is that of one thread and one device: a network whose output lies
on another device than its checkpointed part can be sure of it only when there is one call per backward pass.)
"""

from __future__ import annotations

import copy
import threading
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from polyarch.errors import InvalidInput
from polyarch.nn.choice_block import gate_for, options_run
from polyarch.spaces import Choice, ChoiceKind

CHOSEN = object()
"""``memo[id(CHOSEN)]``: option indices by block name, for a deep copy in which blocks become what is chosen."""


class BlockRunner(ABC):
    """Decides what the blocks run inside ``with running(runner)``."""

    @abstractmethod
    def run(self, block: SearchBlock, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The output of the block."""


_runner: ContextVar[BlockRunner | None] = ContextVar("polyarch_runner", default=None)


@contextmanager
def running(runner: BlockRunner) -> Iterator[None]:
    """Blocks called inside, in this thread, ask this runner."""
    token = _runner.set(runner)
    try:
        yield
    finally:
        _runner.reset(token)


class SearchBlock(nn.Module, ABC):
    """A place with a choice. Called outside of any supernet it runs its default option."""

    def __init__(self, name: str, options: Iterable[str], *, default: int, kind: ChoiceKind = "operation") -> None:
        super().__init__()
        if not isinstance(name, str):
            raise InvalidInput(f"Expected the name of a block first. Got {type(name).__name__}.")
        self.choice = Choice(name, tuple(options), kind)
        self.default = default

    @property
    def name(self) -> str:
        """The name of the choice."""
        return self.choice.name

    @abstractmethod
    def chosen(self, index: int) -> nn.Module:
        """The module that does what this option does: it takes the block's place in an extracted network."""

    @abstractmethod
    def run(self, index: int, *args: Any, **kwargs: Any) -> Any:
        """The output of one option; no other is run."""

    @abstractmethod
    def outputs(self, indices: Sequence[int], *args: Any, **kwargs: Any) -> Iterator[Any]:
        """The outputs of some options, given in their order; what they have in common is run once."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The output of the selected option, or the mixture sum_o weight_o * output_o."""
        runner = _runner.get() or noted(self.name)
        return self.run(self.default, *args, **kwargs) if runner is None else runner.run(self, args, kwargs)

    def extra_repr(self) -> str:
        """Name and options."""
        return f"{self.name!r}, options={list(self.choice.options)}"

    def __deepcopy__(self, memo: dict[int, Any]) -> nn.Module:
        # A copy that extracts resolves each block where it meets it. Options that were not chosen are never copied, and
        # whatever refers to the block, in the module tree or beside it, refers to one and the same module in the copy.
        indices = memo.get(id(CHOSEN))
        if indices is not None:
            require_known(self, indices)
            return copy.deepcopy(self.chosen(indices[self.name]), memo)
        other = type(self).__new__(type(self))
        memo[id(self)] = other
        other.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return other


@dataclass(frozen=True)
class OptionWeights:
    """A mixed pass through a block.

    Args:
        weights: (O,) or (B, O).
        indices: the options that are run, one or more in their order; all others have weight zero.
    """

    weights: Tensor
    indices: Sequence[int]

    @classmethod
    def of(cls, weights: Tensor) -> OptionWeights:
        """Of the options that a mixed pass runs here and now, see `skipping_zeros`; later passes run the same."""
        return cls(weights, options_run(weights, range(weights.shape[-1])))


@dataclass(frozen=True)
class SelectedOptions(BlockRunner):
    """Runs what was selected: block name -> option index or mixture."""

    selections: Mapping[str, int | OptionWeights]

    def run(self, block: SearchBlock, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """One option, or several of them mixed."""
        require_known(block, self.selections)
        selection = self.selections[block.name]
        if isinstance(selection, int):
            return block.run(selection, *args, **kwargs)
        if torch.is_inference_mode_enabled():
            # Inference tensors do not count changes in place; outside of inference mode torch refuses such a change.
            with torch.inference_mode(False), torch.no_grad():
                return _mixed(block, selection, args, kwargs)
        return _mixed(block, selection, args, kwargs)


def require_known(block: SearchBlock, names: Collection[str]) -> None:
    """Refuses a block from a plain list or another network: its choice and its weights are unknown to the supernet."""
    if block.name not in names:
        raise InvalidInput(
            f"Expected {block.name!r} to be a submodule of the network that runs it. Got one from outside."
        )


def require_alike(block: SearchBlock, first: tuple[str, Any], other: tuple[str, Any], *, dtypes: bool) -> None:
    """Refuses two (option, output) of a block that differ in their structure, their shapes or, if asked, dtypes."""
    for aspect, describe in {"shape": _shape, "dtype": _dtype}.items():
        if aspect == "dtype" and not dtypes:
            continue
        (left, left_tree), (right, right_tree) = (pytree.tree_flatten(output) for _, output in (first, other))
        left, right = [describe(leaf) for leaf in left], [describe(leaf) for leaf in right]
        if left != right or left_tree != right_tree:
            raise InvalidInput(
                f"Expected all options of {block.name!r} to give outputs of one {aspect}. Got {first[0]}: "
                f"{pytree.tree_unflatten(left, left_tree)}, {other[0]}: {pytree.tree_unflatten(right, right_tree)}."
            )


def _shape(value: object) -> object:
    """What must agree: a tensor's shape, a plain value, the type of anything else."""
    if isinstance(value, Tensor):
        return tuple(value.shape)
    return value if value is None or isinstance(value, int | float | str) else type(value)


def _dtype(value: object) -> object:
    return value.dtype if isinstance(value, Tensor) else None


def _mixed(block: SearchBlock, mixture: OptionWeights, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """sum_o weights[..., o] * output_o over the options o that are run, for every tensor of the outputs."""
    inputs = [
        leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, Tensor) and not leaf.is_inference()
    ]
    before = [leaf._version for leaf in inputs]
    start, last = mixture.indices[0], mixture.indices[-1]
    names = block.choice.options
    first: Any = None
    totals: list[Any] = []
    for index, output in zip(mixture.indices, block.outputs(mixture.indices, *args, **kwargs), strict=True):
        if index == start:
            first = output
        else:  # dtypes may differ under autocast; the sum has the wider one
            require_alike(block, (names[start], first), (names[index], output), dtypes=False)
        terms = [_weighted(block, mixture.weights, index, leaf) for leaf in pytree.tree_leaves(output)]
        totals = terms if index == start else [_sum(*pair) for pair in zip(totals, terms, strict=True)]
        if index != last and [leaf._version for leaf in inputs] != before:
            raise InvalidInput(
                f"Expected the options of {block.name!r} to leave their input alone when they are mixed. "
                f"Got a change in place by {names[index]!r} (inplace=True?)."
            )
    return pytree.tree_unflatten(totals, pytree.tree_structure(first))


def _weighted(block: SearchBlock, weights: Tensor, index: int, leaf: Any) -> Any:
    if not isinstance(leaf, Tensor):
        return leaf  # the same in all options
    if not (leaf.is_floating_point() or leaf.is_complex()):
        raise InvalidInput(f"Expected outputs of {block.name!r} that can be mixed. Got one of {leaf.dtype}.")
    if weights.dim() == 2 and leaf.shape[:1] != weights.shape[:1]:
        raise InvalidInput(
            f"Expected one row of gates per example of {block.name!r}. "
            f"Got {len(weights)} rows for an output of shape {tuple(leaf.shape)}."
        )
    return gate_for(weights, index, leaf) * leaf


def _sum(total: Any, term: Any) -> Any:
    return total + term if isinstance(total, Tensor) else total


_notes: dict[tuple[int, int], SelectedOptions] = {}
"""(Thread, backward pass) -> what its latest marker noted. Passes that are started inside others come later."""


class _Marker(torch.autograd.Function):
    """The identity; its backward notes what the call before it had selected."""

    generate_vmap_rule = True

    @staticmethod
    def forward(output: Tensor, selected: SelectedOptions) -> Tensor:
        return output.clone()  # a view made in here could not be changed in place by the caller

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.selected = inputs[1]

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        _note(ctx.selected)
        return gradients[0], None

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        return tangents[0].view_as(tangents[0])


def marked(output: Any, selected: SelectedOptions) -> Any:
    """The same output; a backward pass that reaches it notes the selection before it goes on into the network."""

    def mark(leaf: Any) -> Any:
        return _Marker.apply(leaf, selected) if isinstance(leaf, Tensor) and leaf.requires_grad else leaf  # type: ignore[no-untyped-call]

    return pytree.tree_map(mark, output) if torch.is_grad_enabled() else output


def _note(selected: SelectedOptions) -> None:
    key = (threading.get_ident(), torch._C._current_graph_task_id())
    earlier = _notes.get(key)

    def forget() -> None:
        _notes.pop(key, None)

    if earlier is None:
        torch.autograd.Variable._execution_engine.queue_callback(forget)  # when this pass ends
    else:  # by name, so that a call of another supernet inside a call does not hide the outer one
        selected = SelectedOptions({**earlier.selections, **selected.selections})
    _notes[key] = selected


def noted(name: str) -> SelectedOptions | None:
    """What the backward pass under way noted for a block; nothing outside of backward passes."""
    if not _notes:
        return None
    thread, task = threading.get_ident(), torch._C._current_graph_task_id()
    notes = list(_notes.items())
    if task == -1:
        for key, _ in notes:
            if key[0] == thread:  # a backward pass that failed did not clear up
                _notes.pop(key, None)
        return None
    # A recomputation can start a backward pass of its own, so the thread's latest note counts, whatever its pass.
    # Other threads' notes on this pass are the last resort: the output may lie on another device.
    own = [note for (owner, _), note in reversed(notes) if owner == thread]
    shared = [note for (_, other), note in notes if other == task]
    return next((note for note in (*own, *shared) if name in note.selections), None)
