"""A user's network whose only choice is a depth: one pass computes all depths."""

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.overrides import TorchFunctionMode

from polyarch.data.named_inputs import Inputs, joined, mapped
from polyarch.errors import InvalidInput
from polyarch.nn import Repeat
from polyarch.nn.block_selection import BlockRunner, SearchModule, SelectedOptions, require_known, running
from polyarch.nn.norm_policies import norm_layers
from polyarch.randomness import generator_at, global_seed
from polyarch.spaces import Architecture, Gates
from polyarch.supernets.module import ModuleSupernet
from polyarch.supernets.supernet import mix_logits

AVERAGES = {"means": "running_mean", "variances": "running_var", "batches": "num_batches_tracked"}


class DepthStatistics(nn.Module):
    """The running averages (O, C) of a batch norm layer at every depth, and the batches (O,) they have seen."""

    means: Tensor
    variances: Tensor
    batches: Tensor

    def __init__(self, layer: nn.Module, options: int) -> None:
        super().__init__()
        for name, of_layer in AVERAGES.items():
            average = layer.get_buffer(of_layer)
            self.register_buffer(name, average.expand(options, *average.shape).clone())

    def load_into(self, layer: nn.Module, index: int) -> None:
        """Sets the averages of the layer to those of one depth."""
        for name, of_layer in AVERAGES.items():
            layer.get_buffer(of_layer).copy_(self.get_buffer(name)[index])


