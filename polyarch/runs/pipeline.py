"""The main job: train a supernet, rank, search, extract the best, retrain it and compare."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, Literal

import torch

import polyarch
from polyarch.errors import ConfigError
from polyarch.estimators import Scoring
from polyarch.executors import one_thread
from polyarch.runs.description import brief_choices, brief_size
from polyarch.runs.comparison import compare
from polyarch.runs.run import Context, StagedScoring
from polyarch.methods.depth.choice import find_depth, require_depths
from polyarch.methods.differentiable.choice import find_architectures, record_of, with_trained
from polyarch.methods.differentiable.training import learn, staged
from polyarch.methods.one_shot.elimination import eliminate
from polyarch.methods.depth.fixed import allowed_depths, compare_depths
from polyarch.methods.posterior_guided.strategy import refuse_gates_elsewhere
from polyarch.methods.posterior_guided.draws import compare_draws, draw_candidates, learn_posterior, posterior_draws
from polyarch.runs.judging import outside_batches
from polyarch.methods.one_shot.members import ensemble_members
from polyarch.runs.parts import Parts
from polyarch.methods.one_shot.ranking import rank
from polyarch.methods.one_shot.samplers import sampler
from polyarch.methods.one_shot.searching import search
from polyarch.methods.one_shot.second_supernet import second_supernet
from polyarch.runs.settings import SearchSettings, TrainSettings
from polyarch.runs.spaces import interchoice_of
from polyarch.methods.stochastic.ensemble import EVALUATED, affordable, choose_members, find_ensemble
from polyarch.runs.training import train
from polyarch.methods.one_shot.trust import judges
from polyarch.truths.lookup import truth_for
from polyarch.results import Results, TrainingRecord
from polyarch.strategies import PosteriorGuided
from polyarch.supernets import Supernet

Stage = Literal["train", "rank", "search"]
STAGES: tuple[Stage, ...] = ("train", "rank", "search")


def run(context: Context, until: Stage = "search") -> Results:
    """Runs the stages up to and including ``until``; ``results.json`` is written after each.

    Every stage keeps what it finishes on disk, so a run that was killed goes on where it was.
    """
    settings = context.parts.settings
    if settings.is_differentiable:
        return _run_differentiable(context, until)
    if settings.method == "stochastic":
        return _run_stochastic(context, until)
    if settings.method == "posterior-guided":
        return _run_guided(context, until)
    if settings.method != "one-shot":
        return _run_depth(context, until)
    stages = stages_until(until)
    seconds: dict[str, float] = {}
    with one_thread():
        with second_supernet(context) if "rank" in stages else nullcontext() as second:
            with _timed(seconds, "train"):
                training = train(context)
            results = _results(context.parts, training, seconds)
            results.write(context.workspace.results)
            again = second() if second else None
        if "rank" in stages:
            _score(context, stages, results, again)
        if results.search is not None:
            with _timed(results.seconds, "retrain"):
                compared = compare(context, ensemble_members(context.parts, results.search), training.q)
            results.comparison, results.artifact = compared.contenders, compared.artifact
            results.predictors = compared.predictors
            results.write(context.workspace.results)
    context.workspace.log("finished", stage=until)
    return results


def _run_differentiable(context: Context, until: Stage) -> Results:
    """Weights and q in one training, then one architecture of q, which is trained alone against random ones."""
    _refuse_ranking(context.parts, until)
    seconds: dict[str, float] = {}
    with one_thread():
        with _timed(seconds, "train"):
            learned = learn(context)
        training = TrainingRecord(strategy=context.parts.settings.method, history=learned.history)
        results = _results(learned.parts, training, seconds)
        results.differentiable = record_of(learned)
        results.write(context.workspace.results)
        if until == "search":
            trained = with_trained(context, learned)
            with _timed(results.seconds, "choose"):
                best = find_architectures(trained, learned)
            results.differentiable = record_of(learned, best[0])
            with _timed(results.seconds, "retrain"):
                compared = compare(trained, best, None)
            results.comparison, results.artifact = compared.contenders, compared.artifact
            results.predictors = compared.predictors
            results.write(context.workspace.results)
    context.workspace.log("finished", stage=until)
    return results


def _run_depth(context: Context, until: Stage) -> Results:
    """A depth learned in one training, or every depth trained alone; then the choice and the export."""
    _refuse_ranking(context.parts, until)
    seconds: dict[str, float] = {}
    learned = context.parts.settings.method == "variational-depth"
    with one_thread():
        training = TrainingRecord(strategy="none", history=[])
        if learned:
            with _timed(seconds, "train"):
                training = train(context)
        results = _results(context.parts, training, seconds)
        results.write(context.workspace.results)
        if until == "search":
            with _timed(seconds, "choose" if learned else "retrain"):
                found = find_depth(context, training.q or {}) if learned else compare_depths(context)
            results.depth, results.artifact = found.record, found.comparison.artifact
            results.comparison, results.predictors = found.comparison.contenders, found.comparison.predictors
            results.seconds = {**seconds, **found.seconds}
            results.write(context.workspace.results)
    context.workspace.log("finished", stage=until)
    return results


def _run_stochastic(context: Context, until: Stage) -> Results:
    """One training under many architectures, then the ensemble of some of them, against a network trained alone."""
    _refuse_ranking(context.parts, until)
    seconds: dict[str, float] = {}
    with one_thread():
        with _timed(seconds, "train"):
            training = train(context).model_copy(update={"strategy": "stochastic"})
        results = _results(context.parts, training, seconds)
        results.write(context.workspace.results)
        if until == "search":
            with _timed(results.seconds, "choose"):
                chosen = choose_members(context)
            with _timed(results.seconds, "retrain"):
                found = find_ensemble(context, chosen)
            results.stochastic, results.artifact = found.record, found.comparison.artifact
            results.comparison, results.predictors = found.comparison.contenders, found.comparison.predictors
            results.write(context.workspace.results)
    context.workspace.log("finished", stage=until)
    return results


def _run_guided(context: Context, until: Stage) -> Results:
    """Kernels and drop probabilities in one training, then the best of many draws, against the whole network alone."""
    _refuse_ranking(context.parts, until)
    seconds: dict[str, float] = {}
    with one_thread():
        with _timed(seconds, "train"):
            learned = learn_posterior(context)
        results = _results(context.parts, TrainingRecord(strategy="posterior-guided", history=learned.history), seconds)
        results.write(context.workspace.results)
        if until == "search":
            with _timed(results.seconds, "draw"):
                drawn = draw_candidates(context, learned)
            with _timed(results.seconds, "retrain"):
                found = compare_draws(context, learned, drawn)
            results.guided, results.artifact = found.record, found.comparison.artifact
            results.comparison, results.predictors = found.comparison.contenders, found.comparison.predictors
            results.write(context.workspace.results)
    context.workspace.log("finished", stage=until)
    return results


def stages_until(until: Stage) -> tuple[Stage, ...]:
    """The stages up to and including this one."""
    return STAGES[: STAGES.index(until) + 1]


def check(context: Context, until: Stage) -> None:
    """Finds what is wrong with the settings before anything is written or trained."""
    settings, stages = context.parts.settings, stages_until(until)
    refuse_gates_elsewhere(context.parts.net, settings)
    if settings.is_differentiable:
        _check_differentiable(context, until)
        return
    if settings.method == "stochastic":
        _check_stochastic(context, until)
        return
    if settings.method == "posterior-guided":
        _check_guided(context, until)
        return
    if settings.method != "one-shot":
        _check_depth(context, until)
        return
    if "rank" in stages and settings.rank.truth is not None:
        if settings.rank.halving:
            raise ConfigError("Expected rank.halving or rank.truth. Got both; eliminated architectures have no score.")
        truth_for(settings.rank.truth, context.parts.net.space)
    if "search" in stages:
        outside_batches(context.parts)
        sampler(settings.search, len(settings.search.objectives))
    _check_training(context.parts)
    context.draw(1, "check")


def _check_training(parts: Parts) -> None:
    """Strategies refuse spaces and limits that they cannot train, and one step needs its batches."""
    strategy, _ = parts.strategy()
    batches = len(parts.batches(parts.train, parts.settings.train.batch_size, stream="train"))
    if batches < strategy.batches_per_step:
        raise ConfigError(
            f"Expected {strategy.batches_per_step} or more batches of training examples for {_steps_setting(parts)}. "
            f"Got {batches}; try a smaller train.batch_size."
        )
    interchoice, epochs = interchoice_of(parts.settings.space), parts.settings.train.epochs
    if interchoice is not None and (interchoice.split_epoch or 0) >= epochs:
        raise ConfigError(
            f"Expected space.interchoice.split_epoch below train.epochs, {epochs}. Got {interchoice.split_epoch}."
        )


def _check_differentiable(context: Context, until: Stage) -> None:
    parts = context.parts
    _refuse_ranking(parts, until)
    _refuse_searching(parts)
    if parts.settings.rank.truth is not None:
        truth_for(parts.settings.rank.truth, parts.net.space)
    for stage in parts.settings.differentiable.stages:
        staged(parts, stage, len(parts.settings.differentiable.stages))
    outside_batches(parts)
    _check_training(parts)
    context.draw(1, "check")


def _check_guided(context: Context, until: Stage) -> None:
    """Among the rest, that a draw from the posterior as it starts out can be extracted, and limits kept."""
    parts = context.parts
    _refuse_ranking(parts, until)
    _refuse_searching(parts)
    _refuse_training_strategy(parts)
    _check_training(parts)
    strategy, _ = parts.strategy()
    assert isinstance(strategy, PosteriorGuided)
    parts.net.extract(posterior_draws(context, strategy.posterior)["guided"](0))
    outside_batches(parts)


def _check_stochastic(context: Context, until: Stage) -> None:
    parts = context.parts
    _refuse_ranking(parts, until)
    _refuse_searching(parts)
    _refuse_training_strategy(parts)
    affordable(parts, parts.stochastic_architectures()[:EVALUATED], most=1)
    outside_batches(parts)
    _check_training(parts)


def _check_depth(context: Context, until: Stage) -> None:
    parts = context.parts
    require_depths(parts)
    _refuse_ranking(parts, until)
    _refuse_searching(parts)
    if parts.settings.method == "variational-depth":
        if parts.settings.train.strategy != "variational":
            raise ConfigError(
                f"Expected train.strategy variational for variational-depth. Got {parts.settings.train.strategy!r}."
            )
        parts.strategy()  # the prior may not fit the depths
    else:
        allowed_depths(context)
    outside_batches(parts)
    context.draw(1, "check")


def _steps_setting(parts: Parts) -> str:
    return "differentiable.steps" if parts.settings.is_differentiable else "train.inner_steps"


def _refuse_searching(parts: Parts) -> None:
    """Settings of a search among scored architectures mean nothing to methods that learn theirs."""
    for name, default in SearchSettings():
        if not name.startswith("max_") and getattr(parts.settings.search, name) != default:
            raise ConfigError(f"Expected search.{name} with method one-shot only. Got {parts.settings.method!r}.")


def _refuse_training_strategy(parts: Parts) -> None:
    if parts.settings.train.strategy != TrainSettings().strategy:
        raise ConfigError(f"Expected train.strategy with method one-shot only. Got method {parts.settings.method!r}.")


def _refuse_ranking(parts: Parts, until: Stage) -> None:
    if until == "rank":
        raise ConfigError(f"Expected method one-shot to rank architectures. Got {parts.settings.method!r}.")


def _score(context: Context, stages: Sequence[Stage], results: Results, again: Supernet | None) -> None:
    """Ranking and, if asked for, searching, with one pool of workers.

    Args:
        again: a second supernet, by which the ranking is checked.
    """
    parts, settings = context.parts, context.parts.settings
    names = {"rank": settings.rank.estimators, "search": settings.search.objectives}
    tasks = {stage: Scoring(parts.net, parts.estimators(names[stage])) for stage in names}
    if again is not None:
        tasks["second"] = Scoring(again, parts.estimators((judges(tasks["rank"].estimators)[0],)))
    scoring = StagedScoring(tasks)
    if settings.rank.halving and settings.rank.architectures:
        with _timed(results.seconds, "rank"):
            results.elimination = eliminate(context)
        results.write(context.workspace.results)
    with context.stop.at_once(), context.parts.executor().open(scoring) as score:
        if settings.rank.architectures and not settings.rank.halving:
            with _timed(results.seconds, "rank"):
                results.ranking = rank(context, score, second=again is not None)
            results.write(context.workspace.results)
        if "search" in stages:
            with _timed(results.seconds, "search"):
                results.search = search(context, score)
            results.write(context.workspace.results)


def _results(parts: Parts, training: TrainingRecord, seconds: dict[str, float]) -> Results:
    space = parts.net.space
    described: dict[str, Any] = {
        "name": space.name,
        "kind": parts.settings.space.kind,
        "size": brief_size(parts.net),
        "choices": brief_choices(parts.net),
        "supernet_parameters": sum(parameter.numel() for parameter in parts.net.parameters()),
    }
    return Results(
        polyarch=polyarch.__version__,
        torch=torch.__version__,
        settings=parts.settings.model_dump(mode="json"),
        data=parts.summary(),
        space=described,
        training=training,
        decisions=list(parts.settings.decisions),
        seconds=seconds,
    )


@contextmanager
def _timed(seconds: dict[str, float], name: str) -> Iterator[None]:
    started = time.monotonic()
    yield
    seconds[name] = round(time.monotonic() - started, 2)
