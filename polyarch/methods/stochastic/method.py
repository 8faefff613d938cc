"""Stochastic architectures: one network trained under many, then an ensemble of some, against one trained alone."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.table import Table

from polyarch.data import Dataset
from polyarch.methods.method import Method
from polyarch.methods.stochastic.ensemble import (
    EVALUATED,
    ChosenMembers,
    affordable,
    choose_members,
    find_ensemble,
    judging_passes,
)
from polyarch.methods.stochastic.record import StochasticRecord
from polyarch.methods.stochastic.settings import StochasticSettings
from polyarch.methods.stochastic.strategy import drawn_architectures, stochastic_training
from polyarch.methods.stochastic.suggestion import PASSES_UNLABELLED, suggest_stochastic
from polyarch.reports.section import Section
from polyarch.results import Results
from polyarch.runs.checks import check_run, check_training, refuse_searching, refuse_strategy
from polyarch.runs.display import several
from polyarch.runs.own_module import Builder
from polyarch.runs.plan import STEP_OVER_FORWARD, PlannedStage, Timings, planned_export, start_seconds, time_steps
from polyarch.runs.run import Run
from polyarch.runs.settings import RunSettings
from polyarch.runs.stage import Outcome, Stage
from polyarch.runs.suggestion import Suggestion
from polyarch.runs.training import Training, train_supernet


@dataclass(frozen=True)
class PassTimings(Timings):
    """A step takes one pass over its batch, or several with unlabelled examples."""

    passes: int = 1

    def example(self, settings: RunSettings, examples: int) -> float:
        """Seconds to train on one labelled example."""
        return super().example(settings, examples) / self.passes


class Stochastic(Method):
    """One set of weights under random architectures, per batch or per example, that predict together.

    Deng, Dong, Zhang and Zhu (2020), Understanding and Exploring the Network with Stochastic Architectures, NeurIPS.
    """

    Settings = StochasticSettings
    Record = StochasticRecord
    section = "stochastic"
    takes = frozenset({"unlabelled", "wirings"})
    baseline_trains_as_long = True

    def suggest(self, asked: RunSettings, data: Dataset, builder: Builder | None) -> Suggestion:
        return suggest_stochastic(asked, data, builder)

    def check(self, run: Run) -> None:
        """Among the rest, that one member or more fits into the budget."""
        refuse_searching(run)
        refuse_strategy(run)
        affordable(run, drawn_architectures(run)[:EVALUATED], most=1)
        check_run(run)
        check_training(run)

    def training(self, run: Run) -> Training:
        return stochastic_training(run)

    def measure(self, run: Run) -> PassTimings:
        steps = time_steps(run)
        return PassTimings(steps.step, passes=PASSES_UNLABELLED if run.feed.unlabelled is not None else 1)

    def plan(self, run: Run, timings: Timings) -> list[PlannedStage]:
        settings, examples = run.settings, len(run.feed.train)
        train, retrain = settings.train, settings.retrain
        also = "" if run.feed.unlabelled is None else ", also on unlabelled examples"
        work = (
            f"{settings.space.kind} under {settings.section(StochasticSettings).architectures} architectures{also}, "
            f"{several(train.epochs, 'epoch')} of {examples} examples"
        )
        example = timings.example(settings, examples)
        judging = judging_passes(run) * example / STEP_OVER_FORWARD
        waves = math.ceil(retrain.seeds / settings.workers)
        planned = [
            PlannedStage("train", work, timings.step * timings.steps(settings, examples) * train.epochs),
            PlannedStage(
                "retrain",
                f"{retrain.seeds} x a network trained alone, {several(retrain.epochs, 'epoch')}",
                start_seconds(settings) + waves * examples * retrain.epochs * example,
            ),
            planned_export(judging, "choice, calibration, artifacts and report"),
        ]
        return planned[:1] if run.until == "train" else planned

    def schedule_in_words(self, settings: RunSettings) -> str:
        epochs = several(settings.train.epochs, "epoch")
        return f"{epochs} under many architectures and {settings.retrain.epochs} for each network trained alone"

    def stages(self, run: Run) -> Sequence[Stage]:
        chosen: ChosenMembers

        def train(outcome: Outcome) -> None:
            outcome.training = train_supernet(run).model_copy(update={"strategy": self.name})

        def choose(outcome: Outcome) -> None:
            nonlocal chosen
            chosen = choose_members(run)

        def retrain(outcome: Outcome) -> None:
            find_ensemble(run, outcome, chosen)

        return [Stage("train", train), Stage("choose", choose), Stage("retrain", retrain)]

    def summary(self, results: Results) -> Iterable[str | Table]:
        found = results.found(StochasticRecord)
        if found is None:
            return
        shares = [f"{member.weight:.3f}" for member in found.members if member.weight]
        times = found.ensemble_macs / max(found.member_macs, 1.0)
        yield (
            f"Ensemble: {len(shares)} of {found.drawn:,} architectures with shares {', '.join(shares)}, "
            f"{found.parameters:,} parameters, {found.ensemble_macs:,.0f} multiply-accumulates per example "
            f"({times:.2f} times those of the best)"
        )
        if found.members[0].notation:
            yield f"Best wiring: {found.members[0].notation}"
        else:
            yield from super().summary(results)

    def report(self, results: Results) -> Section:
        from polyarch.methods.stochastic.report import section

        return section(results)
