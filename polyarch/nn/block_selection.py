"""How search blocks and elastic layers learn what to run, without an argument of ``forward`` and without state.

A supernet call sets a context variable, which the blocks read: modules hold no state, so threads do not interfere.

Activation checkpointing runs parts of the network again during the backward pass, when the call is over and calls with
other architectures may have followed. Autograd visits the calls from last to first, so `marked` adds a node behind the
output of each call that notes its selection when the backward pass reaches it, and blocks that run inside a backward
pass follow the note. (This order holds within one thread and device: if the output lies on another device than the
checkpointed part, it is guaranteed only for one call per backward pass.)
"""

import copy
import threading
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from polyarch.errors import InvalidInput
from polyarch.nn.choice_block import gate_for, options_run
from polyarch.nn.path_recording import Composed, call
from polyarch.spaces import Choice, ChoiceKind

CHOSEN = object()
"""``memo[id(CHOSEN)]`` holds option indices by block name for a deep copy that replaces blocks by these options."""


class BlockRunner(ABC):
    """Decides what search modules run inside ``with running(runner)``."""

    @abstractmethod
    def run(self, module: "SearchModule", args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Runs the module and returns its output."""


_runner: ContextVar[BlockRunner | None] = ContextVar("polyarch_runner", default=None)


@contextmanager
def running(runner: BlockRunner) -> Iterator[None]:
    """Search modules that this thread calls inside the context ask this runner."""
    token = _runner.set(runner)
    try:
        yield
    finally:
        _runner.reset(token)


class ChoiceSource(Protocol):
    """What brings a choice into a network: a block, or the sizes of elastic layers."""

    @property
    def choice(self) -> Choice:
        """The name and options."""

    @property
    def tied(self) -> bool:
        """Whether other sources may have a choice of this name, which is then made once for all of them."""


class SearchModule(Composed, ABC):
    """A module that runs as the choices of the current supernet call say, and by default outside such calls."""

    @property
    @abstractmethod
    def sources(self) -> Sequence[ChoiceSource]:
        """Where its choices come from."""

    @abstractmethod
    def run_selected(self, selections: "Selections", args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The output under the selections; choices without one take their default."""

    @abstractmethod
    def extracted(self, indices: Mapping[str, int], memo: dict[int, Any]) -> nn.Module:
        """What replaces the module in an extracting deep copy, given the option index of every choice."""

    def inside(self, source: ChoiceSource, index: int) -> nn.Module | None:
        """The module that an option runs, whose own choices matter only if it is chosen."""
        return None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its choices."""
        return tuple(source.choice.name for source in self.sources)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The output of what is selected; gates mix options."""
        runner = _runner.get() or noted(*self.names)
        return self.run_selected({}, args, kwargs) if runner is None else runner.run(self, args, kwargs)

    def __deepcopy__(self, memo: dict[int, Any]) -> nn.Module:
        # An extracting copy replaces each search module by what was chosen. Other options are never copied, and all
        # references to the module, inside or outside the module tree, refer to the same replacement in the copy.
        indices = memo.get(id(CHOSEN))
        if indices is not None:
            require_known(self, indices)
            return self.extracted(indices, memo)
        other = type(self).__new__(type(self))
        memo[id(self)] = other
        other.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return other


class SearchBlock(SearchModule):
    """A module with one choice between modules. Outside a supernet call it runs its default option."""

    def __init__(
        self, name: str, options: Iterable[str], *, default: int, kind: ChoiceKind = "operation", tied: bool = False
    ) -> None:
        super().__init__()
        if not isinstance(name, str):
            raise InvalidInput(f"Expected the name of a block first. Got {type(name).__name__}.")
        if not isinstance(tied, bool):
            raise InvalidInput(f"Expected tied=True or tied=False for {name!r}. Got {type(tied).__name__}.")
        self.choice = Choice(name, tuple(options), kind)
        self.tied = tied
        self.default = default

    @property
    def name(self) -> str:
        """The name of the choice."""
        return self.choice.name

    @property
    def sources(self) -> tuple[ChoiceSource]:
        """The block itself."""
        return (self,)

    @abstractmethod
    def chosen(self, index: int) -> nn.Module:
        """The module of an option, which replaces the block in an extracted network."""

    def inside(self, source: ChoiceSource, index: int) -> nn.Module:
        """The module of the option."""
        return self.chosen(index)

    def outputs(self, indices: Sequence[int], *args: Any, **kwargs: Any) -> Iterator[Any]:
        """Yields the outputs of some options, in ascending order of their indices."""
        for index in indices:
            module = self.chosen(index)
            yield call(module, *args) if len(args) == 1 and not kwargs else module(*args, **kwargs)

    def run(self, index: int, *args: Any, **kwargs: Any) -> Any:
        """The output of one option; no other is run."""
        return next(self.outputs([index], *args, **kwargs))

    def run_selected(self, selections: "Selections", args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The output of the selected option, or the mixture sum_o weight_o * output_o."""
        selection = selections.get(self.name, self.default)
        if isinstance(selection, int):
            return self.run(selection, *args, **kwargs)
        if torch.is_inference_mode_enabled():
            # Inference tensors do not count changes in place; outside inference mode torch refuses such changes.
            with torch.inference_mode(False), torch.no_grad():
                return _mixed(self, selection, args, kwargs)
        return _mixed(self, selection, args, kwargs)

    def extracted(self, indices: Mapping[str, int], memo: dict[int, Any]) -> nn.Module:
        """A copy of the chosen option."""
        return copy.deepcopy(self.chosen(indices[self.name]), memo)

    def extra_repr(self) -> str:
        """The name and options of the block."""
        return f"{self.name!r}, options={list(self.choice.options)}"


@dataclass(frozen=True)
class OptionWeights:
    """The weights for a mixed pass through a block."""

    weights: Tensor  # (O,) or (B, O)
    indices: Sequence[int]  # the options to run, in ascending order; all others have weight zero

    @classmethod
    def of(cls, weights: Tensor) -> "OptionWeights":
        """Selects the options to run in the current mode, see `skipping_zeros`; recomputations run the same."""
        return cls(weights, options_run(weights, range(weights.shape[-1])))


Selections = Mapping[str, int | OptionWeights]
"""Choice name -> option index, or weights to mix options."""


@dataclass(frozen=True)
class SelectedOptions(BlockRunner):
    """Runs the selected options."""

    selections: Selections

    def run(self, module: SearchModule, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Runs one option, or several and mixes their outputs."""
        require_known(module, self.selections)
        return module.run_selected(self.selections, args, kwargs)


def require_known(module: SearchModule, names: Collection[str]) -> None:
    """Refuses a block from a plain list or another network, whose choice and weights the supernet does not know."""
    for name in module.names:
        if name not in names:
            raise InvalidInput(
                f"Expected {name!r} to be a submodule of the network that runs it. Got a block from outside."
            )


def require_alike(block: SearchBlock, first: tuple[str, Any], other: tuple[str, Any], *, dtypes: bool) -> None:
    """Refuses two (option, output) of a block whose outputs differ in structure, shapes or, if asked, dtypes."""
    for aspect, describe in {"shape": _shape, "dtype": _dtype}.items():
        if aspect == "dtype" and not dtypes:
            continue
        (left, left_tree), (right, right_tree) = (pytree.tree_flatten(output) for _, output in (first, other))
        left, right = [describe(leaf) for leaf in left], [describe(leaf) for leaf in right]
        if left != right or left_tree != right_tree:
            raise InvalidInput(
                f"Expected all options of {block.name!r} to return outputs of one {aspect}. Got {first[0]}: "
                f"{pytree.tree_unflatten(left, left_tree)}, {other[0]}: {pytree.tree_unflatten(right, right_tree)}."
            )


def _shape(value: object) -> object:
    """What must agree between outputs: the shape of a tensor, a plain value, the type of anything else."""
    if isinstance(value, Tensor):
        return tuple(value.shape)
    return value if value is None or isinstance(value, int | float | str) else type(value)


def _dtype(value: object) -> object:
    return value.dtype if isinstance(value, Tensor) else None


def _mixed(block: SearchBlock, mixture: OptionWeights, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """sum_o weights[..., o] * output_o over the options that run, for every tensor in the outputs."""
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
        if index == start:
            totals = terms
        else:
            pairs = zip(totals, terms, strict=True)
            totals = [total + term if isinstance(total, Tensor) else total for total, term in pairs]
        if index != last and [leaf._version for leaf in inputs] != before:
            raise InvalidInput(
                f"Expected the options of {block.name!r} not to change their input when they are mixed. "
                f"Got a change in place by {names[index]!r} (inplace=True?)."
            )
    return pytree.tree_unflatten(totals, pytree.tree_structure(first))


def _weighted(block: SearchBlock, weights: Tensor, index: int, leaf: Any) -> Any:
    if not isinstance(leaf, Tensor):
        return leaf  # it is the same for all options
    if not (leaf.is_floating_point() or leaf.is_complex()):
        raise InvalidInput(f"Expected outputs of {block.name!r} that can be mixed. Got one of {leaf.dtype}.")
    if weights.dim() == 2 and leaf.shape[:1] != weights.shape[:1]:
        raise InvalidInput(
            f"Expected one row of gates per example of {block.name!r}. "
            f"Got {len(weights)} rows for an output of shape {tuple(leaf.shape)}."
        )
    return gate_for(weights, index, leaf) * leaf


_notes: dict[tuple[int, int], SelectedOptions] = {}
"""(Thread, backward pass) -> the note of its latest marker; passes started inside others come later."""


class _Marker(torch.autograd.Function):
    """The identity; its backward notes the selection of the call that it marks."""

    generate_vmap_rule = True

    @staticmethod
    def forward(output: Tensor, selected: SelectedOptions) -> Tensor:
        return output.clone()  # callers could not change a view in place

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
    """The same output; a backward pass that reaches it notes the selection before it enters the network."""

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
    else:  # merged by name, because a call of one supernet may contain a call of another
        selected = SelectedOptions({**earlier.selections, **selected.selections})
    _notes[key] = selected


def noted(*names: str) -> SelectedOptions | None:
    """The note of the current backward pass on these choices; None outside backward passes."""
    if not _notes:
        return None
    thread, task = threading.get_ident(), torch._C._current_graph_task_id()
    notes = list(_notes.items())
    if task == -1:
        for key, _ in notes:
            if key[0] == thread:  # left behind by a backward pass that failed
                _notes.pop(key, None)
        return None
    # A recomputation may start its own backward pass, so the thread's latest note counts, whatever its pass. Notes of
    # other threads on this pass are the last resort: the output may lie on another device.
    own = [note for (owner, _), note in reversed(notes) if owner == thread]
    shared = [note for (_, other), note in notes if other == task]
    return next((note for note in (*own, *shared) if all(name in note.selections for name in names)), None)
