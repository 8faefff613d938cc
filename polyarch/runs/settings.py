"""The description of a run: what a TOML file or the command line can say, checked before anything starts."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import tomli_w
from pydantic import (
    Field,
    PositiveFloat,
    PositiveInt,
    SerializeAsAny,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
)

from polyarch.errors import ConfigError, InvalidInput
from polyarch.executors import available_cores
from polyarch.files import reason_of, write_atomically
from polyarch.plugins import DEFAULT_METHOD, METHODS, SPACES, SUPERNET_METHOD, method_named
from polyarch.runs.evaluation import EvaluationRetrainSettings, evaluation_of
from polyarch.runs.sections import (
    DataSettings,
    EstimatorSettings,
    ExecutorSettings,
    NonNegative,
    RankSettings,
    RetrainSettings,
    SearchSettings,
    TaskSettings,
    TrainSettings,
    TruthSettings,
)
from polyarch.runs.space_settings import SpaceSettings
from polyarch.runs.spaces import DEFAULT_SPACE, CellSettings
from polyarch.settings import Settings

if TYPE_CHECKING:
    from polyarch.methods.method import Method

Section = TypeVar("Section", bound=Settings)

RENAMED = {"data.outside": "data.ood", "search.batch": "search.window"}
"""Keys of earlier versions and what they are called now."""


class RunSettings(Settings):
    """A whole run.

    ``method`` is how the architecture is found; ``sections`` are the settings of methods by the name of their section,
    which stand beside the shared sections in a file. ``max_minutes`` bounds the time of a search. ``evidence`` asks
    methods that do without for what a claim needs: more seeds, and random networks trained the same way. ``programs``
    are exported with every artifact. ``mlflow`` is where MLflow keeps the run, if it does; ``licence`` stands in the
    cards of artifacts. ``decisions`` say what was chosen for the user and why.
    """

    method: str = DEFAULT_METHOD
    seed: int = 0
    max_minutes: PositiveFloat | None = None
    evidence: bool = False
    decisions: tuple[str, ...] = ()
    device: str = "cpu"
    workers: PositiveInt = Field(default_factory=available_cores)
    executor: ExecutorSettings = ExecutorSettings()
    checkpoint_seconds: NonNegative = 20.0
    programs: tuple[Literal["pt2", "onnx"], ...] = ("pt2", "onnx")
    tensorboard: bool = False
    mlflow: str | None = None
    licence: str | None = None
    data: DataSettings = DataSettings()
    task: TaskSettings = TaskSettings()
    space: SerializeAsAny[SpaceSettings] = CellSettings()
    train: TrainSettings = TrainSettings()
    scores: EstimatorSettings = EstimatorSettings()
    rank: RankSettings = RankSettings()
    search: SearchSettings = SearchSettings()
    retrain: RetrainSettings = RetrainSettings()
    truth: TruthSettings = TruthSettings()
    sections: dict[str, SerializeAsAny[Settings]] = Field(default_factory=dict)

    @model_serializer(mode="wrap")
    def _flat(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        content: dict[str, Any] = write(self)
        sections = content.pop("sections", {})
        return {**content, **sections}

    def section(self, kind: type[Section]) -> Section:
        """The section of a method, by its class; its defaults where the settings have none."""
        return next((one for one in self.sections.values() if isinstance(one, kind)), None) or kind()

    def changed(self, changes: Mapping[str, Mapping[str, Any]]) -> RunSettings:
        """A copy with other values, section -> name -> value."""
        update: dict[str, Any] = {"sections": dict(self.sections)}
        for name, values in changes.items():
            target = update["sections"] if name in self.sections else update
            target[name] = (self.sections.get(name) or getattr(self, name)).model_copy(update=dict(values))
        return self.model_copy(update=update)

    @classmethod
    def read(cls, path: Path) -> RunSettings:
        """From the TOML file of a run, which an earlier version may have written."""
        content = read_toml(path)
        space = content.get("space")
        if isinstance(space, Mapping) and "kind" in space:
            content["space"] = SPACES[str(space["kind"])].stored(space)
        search = content.get("search")
        if isinstance(search, dict) and "batch" in search:
            search["window"] = search.pop("batch")
        return cls.parse(content, str(path))

    @classmethod
    def parse(cls, content: Mapping[str, Any], origin: str) -> RunSettings:
        """From plain values; the first thing that does not fit is named in one sentence."""
        _refuse_renamed(content, origin)
        method: Method = method_named(str(content.get("method") or fitting_method(content)))
        given = {name: value for name, value in content.items() if name not in cls.model_fields or name == "sections"}
        sections = {name: _checked(_section_class(name, method), value, name, origin) for name, value in given.items()}
        if method.section:
            sections.setdefault(method.section, method.Settings())
        shared = {name: value for name, value in content.items() if name not in given}
        if isinstance(shared.get("space"), Mapping):
            space = {"kind": DEFAULT_SPACE, **shared["space"]}
            shared["space"] = _checked(SPACES[str(space["kind"])], space, "space", origin)
            if evaluation_of(shared["space"]) is not None:
                retrain = shared.get("retrain", {})
                shared["retrain"] = _checked(EvaluationRetrainSettings, retrain, "retrain", origin)
        return _checked(cls, {**shared, "method": method.name, "sections": sections}, "", origin)

    def write(self, path: Path) -> None:
        """As TOML, every value spelt out."""
        write_atomically(path, tomli_w.dumps(self.model_dump(mode="json", exclude_none=True)))


SUPERNET_SECTIONS = ("train", "scores", "rank", "retrain", "truth")
SUPERNET_SEARCH = ("objectives", "budget", "sampler")
"""What only methods with a supernet read: sections, and settings of the section ``search``."""


def fitting_method(content: Mapping[str, Any]) -> str:
    """The method of a run that does not name one: a search in a supernet if its settings speak of one, else a race."""
    of_search = content.get("search")
    speaks = any(name in content for name in SUPERNET_SECTIONS)
    speaks |= isinstance(of_search, Mapping) and any(name in of_search for name in SUPERNET_SEARCH)
    return SUPERNET_METHOD if speaks else DEFAULT_METHOD


def _checked(kind: type[Section], content: Any, place: str, origin: str) -> Section:
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        parts = (str(part) for part in first["loc"])
        named = [part for part in parts if not {"[", "-"} & set(part)]  # kinds of values are no names
        where = ".".join([place, *named] if place else named)
        raise ConfigError(
            f"Expected {where or 'the settings'} in {origin} to fit: {first['msg']}. Got {first['input']!r}."
        ) from None


def _section_class(name: str, method: Method) -> type[Settings]:
    """What a section holds: that of the method of the run, or of another one that is registered."""
    others: Iterator[Method] = map(method_named, METHODS)
    for one in chain([method], others):
        if one.section == name:
            return one.Settings
    raise ConfigError(f"Expected settings and sections that polyarch or method {method.name!r} has. Got {name!r}.")


def _refuse_renamed(content: Mapping[str, Any], origin: str) -> None:
    for old, new in RENAMED.items():
        section, _, name = old.partition(".")
        if isinstance(content.get(section), Mapping) and name in content[section]:
            raise ConfigError(f"Expected {new} in {origin}. Got {old}, its name before polyarch 0.8.")


def read_toml(path: Path) -> dict[str, Any]:
    """The content of a TOML file."""
    try:
        return tomllib.loads(path.read_text())
    except FileNotFoundError:
        raise ConfigError(f"Expected a run description at {path}. Found no such file.") from None
    except OSError as error:
        raise ConfigError(f"Expected a run description at {path}. Found: {reason_of(error)}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"Expected {path} to be TOML. Found: {error}.") from None
    except RecursionError:
        raise ConfigError(f"Expected {path} to be TOML. Found values nested too deeply.") from None


FREE_TO_CHANGE = ("workers", "device", "executor")
"""Where a run takes place, which a resumed run may choose anew."""


def with_overrides(content: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """A nested copy in which dotted keys, e.g. ``train.epochs``, have other values."""
    result = _copied(content)
    for dotted, value in overrides.items():
        *sections, key = dotted.split(".")
        target = result
        for section in sections:
            target = target.setdefault(section, {})
            if not isinstance(target, dict):
                raise ConfigError(f"Expected {section!r} in {dotted!r} to be a section. Got a single value.")
        target[key] = value
    return result


def _copied(content: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _copied(value) if isinstance(value, Mapping) else value for key, value in content.items()}


def parse_assignments(assignments: Sequence[str]) -> dict[str, Any]:
    """``key=value`` pairs; values are TOML, and bare words are text."""
    found = {}
    for assignment in assignments:
        key, separator, text = assignment.partition("=")
        if not separator or not re.fullmatch(r"[a-z_]+(\.[a-z_]+)*", key):
            raise ConfigError(f"Expected --set section.name=value. Got {assignment!r}.")
        try:
            found[key] = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            found[key] = text
    return found


def parse_quantity(text: str | None) -> float | None:
    """A number with an optional k, M or G: '100k' is 100,000."""
    if text is None:
        return None
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kKmMgG]?)\s*", text)
    if not match:
        raise InvalidInput(f"Expected a number such as 100000, 100k or 1.5M. Got {text!r}.")
    return float(match[1]) * {"": 1, "k": 1e3, "m": 1e6, "g": 1e9}[match[2].lower()]


def parse_own_options(words: Sequence[str], method: Method) -> dict[str, Any]:
    """Options such as ``--rule 95%`` as settings of the method's section; numbers separated by commas are a list."""
    found: dict[str, Any] = {}
    fields = method.Settings.model_fields
    remaining = [part for word in words for part in (word.split("=", 1) if word.startswith("--") else [word])]
    for option, text in zip_longest(remaining[::2], remaining[1::2]):
        name = option.removeprefix("--").replace("-", "_")
        if not option.startswith("--") or name not in fields or text is None:
            known = f", or a setting of {method.name}: {', '.join(fields)}" if fields else ""
            raise ConfigError(f"Expected an option of the command and its value{known}. Got {option!r}.")
        value = f"[{text}]" if re.fullmatch(r"[\d.eE+\-\s]+(,[\d.eE+\-\s]+)+", text) else text
        found |= parse_assignments([f"{method.section}.{name}={value}"])
    return found


def resumed_settings(
    settings: RunSettings, content: Mapping[str, Any] | None, overrides: Mapping[str, Any], origin: str
) -> RunSettings:
    """The settings of a run that goes on; anything but `FREE_TO_CHANGE` must be as it was.

    Args:
        settings: of the run.
        content: a run description given again, if any.
    """
    base = settings.model_dump(mode="json", exclude_none=True) if content is None else content
    asked = RunSettings.parse(with_overrides(base, overrides), origin)
    sections = {**settings.sections, **asked.sections}
    defaults = {name: type(one)().model_dump(mode="json") for name, one in sections.items()}
    old, new = ({**defaults, **one.model_dump(mode="json")} for one in (settings, asked))
    for section in old:
        if section not in FREE_TO_CHANGE and old[section] != new[section]:
            raise ConfigError(
                f"Expected the settings of the run that is resumed. {section!r} is {old[section]} there and "
                f"{new[section]} now; choose another --out for a new run."
            )
    free = {key: value for key, value in overrides.items() if key.partition(".")[0] in FREE_TO_CHANGE}
    return RunSettings.parse(with_overrides(settings.model_dump(mode="json"), free), origin)
