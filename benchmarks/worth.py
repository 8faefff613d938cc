"""Is a search worth its minutes? polyarch's answers against what a user would do instead.

Images: a plain residual network, the better of two seeds by validation data, and the ensemble of both, which together
get the processor time that the search can have used. Where the search delivers a larger network than that, it is held
again within the parameters of the plain one. Tables: the models of `table_models`; the best by validation data is the
alternative. All sides have the same training, validation and test examples. A random architecture of the same space is
trained as long as the best network, by its recipe; on tables by the first known-good one until it stops improving, and
once more on all rows, as the best network is. Small tables have ten splits.
Resumable: results are stored as they arrive.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from plain_networks import PlainTraining, plain_parameters
from table_models import fitted_models, log_probabilities, require_models
from torch import Tensor
from worth_summary import table, totals

import polyarch
from polyarch.data import Dataset, TensorData, data_root, load, resident
from polyarch.data.table_dataset import TableSource, table_dataset
from polyarch.executors import Processes
from polyarch.files import write_json
from polyarch.methods.race.candidates import Candidate
from polyarch.methods.race.evidence import PATIENT, RANDOM_SEED
from polyarch.methods.race.record import RaceRecord
from polyarch.methods.race.rungs import Lane, turn_of
from polyarch.methods.race.settings import RaceSettings
from polyarch.methods.race.table_candidates import KNOWN_GOOD, is_table_race
from polyarch.methods.race.table_ensemble import whole_leg, whole_or
from polyarch.methods.race.training import CandidateTraining, Leg
from polyarch.runs.feed import Feed
from polyarch.runs.folds import fold_rows
from polyarch.runs.retraining import tested
from polyarch.runs.run import Run
from polyarch.runs.settings import RunSettings
from polyarch.runs.workspace import Workspace
from polyarch.tasks import Classification

RESULTS = Path(__file__).parent.parent / "docs" / "results" / "worth" / "races.json"
WORKERS = 2
TABLES = (
    "iris", "wine", "wdbc", "vowel", "segment", "splice", "spambase", "optdigits", "penbased", "magic", "letter"
)  # fmt: skip
SMALL_TABLES = ("iris", "wine", "wdbc", "vowel")
"""Of fewer than 1,000 rows: a split says little."""


@dataclass(frozen=True)
class Problem:
    """A data set, the minutes for it and the number of seeds."""

    name: str
    minutes: float
    seeds: int

    def load(self, seed: int) -> Dataset:
        """Its data; photos are drawn by the seed."""
        if self.name == "photos":
            return photos(seed)
        if self.name in TABLES:
            frame = pd.read_csv(data_root() / "tabular" / f"{self.name}.csv.gz")
            rows = frame.sample(frac=1.0, random_state=seed, ignore_index=True)
            return table_dataset(self.name, TableSource(rows, self.name), target="label", task="classification")
        return load(self.name)


PROBLEMS = [
    Problem("digits", 2.5, 5),
    Problem("photos", 5, 5),
    Problem("mnist", 4, 3),
    Problem("fashion_mnist", 8, 3),
    Problem("cifar10", 10, 3),
    *(Problem(name, 1, 10) if name in SMALL_TABLES else Problem(name, 2, 3) for name in TABLES),
]
TEST_SETS = ("mnist", "cifar10", "spambase", "letter", "segment")
"""Not looked at while settings were chosen, and run last."""
QUICK = (Problem("digits", 0.8, 1), Problem("iris", 0.8, 1), Problem("vowel", 0.8, 1))


def photos(seed: int) -> Dataset:
    """4,000 photographs of CIFAR-10, as many of each class, and 2,000 of its test images."""
    whole = load("cifar10")
    parts = []
    for examples, count in ((whole.train, 400), (whole.test, 200)):
        data = resident(examples)
        generator = torch.Generator().manual_seed(seed)
        rows = torch.cat(
            [
                (places := (data.targets == label).nonzero().flatten())[
                    torch.randperm(len(places), generator=generator)[:count]
                ]
                for label in range(whole.classes)
            ]
        )
        parts.append(TensorData(data.inputs[rows], data.targets[rows], whole.classes))
    return Dataset("photos", parts[0], parts[1], whole.class_names)


def measured(problem: Problem, seed: int, max_params: float | None) -> dict[str, Any]:
    """All sides on one data set with one seed."""
    data = problem.load(seed)
    found, settings = searched(problem, data, seed, max_params)
    print(problem.name, seed, json.dumps(found), flush=True)
    feed = Feed.of(settings, data, None)
    # All that the search may use: its clock is that of the processor, so that other work on the machine does not count.
    budget = WORKERS * 60 * problem.minutes
    if not data.is_image:
        return {**found, "alternatives": table_sides(feed, seed, budget)}
    most = plain_parameters(data.input_shape[0], data.classes)
    is_small = found["single"]["parameters"] <= most
    limited = found if is_small else searched(problem, data, seed, most, has_random=False)[0]
    limited = {side: limited[side] for side in ("default", "single")}
    return {**found, "limited": limited, "alternatives": plain_sides(feed, budget)}


def searched(
    problem: Problem, data: Dataset, seed: int, max_params: float | None, *, has_random: bool = True
) -> tuple[dict[str, Any], RunSettings]:
    """What a search delivers, its settings, and a random network beside it if it has one."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        results = polyarch.search(
            data,
            out=out,
            method="race",
            max_minutes=problem.minutes,
            max_params=max_params,
            seed=seed,
            workers=WORKERS,
            quiet=True,
            report=False,
            settings={"programs": [], "race.clock": "processor"},
        ).results
        seconds = time.monotonic() - started
        settings = RunSettings.parse(results.settings, "the results")
        race = results.found(RaceRecord)
        assert race is not None
        beside = {}
        if has_random:
            run = Run.build(settings, Workspace(out), data=data)
            beside = {"random": random_network(run, race, Path(folder) / "random")}
    answer = next(one for one in results.predictors if one.folder == results.default)
    assert results.artifact is not None and results.comparison is not None
    (best,) = results.comparison[0].runs
    found = {
        "default": _shown(answer.metrics),
        "single": {
            **_shown(results.predictors[0].metrics),
            "uncalibrated_loss": round(best.loss, 6),
            "parameters": results.artifact["parameters"],
        },
        **beside,
        "minutes": seconds / 60,
    }
    return found, settings


