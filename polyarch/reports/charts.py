"""The charts that any run has: the comparison, the curves of training, and how far predictions can be trusted."""

from collections.abc import Iterator, Mapping, Sequence

from polyarch.reports import plots
from polyarch.reports.headline import Entry
from polyarch.reports.shares import learned_shares, option_chart
from polyarch.reports.specs import Row, Spec, curve
from polyarch.results import Accuracy, Results

LOSSES = {"loss": "training loss", "valid_loss": "validation loss"}


def charts(results: Results, contenders: Sequence[Entry], *, spells_out: bool = True) -> Iterator[tuple[str, Spec]]:
    """Ids of places on the page and what is drawn there, as far as the run has come.

    Args:
        spells_out: whether a learned distribution is shown option by option.
    """
    if contenders:
        yield "contenders", plots.contenders(contenders)
    supernet = list(curve(results.training.history, LOSSES))
    if supernet:
        yield "supernet", plots.curves(supernet, "loss (nats)")
    trained = trained_alone(results)
    if trained:
        yield from retraining(trained[0])
    if results.training.q and spells_out:
        yield "options", option_chart(learned_shares(results.training.q, results.space.get("choices") or {}))
    if any(one.reliability for one in results.predictors):
        yield "reliability", plots.reliability(results.predictors)
    if any(one.coverage for one in results.predictors):
        yield "risk", plots.risk_coverage(results.predictors)


def trained_alone(results: Results) -> list[Sequence[Accuracy]]:
    """The runs of every contender with a training of its own, in the order of the comparison."""
    return [one.runs for one in results.comparison or [] if any(run.history for run in one.runs)]


def retraining(runs: Sequence[Accuracy], name: str = "retraining") -> Iterator[tuple[str, Spec]]:
    """Losses and accuracy of every seed over the epochs."""
    losses = _over_epochs(runs, LOSSES)
    if losses:
        yield name, plots.curves(losses, "loss (nats)")
    accuracies = _over_epochs(runs, {"valid_accuracy": "validation accuracy"})
    if accuracies:
        yield f"{name}-accuracy", plots.curves(accuracies, "validation accuracy", "~%")


def _over_epochs(runs: Sequence[Accuracy], names: Mapping[str, str]) -> list[Row]:
    return [{**row, "seed": run.seed} for run in runs for row in curve(run.history, names)]
