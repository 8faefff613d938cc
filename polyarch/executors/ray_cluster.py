"""Workers of a Ray cluster, on this machine or on many."""

import math
import os
import platform
import secrets
import socket
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager, suppress
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import torch

from polyarch.errors import ConfigError, InvalidInput, MissingExtra, UnlikeProcessors, first_line
from polyarch.executors.backlog import Backlog
from polyarch.executors.executor import Executor, Item, Items, Mapper, Result
from polyarch.executors.processes import available_cores
from polyarch.executors.ray_worker import Block, Returned, processor_bits
from polyarch.files import TEMPORARY, write_atomically

BUNCH_SECONDS = 0.1
"""Small items are sent in bunches that take about so long."""

LARGEST_BUNCH = 1000

RESOURCES_SECONDS = 5.0
"""For which the nodes of the cluster are remembered: asking for them is slow."""

CLEANING_SECONDS = 10.0
"""After which nodes that do not answer keep the files of a block."""

LOOPBACK = "127.0.0.2"
"""Of a cluster on this machine; Ray would replace 127.0.0.1 by an address that others can reach."""

Taken = Sequence[tuple[int, Any]]
"""Items with their indices."""


class Ray(Executor):
    """Workers of a Ray cluster with one thread each, behind the contract of `Processes`.

    Every machine gets the task once, as a file that its workers map copy-on-write. Items of a worker or a node that
    dies are run again elsewhere. Bits are those of the serial executor where the processors have the same instruction
    sets, which is checked. A cluster that was started here stays until this process ends.

    Args:
        address: of a cluster, ``HOST:PORT`` or ``auto``; by default one is started on this machine, on loopback.
        cpus: that every item takes.
        gpus: that every item takes, for instance a quarter.
        workers: the most items at a time; by default as many as fit in the cluster.
        shared: a folder that tasks write to, which all machines must see.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        cpus: float = 1.0,
        gpus: float = 0.0,
        workers: int | None = None,
        shared: Path | None = None,
    ) -> None:
        if workers is not None and workers < 1:
            raise InvalidInput(f"Expected 1 or more workers. Got {workers}.")
        if cpus < 0 or gpus < 0 or cpus + gpus == 0:
            raise InvalidInput(f"Expected an item to take a positive share of processors or GPUs. Got {cpus}, {gpus}.")
        self.address = address
        self.cpus = cpus
        self.gpus = gpus
        self.shared = shared
        self._most = workers
        self._slots = (0, -math.inf)

    @property
    def workers(self) -> int:
        """How many items the cluster runs at a time."""
        self._connect()
        slots, asked = self._slots
        if time.monotonic() - asked > RESOURCES_SECONDS:
            nodes = [node["Resources"] for node in _ray().nodes() if node["Alive"]]
            slots = sum(self._fitting(resources) for resources in nodes)
            self._slots = slots, time.monotonic()
        if slots == 0:
            raise ConfigError(
                f"Expected a node of the Ray cluster with {self.cpus:g} CPUs and {self.gpus:g} GPUs for an item. "
                "Found none."
            )
        return min(slots, self._most or slots)

    @contextmanager
    def open(self, task: Callable[[Item], Result]) -> Iterator[Mapper[Item, Result]]:
        """Puts the task into the cluster and yields the mapper; removes it from all machines afterwards."""
        self._connect()
        token = secrets.token_hex(16)
        mark = None if self.shared is None else self.shared.resolve() / f"{TEMPORARY}{token}"
        crew = _Crew(self, task, Block(token, mark))
        try:
            if mark is not None:
                write_atomically(mark, token)
            yield crew.run
        finally:
            crew.stop()
            if mark is not None:
                mark.unlink(missing_ok=True)

    def _fitting(self, resources: dict[str, float]) -> int:
        """How many items run on a node at a time."""
        shares = (("CPU", self.cpus), ("GPU", self.gpus))
        return min(int(resources.get(name, 0.0) / share + 1e-6) for name, share in shares if share)

    def _connect(self) -> None:
        """Starts or joins the cluster, unless this process is in one."""
        ray = _ray()
        if ray.is_initialized():
            return
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        options: dict[str, Any] = {"address": self.address}
        if self.address is None:
            cores = math.ceil((self._most or available_cores()) * max(self.cpus, 1e-3))
            options = {"address": "local", "num_cpus": cores, "include_dashboard": False, "_node_ip_address": LOOPBACK}
        try:
            ray.init(**options, log_to_driver=False, logging_level="ERROR")
        except Exception as error:  # of many kinds
            raise ConfigError(
                f"Expected a Ray cluster at {self.address or 'this machine'}. Found: {first_line(error)}."
            ) from error


def _ray() -> Any:
    try:
        import ray
    except ImportError:
        raise MissingExtra("The executor ray", "ray") from None
    return ray


class _Crew:
    """What runs the items of one block."""

    def __init__(self, cluster: Ray, task: Callable[..., Any], block: Block) -> None:
        self._ray = _ray()
        self._cluster = cluster
        self._block = block
        file = BytesIO()
        torch.save(task, file, pickle_module=self._ray.cloudpickle)  # which takes what a script defines
        self._task = self._ray.put(np.frombuffer(file.getbuffer(), np.uint8))
        self._work = _remote_work(self._ray).options(num_cpus=cluster.cpus, num_gpus=cluster.gpus)
        self._path = [str(Path(entry).resolve()) for entry in sys.path]
        self._running: dict[Future[Returned], tuple[Any, Taken]] = {}
        self._seconds = BUNCH_SECONDS
        self._hosts: dict[str, str] = {platform.node(): processor_bits()}

    def run(self, items: Items[Any]) -> Iterator[tuple[int, Any]]:
        """Runs the task over items; see `Mapper`."""
        backlog = Backlog(items)
        while True:
            free = self._cluster.workers - len(self._running)
            size = max(1, min(int(BUNCH_SECONDS / max(self._seconds, 1e-9)), LARGEST_BUNCH))
            for bunch in _bunches(backlog.take(max(free * size, 0)), free, backlog):
                self._submit(bunch)
            if not self._running:
                return
            # A future, because `ray.wait` turns what a signal handler raises into a SystemError.
            done, _ = wait(self._running, return_when=FIRST_COMPLETED)
            for future in done:
                _, bunch = self._running.pop(future)
                returned = self._returned(future)
                if returned is None:
                    backlog.give_back(bunch)
                    continue
                self._look_at(returned)
                yield from zip((index for index, _ in bunch), returned.results, strict=False)
                if returned.failed is not None:
                    self._cancel()
                    returned.failed.error.add_note(returned.failed.traceback)
                    raise returned.failed.error

    def stop(self) -> None:
        """Ends what runs and removes the files of the block from every machine."""
        self._cancel()
        here = socket.gethostname()
        nodes = [node for node in self._ray.nodes() if node["Alive"]]
        cleaned = [
            _remote_clean(self._ray, node["NodeID"]).remote(str(self._block.folder))
            for node in nodes
            if node["NodeManagerHostname"] != here
        ]
        self._block.remove()
        if cleaned:
            self._ray.wait(cleaned, num_returns=len(cleaned), timeout=CLEANING_SECONDS)
        del self._task

    def _submit(self, bunch: Taken) -> None:
        mark = self._block.mark
        content = self._ray.cloudpickle.dumps([item for _, item in bunch])
        names = (self._block.token, None if mark is None else str(mark))
        reference = self._work.remote(self._path, self._task, names, content)
        self._running[reference.future()] = reference, bunch

    def _returned(self, future: "Future[Returned]") -> Returned | None:
        """What a bunch returned; None if its worker or node died, or took the results along."""
        errors = self._ray.exceptions
        died = (errors.WorkerCrashedError, errors.NodeDiedError, errors.ObjectLostError, errors.OutOfMemoryError)
        try:
            return future.result()
        except died:
            self._cluster._slots = (0, -math.inf)  # a node may be gone
            return None

    def _look_at(self, returned: Returned) -> None:
        """Learns how long items take, and warns of machines whose sums have other bits."""
        if returned.results:
            self._seconds = returned.seconds / len(returned.results)
        if returned.processor and returned.host not in self._hosts:
            self._hosts[returned.host] = returned.processor
            if len(set(self._hosts.values())) > 1:
                found = ", ".join(f"{host} {bits}" for host, bits in sorted(self._hosts.items()))
                warnings.warn(
                    f"Expected processors with the same instruction set. Found: {found}; results depend on the machine "
                    "in their last bits.",
                    UnlikeProcessors,
                    stacklevel=3,
                )

    def _cancel(self) -> None:
        for reference, _ in self._running.values():
            with suppress(Exception):  # it may have ended, or its node
                self._ray.cancel(reference, force=True)
        self._running.clear()


def _bunches(taken: Taken, workers: int, backlog: Backlog[Any]) -> Iterator[Taken]:
    """Shares items out evenly; one that a worker died of is alone."""
    alone = [one for one in taken if backlog.deaths[one[0]]]
    others = [one for one in taken if not backlog.deaths[one[0]]]
    yield from ([one] for one in alone)
    size = math.ceil(len(others) / max(workers, 1))
    yield from (others[start : start + size] for start in range(0, len(others), max(size, 1)))


def _remote_work(ray: Any) -> Any:
    def work(path: list[str], task: Any, names: tuple[str, str | None], items: bytes) -> Any:
        """Makes the driver's packages importable first; a function inside another one travels as code."""
        import sys

        sys.path.extend(entry for entry in path if entry not in sys.path)
        from polyarch.executors.ray_worker import Block, run_bunch

        return run_bunch(task, Block.named(*names), items)

    return ray.remote(max_retries=0)(work)


def _remote_clean(ray: Any, node: str) -> Any:
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    def clean(folder: str) -> None:
        import shutil

        shutil.rmtree(folder, ignore_errors=True)

    return ray.remote(num_cpus=0, scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=True))(clean)
