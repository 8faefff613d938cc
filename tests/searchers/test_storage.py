"""Studies in files and data bases: the same proposals from each, one driver at a time."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from optuna.storages import BaseStorage, InMemoryStorage
from optuna.study import StudyDirection

from polyarch.errors import ConfigError, CorruptFile, InvalidInput
from polyarch.searchers import Evaluated, Limits, StudySearcher, evolution, nsga2, random_search
from polyarch.searchers.lease import DRIVER, Lease
from polyarch.searchers.searcher import MakeSampler
from polyarch.searchers.storage import PASSWORD, check_storage, open_storage
from polyarch.spaces import Architecture
from polyarch.supernets import NB201Supernet

NET = NB201Supernet(channels=2, cells=1, operations=("none", "nor_conv_1x1", "skip_connect"))
WINDOW = 4
SAMPLERS: dict[str, MakeSampler] = {
    "evolution": evolution(population=4, tournament=2),
    "random": random_search,
    "nsga2": nsga2(population=4),
}


def opened(sampler: str, storage: Path | BaseStorage | None = None, window: int = WINDOW) -> StudySearcher:
    return StudySearcher(Limits(NET), SAMPLERS[sampler], seed=0, window=window, storage=storage)


def score(architecture: Architecture) -> list[float]:
    return [float(sum((place + 1) * index for place, index in enumerate(architecture.indices)) % 17)]


def search(searcher: StudySearcher, count: int, pick: Callable[[int], int]) -> list[Evaluated]:
    """Scores one at a time, whichever of the ones that are waiting ``pick`` names by its place."""
    while searcher.count() < count:
        asked = searcher.ask(searcher.window)
        architecture = asked[pick(len(asked))]
        searcher.tell([architecture], [score(architecture)])
    return searcher.finished()


class TestWindow:
    @pytest.mark.parametrize("sampler", SAMPLERS)
    def test_proposals_do_not_depend_on_the_order_of_completion(self, sampler: str) -> None:
        """First come, or last come as far as the window lets."""
        first = search(opened(sampler), 24, lambda waiting: 0)
        last = search(opened(sampler), 24, lambda waiting: min(1, waiting - 1))
        assert [one.architecture for one in first[:20]] == [one.architecture for one in last[:20]]

    def test_proposals_depend_on_results_beyond_the_window_alone(self) -> None:
        """Another result of proposal 0 changes no proposal before number L, and some after it."""

        def proposed(value: float) -> list[Architecture]:
            searcher = opened("evolution")
            for place in range(24):
                (architecture,) = searcher.ask(1)
                searcher.tell([architecture], [[value if place == 0 else 0.5]])
            return [one.architecture for one in searcher.finished()]

        low, high = proposed(0.0), proposed(1.0)
        assert low[: WINDOW - 1] == high[: WINDOW - 1] and low[:4] == high[:4]
        assert low != high

    def test_no_more_than_the_window_wait(self) -> None:
        searcher = opened("random")
        asked = searcher.ask(100)
        assert len(asked) == WINDOW
        searcher.tell(asked[1:], [score(one) for one in asked[1:]])
        assert searcher.ask(100) == asked[:1]  # number L waits for the result of number 0
        searcher.tell(asked[:1], [score(asked[0])])
        assert len(searcher.ask(100)) == WINDOW

    def test_a_window_of_nothing(self) -> None:
        with pytest.raises(InvalidInput, match="window of 1 or more"):
            opened("random", window=0)


@pytest.mark.parametrize("name", ["study.db", "study.journal"])
class TestFiles:
    def test_hold_the_same_search(self, name: str, tmp_path: Path) -> None:
        """Reopened after every result."""
        expected = search(opened("nsga2"), 10, lambda waiting: 0)
        for count in range(1, 11):
            searcher = opened("nsga2", tmp_path / name)
            found = search(searcher, count, lambda waiting: 0)
            searcher.close()
        assert found == expected

    def test_are_refused_to_a_second_process(self, name: str, tmp_path: Path) -> None:
        program = (
            "import sys, time; from pathlib import Path; from polyarch.searchers.lease import Lease\n"
            "from polyarch.searchers.storage import open_storage\n"
            "lease = Lease(open_storage(Path(sys.argv[1])), 'search'); print('has it', flush=True); time.sleep(600)"
        )
        path = tmp_path / name
        other = subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True)
        try:
            assert other.stdout is not None and other.stdout.readline() == "has it\n"
            with pytest.raises(ConfigError, match=rf"no other process .* Found process {other.pid} on"):
                opened("random", path)
        finally:
            other.kill()
            other.communicate()
        opened("random", path).close()  # its process is dead

    def test_are_free_for_the_next_once_closed(self, name: str, tmp_path: Path) -> None:
        opened("random", tmp_path / name).close()
        storage = open_storage(tmp_path / name)
        assert [study.study_name for study in storage.get_all_studies()] == ["search"]


class TestLease:
    @pytest.fixture
    def storage(self) -> InMemoryStorage:
        return InMemoryStorage()

    def other_host(self, storage: BaseStorage, silent: float) -> None:
        study = storage.create_new_study([StudyDirection.MINIMIZE], f"search ({DRIVER})")
        holder = {"pid": 1, "host": "elsewhere", "token": "x", "time": time.time() - silent}
        storage.set_study_user_attr(study, DRIVER, holder)

    def test_of_another_host_holds_while_it_is_heard_of(self, storage: InMemoryStorage) -> None:
        self.other_host(storage, 30)
        with pytest.raises(ConfigError, match="Found process 1 on elsewhere"):
            Lease(storage, "search")

    def test_of_a_silent_host_is_taken_over(self, storage: InMemoryStorage) -> None:
        self.other_host(storage, 1000)
        Lease(storage, "search").close()
        assert storage.get_all_studies() == []

    def test_that_was_lost_stops_its_driver(self, storage: InMemoryStorage, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("polyarch.searchers.lease.HEARTBEAT_SECONDS", 0.01)
        lease = Lease(storage, "search")
        lease.check()
        storage.delete_study(storage.get_study_id_from_name(f"search ({DRIVER})"))
        self.other_host(storage, 0)
        deadline = time.monotonic() + 10
        with pytest.raises(ConfigError, match="Another process has taken it over"):
            while time.monotonic() < deadline:
                lease.check()
                time.sleep(0.01)

    def test_names_this_process(self, storage: InMemoryStorage) -> None:
        lease = Lease(storage, "search")
        (study,) = storage.get_all_studies()
        holder = study.user_attrs[DRIVER]
        assert (holder["pid"], holder["host"]) == (os.getpid(), socket.gethostname())
        lease.close()


def test_a_torn_last_line_of_a_journal_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "study.journal"
    searcher = opened("random", path)
    expected = search(searcher, 3, lambda waiting: 0)
    searcher.close()
    with path.open("ab") as file:
        file.write(b'{"op_code":4,"worker')
    again = opened("random", path)
    assert again.finished() == expected
    assert len(search(again, 5, lambda waiting: 0)) == 5


def test_a_damaged_journal_is_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "study.journal"
    opened("random", path).close()
    path.write_bytes(b"no journal\n" + path.read_bytes())
    with pytest.raises(CorruptFile, match=r"study\.journal to be the study 'search'"):
        opened("random", path)


class TestUrls:
    def test_with_a_password(self) -> None:
        with pytest.raises(ConfigError, match=PASSWORD) as caught:
            check_storage("postgresql://me:secret@localhost/studies")
        assert "secret" not in str(caught.value)

    def test_that_are_none(self) -> None:
        with pytest.raises(ConfigError, match="postgresql://USER@HOST/NAME"):
            check_storage("://")

    def test_of_sqlite(self, tmp_path: Path) -> None:
        searcher = StudySearcher(
            Limits(NET), random_search, seed=0, window=WINDOW, storage=f"sqlite:///{tmp_path / 'any'}"
        )
        assert search(searcher, 4, lambda waiting: 0) == search(opened("random"), 4, lambda waiting: 0)
