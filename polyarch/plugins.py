"""The registry: methods, spaces, strategies, estimators, samplers and experiments by name.

Parts are registered as entry points in the metadata of a distribution, polyarch's own parts like anyone's::

    [project.entry-points."polyarch.estimators"]
    gradient_norm = "my_package.proxies:GradientNorm"

A name with a colon, such as ``my_package.proxies:GradientNorm``, names a part without packaging it.
"""

import importlib.util
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from polyarch.errors import ConfigError, UnknownName, first_line

_trusted: ContextVar[frozenset[str] | None] = ContextVar("trusted references", default=None)

own_places: set[Path] = set()
"""The files and folders of code that users named by references."""


@contextmanager
def trusting_only(references: Iterable[str] | None) -> Iterator[None]:
    """Imports no other references in the block; all of them if None.

    Files are data: what a run description names is imported only if the user named it, too, or trusts the file.
    """
    token = _trusted.set(None if references is None else frozenset(references))
    try:
        yield
    finally:
        _trusted.reset(token)


def import_reference(reference: str) -> Any:
    """The object that ``package.module:name`` names; modules in the current folder are found, too."""
    module_name, separator, name = reference.partition(":")
    if not separator or not module_name or not name:
        raise ConfigError(f"Expected a reference such as mypackage.net:build. Got {reference!r}.")
    trusted = _trusted.get()
    if trusted is not None and reference not in trusted:
        raise ConfigError(
            f"Expected code that you name yourself. Got {reference!r} from a file; give it as an option, too, or trust "
            "the file with --trust-module (trust_module=True)."
        )
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        own_places.update(_places(module_name.partition(".")[0]))
        return getattr(importlib.import_module(module_name), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"Expected {reference!r} to be importable. Found: {error}.") from error
    except Exception as error:  # whatever a user's module raises
        raise ConfigError(
            f"Expected {reference!r} to be importable. Found: {type(error).__name__}: {first_line(error)}."
        ) from error


def _places(module: str) -> list[Path]:
    """The file of a module, or the folders of a package."""
    spec = importlib.util.find_spec(module)
    if spec is None:
        return []
    return [Path(place) for place in spec.submodule_search_locations or [spec.origin or module]]


def is_reference(name: str) -> bool:
    """Whether a name says where the part lies instead of how it is registered."""
    return ":" in name


class Registry(Mapping[str, Any]):
    """The parts of one kind by name; a part is imported when it is first looked up.

    Iterating yields the registered names. Looking up also takes references (see `import_reference`).

    Args:
        kind: what a part is called in error messages.
        group: the entry points that register parts.
    """

    def __init__(self, kind: str, group: str) -> None:
        self.kind = kind
        self.group = group
        self._added: dict[str, Any] = {}

    @cached_property
    def _entries(self) -> dict[str, EntryPoint]:
        return {entry.name: entry for entry in entry_points(group=self.group)}

    def add(self, name: str, part: Any) -> None:
        """Registers a part for this process, in place of any other with the same name."""
        self._added[name] = part

    def __getitem__(self, name: str) -> Any:
        if name in self._added:
            return self._added[name]
        if name in self._entries:
            entry = self._entries[name]
            try:
                return entry.load()
            except (ImportError, AttributeError) as error:
                raise ConfigError(
                    f"Expected {self.kind} {name!r} to be importable from {entry.value!r}. Found: {error}."
                ) from None
        if is_reference(name):
            return import_reference(name)
        raise UnknownName(self.kind, name, self)

    def __iter__(self) -> Iterator[str]:
        return iter({**self._entries, **self._added})

    def __len__(self) -> int:
        return len({**self._entries, **self._added})

    def __contains__(self, name: object) -> bool:
        return name in self._added or name in self._entries

    def check(self, name: str) -> str:
        """The name itself, if it is registered or a reference."""
        if name not in self and not is_reference(name):
            raise UnknownName(self.kind, name, self)
        return name


METHODS = Registry("method", "polyarch.methods")
SPACES = Registry("space", "polyarch.spaces")
STRATEGIES = Registry("strategy", "polyarch.strategies")
ESTIMATORS = Registry("estimator", "polyarch.estimators")
SAMPLERS = Registry("sampler", "polyarch.samplers")
EXPERIMENTS = Registry("experiment", "polyarch.experiments")

DEFAULT_METHOD = "race"
"""What a search does that is not asked for a method."""

SUPERNET_METHOD = "one-shot"
"""What `train`, `rank` and `truth build` do, which are about supernets."""


def method_named(name: str) -> Any:
    """A `polyarch.methods.method.Method` by its name; one class may serve several names."""
    return METHODS[name](name)
