"""Which charts a run has: names of places on the page to specifications."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from polyarch.methods.depth.plots import depth_charts
from polyarch.methods.differentiable.plots import differentiable_charts
from polyarch.methods.posterior_guided.plots import course_charts, guided_charts
from polyarch.methods.stochastic.plots import stochastic_charts
from polyarch.reports import plots
from polyarch.reports.distribution import distributions
from polyarch.reports.headline import entries
from polyarch.reports.searched import best_architecture
from polyarch.reports.specs import Row, Spec
from polyarch.reports.thinning import curve
from polyarch.results import Accuracy, Results

LOSSES = {"loss": "training loss", "valid_loss": "validation loss"}


def charts(results: Results) -> dict[str, Spec]:
    """Every chart for which the run has got far enough."""
    found: dict[str, Spec] = {}
    contenders = entries(results)
    if contenders:
        found["contenders"] = plots.contenders(contenders)
    supernet = list(curve(results.training.history, LOSSES))
    if results.differentiable is not None:
        found.update(differentiable_charts(results.differentiable))
    elif supernet:
        found["supernet"] = plots.curves(supernet, "loss (nats)")
    found.update(_retraining(results))
    found.update(course_charts(results.training))
    if results.guided is not None:
        found.update(guided_charts(results.guided))
    if results.stochastic is not None:
        found.update(stochastic_charts(results.stochastic))
    found.update(_distribution(results) if results.depth is None else depth_charts(results.depth))
    if results.search is not None and results.search.evaluated:
        found["sizes"] = plots.score_against_size(results.search, best_architecture(results))
    if any(one.reliability for one in results.predictors):
        found["reliability"] = plots.reliability(results.predictors)
    if any(one.coverage for one in results.predictors):
        found["risk"] = plots.risk_coverage(results.predictors)
    return found


def _retraining(results: Results) -> Iterator[tuple[str, Spec]]:
    trained = [one.runs for one in results.comparison or [] if any(run.history for run in one.runs)]
    if not trained:
        return
    best, *others = trained  # of what was trained alone, the best first
    losses = _over_epochs(best, LOSSES)
    if losses:
        yield "retraining", plots.curves(losses, "loss (nats)")
    if others and results.guided is not None:
        yield "retraining-whole", plots.curves(_over_epochs(others[-1], LOSSES), "loss (nats)")
    accuracies = _over_epochs(best, {"valid_accuracy": "validation accuracy"})
    if accuracies:
        yield "retraining-accuracy", plots.curves(accuracies, "validation accuracy", "~%")


def _over_epochs(runs: Sequence[Accuracy], names: Mapping[str, str]) -> list[Row]:
    """Points of the curves of every seed."""
    return [{**row, "seed": run.seed} for run in runs for row in curve(run.history, names)]


def _distribution(results: Results) -> Iterator[tuple[str, Spec]]:
    found = [shares for shares in distributions(results) if shares.shares]
    if not found:
        return
    if len(found[0].choices) == 1:
        yield "options", plots.option_bars(found)
        return
    largest = max(share.share for shares in found for share in shares.shares)
    for name, shares in zip(("options", "options-all"), found, strict=False):
        yield name, plots.option_map(shares, largest)
