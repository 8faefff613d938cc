"""Which modules of a network get gates, on how many channels, and which of them share a group."""

from collections.abc import Callable, Iterable, Iterator, Mapping

from torch import Tensor, nn

from polyarch.data.named_inputs import Inputs, NamedInputs, mapped, shape_text
from polyarch.errors import InvalidInput, PolyarchError, UnknownName, first_line
from polyarch.nn.channel_gates import ChannelGate, install, slice_count, sliced
from polyarch.supernets.supernet import evaluating

Groups = Mapping[str, Iterable[str]] | Callable[[str, nn.Module], str | None]
"""Group -> names of modules, or (name, module) -> its group, ``None`` if it gets no gate."""


def install_gates(model: nn.Module, example: Inputs, groups: Groups | None) -> list[ChannelGate]:
    """Puts gates on the layers of a network; see `gate`."""
    sizes = _output_sizes(model, example)
    if groups is None:
        layers = [path for path in sizes if sliced(model.get_submodule(path)) and not _inside_layer(model, path)]
        groups = {path: [path] for path in layers[1:]}
    gates = [_gate(model, path, group, sizes) for path, group in _grouped(model, groups)]
    if not gates:
        raise InvalidInput(f"Expected two or more layers to gate in {type(model).__name__}, or groups. Got none.")
    for one in gates:
        install(model.get_submodule(one.name), one)
    return gates


def _inside_layer(model: nn.Module, path: str) -> bool:
    """Whether a module is part of a torch module other than a container."""
    while path:
        path = path.rpartition(".")[0]
        outer = model.get_submodule(path)
        listing = isinstance(outer, nn.Sequential | nn.ModuleList | nn.ModuleDict)
        if type(outer).__module__.startswith("torch.nn.") and not listing:
            return True
    return False


def _grouped(model: nn.Module, groups: Groups) -> Iterator[tuple[str, str]]:
    """Every gated module with its group."""
    if not isinstance(groups, Mapping):
        for path, module in model.named_modules():
            if path and (group := groups(path, module)) is not None:
                yield path, group
        return
    known = dict(model.named_modules())
    seen: dict[str, str] = {}
    for group, paths in groups.items():
        if isinstance(paths, str):
            raise InvalidInput(f"Expected a list of modules for group {group!r}. Got the text {paths!r}.")
        for path in paths:
            if path not in known or not path:
                raise UnknownName("module of the network", path, [name for name in known if name])
            if path in seen:
                raise InvalidInput(f"Expected {path!r} to be in one group. Got {seen[path]!r} and {group!r}.")
            seen[path] = group
            yield path, group


def _gate(model: nn.Module, path: str, group: str, sizes: Mapping[str, int | None]) -> ChannelGate:
    module = model.get_submodule(path)
    if path not in sizes:
        raise InvalidInput(f"Expected the network to use {path!r}. Got a pass that never reached it.")
    if sliced(module):
        return ChannelGate(path, group, slice_count(module))
    if next(module.parameters(), None) is not None:
        raise InvalidInput(
            f"Expected {path!r} to be a convolution, but no depthwise one, a linear layer or a module without "
            "parameters. "
            f"Got {type(module).__name__}."
        )
    size = sizes[path]
    if size is None:
        raise InvalidInput(
            f"Expected {path!r} to give tensors (B, channels, ...) with a fixed number of channels. Got another output."
        )
    return ChannelGate(path, group, size, "output")


def _output_sizes(model: nn.Module, example: Inputs) -> dict[str, int | None]:
    """The output channels of the modules that run in a pass, in the order in which they end.

    The pass is in evaluation mode; modes and buffers stay unchanged.
    """
    if not isinstance(model, nn.Module):
        raise InvalidInput(f"Expected a torch module to make a supernet of. Got {type(model).__name__}.")
    batched = isinstance(example, NamedInputs) or (isinstance(example, Tensor) and example.dim())
    if not batched or not len(example):
        found = f"shape {tuple(example.shape)}" if isinstance(example, Tensor) else type(example).__name__
        raise InvalidInput(f"Expected a batch of one example or more, as a tensor, to try the network on. Got {found}.")
    sizes: dict[str, int | None] = {}

    def note(path: str, output: object) -> None:
        channels = output.shape[1] if isinstance(output, Tensor) and output.dim() > 1 else None
        sizes[path] = channels if sizes.get(path, channels) == channels else None

    def noting(path: str) -> Callable[[nn.Module, object, object], None]:
        return lambda module, args, output: note(path, output)

    hooks = [module.register_forward_hook(noting(path)) for path, module in model.named_modules() if path]
    try:
        with evaluating(model):
            model(mapped(Tensor.clone, example))
    except PolyarchError:
        raise
    except Exception as error:  # a user's network can raise anything
        raise InvalidInput(
            f"Expected {type(model).__name__} to run on an input of shape {shape_text(example)}. "
            f"Got {type(error).__name__}: {first_line(error)}."
        ) from error
    finally:
        for hook in hooks:
            hook.remove()
    return sizes
