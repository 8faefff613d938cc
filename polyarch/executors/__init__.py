"""Executors: bit-identical results, serially, in worker processes or on a cluster."""

from polyarch.executors.executor import Executor, Items, Mapper, intra_op_threads, one_thread
from polyarch.executors.named import ExecutorName, executor_named
from polyarch.executors.processes import Processes, available_cores, in_background, start_method
from polyarch.executors.ray_cluster import Ray
from polyarch.executors.serial import Serial

__all__ = [
    "Executor",
    "ExecutorName",
    "Items",
    "Mapper",
    "Processes",
    "Ray",
    "Serial",
    "available_cores",
    "executor_named",
    "in_background",
    "intra_op_threads",
    "one_thread",
    "start_method",
]
