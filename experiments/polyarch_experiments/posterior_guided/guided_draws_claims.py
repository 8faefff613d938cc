"""What networks drawn from a posterior say: claims, tables and figures of the experiment `guided_draws`."""

from __future__ import annotations

import statistics
from typing import Any

from polyarch_experiments.experiment import Settings, Table
from polyarch_experiments.figures import Spec, grouped_bars, lines, side_by_side, summary
from polyarch_experiments.images import NAMES
from polyarch_experiments.measures import spread, with_noise
from polyarch_experiments.posterior_guided.fairness import if_fair, lower
from polyarch_experiments.results import Claim
from polyarch_experiments.seeds import runs_of
from polyarch_experiments.verdict import claim, finding, over_seeds, paired

KEEPS_ALL = 0.99
"""The expected share of kept channels from which on a posterior counts as that of the whole network."""

NOT_COUNTED = ", not counted: nothing is dropped"

WHOLE = ("alone", "plain")
"""Networks that were trained alone: draws are compared with them also where nothing is dropped."""

KINDS = {"guided": "guided", "flat": "one rate, the same weights", "random": "one rate, trained with it"}


def counts(settings: Settings) -> dict[str, int]:
    """How many seeds every ``data, family`` has."""
    return {f"{data}, {family}": seeds for data in settings["data"] for family, seeds in settings["seeds"].items()}


def places(settings: Settings) -> list[tuple[str, str]]:
    """Every data set with every family."""
    return [(data, family) for data in settings["data"] for family in settings["seeds"]]


def of(settings: Settings, runs: dict[str, Any], data: str, family: str) -> list[dict[str, Any]]:
    """The runs of a family on a data set, one per seed."""
    return runs_of(runs, counts(settings), f"{data}, {family}")


def error(run: dict[str, Any], kind: str) -> float:
    """Test error in %, of the best draw of a kind, of it after further training, or of a whole network."""
    drawn, _, further = kind.partition(", ")
    if further:
        found = run["tuned"][drawn]
    elif drawn in KINDS:
        found = run[drawn]["test"]
    elif drawn == "mixture":
        found = run["prediction"]["mixture"]["test"]
    elif drawn == "plain":
        found = run["plain"]["test"]
    else:
        found = run[drawn.replace(" ", "_")]
    return float(100 * (1 - found["accuracy"]))


def drops(found: list[dict[str, Any]]) -> bool:
    """Whether these posteriors drop anything to speak of; otherwise all draws are the whole network."""
    return statistics.fmean(run["keep_rate"] for run in found) < KEEPS_ALL


def judge(settings: Settings, runs: dict[str, Any]) -> list[Claim]:
    """Claims 1, 3 and 4: a claim holds if the intervals over seeds of all families and data sets say so.

    Where nothing is dropped, draws are not compared with each other.
    """
    claims = [
        _lower(
            settings, runs, "guided", "flat",
            "Without further training, draws from the posterior beat draws at one rate from the same weights.",
            "MI: 2.06 % guided, 9.75 % random, both without fine-tuning",
        ),
        _lower(
            settings, runs, "guided", "random",
            "Without further training, they beat draws from a network that was trained with the one rate.",
            "MI: 2.06 % guided, 9.75 % random; M: 2.20 %, 2.63 %",
        ),
        _lower(
            settings, runs, "guided", "random, tuned",
            "Draws from the posterior without further training beat random draws with it.",
            "MI: 2.06 % guided, 2.69 % random with fine-tuning",
        ),
        _lower(
            settings, runs, "guided", "alone",
            "The best draw beats the whole network, trained alone.",
            "M: 2.20 % guided, 2.58 % full model; E: 2.73 %, 2.98 %",
        ),
        *([_lower(
            settings, runs, "guided", "plain",
            "The best draw beats a plain network of uniform width with as many operations, trained alone.",
            "ImageNet: 22.73 % guided, 23.96 % ResNet-50 with as many parameters (table 9)",
        )] if _has_plain(runs) else []),
        _more_candidates(settings, runs),
        _shares(settings, runs),
        _with_own_statistics(settings, runs),
        _lower(
            settings, runs, "mixture", "guided",
            f"{settings['members']} draws together have a lower error than the best one alone.",
        ),
        _detection(settings, runs),
    ]  # fmt: skip
    return if_fair(settings, claims)


