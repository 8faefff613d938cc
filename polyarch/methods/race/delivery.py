"""The end of a race: the best finalist alone, and the networks that predict best together."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from polyarch.estimators import MACs
from polyarch.methods.race.candidates import Candidate, mirrored
from polyarch.methods.race.evidence import Evidence, evidence_training, speed_agreement
from polyarch.methods.race.record import CandidateRecord, LegRecord, RaceRecord
from polyarch.methods.race.rungs import Lane
from polyarch.methods.race.table_candidates import is_table_race
from polyarch.methods.race.table_ensemble import (
    Setting,
    TableEnsembles,
    best_setting,
    complete_settings,
    table_training,
    whole_or,
)
from polyarch.methods.race.training import CandidateTraining
from polyarch.predictive.greedy_selection import greedy_weights
from polyarch.results import NetworkRecord, Role
from polyarch.runs.artifacts import write_predictors
from polyarch.runs.comparison import contender, parameter_count
from polyarch.runs.folds import WHOLE
from polyarch.runs.judging import Ensemble, MemberOutputs
from polyarch.runs.reference import references
from polyarch.runs.retraining import outputs, tested
from polyarch.runs.run import Run
from polyarch.runs.stage import Outcome
from polyarch.spaces import Architecture


def finalists_of(lanes: Sequence[Lane]) -> list[Lane]:
    """Those that were trained longest, fewer than planned where a race was finished early; on tables all that stay."""
    if any(lane.is_out for lane in lanes):
        return [lane for lane in lanes if not lane.is_out and lane.candidate.fold == 0]
    longest = max(len(lane.legs) for lane in lanes)
    return [lane for lane in lanes if len(lane.legs) == longest]


def winner(run: Run, lanes: Sequence[Lane]) -> Lane:
    """The best finalist on validation data; on tables the first network of the best setting."""
    if is_table_race(run):
        return _best(run, lanes)[0]
    return best_setting(run, [(lane,) for lane in finalists_of(lanes)])[0]


def _best(run: Run, lanes: Sequence[Lane]) -> Setting:
    return best_setting(run, complete_settings([lane for lane in lanes if not lane.is_out] or lanes))


def deliver(run: Run, outcome: Outcome, lanes: Sequence[Lane], evidence: Evidence | None = None) -> None:
    """Chooses on validation data, judges on test data, and exports; the finalists come first among the lanes."""
    finalists, chosen = finalists_of(lanes), winner(run, lanes)
    choice = _table_choice(run, lanes) if is_table_race(run) else _image_choice(run, lanes, chosen)
    task, single = choice.task, choice.single
    sides = [(single, run.workspace.artifact)]
    is_single = choice.shares.keys() == {chosen.candidate} and choice.ensemble.architectures == single.architectures
    if not is_single:
        sides.append((choice.ensemble, run.workspace.ensemble))
    best = _tested(run, task, replace(chosen, candidate=choice.delivered), single.known)
    outcome.comparison = [contender(_title(chosen, True), _role(chosen, True), [best])]
    outcome.comparison += [
        contender(_title(lane, False), _role(lane, False), [_tested(run, task, lane)])
        for lane in finalists
        if lane is not chosen and _is_compared(run, lane)
    ]
    tau = None
    if evidence is not None:
        _add_evidence(run, outcome, evidence)
        tau = speed_agreement([*finalists, *evidence.lanes])
    outcome.comparison += references(run)
    outcome.predictors = write_predictors(run, sides)
    outcome.default = sides[-1][1].name
    shown = [lane for lane in lanes if lane.candidate.fold == 0]
    outcome.record = RaceRecord(
        candidates=_records(run, shown, choice, len(finalists)), best=shown.index(chosen), speed_agreement=tau
    )
    outcome.artifact = {
        "architecture": chosen.candidate.architecture.to_dict(),
        "seed": chosen.candidate.seed,
        "score": outcome.comparison[0].mean,
        "parameters": parameter_count(single.networks),
    }


@dataclass(frozen=True)
class Choice:
    """The network to be delivered alone, and the ensemble with the shares of the candidates in it.

    A candidate stands for as many networks as there are folds.
    """

    task: CandidateTraining
    delivered: Candidate
    single: Ensemble
    ensemble: Ensemble
    shares: Mapping[Candidate, float]
    folds: int = 1


def _image_choice(run: Run, lanes: Sequence[Lane], chosen: Lane) -> Choice:
    task = CandidateTraining(run, run.workspace.checkpoints / "race")
    pool = [member for lane in lanes for member in members_of(task, lane)]
    pairs = list(zip(pool, chosen_shares(run, pool), strict=True))
    kept = [(member, share) for member, share in pairs if share > 0]
    name = f"ensemble of {len(kept)}" if len(kept) > 1 else f"{TITLE} of both views"
    together = Ensemble.of(name, [member.pair for member, _ in kept], [share for _, share in kept])
    shares: dict[Candidate, float] = {}
    for member, share in kept:
        shares[member.lane.candidate] = shares.get(member.lane.candidate, 0.0) + share
    single = Ensemble.of(TITLE, [next(member.pair for member in pool if member.lane is chosen)])
    return Choice(task, chosen.candidate, single, together, shares)


def _table_choice(run: Run, lanes: Sequence[Lane]) -> Choice:
    task = table_training(run)
    settings, ensembles = complete_settings(lanes), TableEnsembles(run, task)
    shares = ensembles.shares(settings).tolist()
    by_candidate = {setting[0].candidate: share for setting, share in zip(settings, shares, strict=True) if share}
    delivered, single = ensembles.single(_best(run, lanes), TITLE)
    return Choice(task, delivered, single, ensembles.ensemble(settings, shares), by_candidate, len(settings[0]))


@dataclass(frozen=True)
class PoolMember:
    """A network that the ensemble may have: a candidate as it was trained, or looking at mirror images, too."""

    lane: Lane
    architecture: Architecture
    network: nn.Module

    @property
    def pair(self) -> tuple[Architecture, nn.Module]:
        """What an `Ensemble` is made of."""
        return self.architecture, self.network


def members_of(task: CandidateTraining, lane: Lane) -> Iterator[PoolMember]:
    """The candidate as it was trained, and with both views of an image if it can."""
    for architecture in (lane.candidate.architecture, mirrored(lane.candidate)):
        if architecture is not None:
            yield PoolMember(lane, architecture, task.network(lane.candidate, architecture))


def chosen_shares(run: Run, pool: Sequence[PoolMember]) -> list[float]:
    """The share of every network in the ensemble that has the lowest loss on validation data.

    All have the temperature of the best among them: networks that were trained to the end are too sure of themselves,
    and would be mixed with untrained ones only to be less so, which calibration does better.
    """
    valid, task = run.feed.in_order(run.feed.valid), run.task
    pairs = [outputs(member.network, valid) for member in pool]
    together, targets = torch.stack([found for found, _ in pairs]), pairs[0][1]
    alone = torch.ones(1, dtype=together.dtype)
    temperatures = [
        task.calibrate(one[None], targets, alone, flag=run.settings.retrain.flag).temperature for one in together
    ]
    losses = [
        task.scores(task.tempered(one, temperature)[None], targets)["loss"]
        for one, temperature in zip(together, temperatures, strict=True)
    ]
    together = task.tempered(together, temperatures[losses.index(min(losses))])

    def loss(shares: Tensor) -> float:
        kept = shares > 0
        return task.measure(together[kept], targets, shares[kept], names=["loss"])["loss"]

    return greedy_weights(loss, len(pool)).tolist()


def _add_evidence(run: Run, outcome: Outcome, evidence: Evidence) -> None:
    """Further seeds beside the best network, and the plain and random networks."""
    assert outcome.comparison is not None
    task = evidence_training(run)
    best, *others = outcome.comparison
    seeds = [_tested(run, task, lane) for lane in evidence.seeds]
    found = [contender(best.name, best.role, [*best.runs, *seeds]), *others]
    found += [contender(PLAIN, Role.BASELINE, [_tested(run, task, lane)]) for lane in evidence.plain]
    if evidence.random:
        runs = [_tested(run, task, lane) for lane in evidence.random]
        found.append(contender("random networks", Role.RANDOM, runs))
    outcome.comparison = found


def _tested(run: Run, task: CandidateTraining, lane: Lane, known: MemberOutputs | None = None) -> NetworkRecord:
    """A network on test examples; what is ``known`` of its folds tells how good it is on validation examples.

    Networks trained on all examples have seen those: there it is what they were like before.
    """
    candidate = whole_or(task, lane.candidate)
    history = [{"epoch": float(place), **point} for place, point in enumerate(lane.last["curve"])]
    found = tested(run, task.network(candidate))
    if candidate.fold == WHOLE:
        found["valid_score"] = float(lane.last["valid_score"])
    if known is not None:
        found["valid_score"] = run.task.scores(known.valid, known.valid_targets)[run.task.selection.name]
    return NetworkRecord(architecture=candidate.architecture.to_dict(), seed=candidate.seed, history=history, **found)


PLAIN, TITLE = "plain network", "best network"


def _is_compared(run: Run, lane: Lane) -> bool:
    """Races on tables have many finalists: the plain network stands for those that did not win."""
    return lane.candidate.is_reference or not is_table_race(run)


def _title(lane: Lane, is_best: bool) -> str:
    if lane.candidate.is_reference:
        return PLAIN
    return TITLE if is_best else "other finalist"


def _role(lane: Lane, is_best: bool) -> Role:
    return Role.BEST if is_best else Role.BASELINE if lane.candidate.is_reference else Role.OTHER


def _records(run: Run, lanes: Sequence[Lane], choice: Choice, finalists: int) -> list[CandidateRecord]:
    places = {lane.candidate: place for place, lane in enumerate(lanes)}
    found = []
    for place, lane in enumerate(lanes):
        candidate = lane.candidate
        found.append(
            CandidateRecord(
                name=_name(candidate.architecture),
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
                folds=choice.folds if candidate in choice.shares else 1,
                share=choice.shares.get(candidate, 0.0),
            )
        )
    return found


def _name(architecture: Architecture) -> str:
    """The options of choices that matter, where the canonical form says which do."""
    canonical = architecture.canonical().split("|")
    if len(canonical) != len(architecture.indices):
        return architecture.key
    return "|".join(option for option in canonical if option != "-")
