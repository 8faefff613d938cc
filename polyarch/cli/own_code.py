"""Errors of code that users named: their part of the traceback and a sentence, instead of all of ours."""

import linecache
import re
import sys
import traceback
from pathlib import Path

import polyarch
from polyarch import plugins
from polyarch.errors import first_line

DEEPEST = 8
"""Lines of a user's code that are shown, the innermost ones."""

PLACE = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<name>.+)')


def own_traceback(error: BaseException | None) -> list[str]:
    """The lines of a user's code that an error passed through, the innermost last; none for other errors.

    Errors of worker processes carry their traceback as a text.
    """
    if error is None:
        return []
    text = "".join(traceback.format_exception(error))
    found = [match.group("file", "line", "name") for match in PLACE.finditer(text)]
    return [
        f'  File "{file}", line {line}, in {name}\n    {linecache.getline(file, int(line)).strip()}'
        for file, line, name in found
        if _is_own(Path(file))
    ][-DEEPEST:]


def own_sentence(error: Exception) -> str:
    """What a user's code raised."""
    return f"Expected your own code to run. Found: {type(error).__name__}: {first_line(error)}."


def _is_own(file: Path) -> bool:
    ours = (Path(polyarch.__file__).parent, *map(Path, (sys.prefix, sys.base_prefix)))
    return not any(file.is_relative_to(one) for one in ours) and any(
        file.is_relative_to(one) for one in plugins.own_places
    )
