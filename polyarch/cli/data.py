"""`polyarch data`: what there is to learn from."""

from pathlib import Path
from typing import Annotated, Any, get_args

import torch
import typer
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn
from rich.table import Table
from rich.text import Text

from polyarch.cli.options import (
    GroupOption,
    SeedOption,
    TargetOption,
    TaskOption,
    TestOption,
    TimeOption,
    ValidOption,
    console,
)
from polyarch.data import (
    DATASETS,
    Dataset,
    Identity,
    ImageFiles,
    NamedPreprocessing,
    Normalisation,
    Preprocessing,
    TableEncoding,
    data_root,
    load,
    write_subset,
)
from polyarch.data.downloads import DOWNLOADS, download, present_folder
from polyarch.data.targets import TargetKind
from polyarch.errors import UnknownName
from polyarch.runs.display import several

data_app = typer.Typer(help="Data sets: names, files and folders.", no_args_is_help=True)

MOST_ROWS = 40
"""Of a table of classes or columns; the rest is a number."""


@data_app.command("list")
def list_data() -> None:
    """The data sets with a name, and whether they are on this machine."""
    table = Table("name", "what", "download", "here")
    for name, source in DATASETS.items():
        folder = present_folder(name)
        here = "always" if source.folder is None else (str(folder) if folder else "no")
        size = f"{DOWNLOADS[name].megabytes} MB" if name in DOWNLOADS else "-"
        table.add_row(name, source.what, size, Text(here))
    console.print(table)
    console.print(f"Data folder: {data_root()} (POLYARCH_DATA names another).", markup=False)
    console.print(
        "A path does as well: a folder of images, a table (.csv, .csv.gz, .parquet), arrays (.npz), "
        "a Hugging Face folder.",
        markup=False,
    )


@data_app.command("info")
def describe_data(
    source: Annotated[str, typer.Argument(metavar="NAME_OR_PATH")],
    target: TargetOption = None,
    task: TaskOption = None,
    valid: ValidOption = None,
    test: TestOption = None,
    group: GroupOption = None,
    time: TimeOption = None,
    size: Annotated[int | None, typer.Option("--size", help="Side length of images, in pixels.")] = None,
) -> None:
    """What is in a data set, as polyarch reads it."""
    kind_of_target = _kind(task)
    data = load(source, target=target, size=size, task=kind_of_target, valid=valid, test=test, groups=group, times=time)
    if isinstance(data.input_shape, dict):
        kind, shape = "several inputs", ", ".join(f"{name} {_sides(one)}" for name, one in data.input_shape.items())
    else:
        shape = _sides(data.input_shape)
        rows = "sequences of tokens" if data.input_dtype == torch.int64 else "rows of numbers"
        kind = "images" if data.is_image else "rows of a table" if data.is_table else rows
    console.print(
        f"{data.name}: {len(data.train):,} training and {len(data.test):,} test examples, {kind} of shape {shape}, "
        f"{_targets_in_words(data)}",
        markup=False,
    )
    if isinstance(data.train, ImageFiles):
        console.print("Too large for memory: images are decoded in every epoch.", markup=False)
    console.print(_classes(data) if data.kind == "classification" else _targets(data))
    if data.is_table:
        console.print(_columns(data))
    console.print(f"Test examples: {data.test_origin}", markup=False)
    if data.valid is not None:
        console.print(f"Validation examples: {len(data.valid):,}, {data.valid_origin}", markup=False)
    for note in data.notes:
        console.print(note, markup=False)
    console.print("Preprocessing: " + _in_words(data.preprocessing(data.train), data.input_shape), markup=False)


@data_app.command("download")
def download_data(name: Annotated[str, typer.Argument(help=f"{', '.join(DOWNLOADS)}.")]) -> None:
    """Fetch the official files of a data set into the data folder."""
    there = present_folder(name) if name in DOWNLOADS else None
    if there:
        console.print(f"{name} is already there: {there}", markup=False)
        return
    with Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        console=console,
    ) as bars:
        tasks = {}

        def show(file: str, done: int, length: int | None) -> None:
            if file not in tasks:
                tasks[file] = bars.add_task(file, total=length)
            bars.update(tasks[file], completed=done)

        folder = download(name, progress=show)
    console.print(f"{name} is there: {folder}", markup=False)