def random_network(run: Run, race: RaceRecord, folder: Path) -> dict[str, float]:
    """A random architecture on test data, trained as long as the best network of the race and not calibrated."""
    best = race.candidates[race.best]
    is_table = is_table_race(run)
    chosen = run.net.space.architecture(best.architecture)
    recipe = KNOWN_GOOD[0][1] if is_table else None
    candidate = Candidate(run.draw(1, "worth", besides=[chosen])[0], best.augmentation, RANDOM_SEED, recipe=recipe)
    seconds = best.legs[-1].seconds
    train = CandidateTraining(run, folder, fold_rows(run) if is_table else ())
    if is_table:  # ends by itself
        lane = Lane(candidate, (train(Leg(candidate, PATIENT * seconds)),))
        if best.folds > 1:
            train(whole_leg(train, (lane,)))
    else:
        turn = turn_of(run.settings.section(RaceSettings), seconds)
        train(Leg(candidate, turn))
        train(Leg(candidate, seconds, turn))
    found = tested(run, train.network(whole_or(train, candidate)))
    return {
        "accuracy": found["score"],
        "uncalibrated_loss": round(found["loss"], 6),
        "parameters": run.net.parameter_count(candidate.architecture),
        "seconds": seconds,
    }


def plain_sides(feed: Feed, seconds: float) -> dict[str, Any]:
    """Two plain networks with half of the processor time each, and their ensemble."""
    with Processes(WORKERS).open(PlainTraining(feed, seconds / 2)) as train:
        pairs = dict(train([0, 1]))
    valid, test = torch.stack([pairs[0][0], pairs[1][0]]), torch.stack([pairs[0][1], pairs[1][1]])
    task = Classification(feed.data.class_names)
    best = max((0, 1), key=lambda one: _measure(task, valid[one : one + 1], resident(feed.valid).targets)["accuracy"])
    targets = resident(feed.data.test).targets
    scores = {"plain": test[best : best + 1], "plain ensemble": test}
    known = {"plain": valid[best : best + 1], "plain ensemble": valid}
    return {
        name: {
            **_measure(task, scores[name], targets),
            "valid_accuracy": _measure(task, known[name], resident(feed.valid).targets)["accuracy"],
            "steps": pairs[best][2],
        }
        for name in scores
    }


def table_sides(feed: Feed, seed: int, seconds: float) -> dict[str, Any]:
    """What users know, on standardised, encoded rows; none gets more processor time than the search can have used."""
    task = Classification(feed.data.class_names)
    parts = [resident(part) for part in (feed.train, feed.valid, feed.data.test)]
    # Scaling by quantiles is a choice of the search: trees do not care, and others scale as they usually do.
    preprocessing = feed.data.preprocessing(feed.train)
    train, valid, test = ((preprocessing(part.inputs).double().numpy(), part.targets.numpy()) for part in parts)
    found = {}
    for name, predict, used in fitted_models(train, valid, len(task.names), seed=seed, seconds=seconds):
        known, outputs = (log_probabilities(predict, rows) for rows, _ in (valid, test))
        found[name] = {
            **_measure(task, outputs, parts[2].targets),
            "valid_accuracy": _measure(task, known, parts[1].targets)["accuracy"],
            "seconds": round(used, 1),
        }
    return found


def _measure(task: Classification, outputs: Tensor, targets: Tensor) -> dict[str, float]:
    return _shown(task.measure(outputs, targets))


def _shown(metrics: Mapping[str, float]) -> dict[str, float]:
    return {name: round(metrics[name], 6) for name in ("accuracy", "loss", "calibration_error")}


def main() -> None:
    """Runs what is missing and prints a summary."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="three small sets for under a minute each, not stored")
    parser.add_argument("--sets", help="names, separated by commas; all by default")
    parser.add_argument("--seeds", type=int, help="at most so many seeds")
    parser.add_argument("--max-params", type=float)
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)
    problems = list(QUICK) if arguments.quick else PROBLEMS
    if arguments.sets:
        problems = [one for one in problems if one.name in arguments.sets.split(",")]
    problems.sort(key=lambda one: one.name in TEST_SETS)
    if any(one.name in TABLES for one in problems):
        require_models()
    stored = json.loads(arguments.out.read_text()) if arguments.out.exists() and not arguments.quick else {}
    runs: dict[str, dict[str, Any]] = stored.get("runs", {})
    for seed in range(arguments.seeds or max(one.seeds for one in problems)):
        for problem in problems:
            known = runs.setdefault(problem.name, {})
            if seed < problem.seeds and str(seed) not in known:
                known[str(seed)] = measured(problem, seed, arguments.max_params)
                print(problem.name, seed, json.dumps(known[str(seed)]), flush=True)
                if not arguments.quick:
                    write_json(arguments.out, {"runs": runs})
    measured_sets = {name: seeds for name, seeds in runs.items() if seeds}
    print(*table(measured_sets), *totals(measured_sets), sep="\n")


if __name__ == "__main__":
    main()
