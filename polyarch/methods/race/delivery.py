"""The end of a race: the best finalist alone, and the networks that predict best together."""

from collections.abc import Sequence

import torch
from torch import Tensor

from polyarch.estimators import MACs
from polyarch.methods.race.record import CandidateRecord, LegRecord, RaceRecord
from polyarch.methods.race.rungs import Lane
from polyarch.methods.race.table_candidates import is_table_race
from polyarch.methods.race.table_ensemble import MemberLikelihoods
from polyarch.methods.race.training import CandidateTraining
from polyarch.predictive.greedy_selection import greedy_weights
from polyarch.results import NetworkRecord, Role
from polyarch.runs.artifacts import write_predictors
from polyarch.runs.comparison import contender, parameter_count
from polyarch.runs.judging import Ensemble
from polyarch.runs.reference import references
from polyarch.runs.retraining import outputs, tested
from polyarch.runs.run import Run
from polyarch.runs.stage import Outcome


def deliver(run: Run, outcome: Outcome, lanes: Sequence[Lane]) -> None:
    """Chooses on validation data, judges on test data, and exports; the finalists come first among the lanes."""
    task = CandidateTraining(run, run.workspace.checkpoints / "race")
    longest = max(len(lane.legs) for lane in lanes)
    finalists = [lane for lane in lanes if len(lane.legs) == longest]  # fewer where a race was finished early
    if is_table_race(run):
        finalists = [lane for lane in lanes if not lane.is_out]
    chosen = run.task.selection.best(finalists, lambda lane: float(lane.last["valid_score"]))
    shares = chosen_shares(run, task, lanes)
    members = [index for index, share in enumerate(shares) if share > 0]
    networks = {index: task.network(lanes[index].candidate) for index in {*members, lanes.index(chosen)}}
    single = [(chosen.candidate.architecture, networks[lanes.index(chosen)])]
    sides = [(Ensemble.of("best network", single), run.workspace.artifact)]
    if len(members) > 1:
        together = [(lanes[index].candidate.architecture, networks[index]) for index in members]
        weights = [shares[index] for index in members]
        sides.append((Ensemble.of(f"ensemble of {len(members)}", together, weights), run.workspace.ensemble))
    outcome.comparison = [
        contender(_title(lane, lane is chosen), _role(lane, lane is chosen), [_tested(run, task, lane)])
        for lane in [chosen, *(lane for lane in finalists if lane is not chosen and _is_compared(run, lane))]
    ]
    outcome.comparison += references(run)
    outcome.predictors = write_predictors(run, sides)
    outcome.default = sides[-1][1].name
    outcome.record = RaceRecord(candidates=_records(run, lanes, shares, len(finalists)), best=lanes.index(chosen))
    outcome.artifact = {
        "architecture": chosen.candidate.architecture.to_dict(),
        "seed": chosen.candidate.seed,
        "score": outcome.comparison[0].mean,
        "parameters": parameter_count(single[0][1]),
    }


def chosen_shares(run: Run, task: CandidateTraining, lanes: Sequence[Lane]) -> list[float]:
    """The share of every candidate in the ensemble that has the lowest loss on validation data."""
    if is_table_race(run):
        return MemberLikelihoods(run, task).shares(lanes).tolist()
    valid = run.feed.in_order(run.feed.valid)
    pairs = [outputs(task.network(lane.candidate), valid) for lane in lanes]
    together, targets = torch.stack([found for found, _ in pairs]), pairs[0][1]

    def loss(shares: Tensor) -> float:
        kept = shares > 0
        return run.task.measure(together[kept], targets, shares[kept], names=["loss"])["loss"]

    return greedy_weights(loss, len(lanes)).tolist()


def _tested(run: Run, task: CandidateTraining, lane: Lane) -> NetworkRecord:
    candidate = lane.candidate
    history = [{"epoch": float(place), **point} for place, point in enumerate(lane.last["curve"])]
    found = tested(run, task.network(candidate))
    return NetworkRecord(architecture=candidate.architecture.to_dict(), seed=candidate.seed, history=history, **found)


PLAIN = "plain network"


def _is_compared(run: Run, lane: Lane) -> bool:
    """Races on tables have many finalists: the plain network stands for those that did not win."""
    return lane.candidate.is_reference or not is_table_race(run)


def _title(lane: Lane, is_best: bool) -> str:
    if lane.candidate.is_reference:
        return PLAIN
    return "best network" if is_best else "other finalist"


def _role(lane: Lane, is_best: bool) -> Role:
    return Role.BEST if is_best else Role.BASELINE if lane.candidate.is_reference else Role.OTHER


def _records(run: Run, lanes: Sequence[Lane], shares: Sequence[float], finalists: int) -> list[CandidateRecord]:
    places = {lane.candidate: place for place, lane in enumerate(lanes)}
    found = []
    for place, (lane, share) in enumerate(zip(lanes, shares, strict=True)):
        candidate = lane.candidate
        found.append(
            CandidateRecord(
                architecture=candidate.architecture.to_dict(),
                augmentation=candidate.augmentation,
                recipe="" if candidate.recipe is None else str(candidate.recipe),
                is_reference=candidate.is_reference,
                is_finalist=place < finalists,
                parent=None if lane.parent is None else places[lane.parent],
                parameters=run.net.parameter_count(candidate.architecture),
                macs=MACs(run.feed.example.inputs).score(run.net, candidate.architecture),
                legs=[LegRecord(**{name: leg[name] for name in LegRecord.model_fields}) for leg in lane.legs],
                curve=list(lane.last["curve"]),
                share=share,
            )
        )
    return found
