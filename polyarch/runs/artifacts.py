"""Judging predictors and writing them down as artifacts, with their programs."""

from collections.abc import Sequence
from pathlib import Path

from polyarch.errors import InvalidInput, MissingExtra
from polyarch.export import Artifact, Member, export_programs, write_artifact
from polyarch.nn import Exits
from polyarch.results import PredictorRecord
from polyarch.runs.judging import Ensemble, judge, ood_batches
from polyarch.runs.run import Run
from polyarch.runs.spaces import as_trained_alone
from polyarch.tasks import Calibration


def write_predictors(run: Run, sides: Sequence[tuple[Ensemble, Path]]) -> list[PredictorRecord]:
    """Judges every ensemble and writes its artifact and programs into its folder."""
    ood = ood_batches(run)
    records = []
    with run.display.stage("export") as report:
        for index, (ensemble, folder) in enumerate(sides):
            report(index, len(sides), ensemble.name)
            record, calibration = judge(ensemble, run, ood)
            record = record.model_copy(update={"folder": folder.name})
            artifact = artifact_of(run, ensemble, record, calibration)
            write_artifact(folder, artifact)
            for file, difference in write_programs(run, artifact, folder).items():
                run.display.say(f"{folder.name}/{file}: largest difference {difference:.2g}")
            records.append(record)
        report(len(sides), len(sides), "")
    return records


def artifact_of(run: Run, ensemble: Ensemble, record: PredictorRecord, calibration: Calibration) -> Artifact:
    """An ensemble as it was judged."""
    space = run.settings.space if ensemble.inherited else as_trained_alone(run.settings.space)
    return Artifact(
        network=space.model_dump(mode="json"),
        members=tuple(
            Member(architecture.to_dict(), weight)
            for architecture, weight in zip(ensemble.architectures, ensemble.weights, strict=True)
        ),
        networks=ensemble.networks,
        preprocessing=run.feed.preprocessing,
        columns=run.feed.data.columns,
        input_shape=run.feed.data.input_shape,
        input_dtype=run.feed.data.input_dtype,
        masks=run.feed.data.masks,
        task=run.task,
        calibration=calibration,
        metrics={
            "data": run.feed.data.name,
            "test_examples": len(run.feed.data.test),
            **record.metrics,
            "detection": record.detection,
        },
        provenance={} if run.provenance is None else run.provenance.model_dump(mode="json"),
        # Only one network for all members can stop on its way.
        exit_confidence=ensemble.exit_confidence if isinstance(ensemble.networks, Exits) else None,
    )


def write_programs(run: Run, artifact: Artifact, folder: Path) -> dict[str, float]:
    """The programs, checked on test examples; file name -> largest difference.

    A program that cannot be made, because a package is missing or an own network does what the exporter does not
    know, is a sentence; one that disagrees with its network is an error.
    """
    examples = run.feed.raw_examples(64)
    found: dict[str, float] = {}
    for program in run.settings.programs:
        try:
            found |= export_programs(folder, artifact, examples, formats=(program,))
        except (MissingExtra, InvalidInput) as error:
            run.display.say(f"No {folder.name}/model.{program}: {error}")
    return found
