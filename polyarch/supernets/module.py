"""Any torch module as a supernet whose choices are its `OneOf`, `Repeat` and `Maybe` blocks and elastic layers."""

import copy
from collections.abc import Collection, Iterable, Iterator, Mapping
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
    ChoiceSource,
    OptionWeights,
    SearchBlock,
    SearchModule,
    SelectedOptions,
    marked,
    require_alike,
    require_known,
    running,
)
from polyarch.nn.elastic_layers import ElasticLayer
from polyarch.spaces import Architecture, Choice, Gates, Space
from polyarch.supernets.supernet import Supernet, evaluating, require_gates

Inner = tuple[tuple[tuple[int, ...], ...], ...]
"""Choice of a module, option -> the modules directly inside the option."""


@dataclass(frozen=True)
class RunChoices:
    """A canonical key that ignores choices inside of options that do not run.

    Blocks and elastic layers are numbered. Several may have the same choice, and it counts if one of them runs.
    """

    outer: tuple[int, ...]  # those that always run
    choices: tuple[tuple[int, ...], ...]  # for each the positions of its choices in the space
    inner: tuple[Inner, ...]

    def __call__(self, architecture: Architecture) -> str:
        """The options of all choices that run, ``-`` for the others.

        Equal keys agree on what runs, from the outer choices inwards, so that the names are unambiguous.
        """
        waiting, run = list(self.outer), set(self.outer)
        while waiting:
            module = waiting.pop()
            for position, options in zip(self.choices[module], self.inner[module], strict=True):
                for further in options[architecture.indices[position]]:
                    if further not in run:
                        run.add(further)
                        waiting.append(further)
        matter = {position for module in run for position in self.choices[module]}
        return "|".join(name if position in matter else "-" for position, name in enumerate(architecture.names))

    def described(self, space: Space) -> dict[str, Any]:
        """The nesting by name: the ``outer`` choices, and ``inner``: choice -> option -> choices directly inside."""
        inner: dict[str, dict[str, list[str]]] = {}
        for positions, choices in zip(self.choices, self.inner, strict=True):
            for position, options in zip(positions, choices, strict=True):
                choice = space.choices[position]
                for option, inside in zip(choice.options, options, strict=True):
                    if inside:
                        known = inner.setdefault(choice.name, {}).setdefault(option, [])
                        known += [name for name in self._names(inside, space) if name not in known]
        return {"outer": self._names(sorted(self.outer), space), "inner": inner}

    def _names(self, modules: Iterable[int], space: Space) -> list[str]:
        """The choices of these blocks and layers, each once."""
        found = (space.choice_names[position] for module in modules for position in self.choices[module])
        return list(dict.fromkeys(found))


class ModuleSupernet(Supernet):
    """A user's network; see `from_module`.

    The network ``net.model`` stays unchanged: outside of supernet calls its blocks run their defaults.
    """

    def __init__(self, model: nn.Module, *, name: str | None = None) -> None:
        if not isinstance(model, nn.Module):
            raise InvalidInput(f"Expected a torch module to make a supernet of. Got {type(model).__name__}.")
        super().__init__(_space(name or type(model).__name__, model))
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
        indices = dict(zip(self.space.choice_names, architecture.indices, strict=True))
        waiting, seen = [self.model], set[nn.Module]()
        parameters = set[nn.Parameter]()
        sliced = 0
        while waiting:
            module = waiting.pop()
            if isinstance(module, SearchBlock):
                waiting.append(module.chosen(indices[module.name]))
            elif module not in seen:
                seen.add(module)
                if isinstance(module, ElasticLayer):
                    sliced += module.parameter_count(indices)
                    continue
                parameters.update(module.parameters(recurse=False))
                waiting.extend(module.children())
        return sliced + sum(parameter.numel() for parameter in parameters)

    def _selections(self, architecture: Architecture | Gates) -> Mapping[str, int | OptionWeights]:
        if isinstance(architecture, Architecture):
            return dict(zip(self.space.choice_names, self.space.validate(architecture).indices, strict=True))
        weights = {choice.name: require_gates(architecture, choice) for choice in self.space.choices}
        return {name: OptionWeights.of(gates) for name, gates in weights.items()}


