"""Log-probabilities, which stay finite where probabilities round to 0."""

from __future__ import annotations

import torch
from torch import Tensor


def at_least_single(dtype: torch.dtype) -> torch.dtype:
    """The precision to compute in: half precision has too few digits for differences of entropies."""
    return torch.promote_types(dtype, torch.float32)


def log_probabilities(logits: Tensor, temperature: Tensor | float) -> Tensor:
    """log softmax(logits / T) in single precision or better: (..., C) -> (..., C)."""
    logits = logits.to(at_least_single(logits.dtype))
    return torch.log_softmax(logits / temperature, dim=-1)


def entropy_of_logs(log_probabilities: Tensor) -> Tensor:
    """-sum_c p_c log p_c from log p: (..., C) -> (...). The clamps make 0 log 0 = 0 and remove rounding below 0."""
    finite = log_probabilities.clamp_min(torch.finfo(log_probabilities.dtype).min)
    return (log_probabilities.exp() * -finite).sum(-1).clamp_min(0)
