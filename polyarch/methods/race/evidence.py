"""What researchers ask of a race, trained after it on request: other seeds, the plain network and random ones.

All are trained from the start for as long as a finalist, by the recipe of the winner; on tables once more on all
examples if the winner was.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from polyarch.methods.race.candidates import Candidate
from polyarch.methods.race.rungs import Lane, final_seconds, train_lanes, turn_of
from polyarch.methods.race.settings import RANDOM, SEEDS, RaceSettings
from polyarch.methods.race.table_candidates import is_table_race
from polyarch.methods.race.table_ensemble import table_training, whole_leg, whole_or
from polyarch.methods.race.training import CandidateTraining
from polyarch.ranking.correlations import correlation
from polyarch.runs.folds import fold_rows
from polyarch.runs.run import Run
from polyarch.runs.workspace import run_missing

EVIDENCE = "race evidence"
"""The folder of checkpoints."""

PATIENT = 2.0
"""On tables trainings may take so many times as long as the winner's before they are cut off."""

RANDOM_SEED = 101
"""Of random networks, so that none shares its batches with a candidate of the race."""


@dataclass(frozen=True)
class Evidence:
    """Networks trained to the end beside the finalists."""

    seeds: Sequence[Lane]
    plain: Sequence[Lane]
    random: Sequence[Lane]

    @property
    def lanes(self) -> list[Lane]:
        """All of them."""
        return [*self.seeds, *self.plain, *self.random]


def evidence_training(run: Run) -> CandidateTraining:
    """Trains networks as the race does, in a folder of their own."""
    return CandidateTraining(run, run.workspace.checkpoints / EVIDENCE, fold_rows(run) if is_table_race(run) else ())


def gather(run: Run, lanes: Sequence[Lane], winner: Lane) -> Evidence:
    """Trains what is missing to compare the winner with; the plain network only where it is no finalist."""
    settings = run.settings.section(RaceSettings)
    chosen, finalists = winner.candidate, [lane for lane in lanes if len(lane.legs) == len(winner.legs)]
    seeds = [replace(chosen, seed=seed) for seed in range(1, SEEDS + 1)]
    plain = [lane.candidate for lane in lanes if lane.candidate.is_reference and lane not in finalists]
    draws = run.draw(RANDOM, "evidence", besides=[lane.candidate.architecture for lane in finalists])
    random = [Candidate(one, chosen.augmentation, RANDOM_SEED, recipe=chosen.recipe) for one in draws]
    task = evidence_training(run)
    with run.executor().open(task) as train:
        found = [Lane(one) for one in (*seeds, *plain, *random)]
        for name, until, falls_after in _legs(run, settings, winner):
            found = train_lanes(run, found, f"evidence {name}", train, until, falls_after)
        if is_table_race(run) and whole_or(table_training(run), chosen) != chosen:
            legs = {leg.candidate.key: leg for leg in (whole_leg(task, (lane,)) for lane in found)}
            with run.display.stage("evidence whole") as report, run.stop.at_once():
                run_missing(legs, run.workspace.journal("race evidence whole"), train, dict, report)
    return Evidence(found[:SEEDS], found[SEEDS : SEEDS + len(plain)], found[SEEDS + len(plain) :])


def _legs(run: Run, settings: RaceSettings, winner: Lane) -> list[tuple[str, float, float | None]]:
    """As in the race: the first rung, the rest at the peak of the learning rate, and its fall.

    On tables the rate does not fall, and trainings end by themselves.
    """
    assert settings.first_seconds is not None
    if is_table_race(run):
        most = max(PATIENT * float(winner.last["seconds"]), settings.first_seconds)
        return [("first", settings.first_seconds, None), ("then", most, None)]
    seconds = final_seconds(run, settings)
    turn = turn_of(settings, seconds)
    return [("first", settings.first_seconds, None), ("then", turn, None), ("finish", seconds, turn)]


def speed_agreement(lanes: Sequence[Lane]) -> float | None:
    """Kendall's tau between the loss expected after the first rung and the final validation loss.

    None with fewer than three networks.
    """
    if len(lanes) < 3:
        return None
    pairs = [(lane.legs[0]["expected_loss"], lane.last["valid_loss"]) for lane in lanes]
    return correlation("kendall", *np.array(pairs).T)