def _has_plain(runs: dict[str, Any]) -> bool:
    """Results of earlier versions have no plain network."""
    return all("plain" in run for run in runs.values())


def _lower(
    settings: Settings, runs: dict[str, Any], ours: str, theirs: str, text: str, document: str | None = None
) -> Claim:
    parts, findings = [], []
    for data, family in places(settings):
        found = of(settings, runs, data, family)
        first, second = ([error(run, kind) for run in found] for kind in (ours, theirs))
        counted = theirs in WHOLE or drops(found)
        place = f"{NAMES[data]} {family}"
        if counted:
            findings.append(lower(place, first, second))
        aside = "" if counted else NOT_COUNTED
        parts.append(f"{place}: {spread(first, 2)} % ({ours}), {spread(second, 2)} % ({theirs}){aside}")
    numbers = f"points of difference; test error: {'; '.join(parts)}"
    if document is None:
        return claim(text, findings, numbers)
    return claim(text, findings, numbers, number=1, document=document)


def _with_own_statistics(settings: Settings, runs: dict[str, Any]) -> Claim:
    parts, findings = [], []
    for data, family in places(settings):
        found = of(settings, runs, data, family)
        errors = {kind: [100 * (1 - run["reestimated"][kind]) for run in found] for kind in KINDS}
        place = f"{NAMES[data]} {family}"
        if drops(found):
            findings += [
                lower(f"{place}, guided minus {kind}", errors["guided"], errors[kind]) for kind in ("flat", "random")
            ]
        told = ", ".join(f"{spread(values, 2)} % ({kind})" for kind, values in errors.items())
        parts.append(f"{place}: {told}{'' if drops(found) else NOT_COUNTED}")
    return claim(
        "Draws from the posterior beat draws at one rate also when all get normalisation statistics of their own.",
        findings,
        f"mean test error of {settings['members']} draws: {'; '.join(parts)}",
    )


def _more_candidates(settings: Settings, runs: dict[str, Any]) -> Claim:
    parts, findings = [], []
    for data, family in places(settings):
        found = [run["best_of"]["guided"] for run in of(settings, runs, data, family)]
        few, many = (list(found[0])[place] for place in (0, -1))
        first, last = ([100 * (1 - one[count]) for one in found] for count in (few, many))
        place = f"{NAMES[data]} {family}"
        findings.append(lower(place, last, first))
        parts.append(f"{place}: {spread(first, 2)} % for {few}, {spread(last, 2)} % for {many}")
    return claim(
        "More candidates help slowly.",
        findings,
        f"points gained; expected test error of the best candidate: {'; '.join(parts)}",
        number=3,
        document="MI: 2.17 % for 50 candidates, 2.06 % for 1,500, 1.98 % for 10,000",
    )


def _shares(settings: Settings, runs: dict[str, Any]) -> Claim:
    operations, findings = [], []
    for data, family in places(settings):
        found = [run["guided"] for run in of(settings, runs, data, family)]
        channels, whole = ([100 * one[name] for one in found] for name in ("dropped_channels", "dropped_operations"))
        place = f"{NAMES[data]} {family}"
        findings.append(finding(f"{place}, % of channels", over_seeds(channels), above=18, below=44))
        operations.append(f"{place}: {spread(whole, 0)} %")
    return claim(
        "The share of dropped channels is that of the paper, 18 to 44 %.",
        findings,
        f"of whole operations: {'; '.join(operations)}",
        number=4,
        document="18 to 44 % of channels, 10 to 26 % of whole operations",
        ours="shares between those of the paper's smallest and largest",
        needs="networks of the paper's size, trained for 630 or 1,800 epochs: what a small network can spare says "
        "little about that",
    )


