from __future__ import annotations

import pytest

from polyarch.errors import UnknownName, WorkerDied
from polyarch.executors import Executor, Items, Processes, Serial, executor_named
from polyarch.executors.backlog import Backlog


class Chain:
    """Item k is there once the result of item k - 2 is."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.given = 0
        self.results: dict[int, int] = {}

    def __call__(self, most: int) -> list[int]:
        ready = [k for k in range(self.given, self.count) if k < 2 or k - 2 in self.results][:most]
        ready = [k for place, k in enumerate(ready) if k == self.given + place]
        self.given += len(ready)
        return ready


def double(item: int) -> int:
    return 2 * item


@pytest.mark.parametrize("executor", [Serial(), Processes(2)], ids=["serial", "processes"])
def test_items_may_depend_on_results(executor: Executor) -> None:
    chain = Chain(7)
    with executor.open(double) as run:
        for index, result in run(chain):
            chain.results[index] = result
    assert chain.results == {k: 2 * k for k in range(7)}


@pytest.mark.parametrize("items", ["abcde", Chain(5)], ids=["sequence", "supply"])
def test_hands_out_what_was_given_back_first(items: Items[object]) -> None:
    backlog: Backlog[object] = Backlog(items)
    (first, second), others = backlog.take(2), backlog.take(10)
    assert (first[0], second[0]) == (0, 1)
    assert len(others) == (3 if isinstance(items, str) else 0)  # a supply that waits for results
    backlog.give_back([second, first])
    assert backlog.take(1) == [first] and backlog.take(1) == [second]
    assert dict(backlog.deaths) == {0: 1, 1: 1}


def test_gives_an_item_up_after_three_deaths() -> None:
    backlog = Backlog("ab")
    taken = backlog.take(2)
    backlog.give_back(taken, died=False)
    for _ in range(2):
        backlog.give_back(backlog.take(1))
    with pytest.raises(WorkerDied, match=r"item 0 to finish. A worker process died 3 times"):
        backlog.give_back(backlog.take(1))


def test_executors_have_names() -> None:
    assert isinstance(executor_named("serial"), Serial)
    assert isinstance(executor_named("processes", workers=1), Serial)
    two = executor_named("processes", workers=2)
    assert isinstance(two, Processes) and two.workers == 2
    with pytest.raises(UnknownName, match="executor out of serial, processes, ray"):
        executor_named("rays")
