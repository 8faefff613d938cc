"""The end of a run: what every size costs and how good it is, and the best one with its calibration."""

from typing import Any

from torch import Tensor

from polyarch.estimators import MACs
from polyarch.executors import Serial
from polyarch.methods.front.record import FrontRecord
from polyarch.methods.front.training import ElasticTraining
from polyarch.results import NetworkRecord, Role, SizeRecord
from polyarch.results.sizes import best_within, with_front
from polyarch.runs.artifacts import write_predictors
from polyarch.runs.comparison import contender
from polyarch.runs.judging import Ensemble, MemberOutputs
from polyarch.runs.reference import references
from polyarch.runs.run import Run
from polyarch.runs.stage import Outcome
from polyarch.runs.workspace import run_missing
from polyarch.spaces import Architecture


def deliver(run: Run, outcome: Outcome, steps: int) -> None:
    """Measures every size, chooses the best on validation data within the limits, judges it on test data, exports."""
    training = ElasticTraining(run)
    sizes = training.sizes
    measured = _measured(run, training)
    metric, search = run.task.selection, run.settings.search
    records = with_front([_record(run, one, measured[one.key]) for one in sizes], metric)
    best = best_within(
        records, metric, max_params=search.max_params, max_macs=search.max_macs, max_latency=search.max_latency
    )
    chosen, found = sizes[best], measured[sizes[best].key]
    names = ("score", "loss", "valid_score", "metrics", "calibration", "resampled")
    metrics = {name: found[name] for name in names if name in found}  # earlier journals have no noise
    network = NetworkRecord(architecture=chosen.to_dict(), seed=run.settings.seed, **metrics)
    outcome.comparison = [contender(BEST, Role.BEST, [network]), *references(run)]
    ensemble = Ensemble.of(BEST, [(chosen, training.network(chosen))])
    outcome.predictors = write_predictors(run, [(ensemble, run.workspace.artifact)])
    outcome.default = run.workspace.artifact.name
    outcome.record = FrontRecord(sizes=records, best=best, steps=steps)
    outcome.artifact = {
        "architecture": chosen.to_dict(),
        "seed": run.settings.seed,
        "score": network.score,
        "parameters": records[best].parameters,
    }


BEST = "best size"


def _measured(run: Run, training: ElasticTraining) -> dict[str, dict[str, Any]]:
    """Scores and losses of every size with the weights it inherits, by key."""

    def measure(one: Architecture) -> dict[str, Any]:
        network = training.network(one)

        def member(inputs: Tensor) -> Tensor:
            outputs: Tensor = network(inputs)
            return outputs[None]

        return MemberOutputs.of(run, member).alone(0, names=None)

    items = {one.key: one for one in training.sizes}
    with run.display.stage("sizes") as report, run.stop.at_once(), Serial().open(measure) as measure_all:
        return run_missing(items, run.workspace.journal("sizes"), measure_all, dict, report)


def _record(run: Run, one: Architecture, found: dict[str, Any]) -> SizeRecord:
    (latency,) = run.estimators(["latency"])
    return SizeRecord(
        architecture=one.to_dict(),
        parameters=run.net.parameter_count(one),
        macs=MACs(run.feed.example.inputs).score(run.net, one),
        latency=latency.score(run.net, one),
        **{name: found[name] for name in ("valid_score", "valid_loss", "score", "loss", "resampled") if name in found},
    )
