"""The search for the best architecture, and the samplers that settings can name."""

from contextlib import closing
from pathlib import Path

from polyarch import searchers
from polyarch.errors import ConfigError
from polyarch.estimators import Failure, Score, Scoring
from polyarch.methods.one_shot.ranking import score_records
from polyarch.methods.one_shot.record import ScoredArchitecture, ScoreRecord, SearchRecord
from polyarch.plugins import SAMPLERS
from polyarch.runs.display import several
from polyarch.runs.run import Run, distinct_networks
from polyarch.runs.sections import SearchSettings
from polyarch.searchers import StudySearcher
from polyarch.searchers.searcher import MakeSampler, reading_study
from polyarch.spaces import Architecture


def random(settings: SearchSettings) -> MakeSampler:
    """Random architectures."""
    return searchers.random_search


def exhaustive(settings: SearchSettings) -> MakeSampler:
    """Every architecture once."""
    return searchers.exhaustive_search


def evolution(settings: SearchSettings) -> MakeSampler:
    """Regularised evolution, for one objective."""
    if len(settings.objectives) > 1:
        raise ConfigError(
            f"Expected sampler nsga2, random or exhaustive for {len(settings.objectives)} goals. Got 'evolution'."
        )
    return searchers.evolution(settings.population, min(settings.tournament, settings.population))


def nsga2(settings: SearchSettings) -> MakeSampler:
    """NSGA-II, for several objectives."""
    return searchers.nsga2(settings.population)


SHARE_OF_TIME = 0.5
"""Of ``max_minutes``: then what was found must do, because training the best takes the rest."""


def sampler_of(settings: SearchSettings) -> MakeSampler:
    """What proposes architectures, by name."""
    made: MakeSampler = SAMPLERS[settings.sampler](settings)
    return made


def search(run: Run) -> SearchRecord:
    """Asks, scores and tells until the budget is spent on as many networks, or none is left.

    The best by the first objective come first.
    """
    storage, name = _study_of(run)
    with reading_study(storage):
        return _searched(run, storage, name)


def _study_of(run: Run) -> tuple[Path | str, str]:
    """The storage and the name of the study: in the folder of the run, or where runs share a storage.

    A journal takes proposals faster than SQLite, which matters once many workers wait for them.
    """
    shared, workspace = run.settings.search.storage, run.workspace
    if shared is not None:
        return shared, workspace.study_name()
    begun = [path for path in (workspace.study, workspace.study_journal) if path.exists()]
    preferred = workspace.study_journal if run.settings.executor.kind == "ray" else workspace.study
    return (begun or [preferred])[0], "search"


def _searched(run: Run, storage: Path | str, name: str) -> SearchRecord:
    settings = run.settings.search
    task = Scoring(run.net, run.estimators(settings.objectives))
    goals = [estimator.goal for estimator in task.estimators]
    with (
        closing(
            StudySearcher(
                run.limits,
                sampler_of(settings),
                goals=goals,
                seed=run.settings.seed,
                window=settings.window,
                storage=storage,
                name=name,
            )
        ) as searcher,
        run.display.stage("search") as report,
        run.stop.at_once(),
        run.executor().open(task) as score,
    ):
        proposals = _Proposals(run, searcher)
        report(searcher.count(), settings.budget, "")
        for index, outcome in score(proposals):
            _tell(run, searcher, proposals.asked[index], outcome)
            report(searcher.count(), settings.budget, "")
    done, exhausted = searcher.count(), proposals.exhausted
    if exhausted:
        run.display.say(f"The search ended early, after {several(done, 'network')}: it found no other one.")
    notes = searcher.notes("scores")
    sign = -1 if goals[0] == "maximise" else 1
    best = sorted(searcher.best(), key=lambda item: sign * item.values[0])

    def scored(architecture: Architecture) -> ScoredArchitecture:
        scores = [ScoreRecord(**values) for values in notes[architecture]]
        return ScoredArchitecture(
            architecture=architecture.to_dict(), scores=scores, parameters=run.alone.parameter_count(architecture)
        )

    return SearchRecord(
        sampler=settings.sampler,
        objectives=[estimator.name for estimator in task.estimators],
        limits={limit.cost.name: limit.at_most for limit in run.limits.limits},
        evaluated=[scored(item.architecture) for item in searcher.finished()],
        best=[scored(item.architecture) for item in best],
        exhausted=exhausted,
    )


class _Proposals:
    """Supplies a mapper with architectures until the budget or the time is spent, or no network is left."""

    def __init__(self, run: Run, searcher: StudySearcher) -> None:
        self._run = run
        self._searcher = searcher
        self._done = searcher.count()
        self.asked: list[Architecture] = []
        self.exhausted = False

    def __call__(self, most: int) -> list[Architecture]:
        """Up to so many architectures that are not being scored yet."""
        settings, told = self._run.settings.search, self._searcher.count()
        running = len(self.asked) - (told - self._done)
        in_time = told < settings.window or self._run.seconds_left(SHARE_OF_TIME) > 0
        wanted = min(most, settings.budget - told - running) if in_time else 0
        if wanted <= 0:
            return []
        known = set(self.asked)
        found = [one for one in self._searcher.ask(running + wanted) if one not in known]
        self.exhausted = not found and not running
        self.asked += found
        return found


def _tell(run: Run, searcher: StudySearcher, architecture: Architecture, outcome: list[Score] | Failure) -> None:
    if isinstance(outcome, Failure):
        searcher.tell_failure(architecture, outcome.reason)
        run.workspace.log("failed", key=architecture.key, reason=outcome.reason)
    else:
        records = score_records(outcome)
        searcher.tell([architecture], [[score.value for score in outcome]], notes=[{"scores": records}])
        run.workspace.log("searched", key=architecture.key, scores=records)


def ensemble_members(run: Run, record: SearchRecord) -> list[Architecture]:
    """The best of the search first, then by the first objective, up to ``retrain.members``.

    Each is another network: architectures of one canonical form would be the same opinion twice.
    """
    (objective,) = run.estimators(run.settings.search.objectives[:1])
    sign = -1 if objective.goal == "maximise" else 1
    by_score = sorted(record.evaluated, key=lambda item: sign * item.score(objective.name))
    space = run.net.space
    ordered = (space.architecture(item.architecture) for item in (record.best[0], *by_score))
    return distinct_networks(ordered, most=run.settings.retrain.members)
