"""Any torch module as a supernet whose choices are its `OneOf`, `Repeat` and `Maybe` blocks."""

import copy
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.parameter import is_lazy
from torch.utils import _pytree as pytree

from polyarch.data.named_inputs import Inputs, NamedInputs, call_by_name, called_by_name, mapped
from polyarch.errors import InvalidInput, first_line
from polyarch.nn.block_selection import (
    CHOSEN,
    BlockRunner,
    OptionWeights,
    SearchBlock,
    SelectedOptions,
    marked,
    require_alike,
    require_known,
    running,
)
from polyarch.spaces import Architecture, Gates, Space
from polyarch.supernets.supernet import Supernet, evaluating, require_gates


@dataclass(frozen=True)
class RunChoices:
    """A canonical key that ignores choices inside of options that do not run."""

    outer: tuple[int, ...]  # the positions of the choices that always run
    inner: tuple[tuple[tuple[int, ...], ...], ...]  # position, option -> positions of the choices directly inside

    def __call__(self, architecture: Architecture) -> str:
        """The options of all choices that run, ``-`` for the others.

        Equal keys agree on what runs, from the outer choices inwards, so that the names are unambiguous.
        """
        waiting, run = list(self.outer), set(self.outer)
        while waiting:
            position = waiting.pop()
            for further in self.inner[position][architecture.indices[position]]:
                if further not in run:
                    run.add(further)
                    waiting.append(further)
        return "|".join(name if position in run else "-" for position, name in enumerate(architecture.names))


class ModuleSupernet(Supernet):
    """A user's network; see `from_module`.

    The network ``net.model`` stays unchanged: outside of supernet calls its blocks run their defaults.
    """

    def __init__(self, model: nn.Module, *, name: str | None = None) -> None:
        if not isinstance(model, nn.Module):
            raise InvalidInput(f"Expected a torch module to make a supernet of. Got {type(model).__name__}.")
        super().__init__(_space(name or type(model).__name__, model, _blocks(model)))
        self.model = model

    def forward(self, x: Inputs, architecture: Architecture | Gates) -> Tensor:
        """(B, ...) -> (B, classes), or any other output of the network."""
        selected = SelectedOptions(self._selections(architecture))
        with running(selected):
            output = self.model(x)
        return cast(Tensor, marked(output, selected))

    def extract(self, architecture: Architecture) -> nn.Module:
        """A copy of the network in which the chosen option replaces every block; other options are not copied."""
        chosen = dict(zip(self.space.choice_names, self.space.validate(architecture).indices, strict=True))
        network = copy.deepcopy(self.model, {id(CHOSEN): chosen})
        if called_by_name(self.model):
            call_by_name(network)  # the network may itself be a block, which is not in the copy
        return network

    def parameter_count(self, architecture: Architecture) -> int:
        """The number of weights of the extracted network; weights that modules share count once."""
        self.space.validate(architecture)
        waiting, seen = [self.model], set[nn.Module]()
        parameters = set[nn.Parameter]()
        while waiting:
            module = waiting.pop()
            if isinstance(module, SearchBlock):
                waiting.append(module.chosen(architecture[module.name]))
            elif module not in seen:
                seen.add(module)
                parameters.update(module.parameters(recurse=False))
                waiting.extend(module.children())
        return sum(parameter.numel() for parameter in parameters)

    def _selections(self, architecture: Architecture | Gates) -> Mapping[str, int | OptionWeights]:
        if isinstance(architecture, Architecture):
            return dict(zip(self.space.choice_names, self.space.validate(architecture).indices, strict=True))
        weights = {choice.name: require_gates(architecture, choice) for choice in self.space.choices}
        return {name: OptionWeights.of(gates) for name, gates in weights.items()}


