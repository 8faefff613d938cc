"""Posterior-guided search: a posterior over kept and dropped channels, and the best of many draws from it."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.table import Table

from polyarch.data import Dataset
from polyarch.methods.method import Method
from polyarch.methods.posterior_guided.draws import (
    DrawnCandidates,
    LearnedPosterior,
    compare_draws,
    draw_candidates,
    judging_examples,
    judging_passes,
    learn_posterior,
    posterior_draws,
)
from polyarch.methods.posterior_guided.record import GuidedRecord
from polyarch.methods.posterior_guided.settings import GuidedSettings
from polyarch.methods.posterior_guided.strategy import guided_training
from polyarch.methods.posterior_guided.suggestion import suggest_guided
from polyarch.reports.section import Section
from polyarch.results import Results, TrainingRecord
from polyarch.runs.checks import check_run, check_training, refuse_searching, refuse_strategy
from polyarch.runs.display import several
from polyarch.runs.own_module import Builder
from polyarch.runs.plan import STEP_OVER_FORWARD, PlannedStage, Timings, planned_export, shrunk, start_seconds
from polyarch.runs.run import Run
from polyarch.runs.settings import RunSettings
from polyarch.runs.stage import Outcome, Stage
from polyarch.runs.suggestion import Suggestion
from polyarch.runs.training import Training
from polyarch.strategies import PosteriorGuided

NEARLY_WHOLE = 0.9
"""The share of operations above which a run without limits should know of them."""
EXTRACTION_SECONDS = 0.2
"""What it takes to cut a draw out of a network."""


class PosteriorGuidedSearch(Method):
    """Learns kernels and drop probabilities together, draws networks and exports the best, really smaller.

    Zhou et al. (2020), Posterior-Guided Neural Architecture Search, AAAI, arXiv:1906.09557.
    """

    Settings = GuidedSettings
    Record = GuidedRecord
    section = "guided"
    takes = frozenset({"gates"})
    baseline_trains_as_long = True

    def suggest(self, asked: RunSettings, data: Dataset, builder: Builder | None) -> Suggestion:
        return suggest_guided(asked, data, builder)

    def check(self, run: Run) -> None:
        """Among the rest, that a draw from the posterior as it starts out can be extracted, and limits kept."""
        refuse_searching(run)
        refuse_strategy(run)
        check_training(run)
        strategy = self.training(run).strategy
        assert isinstance(strategy, PosteriorGuided)
        run.net.extract(posterior_draws(run, strategy.posterior)["guided"](0))
        check_run(run)

    def training(self, run: Run) -> Training:
        return guided_training(run)

    def plan(self, run: Run, timings: Timings) -> list[PlannedStage]:
        settings, examples = run.settings, len(run.feed.train)
        train, retrain, chosen = settings.train, settings.retrain, settings.section(GuidedSettings)
        example, start = timings.example(settings, examples), start_seconds(settings)
        forward = example / STEP_OVER_FORWARD
        waves = math.ceil((chosen.candidates + chosen.random_candidates) / settings.workers)
        # The network of uniform width counts like the whole one, though it is smaller by as much as limits ask for.
        alone = math.ceil(retrain.seeds / settings.workers) * (retrain.epochs + train.epochs + chosen.tune_epochs)
        epochs = alone + chosen.tune_epochs
        length = f"{several(train.epochs, 'epoch')} of {examples} examples"
        planned = [
            PlannedStage(
                "train",
                f"{settings.space.kind}, kernels and drop probabilities, {length}",
                timings.step * timings.steps(settings, examples) * train.epochs,
            ),
            PlannedStage(
                "draw",
                f"{chosen.candidates} networks from the posterior and {chosen.random_candidates} random ones",
                start + waves * (EXTRACTION_SECONDS + len(judging_examples(run)) * forward),
            ),
            PlannedStage(
                "retrain",
                f"the best for {several(chosen.tune_epochs, 'epoch')}, {retrain.seeds} x the whole network alone for "
                f"{retrain.epochs} and one of uniform width",
                2 * start + epochs * examples * example,
            ),
            planned_export(judging_passes(run) * forward),
        ]
        return planned[:1] if run.until == "train" else planned

    def schedule_in_words(self, settings: RunSettings) -> str:
        return (
            f"{several(settings.train.epochs, 'epoch')}, {settings.section(GuidedSettings).candidates} draws and "
            f"{settings.retrain.epochs} for each network trained alone"
        )

    def shrunk(self, settings: RunSettings, factor: float) -> Mapping[str, Mapping[str, Any]]:
        chosen = settings.section(GuidedSettings)
        candidates = shrunk(chosen.candidates, factor, least=20)
        random = shrunk(chosen.random_candidates, factor, least=5)
        return {self.section: {"candidates": candidates, "random_candidates": random}}

    def stages(self, run: Run) -> Sequence[Stage]:
        learned: LearnedPosterior
        drawn: DrawnCandidates

        def train(outcome: Outcome) -> None:
            nonlocal learned
            learned = learn_posterior(run)
            outcome.training = TrainingRecord(strategy=self.name, history=learned.history)

        def draw(outcome: Outcome) -> None:
            nonlocal drawn
            drawn = draw_candidates(run, learned)

        def retrain(outcome: Outcome) -> None:
            compare_draws(run, outcome, learned, drawn)

        return [Stage("train", train), Stage("draw", draw), Stage("retrain", retrain)]

    def summary(self, results: Results) -> Iterable[str | Table]:
        found = results.found(GuidedRecord)
        if found is None:
            return
        dropped, best = sum(not layer.share for layer in found.layers), found.best_draw
        yield (
            f"Posterior: {found.keep_rate:.0%} of channels kept on average; {len(found.guided)} draws, the best keeps "
            f"{best.parameters / found.full_parameters:.0%} of parameters and {best.macs / found.full_macs:.0%} of "
            f"multiply-accumulates, and drops {dropped} of {len(found.layers)} layers wholly"
        )
        if not found.limits and best.macs > NEARLY_WHOLE * found.full_macs:
            yield "Hardly anything was dropped: --max-macs or --max-params make networks small, the prior does not."
        if found.strength:
            yield (
                "Draws were made smaller than the posterior has them, to keep the limits; more train.epochs would make "
                "the posterior itself smaller."
            )
        depth = "" if found.best_depth is None else f" of depth {found.best_depth}"
        yield f"Best draw: number {found.best}{depth}"

    def report(self, results: Results) -> Section:
        from polyarch.methods.posterior_guided.report import section

        return section(results)
