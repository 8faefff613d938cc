"""What pruning saves: the pruned network's forward time over the full one's, against the share of blocks it keeps."""

from __future__ import annotations

import torch
from measure import Goal, interleaved, medians, options, report

from polyarch.randomness import generator_at, global_seed
from polyarch.runs.networks import to_device
from polyarch.supernets import ConvolutionalDepth

NAME = "pruned_forward"
GOAL = Goal("<=", 1.1)
SEED = 0
DEPTH = 50
KEPT = (10, 18, 28, 40)
BATCH = 64


def main() -> None:
    asked = options(NAME, __doc__ or NAME)
    rounds = 5 if asked.quick else 31
    with global_seed(SEED, "weights"):
        net = to_device(ConvolutionalDepth(max_depth=DEPTH), torch.device("cpu")).eval()
    images = torch.randn(BATCH, 1, 28, 28, generator=generator_at(SEED, "images"))
    images = images.contiguous(memory_format=torch.channels_last)
    networks = {depth: net.extract(net.space.members[depth]).eval() for depth in (*KEPT, DEPTH)}
    sides = {str(depth): lambda network=network: network(images) for depth, network in networks.items()}
    with torch.no_grad():
        interleaved(sides, 2)  # warm-up
        median = medians(interleaved(sides, rounds))
    rows = []
    for depth in KEPT:
        share, blocks = median[str(depth)] / median[str(DEPTH)], depth / DEPTH
        rows.append(
            {
                "kept": depth,
                "share_of_time": round(share, 4),
                "share_of_blocks": blocks,
                "ratio": round(share / blocks, 4),
            }
        )
        print(rows[-1])
    worst = max((row["ratio"] for row in rows), key=lambda ratio: abs(ratio - 1))
    settings = {"depth": DEPTH, "channels": "64/32", "size": 28, "batch": BATCH, "rounds": rounds}
    report(NAME, worst, GOAL, options=asked, settings=settings, details={"depths": rows, "median_seconds": median})


if __name__ == "__main__":
    main()
