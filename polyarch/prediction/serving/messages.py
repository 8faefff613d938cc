"""The messages of the service, as models for its OpenAPI description."""

from typing import Any

from pydantic import BaseModel, Field, create_model

from polyarch.tasks import Task


class Request(BaseModel):
    """Examples to predict."""

    instances: list[Any] = Field(
        description=(
            "One or more examples. A row of a table is an object with every column by name, or a list of values in the "
            'order of the columns; null is a missing value. An image is {"image": "..."} with a PNG, JPEG or WebP file '
            "in base64, or nested lists of numbers in the shape of the input. Any other example is a nested list in "
            "the shape of the input. If there are several inputs, an example is an object with each of them by name. "
            "A sequence whose input has a mask may be shorter than the shape, and its mask is then left out."
        ),
        min_length=1,
    )


class ClassPrediction(BaseModel):
    """The predicted class of one example."""

    class_: str = Field(alias="class", description="The most probable class.")
    probability: float = Field(description="Its probability.")
    probabilities: dict[str, float] = Field(description="The probability of every class; they sum to 1.")
    entropy: float = Field(description="The uncertainty of the prediction in nats; 0 is certain.")
    mutual_information: float = Field(description="The disagreement of the members in nats.")
    set: list[str] = Field(
        default=[], description="The classes of the conformal prediction set, where the artifact has any."
    )
    flagged: bool = Field(description="Whether the entropy is above the artifact's threshold.")


class NumberPrediction(BaseModel):
    """The predicted numbers of one example, each by the name of its target."""

    mean: dict[str, float] = Field(description="The expected value.")
    std: dict[str, float] = Field(description="The standard deviation.")
    noise_std: dict[str, float] = Field(description="The part of it that the members expect.")
    disagreement_std: dict[str, float] = Field(description="The part by which the members differ.")
    low: dict[str, float] = Field(description="The lower end of the interval.")
    high: dict[str, float] = Field(description="The upper end of the interval.")
    flagged: bool = Field(description="Whether the uncertainty is above the artifact's threshold.")


class LabelPrediction(BaseModel):
    """The predicted labels of one example."""

    labels: list[str] = Field(description="The labels with a probability of 0.5 or more.")
    probabilities: dict[str, float] = Field(description="The probability of every label.")
    entropy: float = Field(description="The uncertainty of the prediction in nats, summed over labels.")
    mutual_information: float = Field(description="The disagreement of the members in nats.")
    flagged: bool = Field(description="Whether the entropy is above the artifact's threshold.")


class OutputPrediction(BaseModel):
    """The outputs of a network with a task of its own."""

    outputs: list[float] = Field(description="The mean of the members' outputs.")
    disagreement: float = Field(description="The standard deviation of the members' outputs.")
    flagged: bool = Field(description="Whether the disagreement is above the artifact's threshold.")


_PREDICTIONS: dict[str, type[BaseModel]] = {
    "classification": ClassPrediction,
    "regression": NumberPrediction,
    "multi-label": LabelPrediction,
}


def response_of(task: Task) -> type[BaseModel]:
    """One prediction per instance, in the same order."""
    prediction: Any = _PREDICTIONS.get(task.kind, OutputPrediction)
    many: Any = list.__class_getitem__(prediction)
    return create_model("Response", __doc__="One prediction per instance, in the same order.", predictions=(many, ...))


class ColumnDescription(BaseModel):
    """A column of the table."""

    name: str
    categories: list[str] | None = Field(description="The known categories; null for a column of numbers.")


class InputDescription(BaseModel):
    """The format of one example."""

    shape: list[int] = Field(description="Of one example.")
    dtype: str = Field(description="uint8 (whole numbers 0..255), float32, int64 (tokens) or bool (masks).")
    columns: list[ColumnDescription] = Field(description="Of a table; empty for other data.")


class NamedInputDescription(BaseModel):
    """The format of one of several inputs."""

    name: str
    shape: list[int] = Field(description="Of one example.")
    dtype: str = Field(description="uint8 (whole numbers 0..255), float32, int64 (tokens) or bool (masks).")
    mask: str | None = Field(description="The input that is true for the tokens of this one that are not padding.")


class Health(BaseModel):
    """The status of the service, and what it takes and returns."""

    status: str = Field(description="ok")
    task: str = Field(description="What is predicted: classification, regression, multi-label or own.")
    names: list[str] = Field(description="Of the classes, numbers or labels.")
    classes: list[str] = Field(description="Of the classes; empty where no classes are predicted.")
    input: InputDescription | None = Field(None, description="Of data with one input.")
    inputs: list[NamedInputDescription] = Field([], description="Of data with several inputs.")


class Error(BaseModel):
    """Why a request was refused."""

    error: str = Field(description="One sentence: what was expected, and what was found.")
