"""Serves an artifact in one process or in several that share a socket."""

import os
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import parent_process
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from fastapi import FastAPI

from polyarch.errors import InvalidInput, PolyarchError, WorkerDied
from polyarch.executors import start_method
from polyarch.prediction.modes import load_predictor
from polyarch.prediction.serving.application import create_application
from polyarch.prediction.serving.log import BoundedLog
from polyarch.prediction.serving.metrics import Metrics
from polyarch.prediction.serving.server import GRACE_SECONDS, Service, listen, run

RESTART_SECONDS = 1.0
"""Between the starts of a worker that dies again and again."""


@dataclass(frozen=True)
class Plan:
    """What is served, and within which limits; workers are handed it.

    Args:
        folder: of a run or of an artifact.
        host: the address to listen on.
        port: 0 takes a free one.
        workers: the number of processes.
        verify: whether the files of the artifact have to match their checksums.
        token: see `create_application`, like the others.
    """

    folder: Path
    host: str
    port: int
    max_bytes: int
    max_instances: int
    token: str | None = None
    workers: int = 1
    verify: bool = True

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise InvalidInput(f"Expected 1 or more workers. Got {self.workers}.")


def serve_plan(plan: Plan, announce: Callable[[int], None]) -> None:
    """Serves until SIGINT or SIGTERM.

    Args:
        announce: called with the port once every process answers.
    """
    if plan.workers == 1:
        metrics = Metrics()
        log = BoundedLog(metrics)
        application = _application(plan, metrics, log)
        with listen(plan.host, plan.port) as listening:
            port = listening.getsockname()[1]
            run(Service(application, metrics, log, ready=lambda: announce(port)), listening, log)
    else:
        with listen(plan.host, plan.port) as listening:
            _Workers(plan, listening).serve(announce)


def _application(plan: Plan, metrics: Metrics, log: BoundedLog) -> FastAPI:
    limits = {"max_bytes": plan.max_bytes, "max_instances": plan.max_instances}
    predictor = load_predictor(plan.folder, verify=plan.verify)
    return create_application(predictor, **limits, token=plan.token, metrics=metrics, log=log)


def _work(plan: Plan, listening: socket.socket, number: int, memory: Any, report: Connection) -> None:
    """Serves in a worker; reports None once it answers, or why it cannot."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal, while the artifact is loaded; uvicorn takes it then
    torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // plan.workers))
    parent = parent_process()
    assert parent is not None
    try:
        metrics = Metrics(plan.workers, number, memory)
        log = BoundedLog(metrics)
        application = _application(plan, metrics, log)
        service = Service(application, metrics, log, ready=lambda: _tell(report, None), until=parent.sentinel)
        run(service, listening, log)
    except PolyarchError as error:
        _tell(report, str(error))


def _tell(report: Connection, problem: str | None) -> None:
    with suppress(OSError):  # nobody listens to a worker that replaces another
        report.send(problem)


class _Workers:
    """Starts the workers, replaces those that die, and stops them together."""

    def __init__(self, plan: Plan, listening: socket.socket) -> None:
        self._plan = plan
        self._listening = listening
        self._context = start_method()
        self._memory = Metrics(plan.workers).memory
        self._processes: list[BaseProcess] = []
        self._stopping = False

    def serve(self, announce: Callable[[int], None]) -> None:
        """Serves until a signal comes."""
        handlers = {one: signal.signal(one, self._stop) for one in (signal.SIGINT, signal.SIGTERM)}
        try:
            reports = [self._start(number) for number in range(self._plan.workers)]
            if self._all_ready(reports):
                announce(self._listening.getsockname()[1])
                self._replace_the_dead()
        finally:
            self._end()
            for one, handler in handlers.items():
                signal.signal(one, handler)

    def _start(self, number: int) -> Connection:
        """Starts or replaces a worker, and returns where it reports."""
        reading, writing = self._context.Pipe(duplex=False)
        arguments = (self._plan, self._listening, number, self._memory, writing)
        process = self._context.Process(target=_work, args=arguments)  # type: ignore[attr-defined]
        process.start()
        writing.close()
        self._processes[number : number + 1] = [process]
        return reading

    def _all_ready(self, reports: list[Connection]) -> bool:
        for report in reports:
            while not self._stopping and not report.poll(0.1):
                pass
            if self._stopping:
                return False
            try:
                problem = report.recv()
            except EOFError:
                raise WorkerDied("Expected every worker to load the artifact. One of them died.") from None
            if problem is not None:
                raise InvalidInput(problem)
        return True

    def _replace_the_dead(self) -> None:
        while not self._stopping:
            dead = wait([process.sentinel for process in self._processes], timeout=0.2)
            if dead and not self._stopping:
                for number, process in enumerate(self._processes):
                    if process.sentinel in dead:
                        self._start(number).close()
                time.sleep(RESTART_SECONDS)

    def _end(self) -> None:
        """Asks all workers to stop, and kills those that have not a little after their time."""
        for process in self._processes:
            process.terminate()
        deadline = time.monotonic() + GRACE_SECONDS + 5
        for process in self._processes:
            process.join(max(0.0, deadline - time.monotonic()))
            process.kill()

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._stopping = True
