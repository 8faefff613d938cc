"""Tables 4.2 to 4.5 in further spaces: rankings by supernets of NAS-Bench-1shot1 and of the DARTS space."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from polyarch.methods.one_shot import THESIS_PROXIMAL
from polyarch.ranking import top_k
from polyarch.runs.run import Run
from polyarch.spaces import Architecture
from polyarch.tables import load_truth
from polyarch.truths.equivalence import equivalence_classes
from polyarch_experiments.experiment import Experiment, Settings, Table
from polyarch_experiments.figures import Spec, grouped_bars, side_by_side, summary
from polyarch_experiments.measures import spread
from polyarch_experiments.papers import TRAINING_SPEED
from polyarch_experiments.ranked_supernets import Scored, recipe, score_all, train_supernet, trial_of, with_fewer_valid
from polyarch_experiments.results import Claim
from polyarch_experiments.seeds import runs_of, seeded
from polyarch_experiments.training_speed.strategy_claims import RankedRuns, fair_passes
from polyarch_experiments.training_speed.strategy_ranking import TOGETHER, accuracies_alone, content_of
from polyarch_experiments.training_speed.strategy_scores import ESTIMATORS, NAMES, correlation, scores_of, top_of
from polyarch_experiments.training_speed.thesis_recipe import OTHER_RATE, SINGLE_PATH_RATE, thesis_recipe
from polyarch_experiments.verdict import claim, finding, paired

SCORED = ("sotl", "tl_mini", "val_acc", "val_acc_mini", "val_acc_after", "sog", "sogn", "params")
RUN_AGAIN = ("sotl", "val_acc_after", "sog", "sogn")
"""What short runs at another rate are scored by."""
OWN = "own"
"""The truth of networks that the experiment trains alone."""
BOTH = "multi_path_meta_prox"

SpaceItem = tuple[str, str, int]
"""A space, a strategy and a seed; or a space, ``truth`` and the number of a share of its architectures."""


def items(settings: Settings) -> dict[str, SpaceItem]:
    """Every space with its strategies and seeds, and networks trained alone where that is its truth."""
    found: dict[str, SpaceItem] = {}
    for space, its in settings["spaces"].items():
        found |= {f"{space}, {name}": (space, *item) for name, item in seeded(its["strategies"]).items()}
        shares = -(-its["architectures"] // TOGETHER) if its["truth"] == OWN else 0
        found |= {f"{space}, truth {share}": (space, "truth", share) for share in range(shares)}
    return found


def run(settings: Settings, item: SpaceItem, folder: Path) -> dict[str, Any]:
    """Trains a supernet and scores the architectures of a space with it, or trains some of them alone."""
    space, name, number = item
    its = settings["spaces"][space]
    content = {**settings["run"], "space": its["space"]}
    if name == "truth":
        kept = _architectures(content, its["architectures"])[TOGETHER * number : TOGETHER * (number + 1)]
        return {"accuracies": accuracies_alone(content, settings["alone"], kept, folder / f"alone-{space}")}
    store = folder / f"{space}-{name}-{number}"
    supernet = train_supernet(content_of({**settings, "run": content}, name), number, store)
    trained = with_fewer_valid(supernet, settings["valid_examples"])
    architectures = _architectures(content, its["architectures"])

    def scored(by: Run, estimators: Sequence[str], journal: str) -> list[dict[str, Any]]:
        return score_all(Scored(by.net, by.estimators(estimators)), architectures, store / "checkpoints" / journal)

    rows = scored(trained, SCORED, "scored.jsonl")
    if its["truth"] != OWN:
        truth = load_truth(its["truth"])
        for row, one in zip(rows, architectures, strict=True):
            row["truth"] = round(truth.accuracy(one), 3)
    if name not in settings["rates"]:
        return {"scored": rows}
    slower = with_rate(trained, settings["run"]["scores"]["learning_rate"])
    return {"scored": rows, "slower": scored(slower, RUN_AGAIN, "slower.jsonl")}


def with_rate(run: Run, rate: float) -> Run:
    """The same run whose short runs have another learning rate."""
    scores = run.settings.scores.model_copy(update={"learning_rate": rate})
    return replace(run, settings=run.settings.model_copy(update={"scores": scores}))


def _architectures(content: Mapping[str, Any], count: int) -> list[Architecture]:
    """The same random distinct networks whatever the seed of the run."""
    return [same[0] for same in equivalence_classes(trial_of(content).net.space, count, seed=0)]


def ranked_of(settings: Settings, runs: Mapping[str, Any], space: str) -> RankedRuns:
    """The runs of one space."""
    its = settings["spaces"][space]
    own = {name.removeprefix(f"{space}, "): run for name, run in runs.items() if name.startswith(f"{space}, ")}
    if its["truth"] == OWN:
        found = [run["accuracies"] for name, run in own.items() if name.startswith("truth ")]
        truth = {key: value for accuracies in found for key, value in accuracies.items()}
    else:
        truth = {row["architecture"]: row["truth"] for row in next(iter(own.values()))["scored"]}
    return RankedRuns(its["strategies"], own, truth)


def judge(settings: Settings, runs: dict[str, Any]) -> list[Claim]:
    """Claims 1 and 7 in every space, and what table 4.3 asks."""
    return [one for space in settings["spaces"] for one in _claims(settings, runs, space)]


def _claims(settings: Settings, runs: Mapping[str, Any], space: str) -> Iterator[Claim]:
    ranked, needs = ranked_of(settings, runs, space), fair_passes(settings)
    yield claim(
        f"In {space}, SoTL ranks better than ValAcc under every strategy.",
        [
            ranked.finding(NAMES[name], ranked.spearman(name, "sotl") - ranked.spearman(name, "val_acc"), above=0)
            for name in ranked.counts
        ],
        "Spearman with SoTL minus that with ValAcc",
        number=1,
        document="0.43 to 0.61, 0.50 to 0.61, 0.15 to 0.27 and 0.18 to 0.43 with SoTL in NB101-1, -2, -3 and DARTS; "
        "-0.04 to 0.27, 0.04 to 0.46, -0.08 to 0.07 and 0.08 to 0.19 with ValAcc (table 4.2)",
        needs=needs,
    )
    yield claim(
        f"In {space}, MultiPath + MetaProx ranks better by SoTL than either alone.",
        [
            ranked.finding(f"over {NAMES[one]}", ranked.spearman(BOTH, "sotl") - ranked.spearman(one, "sotl"), above=0)
            for one in ("multi_path", "meta_prox")
            if {one, BOTH} <= ranked.counts.keys()
        ],
        number=7,
        document="0.61 / 0.61 / 0.27 against 0.54 / 0.56 / 0.20 and 0.55 / 0.55 / 0.20 in NB101-1 / 2 / 3 (table 4.2)",
        needs=needs,
    )
    ours, theirs = (
        [
            _first(run, name, ranked.truth)
            for strategy in ranked.counts
            for run in runs_of(ranked.runs, ranked.counts, strategy)
        ]
        for name in ("sotl", "val_acc")
    )
    yield claim(
        f"In {space}, the network that SoTL puts first is better than that of ValAcc.",
        [finding("points", paired(ours, theirs), above=0)],
        f"SoTL {spread(ours, 2)} %, ValAcc {spread(theirs, 2)} %, over all strategies and seeds",
        document="errors of 2.88 against 3.02 % on average over three supernets of FairNAS, DARTS space (table 4.3)",
        needs=needs,
    )


def _first(run: Mapping[str, Any], estimator: str, truth: Mapping[str, float]) -> float:
    """The truth of the architecture with the highest score."""
    return top_k(scores_of(run, estimator, list(truth)), list(truth.values()), 1)


def tables(settings: Settings, runs: dict[str, Any]) -> dict[str, Table]:
    """Table 4.2, the truth of what every estimator puts first, as in table 4.3, and short runs at two rates."""
    found = {}
    measures = {
        "Spearman with the truth": correlation,
        "Truth of the top 10, in percent": top_of,
        "Truth of the first, in percent": _first,
    }
    for space in settings["spaces"]:
        ranked = ranked_of(settings, runs, space)
        for caption, measure in measures.items():
            rows = [
                [
                    NAMES[strategy],
                    *(
                        spread(
                            [measure(run, name, ranked.truth) for run in runs_of(ranked.runs, ranked.counts, strategy)],
                            2,
                        )
                        for name in SCORED
                    ),
                ]
                for strategy in ranked.counts
            ]
            title = f"{space}: {caption[0].lower()}{caption[1:]} ({len(ranked.truth)} networks)"
            found[title] = Table(["strategy", *(ESTIMATORS[name] for name in SCORED)], rows)
        for strategy in (name for name in settings["rates"] if name in ranked.counts):
            caption = f"{space}: short runs after {NAMES[strategy]} by rate; with the number of parameters as truth (P)"
            found[f"{caption} (tables 4.4 and 4.5)"] = _by_rate(settings, ranked, strategy)
    return found


def _by_rate(settings: Settings, ranked: RankedRuns, strategy: str) -> Table:
    """Every score at the rate of the strategy and at that of others."""
    trained = runs_of(ranked.runs, ranked.counts, strategy)
    sides = {
        settings["rates"][strategy]: trained,
        settings["run"]["scores"]["learning_rate"]: [{"scored": run["slower"]} for run in trained],
    }
    sizes = dict(zip(ranked.truth, scores_of(trained[0], "params", list(ranked.truth)), strict=True))
    measures = {"Spearman": (correlation, ranked.truth), "top 10, %": (top_of, ranked.truth), "P": (correlation, sizes)}
    rows = [
        [
            ESTIMATORS[name],
            *(
                spread([measure(run, name, truth) for run in found], 2)
                for measure, truth in measures.values()
                for found in sides.values()
            ),
        ]
        for name in RUN_AGAIN
    ]
    return Table(["score", *(f"{measure}, rate {rate:g}" for measure in measures for rate in sides)], rows)


def figures(settings: Settings, runs: dict[str, Any]) -> dict[str, Spec]:
    """The correlations as bars, space by space."""
    panels = []
    for space in settings["spaces"]:
        ranked = ranked_of(settings, runs, space)
        bars = [
            {"x": ESTIMATORS[name], "series": NAMES[strategy]}
            | summary([correlation(run, name, ranked.truth) for run in runs_of(ranked.runs, ranked.counts, strategy)])
            for name in SCORED
            for strategy in ranked.counts
        ]
        panels.append(grouped_bars(bars, "", f"Spearman with the truth, {space}", series="strategy"))
    return {"further_spaces": side_by_side(*panels)}


_STRATEGIES = ("single_path", "multi_path", "reptile", "meta_prox", "multi_path_meta_prox")


def _nb101(number: int, channels: int, cells: int) -> Settings:
    return {"kind": "nb101", "space": number, "channels": channels, "cells": cells}


def _proximal(content: dict[str, Any]) -> dict[str, Any]:
    return {**content, "train": {**content["train"], "proximal": THESIS_PROXIMAL}}


_CPU: Settings = {
    "spaces": {
        "NB101-1": {
            "space": _nb101(1, 16, 1), "truth": OWN, "strategies": dict.fromkeys(_STRATEGIES, 2), "architectures": 64,
        },
    },
    "valid_examples": 2500, "passes": 80, "rates": {"single_path": SINGLE_PATH_RATE},
    "run": _proximal(recipe(size=16, cells=1, epochs=80, rate=OTHER_RATE, limit=5000)),
    "alone": {
        "data": {"limit": 10_000},
        "retrain": {"epochs": 5, "batch_size": 64, "learning_rate": 0.1, "weight_decay": 5e-4, "warmup_epochs": 0.5},
    },
}  # fmt: skip

_THESIS = thesis_recipe(rate=OTHER_RATE)

SPACE_RANKING = Experiment(
    name="space_ranking",
    document=TRAINING_SPEED,
    claim="Strategies by estimators in the spaces of NAS-Bench-1shot1 and of DARTS (tables 4.2 to 4.5).",
    presets={
        "quick": {
            **_CPU,
            "spaces": {
                "NB101-1": {
                    "space": _nb101(1, 4, 1), "truth": OWN, "strategies": {"single_path": 2}, "architectures": 4,
                },
            },
            "valid_examples": 100, "passes": 1,
            "run": recipe(size=8, cells=1, epochs=1, limit=300, steps=4, adapting=2),
            "alone": {"data": {"limit": 200}, "retrain": {"epochs": 1}},
        },
        "cpu": _CPU,
        "paper": {
            "spaces": {
                **{
                    f"NB101-{number}": {
                        "space": _nb101(number, 16, 3), "truth": f"nb101:{number}", "architectures": 200,
                        "strategies": dict.fromkeys(_STRATEGIES, 3),
                    }
                    for number in (1, 2, 3)
                },
                "DARTS": {
                    "space": {"kind": "darts", "channels": 16, "layers": 8}, "truth": "nb301", "architectures": 350,
                    "strategies": dict.fromkeys(("single_path", "fair", "multi_path", "reptile", "meta_prox"), 3),
                },
            },
            "valid_examples": 25_000, "rates": {"single_path": SINGLE_PATH_RATE},
            "run": _proximal({**_THESIS, "train": {**_THESIS["train"], "weight_decay": 3e-4}}),
        },
    },
    items=items,
    task=run,
    judge=judge,
    figures=figures,
    tables=tables,
)  # fmt: skip
