"""SHA-256 of tensors and of plain values."""

import hashlib
import json
from typing import Any

import torch
from torch import Tensor

from polyarch.data.named_inputs import NamedInputs


def add_inputs(digest: "hashlib._Hash", inputs: Tensor | NamedInputs) -> None:
    """Adds the type, the shape and the bytes of one or several tensors."""
    if isinstance(inputs, NamedInputs):
        for name, tensor in inputs.items():
            digest.update(name.encode())
            add_inputs(digest, tensor)
        return
    digest.update(f"{inputs.dtype} {tuple(inputs.shape)}".encode())
    digest.update(inputs.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)


def digest_of(values: Any) -> str:
    """SHA-256 of what JSON can hold."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
