"""Checkpoints: written atomically, checksummed, two generations, read without unpickling arbitrary objects."""

import hashlib
import io
import pickle
import re
import warnings
from collections import Counter, OrderedDict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from polyarch.errors import CorruptFile, InvalidInput
from polyarch.files import write_atomically

MAGIC = b"polyarch checkpoint 1\n"
KEEP = 2


class CorruptCheckpoint(UserWarning):
    """A checkpoint is damaged, and the previous one is used."""


class CheckpointStore:
    """A folder with the two newest checkpoints, named by step: a magic line, a SHA-256 digest and a ``torch.save``."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def save(self, step: int, state: dict[str, Any]) -> None:
        """Writes a checkpoint, then deletes all but the newest two."""
        buffer = io.BytesIO()
        torch.save(state, buffer)
        payload = buffer.getvalue()
        digest = hashlib.sha256(payload).digest()
        write_atomically(self.folder / f"step-{step:010d}.ckpt", MAGIC + digest + payload)
        for old in self._files()[KEEP:]:
            old.unlink(missing_ok=True)

    def load(self) -> dict[str, Any] | None:
        """The newest intact checkpoint, with a warning for each damaged one; None if the folder is empty."""
        files = self._files()
        for path in files:
            try:
                return _read(path)
            except CorruptFile as error:
                warnings.warn(f"{error} The previous checkpoint is used.", CorruptCheckpoint, stacklevel=2)
        if files:
            raise CorruptFile(
                f"Expected a readable checkpoint in {self.folder}. Found {len(files)}, all damaged; "
                "remove the folder to restart that stage."
            )
        return None

    def _files(self) -> list[Path]:
        """The checkpoints, newest first."""
        if not self.folder.is_dir():
            return []
        named = (path for path in self.folder.iterdir() if re.fullmatch(r"step-\d{10}\.ckpt", path.name))
        return sorted(named, reverse=True)


PLAIN = (type(None), bool, int, float, complex, str, bytes, torch.dtype, torch.device, torch.Size)
"""The types, besides tensors and collections, that are read back without running any code of theirs."""


def check_plain(state: Any, what: str) -> None:
    """Refuses state that a checkpoint could write but not read back, such as numbers of numpy."""
    if type(state) in (dict, OrderedDict, Counter):
        for part in (*state, *state.values()):
            check_plain(part, what)
    elif type(state) in (list, tuple, set):
        for part in state:
            check_plain(part, what)
    elif type(state) not in PLAIN and not isinstance(state, Tensor):
        found = f"{type(state).__module__}.{type(state).__qualname__}"
        raise InvalidInput(f"Expected tensors and plain values in the {what}. Got a {found}.")


def _read(path: Path) -> dict[str, Any]:
    content = path.read_bytes()
    start = len(MAGIC) + 32
    payload = content[start:]
    if not content.startswith(MAGIC) or hashlib.sha256(payload).digest() != content[len(MAGIC) : start]:
        raise CorruptFile(f"Expected {path} to match its checksum. Found a damaged or half-written file.")
    try:
        state: dict[str, Any] = torch.load(io.BytesIO(payload), weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError) as error:
        raise CorruptFile(f"Expected {path} to hold tensors and plain values. Found: {error}.") from None
    return state
