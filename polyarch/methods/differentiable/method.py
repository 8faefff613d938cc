"""Differentiable search: weights and q in one training, then one architecture of q, trained alone."""

from collections.abc import Sequence
from dataclasses import replace

from polyarch.data import Dataset
from polyarch.methods.differentiable.choice import find_architectures, record_of
from polyarch.methods.differentiable.record import DifferentiableRecord
from polyarch.methods.differentiable.settings import DifferentiableSettings
from polyarch.methods.differentiable.strategy import bilevel_training
from polyarch.methods.differentiable.suggestion import MIXED, passes_of, suggest_differentiable
from polyarch.methods.differentiable.training import LearnedRelaxation, learn, staged
from polyarch.methods.method import Method
from polyarch.reports.section import Section
from polyarch.results import Results, TrainingRecord
from polyarch.runs.checks import check_run, check_training, refuse_searching
from polyarch.runs.comparison import compare
from polyarch.runs.display import several
from polyarch.runs.own_module import Builder
from polyarch.runs.plan import PlannedStage, Timings, planned_export, planned_retraining
from polyarch.runs.run import Run
from polyarch.runs.settings import RunSettings
from polyarch.runs.stage import Outcome, Stage
from polyarch.runs.suggestion import Suggestion
from polyarch.runs.training import Training
from polyarch.spaces import Architecture
from polyarch.tables.lookup import truth_for


class Differentiable(Method):
    """DARTS and its relatives, by name; see `polyarch.methods.differentiable.recipes` for their papers."""

    Settings = DifferentiableSettings
    Record = DifferentiableRecord
    takes = frozenset({"evaluation"})
    section = "differentiable"

    def suggest(self, asked: RunSettings, data: Dataset, builder: Builder | None) -> Suggestion:
        return suggest_differentiable(asked, data, builder)

    def check(self, run: Run) -> None:
        """Among the rest, that every stage can be built."""
        refuse_searching(run)
        if run.settings.rank.truth is not None:
            truth_for(run.settings.rank.truth, run.net.space)
        stages = run.settings.section(DifferentiableSettings).stages
        for stage in stages:
            staged(run, stage, len(stages))
        check_run(run)
        run.draw(1, "check")
        check_training(run, "differentiable.steps")

    def training(self, run: Run) -> Training:
        return bilevel_training(run)

    def plan(self, run: Run, timings: Timings) -> list[PlannedStage]:
        settings, examples = run.settings, len(run.feed.train)
        chosen, epochs = settings.section(DifferentiableSettings), settings.train.epochs
        stages = f" in {len(chosen.stages)} stages" if chosen.stages else ""
        work = f"{self.name} on {settings.space.kind}{stages}, {several(epochs, 'epoch')} of {examples} examples"
        seconds = timings.step * timings.steps(settings, examples) * epochs * (1.5 if chosen.stages else 1.0)
        example = timings.example(settings, examples) / (MIXED * passes_of(chosen.model_dump()))
        planned = [
            PlannedStage("train", work, seconds),
            planned_retraining(settings, examples, example),
            planned_export(),
        ]
        return planned[:1] if run.until == "train" else planned

    def fewest_epochs(self, settings: RunSettings) -> int:
        """Every stage has an epoch or more."""
        return len(settings.section(DifferentiableSettings).stages) or super().fewest_epochs(settings)

    def stages(self, run: Run) -> Sequence[Stage]:
        learned: LearnedRelaxation
        trained: Run
        best: list[Architecture]

        def train(outcome: Outcome) -> None:
            """Learns weights and q; the stages that follow go on with the supernet that was trained last."""
            nonlocal learned, trained
            learned = learn(run)
            networks = replace(run.networks, make=learned.run.networks.make)
            trained = replace(run, net=learned.run.net, networks=networks)
            outcome.net, outcome.record = trained.net, record_of(learned)
            outcome.training = TrainingRecord(strategy=self.name, history=learned.history)

        def choose(outcome: Outcome) -> None:
            nonlocal best
            best = find_architectures(trained, learned)
            outcome.record = record_of(learned, best[0])

        def retrain(outcome: Outcome) -> None:
            compare(trained, outcome, best)

        return [Stage("train", train), Stage("choose", choose), Stage("retrain", retrain)]

    def report(self, results: Results) -> Section:
        from polyarch.methods.differentiable.report import section

        return section(results)
