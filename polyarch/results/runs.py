"""The whole results file of a run."""

import json
from pathlib import Path
from typing import Any, TypeVar

from pydantic import Field, SerializeAsAny, ValidationError

from polyarch.errors import CorruptFile
from polyarch.files import write_json
from polyarch.plugins import method_named
from polyarch.results.predictors import VERSION, Contender, PredictorRecord, Record, Role, TaskRecord
from polyarch.results.provenance import Provenance

RecordType = TypeVar("RecordType", bound=Record)


class TrainingRecord(Record):
    """The supernet's training: settings by name and one row of measured values per epoch."""

    strategy: str
    history: list[dict[str, float]]
    q: dict[str, list[float]] | None = None


class Results(Record):
    """The whole file. Everything but ``seconds`` is the same bits for the same settings.

    ``record`` is the section of the method. ``default`` is the folder of the predictor that is *the* answer.
    ``decisions`` say what was chosen for the user and why, ``provenance`` what the numbers come from, which earlier
    files do not say.
    """

    version: int = VERSION
    polyarch: str
    torch: str
    method: str
    settings: dict[str, Any]
    data: dict[str, Any]
    task: TaskRecord = TaskRecord()
    space: dict[str, Any]
    training: TrainingRecord
    record: SerializeAsAny[Record] | None = None
    comparison: list[Contender] | None = None
    artifact: dict[str, Any] | None = None
    predictors: list[PredictorRecord] = Field(default_factory=list)
    default: str | None = None
    decisions: list[str] = Field(default_factory=list)
    provenance: Provenance | None = None
    seconds: dict[str, float] = Field(default_factory=dict)

    def found(self, kind: type[RecordType]) -> RecordType | None:
        """The section of the method, if it is of this kind."""
        return self.record if isinstance(self.record, kind) else None

    def contender(self, role: Role) -> Contender | None:
        """The first contender with this role."""
        return next((one for one in self.comparison or [] if one.role is role), None)

    def write(self, path: Path) -> None:
        """Atomically, as readable JSON."""
        write_json(path, self.model_dump(mode="json"))

    @classmethod
    def read(cls, path: Path) -> "Results":
        """What ``write`` wrote."""
        content = read_content(path)
        found = content.get("version")
        if found != VERSION:
            raise CorruptFile(
                f"Expected {path} to be a results file of version {VERSION}. Found {found!r}; "
                "`polyarch search --resume --out` on its folder writes it again."
            )
        try:
            record = content.get("record")
            if record is not None:
                content["record"] = method_named(content["method"]).Record.model_validate(record)
            return cls.model_validate(content)
        except (KeyError, ValidationError) as error:
            first = error.errors()[0] if isinstance(error, ValidationError) else {"loc": ("method",), "msg": str(error)}
            place = ".".join(map(str, first["loc"]))
            raise CorruptFile(f"Expected {place} in {path} to fit. Found: {first['msg']}.") from None


def read_content(path: Path) -> dict[str, Any]:
    """A results file of any version, as plain values."""
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise CorruptFile(f"Expected {path} to be a results file. Found: {error}.") from None
    if not isinstance(content, dict):
        raise CorruptFile(f"Expected {path} to be a results file. Found {type(content).__name__}.")
    return content
