"""Results of searches for a depth that never ran: spirals with pictures, photographs without, and the baseline."""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any

from record_examples import contender, history, made, predictor

from polyarch.methods.depth.record import (
    FULL,
    MIXTURE,
    PRUNED,
    PRUNED_MIXTURE,
    DepthFunctions,
    DepthMeasure,
    DepthPredictor,
    DepthRecord,
    ExitPoint,
    MixtureMeasure,
)
from polyarch.results import CalibrationRecord, Results, Role, TrainingRecord

SIDE = 24
ROLES = {
    PRUNED: Role.BEST,
    PRUNED_MIXTURE: Role.MIXTURE,
    MIXTURE: Role.OTHER,
    FULL: Role.BASELINE,
    "depth 6 alone": Role.BEST,
}


def spirals_results(**changes: Any) -> Results:
    """Two numbers per example, 21 depths, thousands of epochs; pruning loses a little."""
    depths = [
        one.model_copy(update={"exact": one.q, "learned": other.q})
        for one, other in zip(measures(20, best=9, spread=3.0), measures(20, best=11, spread=4.0), strict=True)
    ]
    record = DepthRecord(
        rule="argmax",
        chosen=9,
        choices={"argmax": 9, "95%": 8, "expected": 10},
        expected=9.6,
        prior="geometric, ratio 0.85",
        updates="gradient",
        depths=depths,
        posterior="exact",
        other_choices={"argmax": 11, "95%": 9, "expected": 12},
        divergence=1.058,
        weighting="learned",
        mixtures=mixtures({"learned": (11, 0.05, 0.0447), "exact": (9, 0.06, 0.0472), "stacked": (20, 0.08, 0.051)}),
        predictors=ways(depths, 9, 11),
        exits=exits(9),
        exit_confidence=0.9,
        functions=functions(range(21), classes=2),
    )
    data = {"name": "spirals", "classes": ["inner", "outer"], "input_shape": [2], "dtype": "float32"}
    content = {**_common(record), "data": {**data, "train": 150, "valid": 50, "test": 1800}, **changes}
    content.setdefault(
        "seconds", {"train": 21.4, "forward_full": 0.0021, "forward_pruned": 0.00095, "forward_mixture": 0.0012}
    )
    return made(content)


def photos_results(**changes: Any) -> Results:
    """Images, 51 depths, the rule for large data, no pictures; nobody measured the speed."""
    depths = measures(50, best=20, spread=8.0)
    record = DepthRecord(
        rule="95%",
        chosen=18,
        choices={"argmax": 20, "95%": 18, "expected": 21},
        expected=21.3,
        prior="geometric, ratio 0.85",
        updates="em",
        depths=depths,
        predictors=ways(depths, 18, 18),
        exits=exits(18),
        exit_confidence=0.95,
    )
    classes = [str(digit) for digit in range(10)]
    data = {"name": "photographs", "classes": classes, "input_shape": [3, 32, 32], "dtype": "uint8"}
    content = {**_common(record), "data": {**data, "train": 50_000, "valid": 10_000, "test": 10_000}, **changes}
    return made(content)


def baseline_results(**changes: Any) -> Results:
    """Every second depth trained alone on data with three classes."""
    depths = [
        one.model_copy(update={"q": None, "prior": None})
        for one in measures(12, best=6, spread=2.0)
        if one.depth % 2 == 0
    ]
    record = DepthRecord(
        rule="validation",
        chosen=6,
        choices={},
        expected=None,
        prior="",
        updates="",
        depths=depths,
        predictors=[way(name, one) for name, one in (("depth 6 alone", depths[3]), (FULL, depths[-1]))],
        functions=functions([one.depth for one in depths], classes=3),
    )
    data = {"name": "flowers", "classes": ["setosa", "versicolor", "virginica"], "input_shape": [2]}
    content = {**_common(record), "data": {**data, "train": 100, "valid": 25, "test": 25}, **changes}
    return made(content)


def _common(record: DepthRecord) -> dict[str, Any]:
    options = [str(one.depth) for one in record.depths]
    is_learned = bool(record.choices)
    method = "variational-depth" if is_learned else "deterministic-depth"
    q = [one.q for one in record.depths]
    chosen = {"depth": str(record.chosen)}
    alone = next(one for one in record.depths if one.depth == record.chosen)
    name = PRUNED if is_learned else "depth 6 alone"
    ways = sorted(record.predictors, key=lambda way: way.name != name)
    contenders = [contender(way.name, ROLES[way.name], [{"depth": str(way.blocks)}], way.score, 0.0) for way in ways]
    if is_learned:  # the weights are those of the supernet
        for side in contenders:
            side.runs[0].history = []
    mixture = predictor(PRUNED_MIXTURE, "posterior", [{"depth": option} for option in options], 0.9861, 1.1)
    return {
        "polyarch": "0.2.0",
        "torch": "2.13.0",
        "method": method,
        "settings": {"seed": 0, "method": method},
        "space": {
            "name": method,
            "kind": "depth_fc",
            "size": len(options),
            "choices": {"depth": options},
            "supernet_parameters": record.depths[-1].parameters,
        },
        "training": TrainingRecord(
            strategy=method, history=history(3000 if is_learned else 0), q={"depth": q} if is_learned else None
        ),
        "record": record,
        "comparison": contenders,
        "artifact": {"architecture": chosen, "seed": 0, "score": alone.score, "parameters": alone.parameters},
        "predictors": [predictor(name, "artifact", [chosen], alone.score, 1.3), *([mixture] if is_learned else [])],
        "default": "posterior" if is_learned else "artifact",
        "decisions": [f"method {method}: the data have few examples"],
    }


