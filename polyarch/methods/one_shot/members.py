"""Which architectures of a search predict together."""

from __future__ import annotations

from polyarch.methods.one_shot.record import SearchRecord
from polyarch.runs.draws import distinct_networks
from polyarch.runs.run import Run
from polyarch.spaces import Architecture


def ensemble_members(run: Run, record: SearchRecord) -> list[Architecture]:
    """The best of the search first, then by the first objective, up to ``retrain.members``.

    Each has other layers than those before it: architectures that differ only in what does not reach the output, or in
    where equal layers stand, would be the same opinion twice.
    """
    (objective,) = run.estimators(run.settings.search.objectives[:1])
    sign = -1 if objective.goal == "maximise" else 1
    by_score = sorted(record.evaluated, key=lambda item: sign * item.score(objective.name))
    space = run.net.space
    ordered = (space.architecture(item.architecture) for item in (record.best[0], *by_score))
    return distinct_networks(run.net, ordered, most=run.settings.retrain.members)
