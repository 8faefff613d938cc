"""The third stage: the search for the best architecture."""

from __future__ import annotations

from polyarch.estimators import Failure, Score
from polyarch.methods.one_shot.samplers import sampler
from polyarch.results import ScoredArchitecture, ScoreRecord, SearchRecord
from polyarch.runs.run import Context, ScoreMapper, score_records
from polyarch.searchers import StudySearcher
from polyarch.spaces import Architecture

SHARE_OF_TIME = 0.5
"""Of ``max_minutes``: then what was found must do, because training the best takes the rest."""


def search(context: Context, score: ScoreMapper) -> SearchRecord:
    """Asks, scores and tells until the budget is spent; the best by the first objective come first."""
    settings = context.parts.settings.search
    goals = [estimator.goal for estimator in context.parts.estimators(settings.objectives)]
    searcher = StudySearcher(
        context.limits,
        sampler(settings, len(goals)),
        goals=goals,
        seed=context.parts.settings.seed,
        storage=context.workspace.study,
    )
    with context.display.stage("search") as report:
        done = searcher.count()
        report(done, settings.budget, "")
        while done < settings.budget and (done < settings.batch or context.seconds_left(SHARE_OF_TIME) > 0):
            asked = searcher.ask(min(settings.batch, settings.budget - done))
            if not asked:
                break  # an exhaustive search has seen everything
            for index, outcome in score([("search", architecture) for architecture in asked]):
                _tell(context, searcher, asked[index], outcome)
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
            parameters=context.parts.net.parameter_count(architecture),
        )

    return SearchRecord(
        sampler=settings.sampler,
        objectives=list(settings.objectives),
        limits={limit.cost.name: limit.at_most for limit in context.limits.limits},
        evaluated=[scored(item.architecture) for item in searcher.finished()],
        best=[scored(item.architecture) for item in best],
    )


def _tell(
    context: Context, searcher: StudySearcher, architecture: Architecture, outcome: list[Score] | Failure
) -> None:
    if isinstance(outcome, Failure):
        searcher.tell_failure(architecture, outcome.reason)
        context.workspace.log("failed", key=architecture.key, reason=outcome.reason)
    else:
        records = score_records(outcome)
        searcher.tell([architecture], [[score.value for score in outcome]], notes=[{"scores": records}])
        context.workspace.log("searched", key=architecture.key, scores=records)