def _detection(settings: Settings, runs: dict[str, Any]) -> Claim:
    parts, findings = [], []
    for data, family in places(settings):
        for outside in settings["outside"][data]:
            found = [run["prediction"] for run in of(settings, runs, data, family)]
            mixture = [one["mixture"]["detection"][outside]["mutual_information"]["auroc"] for one in found]
            alone = [one["alone"]["detection"][outside]["entropy"]["auroc"] for one in found]
            place = f"{NAMES[data]} {family} against {NAMES[outside]}"
            findings.append(finding(place, paired(mixture, alone), above=0))
            parts.append(
                f"{place}: {spread(mixture, 2)} (mutual information of draws), "
                f"{spread(alone, 2)} (entropy of the network trained alone)"
            )
    return claim(
        "Draws disagree about strange images: their mutual information detects them better than the entropy of one "
        "network.",
        findings,
        f"AUROC: {'; '.join(parts)}" if parts else "no strange images at this size",
    )


def tables(settings: Settings, runs: dict[str, Any]) -> dict[str, Table]:
    """Errors and sizes, and how good predictions from several draws are."""
    return {
        "Test error in % (table 3)": _errors(settings, runs),
        "Expected test error of the best of so many candidates, in % (table 6)": _candidates(settings, runs),
        "What was dropped in the best draw (table 7)": _dropped(settings, runs),
        "Mean test error of draws in %, as they are and with normalisation statistics of their own": _statistics(
            settings, runs
        ),
        "Predictions from several draws": _predictions(settings, runs),
    }


def _errors(settings: Settings, runs: dict[str, Any]) -> Table:
    plain = {"plain": "plain network of as many operations, trained alone"} if _has_plain(runs) else {}
    kinds = ["alone", "all kept", *KINDS, "random, tuned", "guided, tuned", *plain, "mixture"]
    alone = {"alone": "whole network, trained alone", "all kept": "whole network, weights of the search"}
    titles = {**alone, **KINDS, **plain}
    rows = []
    for data, family in places(settings):
        found = of(settings, runs, data, family)
        for kind in kinds:
            cost = _cost(found, kind, settings["members"])
            values = [error(run, kind) for run in found]
            rows.append([NAMES[data], family, titles.get(kind, kind), spread(values, 2), *cost, str(len(found))])
    columns = ["data", "network", "what", "test error, %", "parameters, thousand", "MACs, million", "seeds"]
    return Table(columns, rows)


def _cost(found: list[dict[str, Any]], kind: str, members: int) -> list[str]:
    """Parameters and multiply-accumulates, for people."""
    if kind == "mixture":
        return [f"{members} draws", f"{members} draws"]
    drawn = kind.split(",")[0]
    costs = [run[drawn]["cost"] if drawn in (*KINDS, "plain") else run["full_cost"] for run in found]
    parameters, macs = ([one[name] for one in costs] for name in ("parameters", "macs"))
    return [spread([value / 1e3 for value in parameters], 1), spread([value / 1e6 for value in macs], 2)]


def _candidates(settings: Settings, runs: dict[str, Any]) -> Table:
    rows = [
        [
            NAMES[data],
            family,
            KINDS[kind],
            *(_of_so_many(of(settings, runs, data, family), kind, str(count)) for count in settings["best_of"]),
        ]
        for data, family in places(settings)
        for kind in KINDS
    ]
    return Table(["data", "network", "draws", *map(str, settings["best_of"])], rows)


def _of_so_many(found: list[dict[str, Any]], kind: str, count: str) -> str:
    """The expected error of the best of so many candidates, if there were so many."""
    if count not in found[0]["best_of"][kind]:
        return "-"
    return spread([100 * (1 - run["best_of"][kind][count]) for run in found], 2)


def _statistics(settings: Settings, runs: dict[str, Any]) -> Table:
    rows = []
    for data, family in places(settings):
        found = of(settings, runs, data, family)
        for kind, title in KINDS.items():
            running = [100 * (1 - run[kind]["mean_accuracy"]) for run in found]
            own = [100 * (1 - run["reestimated"][kind]) for run in found]
            rows.append([NAMES[data], family, title, spread(running, 2), spread(own, 2)])
    return Table(["data", "network", "draws", "statistics of the training", "statistics of their own"], rows)