class RepeatSupernet(ModuleSupernet):
    """A network whose only choice is a `Repeat` that every pass runs once: every depth is an exit.

    One call of the network computes several depths: the `Repeat` runs to the deepest of them, their outputs are joined
    along the batch, (K * B, ...), and everything after it runs once on all of them. Gates mix the logits of the exits,
    net(x, g) = sum_d g_d logits_d, whereas a `ModuleSupernet` mixes the outputs of the `Repeat`.

    All depths share the layers after the `Repeat`, but not their batch statistics: in training mode batch normalisation
    works per depth, and the supernet holds running averages of each depth, used to evaluate and extract it; the layers'
    own averages stay unchanged. Layers before and inside the `Repeat` update their averages once per call.

    `from_module` makes it unless a trial shows that exits cannot share a batch: because of a skip around the `Repeat`,
    a fixed batch size, a layer that runs both before and after it, or activation checkpointing that runs the `Repeat`
    or a batch norm layer after it a second time. Switch such checkpointing on before `from_module`; inside the repeated
    blocks it is always possible.

    Args:
        norms: the paths of the batch norm layers with running averages that run after the `Repeat`.
    """

    def __init__(self, model: nn.Module, norms: Sequence[str] = (), *, name: str | None = None) -> None:
        super().__init__(model, name=name)
        self.norms = tuple(norms)
        (choice,) = self.space.choices
        self.statistics = nn.ModuleList(DepthStatistics(model.get_submodule(path), len(choice)) for path in norms)

    def forward(self, x: Inputs, architecture: Architecture | Gates) -> Tensor:
        """(B, ...) -> (B, classes)."""
        (selection,) = self._selections(architecture).values()
        if isinstance(selection, int):
            return self._exits(x, [selection])
        logits = self._together(x, selection.indices)
        weights = selection.weights
        if weights.dim() == 2 and len(weights) != logits.shape[1]:
            raise InvalidInput(
                f"Expected one row of gates per example of {self.space.choice_names[0]!r}. "
                f"Got {len(weights)} rows for {logits.shape[1]} examples."
            )
        if len(logits) < weights.shape[-1]:
            weights = weights[..., list(selection.indices)]
        return mix_logits(weights, logits)

    def forward_many(self, x: Inputs, architectures: Sequence[Architecture]) -> Tensor:
        """(K, B, classes) from one pass to the deepest of them, in the given order."""
        return self._together(x, [self.space.validate(architecture).indices[0] for architecture in architectures])

    def extract(self, architecture: Architecture) -> nn.Module:
        """A copy of the network at one depth, with the running averages of that depth."""
        network = super().extract(architecture)
        for layer, statistics in self.statistics_of(network):
            statistics.load_into(layer, architecture.indices[0])
        return network

    def statistics_of(self, model: nn.Module) -> Iterator[tuple[_BatchNorm, DepthStatistics]]:
        """The batch norm layers after the `Repeat`, in the network or a copy, and their averages per depth."""
        for path, statistics in zip(self.norms, self.statistics, strict=True):
            layer = model.get_submodule(path)
            assert isinstance(layer, _BatchNorm) and isinstance(statistics, DepthStatistics)
            yield layer, statistics

    def _together(self, x: Inputs, indices: Sequence[int]) -> Tensor:
        logits = self._exits(x, indices)  # (K * B, classes)
        return logits.reshape(len(indices), len(logits) // len(indices), *logits.shape[1:])

    def _exits(self, x: Inputs, indices: Sequence[int]) -> Tensor:
        """The logits (K * B, classes) of K depths, concatenated."""
        with ExitStack() as stack:
            exits = _JoinedExits(self, indices, stack)
            with running(exits):
                logits: Tensor = self.model(x)
        if not exits.run_once:
            raise InvalidInput(f"Expected every pass to run {self.space.choice_names[0]!r}. Got one that did not.")
        return logits


class _JoinedExits(BlockRunner):
    """Joins the outputs of the given depths along the batch; from then on batch norm layers work per depth."""

    def __init__(self, net: RepeatSupernet, indices: Sequence[int], stack: ExitStack) -> None:
        self.net = net
        self.indices = indices
        self.stack = stack  # closed when the network's call ends
        self.run_once = False

    def run(self, block: SearchModule, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """(B, ...) -> (K * B, ...)."""
        assert isinstance(block, Repeat)  # the only search module there is
        require_known(block, self.net.space.choice_names)
        if self.run_once:
            raise InvalidInput(f"Expected a pass to run {block.name!r} once. Got a second run.")
        self.run_once = True
        output = _joined(self._outputs(block, args, kwargs))
        known = {id(layer.running_mean): (layer, rows) for layer, rows in self.net.statistics_of(self.net.model)}
        # Entered only now, because a mode costs time at every operation, and most of them are in the Repeat.
        self.stack.enter_context(_NormPerDepth(known, self.indices, len(output)))
        return output

    def _outputs(self, block: Repeat, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Tensor]:
        if len(self.indices) == 1:
            return [block.run(self.indices[0], *args, **kwargs)]
        wanted = sorted(set(self.indices))
        found = dict(zip(wanted, block.outputs(wanted, *args, **kwargs), strict=True))
        return [found[index] for index in self.indices]


class _NormPerDepth(TorchFunctionMode):
    """Splits the batch of every batch norm call into its K depths and normalises each as if it were alone.

    Modes belong to a thread, and the tensor of its running means identifies a layer, so no module holds state.
    """

    def __init__(
        self, known: Mapping[int, tuple[_BatchNorm, DepthStatistics]], indices: Sequence[int], rows: int
    ) -> None:
        super().__init__()
        self.known = known
        self.indices = indices
        self.rows = rows

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        return self._per_depth(*args, **kwargs) if func is F.batch_norm else func(*args, **kwargs)

    def _per_depth(self, x: Tensor, mean: Tensor | None, variance: Tensor | None, **options: Any) -> Tensor:
        """(K * n, C, ...) -> (K * n, C, ...); n is a multiple of B if more than the batch was flattened."""
        if len(x) % max(self.rows, 1):
            raise InvalidInput(
                f"Expected batch normalisation after the Repeat of all {self.rows} examples at once. Got {len(x)}."
            )
        parts = zip(self.indices, x.tensor_split(len(self.indices)), strict=True)
        if mean is None or id(mean) not in self.known:  # no running averages, or averages that all depths share
            return _joined([F.batch_norm(part, mean, variance, **options) for _, part in parts])
        layer, statistics = self.known[id(mean)]
        normalised = []
        for index, part in parts:
            if options["training"]:
                statistics.batches[index] += 1
                if layer.momentum is None:  # torch then takes the cumulative average
                    options["momentum"] = 1 / float(statistics.batches[index])
            normalised.append(F.batch_norm(part, statistics.means[index], statistics.variances[index], **options))
        return _joined(normalised)


def _joined(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def repeat_supernet(net: ModuleSupernet, example: Inputs) -> RepeatSupernet | None:
    """The same network as a `RepeatSupernet`, or None if it has other choices or exits cannot share a batch."""
    blocks = [module for module in net.model.modules() if isinstance(module, SearchModule)]
    if len(blocks) > 1 or not isinstance(blocks[0], Repeat):
        return None
    try:
        with global_seed(0, "exits"):  # for random layers; the caller's state is restored
            norms = _try(copy.deepcopy(net.model), mapped(Tensor.detach, example))
    except Exception:  # a user's forward can raise anything on a larger batch
        return None
    return None if norms is None else RepeatSupernet(net.model, norms, name=net.space.name)


def _try(model: nn.Module, example: Inputs) -> list[str] | None:
    """The paths of the layers that need statistics per depth, or None if exits cannot share a batch.

    They can if each depth gives the same output in a joint batch as alone, and if a backward pass does not run again
    any layer that depends on the depth.

    Args:
        model: a copy; the trial changes its modes, statistics and hooks.
    """
    (repeat,) = (module for module in model.modules() if isinstance(module, Repeat))
    calls: list[nn.Module | None] = []  # None marks the end of the Repeat
    for module in (repeat, *norm_layers(model)):
        module.register_forward_pre_hook(lambda module, _: calls.append(module))
    repeat.register_forward_hook(lambda *_: calls.append(None))
    with torch.no_grad(), running(SelectedOptions({repeat.name: 0})):
        model.eval()(mapped(Tensor.clone, example))
    after = _after(calls)
    norms = [
        path
        for path, layer in model.named_modules()
        if isinstance(layer, _BatchNorm) and layer in after and layer.running_mean is not None
    ]
    trial = RepeatSupernet(model, norms)
    generator = generator_at(0, "exits")
    for _, statistics in trial.statistics_of(model):  # different ones, to detect the use of another depth's
        statistics.means.copy_(torch.rand(statistics.means.shape, generator=generator))
    # One example could be broadcast, two are symmetric once normalised, and equal ones prove nothing.
    noise = mapped(partial(_noise, generator=generator), joined([example] * 3))
    with torch.no_grad():
        if not (_agree(trial.eval(), example) and _agree(trial, noise) and _agree(trial.train(), noise)):
            return None
    calls.clear()
    with torch.enable_grad():
        logits = trial.forward_many(noise, list(trial.space.enumerate()))
    if _after(calls) != after:
        return None
    calls.clear()
    if logits.requires_grad:
        logits.sum().backward()
    return None if {repeat, *after} & {*calls} else norms


def _after(calls: list[nn.Module | None]) -> set[nn.Module | None]:
    return set(calls[calls.index(None) + 1 :])


def _noise(inputs: Tensor, generator: torch.Generator) -> Tensor:
    """Random numbers in place of floats; tokens stay, as others may not exist."""
    return torch.rand(inputs.shape, generator=generator).to(inputs) if inputs.is_floating_point() else inputs


def _agree(net: RepeatSupernet, x: Inputs) -> bool:
    """Whether every depth gives the same output with others as alone, unless its output is random."""
    depths = list(net.space.enumerate())
    for depth, together in zip(depths, net.forward_many(mapped(Tensor.clone, x), depths), strict=True):
        for layer, statistics in net.statistics_of(net.model):
            statistics.load_into(layer, depth.indices[0])
        alone = ModuleSupernet.forward(net, mapped(Tensor.clone, x), depth)
        if not _close(together, alone) and (
            not net.training or _close(ModuleSupernet.forward(net, mapped(Tensor.clone, x), depth), alone)
        ):
            return False
    return True


def _close(actual: Tensor, expected: Tensor) -> bool:
    """Equality up to rounding errors, which division by small deviations amplifies; real errors are far larger."""
    tolerance = torch.finfo(expected.dtype).eps ** (1 / 3)
    return actual.shape == expected.shape and torch.allclose(
        actual, expected, rtol=tolerance, atol=tolerance * float(expected.abs().max())
    )