@data_app.command("subset")
def write_data_subset(
    folder: Annotated[Path, typer.Argument(help="A folder of images with one folder per class, such as ImageNet's.")],
    out: Annotated[Path, typer.Option("--out", help="New folder of links to the images.")],
    classes: Annotated[int, typer.Option("--classes", help="Classes to draw.")] = 100,
    train: Annotated[int, typer.Option("--train", help="Training images per class.")] = 250,
    test: Annotated[int, typer.Option("--test", help="Test images per class.")] = 250,
    seed: SeedOption = None,
) -> None:
    """Draw some classes and images of a large folder; the defaults make SubImageNet of ImageNet."""
    names = write_subset(folder, out, classes=classes, train=train, test=test, seed=seed or 0)
    console.print(
        f"Wrote {out}: {train:,} training and {test:,} test images of each of {len(names):,} classes", markup=False
    )


def _kind(task: str | None) -> TargetKind | None:
    """What --task names."""
    known = get_args(TargetKind)
    if task is not None and task not in known:
        raise UnknownName("task", task, known)
    kind: TargetKind | None = task  # type: ignore[assignment]
    return kind


def _targets_in_words(data: Dataset) -> str:
    match data.kind:
        case "regression":
            return f"a regression of {several(len(data.target_names), 'number')}"
        case "multi-label":
            return f"{several(len(data.target_names), 'label')} that may be present together"
    return f"{data.classes} classes"


def _targets(data: Dataset) -> Table:
    """Mean and spread of numbers, or how often labels are present."""
    is_regression = data.kind == "regression"
    table = Table("target", "mean", "standard deviation") if is_regression else Table("label", "training", "test")
    train, test = data.train.targets, data.test.targets
    for index, name in enumerate(data.target_names[:MOST_ROWS]):
        column = train[:, index].double()
        cells = (f"{column.mean():.5g}", f"{column.std(correction=0):.5g}")
        counts = (f"{int(train[:, index].sum()):,}", f"{int(test[:, index].sum()):,}")
        table.add_row(Text(name), *(cells if is_regression else counts))
    _add_rest(table, len(data.target_names))
    return table


def _sides(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))


def _classes(data: Dataset) -> Table:
    table = Table("class", "training", "test")
    counts = [part.targets.bincount(minlength=data.classes).tolist() for part in (data.train, data.test)]
    rows = list(zip(data.class_names, *counts, strict=True))
    for name, train, test in rows[:MOST_ROWS]:
        table.add_row(Text(name), f"{train:,}", f"{test:,}")
    _add_rest(table, len(rows))
    return table


def _columns(data: Dataset) -> Table:
    table = Table("column", "kind", "values")
    for column in data.columns[:MOST_ROWS]:
        if column.categories is None:
            table.add_row(Text(column.name), "number", "")
        else:
            shown = ", ".join(column.categories[:6]) + (", ..." if len(column.categories) > 6 else "")
            table.add_row(Text(column.name), f"{len(column.categories)} categories", Text(shown))
    _add_rest(table, len(data.columns))
    return table


def _add_rest(table: Table, rows: int) -> None:
    if rows > MOST_ROWS:
        table.add_row(f"and {rows - MOST_ROWS} more")


def _in_words(preprocessing: Preprocessing, shape: Any) -> str:
    match preprocessing:
        case TableEncoding(means=means, marked=marked, columns=columns):
            places = sum(len(column.categories or ()) for column in columns)
            features = len(means) + len(marked) + places
            return (
                f"{features} features: {len(means)} standardised numbers, {len(marked)} marks of missing numbers, "
                f"{places} places of categories"
            )
        case Normalisation(mean=mean, std=std):
            shown = zip(mean[:4], std[:4], strict=True)
            channels = "; ".join(f"({center:.3g}, {spread:.3g})" for center, spread in shown)
            more = "; ..." if len(mean) > 4 else ""
            return f"normalised by (mean, std) of every {'channel' if len(shape) == 3 else 'number'}: {channels}{more}"
        case Identity(vocabulary=vocabulary):
            return "none" if vocabulary is None else f"none; tokens 0 to {vocabulary - 1}"
        case NamedPreprocessing(parts=parts):
            return "; ".join(f"{name}: {_in_words(part, shape[name])}" for name, part in parts.items())
        case _:
            return type(preprocessing).__name__
