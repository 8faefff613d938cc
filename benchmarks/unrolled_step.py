"""The exact gradient through one unrolled step over its central-difference form, as in DARTS of second order."""

from __future__ import annotations

import statistics
from collections.abc import Callable

import torch
from measure import Goal, interleaved, medians, options, report
from sotl_step import NETS, make, random_batch

from polyarch.randomness import generator_at
from polyarch.strategies import Hypergradient, UnrolledLoss

NAME = "unrolled_step"
GOAL = Goal("<=", 2.0)
SEED = 0
FORMS: dict[str, Hypergradient] = {"exact": UnrolledLoss(), "difference": UnrolledLoss(form="difference")}


def sides_of(name: str, size: int) -> tuple[dict[str, Callable[[], object]], dict[str, torch.Tensor]]:
    """Both forms on the same network, and the gradients that they give."""
    strategy = make(NETS[name])
    strategy.mixed.relaxation.train()
    train, held_out = random_batch(0, size), random_batch(1, size)
    found: dict[str, torch.Tensor] = {}

    def side(form: str) -> Callable[[], object]:
        def run() -> None:
            strategy.q.zero_grad(set_to_none=True)
            generator = generator_at(SEED, "unused")
            FORMS[form].run(strategy.mixed, strategy.optimizer, [train], [held_out], generator)
            found[form] = torch.cat(
                [value.grad.flatten() for value in strategy.q.parameters() if value.grad is not None]
            )

        return run

    return {form: side(form) for form in FORMS}, found


def main() -> None:
    asked = options(NAME, __doc__ or NAME)
    rounds = 3 if asked.quick else 15
    configurations = [("nb201", 16)] if asked.quick else [("nb201", 16), ("nb201", 32), ("darts", 16)]
    rows = []
    for name, size in configurations:
        sides, found = sides_of(name, size)
        interleaved(sides, 1)  # warm-up
        seconds = medians(interleaved(sides, rounds))
        cosine = torch.nn.functional.cosine_similarity(found["exact"], found["difference"], dim=0)
        rows.append({
            "space": name,
            "size": size,
            "ratio": round(seconds["exact"] / seconds["difference"], 4),
            "cosine_of_gradients": round(float(cosine), 4),
            "median_seconds": {side: round(value, 6) for side, value in seconds.items()},
        })  # fmt: skip
        print(rows[-1])
    ratio = statistics.fmean(float(str(row["ratio"])) for row in rows)
    settings = {"rounds": rounds, "data": "random"}
    report(NAME, ratio, GOAL, options=asked, settings=settings, details={"configurations": rows})


if __name__ == "__main__":
    main()
