"""What the numbers of a run come from: its data, its settings of data and the code that was used."""

from collections.abc import Iterator

from pydantic import Field

from polyarch.results.predictors import Record


class Provenance(Record):
    """Fingerprints (SHA-256) of everything that a resumed run has to find as it was.

    ``data`` are those of the training, validation and test examples as they were loaded and divided, of the names of
    classes and columns, and of unlabelled examples; ``settings`` that of how data are split and preprocessed;
    ``modules`` those of the user's own source code, by its name. ``polyarch`` are the versions that worked on the run,
    ``changes`` what was not as it was when the run was resumed and the user accepted it.
    """

    data: dict[str, str]
    settings: str
    modules: dict[str, str] = Field(default_factory=dict)
    polyarch: list[str]
    changes: list[str] = Field(default_factory=list)

    def differences(self, now: "Provenance") -> Iterator[str]:
        """What is not as it was, in words."""
        for name in {**self.data, **now.data}:
            if self.data.get(name) != now.data.get(name):
                yield name
        if self.settings != now.settings:
            yield "settings of data, task and seed"
        for name in {**self.modules, **now.modules}:
            if self.modules.get(name) != now.modules.get(name):
                yield f"source of {name}"

    def followed_by(self, now: "Provenance", changes: list[str]) -> "Provenance":
        """The fingerprints of now, with the history of both."""
        versions = self.polyarch if self.polyarch[-1:] == now.polyarch else [*self.polyarch, *now.polyarch]
        return now.model_copy(update={"polyarch": versions, "changes": [*self.changes, *changes]})
