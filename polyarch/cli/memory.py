"""A limit on the memory of a command and its worker processes."""

import resource

from polyarch.errors import InvalidInput
from polyarch.runs.settings import parse_quantity

LEAST = 2**28
"""What importing torch needs."""


def limit_memory(text: str) -> None:
    """Limits what this process, and each one that it starts, may allocate; a text such as ``4G``."""
    most = parse_quantity(text)
    if most is None or most < LEAST:
        raise InvalidInput(f"Expected --max-memory of 0.3G or more. Got {text!r}.")
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = int(most) if hard == resource.RLIM_INFINITY else min(int(most), hard)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))


def memory_sentence(error: Exception) -> str | None:
    """What to say if memory ran out: Python, numpy and torch each have an error of their own for that."""
    text = str(error)
    if not isinstance(error, MemoryError) and "allocate memory" not in text and "alloc failed" not in text:
        return None
    return (
        "Expected enough memory. Found that some could not be allocated; try less data (data.limit), smaller batches, "
        "fewer --workers or a larger --max-memory."
    )