def from_module(model: nn.Module, example: Inputs | None = None, *, name: str | None = None) -> ModuleSupernet:
    """A supernet whose choices are the `OneOf`, `Repeat` and `Maybe` blocks of a module, in order of definition.

    >>> import torch
    >>> from polyarch.nn import Maybe, OneOf, Repeat
    >>> class Net(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.stem = OneOf("stem", conv3=nn.Conv2d(1, 8, 3, padding=1), conv5=nn.Conv2d(1, 8, 5, padding=2))
    ...         self.body = Repeat("depth", [nn.Conv2d(8, 8, 3, padding=1) for _ in range(3)])
    ...         self.norm = Maybe("norm", nn.BatchNorm2d(8))
    ...         self.head = nn.Linear(8, 10)
    ...
    ...     def forward(self, x):
    ...         return self.head(self.norm(self.body(self.stem(x))).mean((2, 3)))
    >>> images = torch.zeros(2, 1, 16, 16)
    >>> net = from_module(Net(), images)
    >>> net.space.size
    12
    >>> architecture = net.space.architecture({"stem": "conv5", "depth": "2", "norm": "off"})
    >>> net(images, architecture).shape
    torch.Size([2, 10])
    >>> net.extract(architecture).body
    Sequential(
      (0): Conv2d(8, 8, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))
      (1): Conv2d(8, 8, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))
    )

    Args:
        model: takes one tensor, or several by name if the example is `NamedInputs`. It is used, not copied.
        example: a batch to try it on: every option runs once on the input that reaches it, and the first that does not
            fit is reported. Modes and buffers stay unchanged. If the only choice is a `Repeat` and a trial on a copy
            shows that one pass can compute all depths, the supernet is a `RepeatSupernet`.
        name: of the space; by default the name of the module's class.
    """
    from polyarch.supernets.repeated import repeat_supernet  # it imports this module

    net = ModuleSupernet(model, name=name)
    if example is None:
        return net
    if isinstance(example, NamedInputs):
        call_by_name(model)
    _try(model, net.space, example)
    return repeat_supernet(net, example) or net


def _blocks(model: nn.Module) -> list[SearchBlock]:
    """The blocks in order of definition; a block used in several places counts once."""
    paths: dict[str, str] = {}
    blocks = []
    for path, module in model.named_modules():
        if isinstance(module, Supernet):
            raise InvalidInput(
                f"Expected a network without a supernet inside. Got {type(module).__name__} at {path!r}."
            )
        if isinstance(module, SearchBlock):
            if module.name in paths:
                raise InvalidInput(
                    f"Expected every block to have its own name. "
                    f"Got {module.name!r} at {paths[module.name]!r} and {path!r}."
                )
            paths[module.name] = path
            blocks.append(module)
    if not blocks:
        raise InvalidInput(
            f"Expected a OneOf, Repeat or Maybe among the submodules of {type(model).__name__}. Got none."
        )
    return blocks


def _space(name: str, model: nn.Module, blocks: list[SearchBlock]) -> Space:
    positions = {block: position for position, block in enumerate(blocks)}

    def inside(module: nn.Module) -> tuple[int, ...]:
        return tuple(positions[block] for block in _nearest(module))

    outer = inside(model)
    inner = tuple(tuple(inside(block.chosen(index)) for index in range(len(block.choice))) for block in blocks)
    canonical = RunChoices(outer, inner) if len(outer) < len(blocks) else None
    return Space(name, tuple(block.choice for block in blocks), canonical=canonical)


def _nearest(module: nn.Module) -> Iterator[SearchBlock]:
    """The module, if it is a block, or the blocks among its submodules that are not inside other blocks."""
    waiting, seen = [module], set[nn.Module]()
    while waiting:
        module = waiting.pop()
        if module not in seen:
            seen.add(module)
            if isinstance(module, SearchBlock):
                yield module
            else:
                waiting.extend(module.children())


class _Trial(BlockRunner):
    """Runs every option of every block, reports the first that does not fit, and continues with the default."""

    def __init__(self, names: Collection[str]) -> None:
        self.names = names
        self.reached = set[str]()

    def run(self, block: SearchBlock, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The output of the default option."""
        require_known(block, self.names)
        self.reached.add(block.name)
        shapes = [tuple(leaf.shape) for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        results = block.outputs(range(len(block.choice)), *args, **kwargs)
        outputs: list[Any] = []
        for option in block.choice.options:
            try:
                outputs.append(next(results))
            except InvalidInput:  # from a block inside this option, with more detail
                raise
            except Exception as error:
                raise InvalidInput(
                    f"Expected option {option!r} of {block.name!r} to run on an input of shape "
                    f"{', '.join(map(str, shapes))}. Got {type(error).__name__}: {first_line(error)}."
                ) from error
            require_alike(block, (block.choice.options[0], outputs[0]), (option, outputs[-1]), dtypes=True)
        return outputs[block.default]


def _try(model: nn.Module, space: Space, example: Inputs) -> None:
    """Runs every option in one pass in evaluation mode."""
    trial = _Trial(space.choice_names)
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers() if not is_lazy(buffer)}
    with evaluating(model), running(trial):
        functional_call(
            model, buffers, (mapped(Tensor.clone, example),)
        )  # a layer may write into its buffers or its input
    for name in space.choice_names:
        if name not in trial.reached:
            raise InvalidInput(f"Expected the network to use its block {name!r}. Got a pass that never reached it.")
