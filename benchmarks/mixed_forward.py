"""The price of a mixed pass: a relaxed forward of the NAS-Bench-201 supernet over its operations one by one."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import torch
from measure import Goal, interleaved, medians, options, report
from torch import Tensor, nn

from polyarch.nn import ChoiceBlock, gate_for
from polyarch.randomness import generator_at, global_seed
from polyarch.runs.networks import to_device
from polyarch.spaces import Gates
from polyarch.supernets import NB201Supernet
from polyarch.supernets.nb201 import Cell

NAME = "mixed_forward"
GOAL = Goal("<=", 1.25)
SEED = 0
CHANNELS = 16
BATCH = 64

Inputs = dict[nn.Module, Tensor]
"""Choice blocks, and the parts of the network outside of them, with what goes into them in a pass."""


def make(cells: int) -> tuple[NB201Supernet, Gates]:
    with global_seed(SEED, "weights"):
        net = to_device(NB201Supernet(channels=CHANNELS, cells=cells), torch.device("cpu")).train()
    logits = {c.name: torch.randn(len(c), generator=generator_at(SEED, "gates", c.name)) for c in net.space.choices}
    return net, {name: value.softmax(0).requires_grad_() for name, value in logits.items()}


def inputs_of(net: NB201Supernet, x: Tensor, gates: Gates) -> Inputs:
    """What goes into every edge and into stem, reductions and head, as new leaves in memory as they were."""
    found: Inputs = {}
    blocks = [block for block in net.modules() if isinstance(block, ChoiceBlock)]
    others = [net.stem, net.head, *(layer for layer in net.layers if not isinstance(layer, Cell))]
    hooks = [
        module.register_forward_pre_hook(lambda module, args: found.__setitem__(module, args[0].detach().clone()))
        for module in (*blocks, *others)
    ]
    with torch.no_grad():
        net(x, gates)
    for hook in hooks:
        hook.remove()
    return {module: value.requires_grad_(module is not net.stem) for module, value in found.items()}


def one_by_one(inputs: Inputs, gates: Gates, *, backward: bool) -> None:
    """Every operation of every edge alone on its input, the weighted sum of the edge, and the rest of the network."""
    for module, x in inputs.items():
        if isinstance(module, ChoiceBlock):
            outputs = {index: module.operation(index)(x) for index in module.passing}
            terms = [gate_for(gates[module.choice], index, x) * output for index, output in outputs.items()]
            output = sum(terms[1:], start=terms[0])
        else:
            output = module(x)
        if backward:
            output.backward(torch.ones_like(output))


def together(net: NB201Supernet, x: Tensor, gates: Gates, *, backward: bool) -> None:
    output = net(x, gates)
    if backward:
        output.backward(torch.ones_like(output))


def sides_of(cells: int, size: int, *, backward: bool) -> dict[str, Callable[[], object]]:
    net, gates = make(cells)
    x = torch.randn(BATCH, 3, size, size, generator=generator_at(SEED, "images", size))
    x = x.contiguous(memory_format=torch.channels_last)
    inputs = inputs_of(net, x, gates)

    def clean(action: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            with torch.set_grad_enabled(backward):
                action()
            for tensor in (*net.parameters(), *gates.values(), *inputs.values()):
                tensor.grad = None

        return run

    return {
        "mixed": clean(lambda: together(net, x, gates, backward=backward)),
        "one by one": clean(lambda: one_by_one(inputs, gates, backward=backward)),
    }


def main() -> None:
    asked = options(NAME, __doc__ or NAME)
    rounds = 15 if asked.quick else 31
    configurations = [(1, 16)] if asked.quick else [(1, 16), (2, 16), (1, 32)]
    rows: list[dict[str, Any]] = []
    for cells, size in configurations:
        for backward in (False, True):
            sides = sides_of(cells, size, backward=backward)
            interleaved(sides, 2)  # warm-up
            seconds = medians(interleaved(sides, rounds))
            rows.append(
                {
                    "cells": cells,
                    "size": size,
                    "pass": "forward and backward" if backward else "forward",
                    "ratio": round(seconds["mixed"] / seconds["one by one"], 4),
                    "median_seconds": {name: round(value, 6) for name, value in seconds.items()},
                }
            )
            print(rows[-1])
    ratio = statistics.fmean(row["ratio"] for row in rows)
    settings = {"channels": CHANNELS, "batch": BATCH, "rounds": rounds, "data": "random"}
    report(NAME, ratio, GOAL, options=asked, settings=settings, details={"configurations": rows})


if __name__ == "__main__":
    main()
