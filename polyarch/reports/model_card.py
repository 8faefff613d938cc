"""The card of an artifact: what it predicts, how good it is, what is not known of it, and how to load it.

After Mitchell et al. (2019), "Model Cards for Model Reporting", FAT*.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from polyarch.export.records import PROGRAM_FILES
from polyarch.files import write_atomically
from polyarch.predictive.metrics import METRICS
from polyarch.reports.page import FITTING, environment_of, metric_titles, prediction_text
from polyarch.reports.score_text import ScoreText
from polyarch.reports.text import figures, listed, percent, several, with_noise
from polyarch.results import PredictorRecord, Results

CARD_FILE = "README.md"
TEMPLATE = Path("model_card.md")

KINDS = {"classification": "classification", "regression": "regression", "multi-label": "classification"}


@dataclass(frozen=True)
class MetricLine:
    """A row of the table of metrics."""

    name: str
    value: str
    note: str = ""


def write_model_cards(results: Results, folder: Path) -> None:
    """Writes the cards of all artifacts in the folder of a run."""
    for one in results.predictors:
        if one.folder is not None:
            write_model_card(results, one, folder / one.folder)


def write_model_card(results: Results, predictor: PredictorRecord, artifact: Path) -> None:
    """Writes the card of one artifact beside its files."""
    programs = [name for name, file in PROGRAM_FILES.items() if (artifact / file).exists()]
    template = environment_of(TEMPLATE).get_template(TEMPLATE.name)
    shape = results.data.get("input_shape")
    text = template.render(
        results=results,
        predictor=predictor,
        folder=artifact.name,
        kind=pipeline(results),
        lines=list(metric_lines(results, predictor)),
        limits=list(limits(results, predictor)),
        outputs=prediction_text(results),
        inputs=f"examples of shape {tuple(shape)}" if isinstance(shape, list) else "examples with several inputs",
        has_one_input=isinstance(shape, list),
        programs=programs,
        licence=results.settings.get("licence"),
    )
    write_atomically(artifact / CARD_FILE, text)


def pipeline(results: Results) -> str | None:
    """What hubs of models call such a predictor, where they have a name for it."""
    kind, shape = KINDS.get(results.task.kind), results.data.get("input_shape")
    if kind is None or not isinstance(shape, list) or len(shape) not in (1, 3):
        return None
    if len(shape) == 3:
        return "image-classification" if kind == "classification" else None
    return f"tabular-{kind}"


def metric_lines(results: Results, predictor: PredictorRecord) -> Iterator[MetricLine]:
    """Every metric on test data, the one that selection goes by first."""
    score = ScoreText.of(results)
    for name, title in metric_titles(results).items():
        if name == results.task.metric:
            yield MetricLine(title, *_with_brackets(score.score_of(predictor)))
        elif name == "calibration_error" and name in predictor.metrics:
            yield MetricLine("expected calibration error", with_noise(predictor.metrics[name], predictor.calibration))
        elif name in predictor.metrics:
            is_share = name in METRICS and METRICS[name].unit == "share"
            yield MetricLine(title, (percent if is_share else figures)(predictor.metrics[name]))
    yield MetricLine("negative log-likelihood", *_with_brackets(score.loss_of(predictor)))
    if predictor.conformal is not None:
        one, is_number = predictor.conformal, results.task.kind == "regression"
        note = f"asked for {percent(one.asked, 0)}; mean {'width' if is_number else 'size'} {figures(one.size)}"
        name = f"coverage of {'intervals' if is_number else 'prediction sets'}"
        yield MetricLine(name, percent(one.covered), note)


def limits(results: Results, predictor: PredictorRecord) -> Iterator[str]:
    """What the numbers do not say."""
    data = results.data
    split = data.get("split", {}).get("test")
    drawn = f" ({split})" if split else ""
    yield (
        f"Measured on {several(data['test'], 'test example')}{drawn}, which were used for nothing else. Intervals say "
        "how far the numbers depend on these examples. How it does on data from another source is not known."
    )
    if results.task.kind == "classification":
        yield "It knows no other classes: whatever it is given gets probabilities of these."
    yield (
        f"It flags uncertain predictions, {percent(predictor.flagged)} of the test examples; its threshold was chosen "
        "on validation examples."
    )
    if predictor.train_score is not None and predictor.train_score < FITTING and results.task.metric == "accuracy":
        yield (
            f"Its accuracy on training examples is {percent(predictor.train_score)}: it does not fit them, so that a "
            "small calibration error says little."
        )
    if not predictor.detection:
        yield "How well its uncertainty tells unfamiliar inputs apart was not measured."
    else:
        names = list(predictor.detection)
        yield f"Its uncertainty was tried on unfamiliar inputs; {listed(names)} are in `metadata.json` (`detection`)."
    yield "Groups of examples were not compared, and attacked inputs were not tried."


def _with_brackets(text: str) -> tuple[str, str]:
    """A value, and its interval in words."""
    value, _, interval = text.partition("\u00a0[")
    return value, f"95 % interval {interval.rstrip(']').replace(', ', ' to ')}" if interval else ""
