"""The search for the best architecture."""

from __future__ import annotations

from polyarch.estimators import Failure, Score, Scoring
from polyarch.methods.one_shot.record import ScoredArchitecture, ScoreRecord, SearchRecord
from polyarch.methods.one_shot.scoring import score_records
from polyarch.plugins import SAMPLERS
from polyarch.runs.run import Run
from polyarch.runs.sections import SearchSettings
from polyarch.searchers import StudySearcher
from polyarch.searchers.searcher import MakeSampler
from polyarch.spaces import Architecture

SHARE_OF_TIME = 0.5
"""Of ``max_minutes``: then what was found must do, because training the best takes the rest."""


def sampler_of(settings: SearchSettings) -> MakeSampler:
    """What proposes architectures, by name."""
    made: MakeSampler = SAMPLERS[settings.sampler](settings)
    return made


def search(run: Run) -> SearchRecord:
    """Asks, scores and tells until the budget is spent; the best by the first objective come first."""
    settings = run.settings.search
    task = Scoring(run.net, run.estimators(settings.objectives))
    goals = [estimator.goal for estimator in task.estimators]
    searcher = StudySearcher(
        run.limits,
        sampler_of(settings),
        goals=goals,
        seed=run.settings.seed,
        storage=run.workspace.study,
    )
    with run.display.stage("search") as report, run.stop.at_once(), run.executor().open(task) as score:
        done = searcher.count()
        report(done, settings.budget, "")
        while done < settings.budget and (done < settings.batch or run.seconds_left(SHARE_OF_TIME) > 0):
            asked = searcher.ask(min(settings.batch, settings.budget - done))
            if not asked:
                break  # an exhaustive search has seen everything
            for index, outcome in score(asked):
                _tell(run, searcher, asked[index], outcome)
                done += 1
                report(done, settings.budget, "")
    notes = searcher.notes("scores")
    sign = -1 if goals[0] == "maximise" else 1
    best = sorted(searcher.best(), key=lambda item: sign * item.values[0])

    def scored(architecture: Architecture) -> ScoredArchitecture:
        scores = [ScoreRecord(**values) for values in notes[architecture]]
        return ScoredArchitecture(
            architecture=architecture.to_dict(),
            scores=scores,
            parameters=run.net.parameter_count(architecture),
        )

    return SearchRecord(
        sampler=settings.sampler,
        objectives=[estimator.name for estimator in task.estimators],
        limits={limit.cost.name: limit.at_most for limit in run.limits.limits},
        evaluated=[scored(item.architecture) for item in searcher.finished()],
        best=[scored(item.architecture) for item in best],
    )


def _tell(run: Run, searcher: StudySearcher, architecture: Architecture, outcome: list[Score] | Failure) -> None:
    if isinstance(outcome, Failure):
        searcher.tell_failure(architecture, outcome.reason)
        run.workspace.log("failed", key=architecture.key, reason=outcome.reason)
    else:
        records = score_records(outcome)
        searcher.tell([architecture], [[score.value for score in outcome]], notes=[{"scores": records}])
        run.workspace.log("searched", key=architecture.key, scores=records)
