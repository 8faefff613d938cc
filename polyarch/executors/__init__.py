"""Executors: the same scores bit for bit, serially or from worker processes."""

from polyarch.executors.background import in_background
from polyarch.executors.executor import Executor, Mapper, Serial, one_thread
from polyarch.executors.processes import Processes

__all__ = ["Executor", "Mapper", "Processes", "Serial", "in_background", "one_thread"]
