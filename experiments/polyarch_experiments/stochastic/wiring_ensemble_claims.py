"""What ensembles of wirings say: claims, tables and figures of the experiment `wiring_ensemble`."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from typing import Any

from polyarch_experiments.experiment import Settings, Table
from polyarch_experiments.figures import Spec, grouped_bars, side_by_side, summary
from polyarch_experiments.images import NAMES
from polyarch_experiments.measures import spread, with_noise
from polyarch_experiments.results import Claim, Finding
from polyarch_experiments.seeds import by_seed
from polyarch_experiments.verdict import claim, finding, paired_by_seed

SCORES = {"mutual_information": "mutual information", "entropy": "entropy", "max_probability": "1 - max probability"}
FITS = 0.99
"""The training accuracy from which a network counts as one that fits its training images."""

Value = Callable[[Mapping[str, Any]], float]
"""What is compared, of a run."""


def counts(settings: Settings) -> dict[str, int]:
    """How many seeds every ``data, method`` has."""
    return {f"{data}, {method}": seeds for data in settings["data"] for method, seeds in settings["seeds"].items()}


def of(settings: Settings, runs: Mapping[str, Any], data: str, method: str) -> list[dict[str, Any]]:
    """The finished runs of one method on one data set; none of a method that these settings do not have."""
    return list(by_seed(runs, counts(settings), f"{data}, {method}").values())


def dropout(settings: Settings) -> str:
    """The name of MC dropout with its rate."""
    methods: dict[str, int] = settings["seeds"]
    return next(method for method in methods if method.startswith("dropout"))


def compared(
    settings: Settings,
    runs: Mapping[str, Any],
    name: str,
    sides: tuple[str, str],
    values: tuple[Value, Value],
    *,
    lower: bool = False,
) -> list[Finding]:
    """For every data set, how far the first side is above the second, or below it, on the seeds that both have."""
    found = []
    for data in settings["data"]:
        first, second = (
            {seed: value(run) for seed, run in by_seed(runs, counts(settings), f"{data}, {side}").items()}
            for side, value in zip(sides, values, strict=True)
        )
        bounds: dict[str, float] = {"below": 0.0} if lower else {"above": 0.0}
        found.append(finding(f"{NAMES[data]}, difference in {name}", paired_by_seed(first, second), **bounds))
    return found


def measured(part: str, name: str, factor: float = 1.0) -> Value:
    """A measure of the mixture (``test``), scaled, or of its members alone."""
    return lambda run: factor * float(run[part][name])


def _above_floor(run: Mapping[str, Any]) -> float:
    """The calibration error without what a perfect predictor would have; both are noisy, so that it may be below 0."""
    return float(run["test"]["calibration_error"] - run["test"]["calibration_floor"])


def judge(settings: Settings, runs: dict[str, Any]) -> list[Claim]:
    """Claims 4 and 5, one for every measure and baseline, by intervals over seeds."""
    return [
        *_quality(settings, runs),
        *_trained_alone(settings, runs),
        _detection(settings, runs),
        *_attacks(settings, runs),
        _weighting(settings, runs),
        claim(
            "On CIFAR-100, NSA-id is more accurate and better calibrated than the residual network and MC dropout.",
            [],
            "not run: CIFAR-100 is not here",
            number=4,
            document="error in % / calibration error: NSA-id 16.44 / 0.0212, WRN 16.75 / 0.0672, MC dropout "
            "17.16 / 0.0454",
            needs="the data, and the preset paper",
        ),
    ]


def _quality(settings: Settings, runs: dict[str, Any]) -> list[Claim]:
    """The ensemble against single networks and other ensembles of about the same cost of training."""
    baselines = {
        "residual": ("the residual network", "WRN 2.93 / 0.0140"),
        dropout(settings): ("MC dropout", "MC dropout 3.23 / 0.0107"),
        "packed 4": ("packed residual networks", None),
    }
    measures: dict[str, tuple[str, Value, bool]] = {
        "accuracy": ("is more accurate", measured("test", "accuracy", 100), False),
        "negative log-likelihood": ("has a smaller negative log-likelihood", measured("test", "mean_log_p", -1), True),
        "calibration error above its floor": ("is better calibrated", _above_floor, True),
    }
    found = []
    for measure, (what, value, lower) in measures.items():
        for method, (name, reported) in baselines.items():
            if method not in settings["seeds"]:
                continue
            in_paper = reported is not None and measure != "negative log-likelihood"
            findings = compared(settings, runs, measure, ("nsa-id", method), (value, value), lower=lower)
            document = f"error in % / calibration error: NSA-id 2.75 / 0.0032, {reported}"
            found.append(
                claim(
                    f"The ensemble of {settings['wirings']} wirings of NSA-id {what} than {name}.",
                    findings,
                    _levels(settings, runs, ("nsa-id", method), value),
                    number=4 if in_paper else None,
                    document=document if in_paper else "not in the paper",
                    needs=unfitted(settings, runs, ("nsa-id", method)),
                )
            )
    return found


def unfitted(settings: Settings, runs: Mapping[str, Any], methods: tuple[str, ...]) -> str | None:
    """What a fair test would take if networks do not fit their training images: those are rarely overconfident."""
    lowest = min(
        (run["train"] for data in settings["data"] for method in methods for run in of(settings, runs, data, method)),
        default=1.0,
    )
    if lowest > FITS:
        return None
    return f"networks that fit their training images (accuracy above {100 * FITS:.0f} %); here {100 * lowest:.1f} %"


def _levels(settings: Settings, runs: Mapping[str, Any], methods: tuple[str, ...], value: Value) -> str:
    """Every side by itself."""
    parts = []
    for data in settings["data"]:
        sides = {method: [value(run) for run in of(settings, runs, data, method)] for method in methods}
        told = ", ".join(f"{method} {spread(values, 4)}" for method, values in sides.items() if values)
        parts += [f"{NAMES[data]}: {told}"] if told else []
    return "; ".join(parts)


def _trained_alone(settings: Settings, runs: dict[str, Any]) -> list[Claim]:
    document = "error 2.97 % alone, 2.75 % NSA-id, 2.36 % ensemble of networks trained one by one"
    together, single = measured("test", "accuracy", 100), measured("alone", "accuracy", 100)
    return [
        claim(
            "NSA-id is more accurate than the mean network trained alone with one of its wirings.",
            compared(settings, runs, "accuracy", ("nsa-id", "alone"), (together, single)),
            _levels(settings, runs, ("nsa-id",), together),
            number=4,
            document=document,
        ),
        claim(
            "The ensemble of networks trained one by one is more accurate than NSA-id.",
            compared(settings, runs, "accuracy", ("alone", "nsa-id"), (together, together)),
            _levels(settings, runs, ("alone", "nsa-id"), together),
            number=4,
            document=document,
        ),
    ]


def _auroc(strange: str) -> Value:
    """By mutual information as in the paper, or by entropy for one network."""

    def value(run: Mapping[str, Any]) -> float:
        found = run["detection"][strange]
        return float(found.get("mutual_information", found["entropy"])["auroc"])

    return value


def reported_score(settings: Settings, runs: Mapping[str, Any], data: str, method: str, strange: str) -> list[float]:
    """AUROC per seed, by mutual information as in the paper, or by entropy for one network."""
    return [_auroc(strange)(run) for run in of(settings, runs, data, method)]


def _detection(settings: Settings, runs: dict[str, Any]) -> Claim:
    findings, parts, other = [], [], dropout(settings)
    for data in settings["data"]:
        for strange in settings["outside"][data]:
            one, value = {**settings, "data": [data]}, _auroc(strange)
            findings += compared(one, runs, f"AUROC of {NAMES[strange]}", ("nsa-id", other), (value, value))
            parts.append(_levels(one, runs, ("nsa-id", other, "residual", "packed 4", "alone"), value))
    return claim(
        "Mutual information over wirings tells another data set apart better than over dropout masks (AUROC).",
        findings,
        "; ".join(part for part in parts if part) or "no other data set here",
        number=5,
        document="0.970 against 0.935 (CIFAR-10 against SVHN)",
    )


def _attacks(settings: Settings, runs: dict[str, Any]) -> list[Claim]:
    """Accuracy and detection under every attack, against dropout and against chance."""
    other = dropout(settings)
    accuracies: list[Finding] = []
    areas: list[Finding] = []
    raised: list[Finding] = []
    for name in settings["attacks"]:

        def right(run: Mapping[str, Any], name: str = name) -> float:
            return float(run["attacks"][name]["accuracy"])

        def area(run: Mapping[str, Any], name: str = name) -> float:
            return float(run["attacks"][name]["mutual_information"]["auroc"])

        accuracies += compared(settings, runs, f"accuracy under {name}", ("nsa-id", other), (right, right))
        areas += compared(settings, runs, f"AUROC under {name}", ("nsa-id", other), (area, area))
        raised += compared(settings, runs, f"AUROC - 0.5 under {name}", ("nsa-id", "nsa-id"), (area, lambda run: 0.5))
    document = (
        "1-2-1, 2-3-1, 3-4-1: accuracy 0.630 / 0.401 / 0.263 and AUC 0.737 / 0.705 / 0.618 (NSA-id), 0.622 / 0.345 / "
        "0.183 and 0.735 / 0.694 / 0.564 (MC dropout)"
    )
    return [
        claim("NSA-id is right under attack more often than MC dropout.", accuracies, number=5, document=document),
        claim(
            "Mutual information tells attacked inputs apart better over wirings than over dropout masks.",
            areas,
            number=5,
            document=document,
        ),
        claim(
            "Attacked inputs raise the mutual information over wirings (AUROC above 0.5 for every attack).",
            raised,
            number=5,
            document=document,
            ours="0.5, what chance would give",
        ),
    ]


def _weighting(settings: Settings, runs: dict[str, Any]) -> Claim:
    stacked: Value = lambda run: float(run["weighted"]["stacked"]["mean_log_p"])  # noqa: E731
    equal = measured("test", "mean_log_p")
    return claim(
        "Weights of wirings from validation data (stacked) raise the mean log p of NSA-id's ensemble.",
        compared(settings, runs, "mean log p", ("nsa-id", "nsa-id"), (stacked, equal)),
        _levels(settings, runs, ("nsa-id",), equal),
    )


def tables(settings: Settings, runs: dict[str, Any]) -> dict[str, Table]:
    """Tables 2 and 3, and what an ensemble of wirings costs."""
    ensembles, detections, attacks, costs = [], [], [], []
    for data in settings["data"]:
        for method in settings["seeds"]:
            found = of(settings, runs, data, method)
            if not found:
                continue
            where = [NAMES[data], method]

            def cells(part: str, *names: str, digits: int = 4, found: list[dict[str, Any]] = found) -> list[str]:
                return [spread([run[part][name] for run in found], digits) for name in names]

            ensembles.append(
                [
                    *where,
                    str(len(found)),
                    spread([100 * run["train"] for run in found], 2),
                    spread([100 * run["alone"]["accuracy"] for run in found], 2),
                    spread([100 * run["test"]["accuracy"] for run in found], 2),
                    *cells("test", "mean_log_p"),
                    with_noise([run["test"] for run in found]),
                    *cells("scaled", "mean_log_p"),
                    with_noise([run["scaled"] for run in found]),
                    *cells("test", "risk_area"),
                ]
            )
            for strange in found[0]["detection"]:
                sides = [run["detection"][strange] for run in found]
                values = [
                    spread([side[score][name] for side in sides], 3) if score in sides[0] else "-"
                    for score in SCORES
                    for name in (("auroc", "aupr", "fpr95") if score == "mutual_information" else ("auroc",))
                ]
                detections.append([*where, _strange(strange), *values])
            for attack in settings["attacks"]:
                struck = [run["attacks"][attack] for run in found]
                values = [
                    spread([one[score]["auroc"] for one in struck], 3) if score in struck[0] else "-"
                    for score in SCORES
                ]
                attacks.append([*where, attack, spread([one["accuracy"] for one in struck], 3), *values])
            one, all_of = (statistics.fmean(run["macs"][name] for run in found) for name in ("one", "all"))
            if "weighted" in found[0]:
                sizes = [
                    spread([100 * run["sizes"][size] for run in found], 2) for size in range(len(found[0]["sizes"]))
                ]
                sizes += ["-"] * (settings["wirings"] - len(sizes))
                costs.append([*where, f"{one / 1e6:.2f}", f"{all_of / 1e6:.2f}", *sizes])
    return {
        "Accuracy and calibration; one member: of dropout one random pass; scaled: with a temperature from validation "
        "examples; risk: area under the risk-coverage curve": Table(
            ["data", "method", "seeds", "training, %", "one member, %", "ensemble, %", "mean log p",
             "ECE; floor; interval", "mean log p, scaled", "ECE, scaled; floor; interval", "risk"],
            ensembles,
        ),
        "Telling strange inputs apart": Table(
            ["data", "method", "inputs", "MI, AUROC", "MI, AUPR", "MI, FPR95", "entropy, AUROC", "max p, AUROC"],
            detections,
        ),
        "Under attack (radius-steps-step, in 1/255)": Table(
            ["data", "method", "attack", "accuracy", "MI, AUROC", "entropy, AUROC", "max p, AUROC"], attacks
        ),
        "Accuracy, %, by the number of members, and what they cost": Table(
            ["data", "method", "M MACs, one", "M MACs, all",
             *(f"T = {size}" for size in range(1, settings["wirings"] + 1))],
            costs,
        ),
    }  # fmt: skip


def figures(settings: Settings, runs: dict[str, Any]) -> dict[str, Spec]:
    """Accuracy and calibration, detection, and accuracy under attack, as bars."""
    accuracy, calibration, detections, attacks = [], [], [], []
    for data in settings["data"]:
        noticed, struck = [], []
        for method in settings["seeds"]:
            found = of(settings, runs, data, method)
            if not found:
                continue
            accuracy.append(_bar(NAMES[data], method, [100 * run["test"]["accuracy"] for run in found]))
            calibration.append(_bar(NAMES[data], method, [run["test"]["calibration_error"] for run in found]))
            noticed += [
                _bar(_strange(strange), method, reported_score(settings, runs, data, method, strange))
                for strange in found[0]["detection"]
            ]
            struck += [
                _bar(attack, method, [run["attacks"][attack]["accuracy"] for run in found])
                for attack in settings["attacks"]
            ]
        if not struck:
            continue
        title = f"{NAMES[data]}: strange inputs by mutual information (residual: entropy)"
        detections.append(grouped_bars(noticed, "", "AUROC", series="", title=title))
        attacks.append(grouped_bars(struck, "", "accuracy", series="", title=f"{NAMES[data]} under attack"))
    return {
        "ensemble_quality": side_by_side(
            grouped_bars(accuracy, "", "test accuracy, %", series="", title="Accuracy"),
            grouped_bars(calibration, "", "expected calibration error", series="", title="Calibration, no temperature"),
        ),
        "ensemble_detection": side_by_side(*detections),
        "ensemble_attacks": side_by_side(*attacks),
    }


def _strange(name: str) -> str:
    return NAMES.get(name, name.replace("_", " "))


def _bar(group: str, series: str, values: list[float]) -> dict[str, Any]:
    return {"x": group, "series": series, **summary(values)}
