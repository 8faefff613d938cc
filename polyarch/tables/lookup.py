"""Finds the truth for the space of a run."""

import re

from polyarch.errors import ConfigError
from polyarch.spaces import Architecture, Space
from polyarch.tables.curve_table import CurveTable
from polyarch.tables.sources import SOURCES, load_truth, table_file
from polyarch.tables.truth import Truth

FEWEST = 3
"""The number of architectures that a correlation needs."""

NB201_COLUMN = re.compile(r"(cifar10|cifar100|imagenet16|params)_\w+")
"""A column of the NAS-Bench-201 table needs no ``nb201:`` before it."""


def whole_name(name: str) -> str:
    """The name with an absolute path, so that a run can be resumed from another folder."""
    found = None if name.partition(":")[0] in SOURCES else table_file(name)
    if found is None:
        return name
    path, column = found
    return f"{path.resolve()}:{column}" if column else str(path.resolve())


def truth_for(name: str, space: Space) -> Truth:
    """The truth of this name or path, which must cover the space."""
    truth = load_truth(f"nb201:{name}" if NB201_COLUMN.fullmatch(name) else name)
    if not _is_part(space, truth.space):
        raise ConfigError(
            f"Expected a truth about the space of the run, {space.name!r}. "
            f"Got {truth.name}, which is about {truth.space.name!r} with other choices or options."
        )
    members = known_members(truth, space)
    if members is not None and len(members) < FEWEST:
        raise ConfigError(
            f"Expected a truth with {FEWEST} or more architectures of space {space.name!r}. "
            f"Got {truth.name} with {len(members)}."
        )
    return truth


def known_members(truth: Truth, space: Space) -> list[Architecture] | None:
    """The different networks of the space that an incomplete table knows; None for complete truths."""
    if not isinstance(truth, CurveTable) or len(truth) >= truth.space.size:
        return None
    options = {choice.name: choice.options for choice in space.choices}
    found: dict[str, Architecture] = {}
    for known in truth.architectures():
        names = known.to_dict()
        if all(names[choice] in options[choice] for choice in options):
            member = space.architecture(names)
            found.setdefault(member.canonical(), member)
    return list(found.values())


def _is_part(space: Space, whole: Space) -> bool:
    """Whether one space has the choices of another, with the same or fewer options."""
    return space.choice_names == whole.choice_names and all(
        set(choice.options) <= set(whole[choice.name].options) for choice in space.choices
    )