def measures(deepest: int, best: int, spread: float) -> list[DepthMeasure]:
    """Shallow networks cannot tell the classes apart, deep ones are a little worse; q lies around the best."""
    weights = [math.exp(-(((depth - best) / spread) ** 2)) for depth in range(deepest + 1)]
    priors = [0.85 ** (1 + depth) for depth in range(deepest + 1)]
    found = []
    for depth in range(deepest + 1):
        loss = 0.65 * math.exp(-5 * depth / best) + 0.04 + 0.004 * max(depth - best, 0) ** 1.2
        found.append(
            DepthMeasure(
                depth=depth,
                parameters=102 + 460 * depth,
                valid_score=1 - 0.6 * loss + 0.004 * math.sin(3 * depth),
                valid_loss=1.1 * loss,
                score=1 - 0.55 * loss,
                loss=loss,
                q=weights[depth] / sum(weights),
                prior=priors[depth] / sum(priors),
            )
        )
    return found


def mixtures(found: Mapping[str, tuple[int, float, float]]) -> list[MixtureMeasure]:
    """Weights -> the last depth that they use, validation loss and test loss."""
    return [
        MixtureMeasure(
            weighting=name, weights=[1 / (depth + 1)] * (depth + 1), valid_loss=valid, loss=loss,
            score=0.9861 if name == "learned" else 0.98,
        )
        for name, (depth, valid, loss) in found.items()
    ]  # fmt: skip


def ways(depths: Sequence[DepthMeasure], chosen: int, mixed: int) -> list[DepthPredictor]:
    """Pruning costs a little, alone more than as a mixture."""
    return [
        way(MIXTURE, depths[-1], score=0.9878, loss=0.0433, mean_probability=0.9631),
        way(PRUNED_MIXTURE, depths[mixed], score=0.9861, loss=0.0447, mean_probability=0.9622),
        way(PRUNED, depths[chosen]),
        way(FULL, depths[-1]),
    ]


def way(name: str, measured: DepthMeasure, **changes: float) -> DepthPredictor:
    """The depth alone, with some numbers changed."""
    content: dict[str, Any] = measured.model_dump(exclude={"depth", "q", "exact", "learned", "prior"})
    content |= {"blocks": measured.depth, "mean_probability": math.exp(-measured.loss)}
    noise = CalibrationRecord(error=0.0123, floor=0.0101, low=0.0, high=0.0212)
    content |= {"metrics": {"calibration_error": noise.error}, "calibration": noise}
    return DepthPredictor(name=name, **{**content, **changes})


def exits(deepest: int) -> list[ExitPoint]:
    """The surer it has to be, the deeper it goes and the better it gets."""
    return [
        ExitPoint(
            confidence=confidence,
            valid_accuracy=0.97 - 0.3 * (1 - confidence) ** 2,
            accuracy=0.975 - 0.4 * (1 - confidence) ** 2,
            loss=0.05 + (1 - confidence),
            mean_depth=1 + deepest * confidence**4,
        )
        for confidence in (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0)
    ]


def functions(depths: Sequence[int], classes: int) -> DepthFunctions:
    """Arms that wind more and are surer the deeper the network is."""
    shown = []
    for depth in depths:
        turns = min(depth, 9) / 9
        grid = [(_coordinate(column), _coordinate(row)) for row in range(SIDE) for column in range(SIDE)]
        shown.append([_arm(x, y, turns, classes) for x, y in grid])
    angles = [0.3 * step for step in range(1, 40)]
    points = [
        (radius * math.cos(angle), radius * math.sin(angle), label)
        for label in range(classes)
        for radius, angle in ((step, step + label * 2 * math.pi / classes) for step in angles)
    ]
    return DepthFunctions(
        names=("width", "height"),
        x_range=(-12.0, 12.0),
        y_range=(-12.0, 12.0),
        side=SIDE,
        depths=list(depths),
        classes=[b64encode(bytes(label for label, _ in one)).decode() for one in shown],
        confidence=[b64encode(bytes(round(255 * p) for _, p in one)).decode() for one in shown],
        points=points,
    )


def _coordinate(index: int) -> float:
    return -12 + 24 * index / (SIDE - 1)


def _arm(x: float, y: float, turns: float, classes: int) -> tuple[int, float]:
    """The most probable class and its probability at a point."""
    phase = (math.atan2(y, x) - turns * math.hypot(x, y)) * classes / (2 * math.pi) % classes
    nearest = round(phase)
    return nearest % classes, 1 - (1 - 1 / classes) * (1 - turns * (1 - 2 * abs(phase - nearest)))
