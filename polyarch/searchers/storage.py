"""Where studies are kept: SQLite, a journal file, or a data base server."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import optuna
from optuna.storages import BaseStorage, InMemoryStorage, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend, JournalFileSymlinkLock
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from polyarch.errors import ConfigError, MissingExtra

PASSWORD = "POLYARCH_STORAGE_PASSWORD"
"""The environment variable with the password of a data base server."""

DATABASE = ".db"
"""How the names of SQLite files end; other files are journals."""


def check_storage(storage: str) -> None:
    """Refuses what cannot name a storage, and passwords, which would be written into the files of a run."""
    if "://" not in storage:
        return
    try:
        has_password = make_url(storage).password is not None
    except ArgumentError:
        raise ConfigError(
            "Expected a storage to be a file or a URL such as postgresql://USER@HOST/NAME. Got another URL."
        ) from None
    if has_password:
        raise ConfigError(f"Expected the URL of a storage without a password; {PASSWORD} can hold it. Got one in it.")


def open_storage(storage: Path | str | None) -> BaseStorage:
    """An SQLite file ``NAME.db``, any other file as a journal, a data base by its URL, or memory."""
    if storage is None:
        return InMemoryStorage()
    if "://" in str(storage):
        check_storage(str(storage))
        url, password = make_url(str(storage)), os.environ.get(PASSWORD)
        url = url.set(password=password) if password else url
        try:
            return RDBStorage(url.render_as_string(hide_password=False))
        except ImportError:
            raise MissingExtra(f"A study at {url.get_backend_name()}://", url.get_backend_name()) from None
    if Path(storage).suffix == DATABASE:
        return RDBStorage(f"sqlite:///{storage}")
    lock = JournalFileSymlinkLock(str(storage))
    drop_torn_line(Path(storage), lock)
    return JournalStorage(JournalFileBackend(str(storage), lock))


def drop_torn_line(path: Path, lock: JournalFileSymlinkLock) -> None:
    """Cuts off what a killed writer left of its last line: Optuna would append the next line to it."""
    if not path.exists():
        return
    lock.acquire()
    try:
        with path.open("rb+") as file:
            content = file.read()
            file.truncate(content.rfind(b"\n") + 1)
    finally:
        lock.release()


def study_in(storage: BaseStorage, name: str, directions: list[str]) -> optuna.Study:
    """The study, created if it is not there."""
    with quiet_optuna():
        return optuna.create_study(
            storage=storage,
            study_name=name,
            directions=directions,  # type: ignore[arg-type]
            load_if_exists=True,
        )


@contextmanager
def quiet_optuna() -> Iterator[None]:
    """Suppresses Optuna's message about a new study."""
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(verbosity)