def from_module(model: nn.Module, example: Inputs | None = None, *, name: str | None = None) -> ModuleSupernet:
    """A supernet whose choices are the blocks and elastic layers of a module, in order of definition.

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
        example: a batch to try it on: every option runs once on the input that reaches it, every choice of sizes is
            tried at its smallest, and the first that does not fit is reported. Modes and buffers stay unchanged. If the
            only choice is a `Repeat` and a trial on a copy shows that one pass can compute all depths, the supernet is
            a `RepeatSupernet`.
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


def _search_modules(model: nn.Module) -> list[SearchModule]:
    """The blocks and elastic layers in order of definition; one that is used in several places counts once."""
    found = []
    for path, module in model.named_modules():
        if isinstance(module, Supernet):
            raise InvalidInput(
                f"Expected a network without a supernet inside. Got {type(module).__name__} at {path!r}."
            )
        if isinstance(module, SearchModule):
            found.append(module)
    if not any(module.sources for module in found):
        raise InvalidInput(
            f"Expected a OneOf, Repeat or Maybe, or an elastic layer with Sizes, among the submodules of "
            f"{type(model).__name__}. Got none."
        )
    return found


def _choices(model: nn.Module, modules: list[SearchModule]) -> dict[str, Choice]:
    """The choices by name; those of several sources must be tied and have the same options."""
    paths = {module: path for path, module in model.named_modules()}
    known: dict[str, tuple[ChoiceSource, str]] = {}
    for module in modules:
        for source in module.sources:
            choice = source.choice
            first, path = known.setdefault(choice.name, (source, paths[module]))
            if first is source:
                continue
            where = f"{choice.name!r} at {path!r} and {paths[module]!r}"
            if not (first.tied and source.tied):
                raise InvalidInput(f"Expected every block to have its own name. Got {where}.")
            if first.choice != choice:
                raise InvalidInput(
                    f"Expected tied choices to have the same options. Got {where}: {list(first.choice.options)} and "
                    f"{list(choice.options)}."
                )
    return {name: source.choice for name, (source, _) in known.items()}


def _space(name: str, model: nn.Module) -> Space:
    modules = _search_modules(model)
    choices = _choices(model, modules)
    numbers = {module: number for number, module in enumerate(modules)}
    positions = {choice: position for position, choice in enumerate(choices)}

    def inside(module: nn.Module | None) -> tuple[int, ...]:
        return () if module is None else tuple(numbers[found] for found in _nearest(module))

    outer = inside(model)
    inner = tuple(
        tuple(
            tuple(inside(module.inside(source, index)) for index in range(len(source.choice)))
            for source in module.sources
        )
        for module in modules
    )
    held = tuple(tuple(positions[name] for name in module.names) for module in modules)
    always = {position for number in outer for position in held[number]}
    canonical = RunChoices(outer, held, inner) if len(always) < len(choices) else None
    return Space(name, tuple(choices.values()), canonical=canonical)


def _nearest(module: nn.Module) -> Iterator[SearchModule]:
    """The module, if it is a block or elastic, or those among its submodules that are not inside other blocks."""
    waiting, seen = [module], set[nn.Module]()
    while waiting:
        module = waiting.pop()
        if module not in seen:
            seen.add(module)
            if isinstance(module, SearchModule):
                yield module
            else:
                waiting.extend(module.children())


class _Trial(BlockRunner):
    """Runs every option of every block, reports the first that does not fit, and continues with the default.

    Args:
        sizes: the indices of sizes that are not the largest.
    """

    def __init__(self, names: Collection[str], sizes: Mapping[str, int]) -> None:
        self.names = names
        self.sizes = sizes
        self.reached = set[str]()

    def run(self, module: SearchModule, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The output of the default option."""
        require_known(module, self.names)
        self.reached.update(module.names)
        if not isinstance(module, SearchBlock):
            return module.run_selected(self.sizes, args, kwargs)
        shapes = [tuple(leaf.shape) for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        results = module.outputs(range(len(module.choice)), *args, **kwargs)
        outputs: list[Any] = []
        for option in module.choice.options:
            try:
                outputs.append(next(results))
            except InvalidInput:  # from a block inside this option, with more detail
                raise
            except Exception as error:
                raise InvalidInput(
                    f"Expected option {option!r} of {module.name!r} to run on an input of shape "
                    f"{', '.join(map(str, shapes))}. Got {type(error).__name__}: {first_line(error)}."
                ) from error
            require_alike(module, (module.choice.options[0], outputs[0]), (option, outputs[-1]), dtypes=True)
        return outputs[module.default]


def _try(model: nn.Module, space: Space, example: Inputs) -> None:
    """Runs every option in one pass in evaluation mode, and again with the smallest of every choice of sizes."""
    trial = _Trial(space.choice_names, {})
    _run_on(model, example, trial)
    for name in space.choice_names:
        if name not in trial.reached:
            raise InvalidInput(f"Expected the network to use its block {name!r}. Got a pass that never reached it.")
    layers = [module for module in model.modules() if isinstance(module, ElasticLayer)]
    for choice in {source.choice.name: source.choice for layer in layers for source in layer.sources}.values():
        try:
            _run_on(model, example, _Trial(space.choice_names, {choice.name: 0}))
        except Exception as error:
            raise InvalidInput(
                f"Expected the network to run with size {choice.options[0]} of {choice.name!r}; what reads elastic "
                f"channels must be elastic, too. Got {type(error).__name__}: {first_line(error)}."
            ) from error


def _run_on(model: nn.Module, example: Inputs, runner: BlockRunner) -> None:
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers() if not is_lazy(buffer)}
    copied = mapped(Tensor.clone, example)  # a layer may write into its buffers or its input
    with evaluating(model), running(runner):
        functional_call(model, buffers, (copied,))
