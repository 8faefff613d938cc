"""Writes what every page of the API holds into the page itself, so that it can be read without building the site.

Every directive ``::: NAME`` gets a table of the public names in NAME above it, or a line if it is a class or function.
`make docs` runs it, and a test compares.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from pkgutil import resolve_name
from types import ModuleType
from typing import Any, get_origin

FOLDER = Path(__file__).parent
DIRECTIVE = re.compile(r"^::: (\S+)$", re.MULTILINE)
WRITTEN = re.compile(r"<!-- contents -->\n.*?<!-- end -->\n\n", re.DOTALL)
MOST = 5
"""Parameters that are shown."""


def page_with_contents(page: str) -> str:
    """A page with new tables above its directives."""
    plain = WRITTEN.sub("", page)
    return DIRECTIVE.sub(lambda found: "".join([*contents(found[1]), found[0]]), plain)


def contents(name: str) -> Iterator[str]:
    """The lines above a directive; none for a package that holds modules alone."""
    found = resolve_name(name)
    if isinstance(found, ModuleType):
        rows = [f"| `{inner}{parameters(value)}` | {sentence(value)} |\n" for inner, value in public(found)]
        lines = ["| name | what it is |\n", "|---|---|\n", *rows] if rows else []
    else:
        lines = [f"`{name}{parameters(found)}`: {sentence(found)}\n"]
    if lines:
        yield from ("<!-- contents -->\n", *lines, "<!-- end -->\n\n")


def public(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """The names that a module gives away: those of ``__all__``, or the classes and functions that it defines."""
    names = getattr(module, "__all__", None) or [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]
    return ((name, getattr(module, name)) for name in sorted(names, key=str.lower))


def parameters(value: Any) -> str:
    """The names of the parameters in brackets; nothing where there are none to know."""
    if not (inspect.isclass(value) or inspect.isroutine(value)):
        return ""
    try:
        names = [name for name in inspect.signature(value).parameters if name != "self"]
    except (TypeError, ValueError):
        return ""
    shown = [*names[:MOST], "..."] if len(names) > MOST else names
    return f"({', '.join(shown)})"


def sentence(value: Any) -> str:
    """The first sentence of a docstring; of a value, what it is."""
    is_documented = inspect.isclass(value) or inspect.isroutine(value) or isinstance(value, ModuleType)
    text = inspect.getdoc(value) if is_documented else None
    if text is None:
        return "a type" if get_origin(value) or callable(value) else "a constant"
    first = " ".join(text.split("\n\n")[0].split())
    return re.split(r"(?<=[.:?])\s(?=[A-Z])", first)[0].rstrip(":").replace("|", "\\|")


def pages() -> Iterator[Path]:
    """All pages of the API."""
    return iter(sorted(FOLDER.glob("*.md")))


if __name__ == "__main__":
    for path in pages():
        path.write_text(page_with_contents(path.read_text()))
