"""One driver at a time proposes in a study, wherever its storage is."""

import secrets
import threading
import time
import weakref
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from optuna.exceptions import DuplicatedStudyError
from optuna.storages import BaseStorage
from optuna.study import StudyDirection

from polyarch.errors import ConfigError
from polyarch.locks import HEARTBEAT_SECONDS, in_words, is_at_work, this_process
from polyarch.searchers.storage import quiet_optuna

DRIVER = "driver"
"""Attribute of a lease: which process has it, and when it was last heard of."""

PATIENCE = 1.0
"""Seconds for which a lease may say nothing: its holder writes its name after it has got it."""


class Lease:
    """A study beside the study that only one process can create: names of studies are unique in every storage.

    The holder signs it again and again, and the lease of a process that died, or went silent on another host, is taken
    over. A process that was asleep for so long finds its lease lost.
    """

    def __init__(self, storage: BaseStorage, name: str) -> None:
        self._storage = storage
        self._name = f"{name} ({DRIVER})"
        self._signature = {**this_process(), "token": secrets.token_hex(8)}
        self._study = self._taken()
        self._ended = threading.Event()
        self._lost = threading.Event()
        arguments = (storage, self._study, self._signature, self._ended, self._lost)
        threading.Thread(target=_keep, args=arguments, daemon=True).start()
        weakref.finalize(self, self._ended.set)

    def check(self) -> None:
        """Raises if another process has taken the lease over."""
        if self._lost.is_set():
            raise ConfigError("Expected to be the only driver of this study. Another process has taken it over.")

    def close(self) -> None:
        """Gives the lease back."""
        if not self._ended.is_set() and _holder(self._storage, self._study).get("token") == self._signature["token"]:
            self._storage.delete_study(self._study)
        self._ended.set()

    def _taken(self) -> int:
        for _ in range(2):
            try:
                with quiet_optuna():
                    study = self._storage.create_new_study([StudyDirection.MINIMIZE], self._name)
            except DuplicatedStudyError:
                with suppress(KeyError):  # given back, or taken over by another process, at this very moment
                    self._remove_stale(self._storage.get_study_id_from_name(self._name))
            else:
                _sign(self._storage, study, self._signature)
                return study
        raise ConfigError("Expected no other process to search in the study. Found one that began at the same moment.")

    def _remove_stale(self, study: int) -> None:
        holder = _holder(self._storage, study)
        if not holder:
            time.sleep(PATIENCE)
            holder = _holder(self._storage, study)
        if is_at_work(holder, time.time() - holder.get("time", 0.0)):
            raise ConfigError(
                f"Expected no other process to search in the study. Found {in_words(holder)}; wait for it or stop it."
            )
        self._storage.delete_study(study)


def _holder(storage: BaseStorage, study: int) -> dict[str, Any]:
    found: dict[str, Any] = storage.get_study_user_attrs(study).get(DRIVER, {})
    return found


def _sign(storage: BaseStorage, study: int, signature: Mapping[str, object]) -> None:
    storage.set_study_user_attr(study, DRIVER, {**signature, "time": time.time()})


def _keep(
    storage: BaseStorage, study: int, signature: Mapping[str, object], ended: threading.Event, lost: threading.Event
) -> None:
    """Signs the lease until it ends, or until another process has taken it over; other errors may pass."""
    while not ended.wait(HEARTBEAT_SECONDS):
        try:
            if _holder(storage, study).get("token") != signature["token"]:
                raise KeyError(study)
            _sign(storage, study, signature)
        except KeyError:
            lost.set()
            return
        except Exception:
            continue