def _dropped(settings: Settings, runs: dict[str, Any]) -> Table:
    rows = []
    for data, family in places(settings):
        found = of(settings, runs, data, family)
        left = {
            name: [100 * run["guided"]["cost"][name] / run["full_cost"][name] for run in found]
            for name in ("parameters", "macs")
        }
        rows.append(
            [
                NAMES[data],
                family,
                spread([100 * (1 - run["keep_rate"]) for run in found], 1),
                spread([100 * run["guided"]["dropped_channels"] for run in found], 1),
                spread([100 * run["guided"]["dropped_operations"] for run in found], 1),
                spread(left["parameters"], 1),
                spread(left["macs"], 1),
            ]
        )
    columns = [
        "data", "network", "mean drop probability, %", "channels dropped, %", "operations dropped, %",
        "parameters left, %", "MACs left, %",
    ]  # fmt: skip
    return Table(columns, rows)


def _predictions(settings: Settings, runs: dict[str, Any]) -> Table:
    titles = {"alone": "whole network, trained alone", "best": "best draw", "mixture": f"{settings['members']} draws"}
    rows = []
    for data, family in places(settings):
        found = [run["prediction"] for run in of(settings, runs, data, family)]
        for kind, title in titles.items():
            tests = [one[kind]["test"] for one in found]
            detection = []
            for outside in settings["outside"][data]:
                score = "mutual_information" if kind == "mixture" else "entropy"
                values = [one[kind]["detection"][outside][score]["auroc"] for one in found]
                detection.append(f"{spread(values, 2)} ({NAMES[outside]})")
            rows.append(
                [
                    NAMES[data],
                    family,
                    title,
                    spread([100 * one["accuracy"] for one in tests], 2),
                    spread([one["mean_log_p"] for one in tests], 3),
                    with_noise(tests),
                    ", ".join(detection) or "-",
                ]
            )
    columns = [
        "data", "network", "what", "accuracy, %", "mean log p", "calibration error; floor; interval",
        "AUROC of strange images (mutual information of draws, entropy of one network)",
    ]  # fmt: skip
    return Table(columns, rows)


def figures(settings: Settings, runs: dict[str, Any]) -> dict[str, Spec]:
    """Errors side by side, the use of more candidates, and what every layer drops."""
    curves, drops = [], []
    for data, family in places(settings):
        found = of(settings, runs, data, family)
        place = f"{NAMES[data]} {family}"
        rows = [
            {"x": int(count), "series": title, **summary([100 * (1 - run["best_of"][kind][count]) for run in found])}
            for kind, title in KINDS.items()
            for count in found[0]["best_of"][kind]
        ]
        curves.append(lines(rows, "candidates", "expected test error of the best, %", log=True, title=place))
        layers = list(found[0]["drop"])
        rows = [
            {"x": position + 1, "series": place, **summary([run["drop"][layer] for run in found])}
            for position, layer in enumerate(layers)
        ]
        drops.append(lines(rows, "gated layer, in order", "drop probability", domain=(0, 1), title=place))
    return {
        "guided_errors": side_by_side(*(error_bars(settings, runs, data) for data in settings["data"])),
        "guided_candidates": side_by_side(*curves),
        "guided_drops": side_by_side(*drops),
    }


def error_bars(settings: Settings, runs: dict[str, Any], data: str) -> Spec:
    """Test errors on one data set."""
    further = {"guided, tuned": "guided, trained further", "random, tuned": "one rate, trained further"}
    plain = {"plain": "plain network of as many operations"} if _has_plain(runs) else {}
    shown = {**KINDS, **further, **plain, "alone": "whole network, alone"}
    rows = [
        {"x": family, "series": title, **summary([error(run, kind) for run in of(settings, runs, data, family)])}
        for family in settings["seeds"]
        for kind, title in shown.items()
    ]
    return grouped_bars(rows, "", "test error, %", series="", title=NAMES[data])
