"""Settings given one by one: ``section.name=value``, quantities like 100k, and what a resumed run may change."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from polyarch.errors import ConfigError, InvalidInput
from polyarch.runs.settings import RunSettings

FREE_TO_CHANGE = ("workers", "device")
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


def parse_prior(text: str | None) -> str | list[float] | None:
    """The name of a prior, or its weights separated by commas."""
    if text is None or "," not in text:
        return text
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InvalidInput(f"Expected geometric, uniform, or weights such as 1,2,4. Got {text!r}.") from None


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
    old, new = settings.model_dump(mode="json"), asked.model_dump(mode="json")
    for section in old:
        if section not in FREE_TO_CHANGE and old[section] != new[section]:
            raise ConfigError(
                f"Expected the settings of the run that is resumed. {section!r} is {old[section]} there and "
                f"{new[section]} now; choose another --out for a new run."
            )
    free = {key: value for key, value in overrides.items() if key in FREE_TO_CHANGE}
    return RunSettings.parse(with_overrides(old, free), origin)
