"""What common prefixes save: the predictions of five wirings in one call over five separate forward passes."""

from __future__ import annotations

import torch
from measure import Goal, interleaved, medians, options, report

from polyarch.randomness import generator_at, global_seed
from polyarch.spaces import Architecture, erdos_renyi, mutate
from polyarch.supernets import WiredSupernet

NAME = "ensemble_prefix"
GOAL = Goal("<=", 1)
SEED = 0
WIRINGS = 5
SIZE = 16


def neighbouring(start: Architecture) -> list[Architecture]:
    """Wirings that differ from the first in one random edge."""
    others = [mutate(start, generator_at(SEED, "mutate", position)) for position in range(WIRINGS - 1)]
    return [start, *others]


def main() -> None:
    asked = options(NAME, __doc__ or NAME)
    width, batch_size, rounds = (16, 16, 11) if asked.quick else (32, 64, 31)
    with global_seed(SEED, "weights"):
        net = WiredSupernet(width=width).eval()
    net = net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    images = torch.randn(batch_size, 3, SIZE, SIZE, generator=generator_at(SEED, "images"))
    images = images.contiguous(memory_format=torch.channels_last)
    drawn = erdos_renyi(net.space, WIRINGS, generator=generator_at(SEED, "wirings"))
    ratios, seconds = {}, {}
    for name, wirings in {"random": drawn, "neighbouring": neighbouring(drawn[0])}.items():
        sides = {
            "together": lambda wirings=wirings: net.forward_many(images, wirings),
            "separate": lambda wirings=wirings: [net(images, wiring) for wiring in wirings],
        }
        with torch.no_grad():
            interleaved(sides, 2)  # warm-up
            seconds[name] = medians(interleaved(sides, rounds))
        ratios[name] = round(seconds[name]["together"] / seconds[name]["separate"], 4)
    print(ratios)
    settings = {"width": width, "batch": batch_size, "size": SIZE, "wirings": WIRINGS, "rounds": rounds}
    details = {"ratios": ratios, "median_seconds": seconds}
    report(NAME, ratios["random"], GOAL, options=asked, settings=settings, details=details)


if __name__ == "__main__":
    main()
