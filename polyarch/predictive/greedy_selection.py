"""Which of many trained networks predict best together.

Caruana, Niculescu-Mizil, Crew and Ksikes (2004), "Ensemble Selection from Libraries of Models", ICML.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from polyarch.errors import InvalidInput


def greedy_weights(loss: Callable[[Tensor], float], members: int, *, rounds: int = 20) -> Tensor:
    """Shares (K,) of the mixture that is built by adding, again and again, the member that lowers the loss most.

    A member can be added several times, which gives it a larger share. Ends when no member lowers the loss.

    Args:
        loss: of the mixture with given shares (K,), on validation data.
        members: K.
        rounds: the most additions.

    >>> targets = torch.tensor([0.2, 0.8])
    >>> outputs = torch.tensor([[0.1, 0.9], [0.4, 0.6], [0.9, 0.1]])  # three members
    >>> shares = greedy_weights(lambda shares: float((shares @ outputs - targets).square().sum()), 3)
    >>> [round(share, 2) for share in shares.tolist()]
    [0.67, 0.33, 0.0]
    """
    if members < 1 or rounds < 1:
        raise InvalidInput(f"Expected 1 or more members and rounds. Got {members} and {rounds}.")
    counts = torch.zeros(members, dtype=torch.float64)
    lowest = float("inf")
    for _ in range(rounds):
        added = counts + torch.eye(members, dtype=torch.float64)  # (K, K): each row adds one member
        losses = [loss(one / one.sum()) for one in added]
        best = min(range(members), key=losses.__getitem__)
        if not losses[best] < lowest:
            break
        lowest, counts = losses[best], added[best]
    if not counts.any():
        raise InvalidInput("Expected a finite loss of at least one member. Got none.")
    return counts / counts.sum()
