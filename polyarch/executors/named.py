"""Executors by name."""

from pathlib import Path
from typing import Literal, get_args

from polyarch.errors import UnknownName
from polyarch.executors.executor import Executor
from polyarch.executors.processes import Processes
from polyarch.executors.ray_cluster import Ray
from polyarch.executors.serial import Serial

ExecutorName = Literal["serial", "processes", "ray"]


def executor_named(
    name: str,
    *,
    workers: int | None = None,
    address: str | None = None,
    cpus: float = 1.0,
    gpus: float = 0.0,
    shared: Path | None = None,
) -> Executor:
    """The executor of a name; one worker process is this one. The other arguments are those of `Ray`."""
    match name:
        case "ray":
            return Ray(address, cpus=cpus, gpus=gpus, workers=workers, shared=shared)
        case "processes" if workers != 1:
            return Processes(workers)
        case "serial" | "processes":
            return Serial()
    raise UnknownName("executor", name, get_args(ExecutorName))
