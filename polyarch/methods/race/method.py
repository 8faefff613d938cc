"""The method: hold the race, deliver the best network and the best ensemble."""

from collections.abc import Iterable, Sequence

from rich.table import Table

from polyarch.data import Dataset
from polyarch.methods.method import Method
from polyarch.methods.race.delivery import deliver, winner
from polyarch.methods.race.evidence import Evidence, gather
from polyarch.methods.race.record import RaceRecord
from polyarch.methods.race.rungs import Lane, hold_race, rungs
from polyarch.methods.race.settings import RANDOM, SEEDS, RaceSettings
from polyarch.methods.race.suggestion import evidence_waves, suggest_race
from polyarch.methods.race.table_candidates import is_table_race
from polyarch.methods.race.table_race import hold_table_race, planned_table_race
from polyarch.reports.section import Section
from polyarch.results import Results
from polyarch.runs.checks import check_run
from polyarch.runs.display import several
from polyarch.runs.own_module import Builder
from polyarch.runs.plan import PlannedStage, Timings, delivery_seconds, start_seconds
from polyarch.runs.run import Run
from polyarch.runs.settings import RunSettings
from polyarch.runs.stage import Outcome, Stage
from polyarch.runs.suggestion import Suggestion


class Race(Method):
    """Trains networks of many sizes for a short time, and the better ones for longer: the minutes go into the result.

    Successive halving by training speed and validation loss, with a plain network among the candidates.
    """

    Settings = RaceSettings
    Record = RaceRecord
    section = "race"
    can_finish_now = True
    plans_its_time = True

    def suggest(self, asked: RunSettings, data: Dataset, builder: Builder | None) -> Suggestion:
        return suggest_race(asked, data, builder)

    def check(self, run: Run) -> None:
        check_run(run)
        run.draw(1, "check")

    def measure(self, run: Run) -> Timings:
        return Timings(0.0)

    def plan(self, run: Run, timings: Timings) -> list[PlannedStage]:
        settings, workers = run.settings.section(RaceSettings), run.settings.workers
        assert settings.seconds is not None
        end = PlannedStage("deliver", "choice, calibration, artifacts and report", delivery_seconds(run.settings))
        if is_table_race(run):
            return [planned_table_race(run), *_planned_evidence(run.settings, settings.seconds / 2), end]
        planned, before = [], 0.0
        for place, rung in enumerate(rungs(settings)):
            waves = -(-rung.count // workers)
            start = start_seconds(run.settings) if place == 0 else 0.0
            work = f"{several(rung.count, 'network')} up to {rung.seconds:.0f} seconds each"
            planned.append(PlannedStage("race", work, start + waves * (rung.seconds - before)))
            before = rung.seconds
        waves = -(-settings.finalists // workers)
        work = f"{several(settings.finalists, 'finalist')} up to {settings.seconds:.0f} seconds each"
        final = PlannedStage("final", work, waves * (settings.seconds - before))
        return [*planned, final, *_planned_evidence(run.settings, settings.seconds), end]

    def stages(self, run: Run) -> Sequence[Stage]:
        lanes: list[Lane] = []
        gathered: list[Evidence] = []

        def race(outcome: Outcome) -> None:
            lanes[:] = hold_table_race(run) if is_table_race(run) else hold_race(run)

        def evidence(outcome: Outcome) -> None:
            gathered.append(gather(run, [lane for lane in lanes if lane.candidate.fold == 0], winner(run, lanes)))

        def end(outcome: Outcome) -> None:
            deliver(run, outcome, lanes, *gathered)

        further = [Stage("evidence", evidence)] if run.settings.evidence and not run.finish_now else []
        return [Stage("race", race), *further, Stage("deliver", end)]

    def summary(self, results: Results) -> Iterable[str | Table]:
        found = results.found(RaceRecord)
        if found is not None:
            best = found.candidates[found.best]
            table = Table("network", "trained with", "parameters", "seconds", "validation loss", "share")
            for one in found.candidates:
                name = one.name + (" (plain)" if one.is_reference else "")
                last = one.legs[-1]
                table.add_row(
                    name + (" *" if one is best else ""),
                    one.recipe or one.augmentation,
                    f"{one.parameters:,}",
                    f"{last.seconds:.0f}",
                    f"{last.valid_loss:.4f}",
                    f"{one.share:.2f}",
                )
            yield table

    def report(self, results: Results) -> Section:
        from polyarch.methods.race.report import section

        return section(results)


def _planned_evidence(settings: RunSettings, seconds: float) -> list[PlannedStage]:
    if not settings.evidence:
        return []
    work = f"{SEEDS} seeds, {RANDOM} random networks and the plain one up to {seconds:.0f} seconds each"
    return [PlannedStage("evidence", work, start_seconds(settings) + evidence_waves(settings) * seconds)]
