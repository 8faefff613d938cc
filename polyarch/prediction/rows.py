"""Predictions as rows of a table and as messages, for every kind of task."""

from collections.abc import Iterator, Sequence
from typing import Any

from polyarch.prediction.predictor import Predictions, Predictor
from polyarch.tasks import Classification, MultiLabel, Regression

Row = dict[str, Any]


def columns_of(predictor: Predictor) -> list[str]:
    """The columns of a table of predictions, beside the id."""
    task = predictor.task
    names = task.names
    depth = ["depth"] if predictor.exits else []
    match task:
        case Classification():
            sets = ["set"] if predictor.sets is not None else []
            uncertain = ["probability", "entropy", "mutual_information", "flag"]
            return ["prediction", *uncertain, *depth, *sets, *(f"p:{name}" for name in names)]
        case MultiLabel():
            return ["prediction", "entropy", "mutual_information", "flag", *(f"p:{name}" for name in names)]
        case Regression():
            measures = ["prediction", *list(task.readouts)[1:]]
            if len(names) == 1:
                return [*measures, "flag"]
            return [f"{measure}:{name}" for name in names for measure in measures] + ["flag"]
    return [*(f"output:{index}" for index in range(task.outputs)), "disagreement", "flag"]


def rows_of(predictions: Predictions, predictor: Predictor) -> Iterator[list[str | float | int]]:
    """The cells of every example, in the order of `columns_of`; numbers are not yet formatted."""
    task = predictor.task
    for message in messages_of(predictions, predictor):
        flag = int(message["flagged"])
        match task:
            case Classification():
                uncertain = [message["probability"], message["entropy"], message["mutual_information"], flag]
                depth = [message["depth"]] if predictor.exits else []
                sets = ["|".join(message["set"])] if predictor.sets is not None else []
                yield [message["class"], *uncertain, *depth, *sets, *message["probabilities"].values()]
            case MultiLabel():
                present = "|".join(message["labels"])
                uncertain = [message["entropy"], message["mutual_information"], flag]
                yield [present, *uncertain, *message["probabilities"].values()]
            case Regression():
                yield [*(message[measure][name] for name in task.names for measure in task.readouts), flag]
            case _:
                yield [*message["outputs"], message["disagreement"], flag]


def messages_of(predictions: Predictions, predictor: Predictor) -> list[Row]:
    """What is predicted for every example, as plain values by name."""
    task = predictor.task
    columns = {name: value.tolist() for name, value in predictions.values.items()}
    columns["flagged"] = predictions.flagged.tolist()
    if predictions.depths is not None:
        columns["depth"] = predictions.depths.tolist()
    sets = predictor.sets(predictions.probabilities).tolist() if predictor.sets is not None else None
    predicted = task.predicted(list(predictions.values.values()))
    found = []
    for index in range(len(predictions)):
        row: Row = {name: value[index] for name, value in columns.items()}
        match task:
            case Classification():
                row = _of_class(row, predicted[index], task.names, None if sets is None else sets[index])
            case MultiLabel():
                row = {"labels": predicted[index], **row, "probabilities": _by_name(task.names, row["probabilities"])}
            case Regression():
                row = {
                    name: _by_name(task.names, value) if name in task.readouts else value for name, value in row.items()
                }
        found.append(row)
    return found


def _of_class(row: Row, predicted: str, names: Sequence[str], members: Sequence[bool] | None) -> Row:
    probabilities = _by_name(names, row.pop("probabilities"))
    found = {"class": predicted, "probability": probabilities[predicted], "probabilities": probabilities}
    if members is not None:
        found["set"] = [name for name, inside in zip(names, members, strict=True) if inside]
    return {**found, **row}


def _by_name(names: Sequence[str], values: Sequence[float]) -> dict[str, float]:
    return dict(zip(names, values, strict=True))
