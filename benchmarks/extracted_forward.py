"""What removal saves: the extracted network's forward time over the masked one's, against the share of MACs left."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from measure import Goal, interleaved, medians, options, report
from torch import Tensor

from polyarch.distributions import KeepDrop
from polyarch.networks import MultiBranchResNet
from polyarch.randomness import generator_at, global_seed
from polyarch.runs.networks import to_device
from polyarch.spaces import Architecture
from polyarch.supernets import GatedSupernet, gate

NAME = "extracted_forward"
GOAL = Goal("<=", 1.1)
SEED = 0
WIDTH = 96
KERNELS = (3, 5)
DROPS = (0.2, 0.3, 0.44)
"""Of channels, as in the document, which has 18 to 44 %."""
BEYOND = 0.6
"""So much is measured, too, and does not count: what is done to every channel once takes a larger share there."""
SIZE, BATCH = 16, 32


def make_net() -> GatedSupernet:
    with global_seed(SEED, "weights"):
        model = MultiBranchResNet(width=WIDTH, kernels=KERNELS)
    net = gate(model, torch.zeros(2, 3, SIZE, SIZE), groups=model.gate_groups())
    return to_device(net, torch.device("cpu")).eval()


def draws(net: GatedSupernet, drop: float, count: int) -> list[Architecture]:
    q = KeepDrop(net.slice_space, net.groups, drop=drop)
    return q.sample(count, generator=generator_at(SEED, "draws", f"{drop:g}"))


def compare(net: GatedSupernet, architecture: Architecture, images: Tensor, rounds: int) -> dict[str, float]:
    """Seconds of a pass of the plain network, of it with gates, and of the network without what they drop."""
    keep = net.slices(architecture)
    extracted = net.extract(architecture).eval()
    sides: dict[str, Callable[[], Tensor]] = {
        "plain": lambda: net.model(images),
        "masked": lambda: net.forward_slices(images, keep),
        "extracted": lambda: extracted(images),
    }
    with torch.inference_mode():
        torch.testing.assert_close(sides["extracted"](), sides["masked"](), rtol=1e-3, atol=1e-4)
        interleaved(sides, 2)  # warm-up
        median = medians(interleaved(sides, rounds))
    return {**median, "share_of_macs": net.cost(architecture).macs / net.cost(net.whole()).macs}


def summary(drop: float, found: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """Means over draws; shares of time, and these over the share of multiply-accumulates."""
    mean = {name: statistics.fmean(one[name] for one in found) for name in found[0]}
    share = mean["share_of_macs"]
    times = {f"of_{side}": mean["extracted"] / mean[side] for side in ("masked", "plain")}
    return {
        "drop": drop,
        "share_of_macs": round(share, 4),
        "share_of_time": {name: round(time, 4) for name, time in times.items()},
        "ratios": {name: round(time / share, 4) for name, time in times.items()},
        "mean_seconds": {side: round(mean[side], 6) for side in ("plain", "masked", "extracted")},
    }


def main() -> None:
    asked = options(NAME, __doc__ or NAME)
    count, rounds = (1, 5) if asked.quick else (4, 15)
    net = make_net()
    images = torch.randn(BATCH, 3, SIZE, SIZE, generator=generator_at(SEED, "images"))
    images = images.contiguous(memory_format=torch.channels_last)
    rows = []
    for drop in (*DROPS, BEYOND):
        found = [compare(net, architecture, images, rounds) for architecture in draws(net, drop, count)]
        rows.append(summary(drop, found))
        print(rows[-1])
    worst = max(row["ratios"]["of_masked"] for row in rows if row["drop"] in DROPS)
    settings = {
        "network": "multi-branch ResNet", "width": WIDTH, "kernels": KERNELS, "size": SIZE, "batch": BATCH,
        "draws": count, "rounds": rounds,
    }  # fmt: skip
    report(NAME, worst, GOAL, options=asked, settings=settings, details={"drops": rows})


if __name__ == "__main__":
    main()
