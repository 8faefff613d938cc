"""Executors: bit-identical results, serially or in worker processes."""

from polyarch.executors.executor import Executor, Mapper, Serial, intra_op_threads, one_thread
from polyarch.executors.processes import Processes, in_background, start_method

__all__ = [
    "Executor",
    "Mapper",
    "Processes",
    "Serial",
    "in_background",
    "intra_op_threads",
    "one_thread",
    "start_method",
]
