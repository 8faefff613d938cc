"""What ensembles of wirings say: claims, tables and figures of the experiment `wiring_ensemble`."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

from polyarch_experiments.experiment import Settings, Table
from polyarch_experiments.figures import Spec, grouped_bars, side_by_side, summary
from polyarch_experiments.images import NAMES
from polyarch_experiments.measures import spread
from polyarch_experiments.results import Claim
from polyarch_experiments.seeds import runs_of

SCORES = {"mutual_information": "mutual information", "entropy": "entropy", "max_probability": "1 - max probability"}


def counts(settings: Settings) -> dict[str, int]:
    """How many seeds every ``data, method`` has."""
    return {f"{data}, {method}": seeds for data in settings["data"] for method, seeds in settings["seeds"].items()}


def of(settings: Settings, runs: dict[str, Any], data: str, method: str) -> list[dict[str, Any]]:
    """The runs of one method on one data set, one per seed."""
    return runs_of(runs, counts(settings), f"{data}, {method}")


def _values(settings: Settings, runs: dict[str, Any], data: str, method: str, part: str, name: str) -> list[float]:
    return [run[part][name] for run in of(settings, runs, data, method)]


def best_dropout(settings: Settings, values: Callable[[str], list[float]], *, lowest: bool = False) -> str:
    """The rate of dropout that does best on test data: a choice in favour of the baseline.

    Args:
        values: of a method, one per seed.
        lowest: whether the lowest values are the best.
    """
    rates: list[str] = [method for method in settings["seeds"] if method.startswith("dropout")]
    seeds = min(len(values(rate)) for rate in rates)
    best = min if lowest else max
    return best(rates, key=lambda rate: statistics.fmean(values(rate)[:seeds]))


def on_common_seeds(*sides: list[float]) -> list[list[float]]:
    """Every side cut to the seeds that all have: seeds differ in their training images."""
    seeds = min(map(len, sides))
    return [side[:seeds] for side in sides]


def judge(settings: Settings, runs: dict[str, Any]) -> list[Claim]:
    """Claims 4 and 5; a claim holds if it holds on every data set, by means over seeds."""
    return [
        _against(settings, runs, "accuracy", "residual"),
        _against(settings, runs, "calibration_error", "residual"),
        _against(settings, runs, "accuracy", "dropout"),
        _against(settings, runs, "calibration_error", "dropout"),
        _deep_ensemble(settings, runs),
        _detection(settings, runs),
        _attack(settings, runs),
        _weighting(settings, runs),
    ]


def _against(settings: Settings, runs: dict[str, Any], measure: str, baseline: str) -> Claim:
    is_accuracy = measure == "accuracy"
    parts, held = [], []
    for data in settings["data"]:
        found = {
            method: [100 * value for value in _values(settings, runs, data, method, "test", measure)]
            for method in settings["seeds"]
        }
        is_dropout = baseline == "dropout"
        other = best_dropout(settings, found.__getitem__, lowest=not is_accuracy) if is_dropout else baseline
        ours, theirs = on_common_seeds(found["nsa-id"], found[other])
        better = statistics.fmean(ours) - statistics.fmean(theirs)
        held.append(better > 0 if is_accuracy else better < 0)
        parts.append(f"{NAMES[data]}: {spread(ours, 2)} % (NSA-id), {spread(theirs, 2)} % ({other})")
    reported = {"residual": "WRN 2.93 / 0.0140", "dropout": "MC dropout 3.23 / 0.0107"}[baseline]
    what = "is more accurate" if is_accuracy else "has a smaller calibration error"
    names = {"residual": "the residual network", "dropout": "MC dropout"}
    return Claim(
        number=4,
        text=f"The ensemble of {settings['wirings']} wirings of NSA-id {what} than {names[baseline]}.",
        supported=all(held),
        numbers="; ".join(parts) + ("; test accuracy" if is_accuracy else "; error in %, 15 bins, no temperature"),
        document=f"error in % / calibration error: NSA-id 2.75 / 0.0032, {reported}",
    )


def _deep_ensemble(settings: Settings, runs: dict[str, Any]) -> Claim:
    parts, held = [], []
    for data in settings["data"]:
        ours = [100 * value for value in _values(settings, runs, data, "nsa-id", "test", "accuracy")]
        single, together = (
            [100 * value for value in _values(settings, runs, data, "alone", part, "accuracy")]
            for part in ("alone", "test")
        )
        ours, single, together = on_common_seeds(ours, single, together)
        held.append(statistics.fmean(single) < statistics.fmean(ours) < statistics.fmean(together))
        parts.append(
            f"{NAMES[data]}: trained alone {spread(single, 2)} %, NSA-id {spread(ours, 2)} %, "
            f"ensemble of those trained alone {spread(together, 2)} %"
        )
    return Claim(
        number=4,
        text="NSA-id lies between the mean of networks trained one by one and the ensemble of them.",
        supported=all(held),
        numbers="; ".join(parts),
        document="error 2.97 % alone, 2.75 % NSA-id, 2.36 % ensemble of networks trained one by one",
    )


def reported_score(settings: Settings, runs: dict[str, Any], data: str, method: str, strange: str) -> list[float]:
    """AUROC per seed, by mutual information as in the paper, or by entropy for one network."""
    found = [run["detection"][strange] for run in of(settings, runs, data, method)]
    score = "mutual_information" if "mutual_information" in found[0] else "entropy"
    return [one[score]["auroc"] for one in found]


def _detection(settings: Settings, runs: dict[str, Any]) -> Claim:
    parts, held = [], []
    for data in settings["data"]:
        for strange in settings["outside"][data]:
            found = {method: reported_score(settings, runs, data, method, strange) for method in settings["seeds"]}
            other = best_dropout(settings, found.__getitem__)
            ours, theirs = on_common_seeds(found["nsa-id"], found[other])
            held.append(statistics.fmean(ours) > statistics.fmean(theirs))
            parts.append(
                f"{NAMES[data]} against {NAMES[strange]}: {spread(ours, 3)} (NSA-id), {spread(theirs, 3)} ({other})"
            )
    return Claim(
        number=5,
        text="Mutual information over wirings tells another data set apart better than over dropout masks (AUROC).",
        supported=all(held) if held else None,
        numbers="; ".join(parts) or "no other data set here",
        document="0.970 against 0.935 (CIFAR-10 against SVHN)",
    )


def _attack(settings: Settings, runs: dict[str, Any]) -> Claim:
    parts, held = [], []
    for data in settings["data"]:
        found = [run["attacks"] for run in of(settings, runs, data, "nsa-id")]
        areas = {name: [one[name]["mutual_information"]["auroc"] for one in found] for name in settings["attacks"]}
        held.append(all(statistics.fmean(values) > 0.5 for values in areas.values()))
        told = ", ".join(
            f"{name}: accuracy {spread([one[name]['accuracy'] for one in found], 3)}, AUROC {spread(values, 3)}"
            for name, values in areas.items()
        )
        parts.append(f"{NAMES[data]}: {told}")
    return Claim(
        number=5,
        text="Attacked inputs raise the mutual information over wirings (AUROC above 0.5 for every attack).",
        supported=all(held),
        numbers="; ".join(parts),
        document="1-2-1, 2-3-1, 3-4-1: accuracy 0.630 / 0.401 / 0.263, AUC 0.737 / 0.705 / 0.618",
    )


def _weighting(settings: Settings, runs: dict[str, Any]) -> Claim:
    parts, held = [], []
    for data in settings["data"]:
        found = of(settings, runs, data, "nsa-id")
        equal = [run["test"]["mean_log_p"] for run in found]
        stacked, posterior = (
            [run["weighted"][kind]["mean_log_p"] for run in found] for kind in ("stacked", "posterior")
        )
        held.append(statistics.fmean(stacked) > statistics.fmean(equal))
        parts.append(
            f"{NAMES[data]}: equal {spread(equal, 4)}, stacked {spread(stacked, 4)}, posterior {spread(posterior, 4)}"
        )
    return Claim(
        text="Weights of wirings from validation data (stacked) raise the mean log p of NSA-id's ensemble.",
        supported=all(held),
        numbers="; ".join(parts) + " (posterior: by the likelihood of all validation examples)",
    )


def tables(settings: Settings, runs: dict[str, Any]) -> dict[str, Table]:
    """Tables 2 and 3, and what an ensemble of wirings costs."""
    ensembles, detections, attacks, costs = [], [], [], []
    for data in settings["data"]:
        for method, seeds in settings["seeds"].items():
            found = of(settings, runs, data, method)
            where = [NAMES[data], method]

            def cells(part: str, *names: str, digits: int = 4, found: list[dict[str, Any]] = found) -> list[str]:
                return [spread([run[part][name] for run in found], digits) for name in names]

            ensembles.append(
                [
                    *where,
                    str(seeds),
                    spread([100 * run["alone"]["accuracy"] for run in found], 2),
                    spread([100 * run["test"]["accuracy"] for run in found], 2),
                    *cells("test", "mean_log_p", "calibration_error"),
                    *cells("scaled", "mean_log_p", "calibration_error"),
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
                costs.append([*where, f"{one / 1e6:.2f}", f"{all_of / 1e6:.2f}", *sizes])
    return {
        "Accuracy and calibration; one member: of dropout one random pass; scaled: with a temperature from validation "
        "examples; risk: area under the risk-coverage curve": Table(
            ["data", "method", "seeds", "one member, %", "ensemble, %", "mean log p", "ECE", "mean log p, scaled",
             "ECE, scaled", "risk"],
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
            ["data", "method", "M MACs, one", "M MACs, all", *(f"T = {size}" for size, _ in enumerate(sizes, 1))],
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
