"""Random architectures ranked by training speed with early elimination, at a fraction of the steps."""

import math

from polyarch.methods.one_shot.record import EliminatedArchitecture, EliminationRecord
from polyarch.ranking import geometric_rungs, halving_counts, successive_halving
from polyarch.ranking.halving import Curve
from polyarch.runs.run import Run
from polyarch.runs.settings import RunSettings

FIRST_SHARE = 8
"""The first rung is at this part of the steps; from rung to rung the steps double and the architectures halve."""


def rungs_of(settings: RunSettings) -> tuple[int, ...]:
    """The steps after which the worse half is eliminated, the whole short run last."""
    steps = settings.scores.steps
    return geometric_rungs(steps, first=max(steps // FIRST_SHARE, 1))


def eliminate(run: Run) -> EliminationRecord:
    """Ranks random architectures by successive halving; losses go to a journal, and a killed run reads them there."""
    architectures = run.draw(run.settings.rank.architectures, "rank")
    rungs = rungs_of(run.settings)
    journal = run.workspace.journal("halving")
    known = {record["key"]: tuple(_from_json(loss) for loss in record["losses"]) for record in journal.records}
    total = sum(halving_counts(len(architectures), rungs))
    with run.display.stage("rank") as report:

        def note(key: str, curve: Curve) -> None:
            journal.append({"key": key, "losses": [None if math.isnan(loss) else loss for loss in curve]})
            report(len(journal.records), total, "")

        report(len(journal.records), total, "")
        with run.stop.at_once():
            found = successive_halving(
                run.net, architectures, run.scores.short_run(), run.executor(), rungs=rungs, known=known, note=note
            )
    ranked = [
        EliminatedArchitecture(
            architecture=architectures[position].to_dict(),
            parameters=run.net.parameter_count(architectures[position]),
            steps=found.steps[position],
            value=found.values[position] if math.isfinite(found.values[position]) else None,
        )
        for position in found.order
    ]
    return EliminationRecord(rungs=list(rungs), architectures=ranked, spent=found.spent, full_steps=found.full_steps)


def _from_json(loss: float | None) -> float:
    return math.nan if loss is None else loss
