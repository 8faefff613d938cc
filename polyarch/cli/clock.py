"""When a command began: loading the program takes seconds, which count where minutes are limited."""

import time

_loaded = [time.monotonic()]


def start_of_command() -> float:
    """When the program began to load, for the first command of a process; now for any later one."""
    return _loaded.pop() if _loaded else time.monotonic()
