"""Which of many trained networks predict best together.

Caruana, Niculescu-Mizil, Crew and Ksikes (2004), "Ensemble Selection from Libraries of Models", ICML.
"""

from collections.abc import Callable

import torch
from torch import Generator, Tensor

from polyarch.errors import InvalidInput

LEAST_LIKELIHOOD = 1e-12
"""No member counts as less likely than this, relative to the most likely one: mixtures have a finite loss."""


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


def bagged_weights(log_likelihoods: Tensor, *, generator: Generator, bags: int = 20, rounds: int = 20) -> Tensor:
    """Shares (K,) of a mixture, averaged over choices on resampled examples.

    A bag draws N examples with replacement, and builds the mixture of the lowest negative log-likelihood by adding one
    member after the other, as `greedy_weights` does. On few examples a single choice would take what fits them by
    chance.

    Args:
        log_likelihoods: log p_k(y_n | x_n) of K members on N validation examples, (K, N).
        bags: the number of choices.
        rounds: the most additions in a bag.

    >>> log_likelihoods = torch.tensor([[0.6, 0.6], [0.9, 0.4], [0.1, 0.1]]).log()
    >>> shares = bagged_weights(log_likelihoods, generator=torch.Generator().manual_seed(0))
    >>> bool(shares[2] < shares[0]) and abs(float(shares.sum()) - 1) < 1e-9
    True
    """
    members, examples = log_likelihoods.shape
    if members < 1 or examples < 1 or bags < 1:
        raise InvalidInput(f"Expected 1 or more members, examples and bags. Got {members}, {examples} and {bags}.")
    # Relative to the most likely member: differences of losses stay as they are.
    likelihoods = (log_likelihoods - log_likelihoods.amax(0)).double().exp().clamp_min(LEAST_LIKELIHOOD)  # (K, N)
    total = torch.zeros(members, dtype=torch.float64)
    for _ in range(bags):
        rows = torch.randint(examples, (examples,), generator=generator)
        total += _greedy_mixture(likelihoods[:, rows], rounds)
    return total / total.sum()


def _greedy_mixture(likelihoods: Tensor, rounds: int) -> Tensor:
    """The shares (K,) of the members of a mixture that is built by additions: (K, N) likelihoods."""
    counts = torch.zeros(len(likelihoods), dtype=torch.float64)
    summed, lowest = torch.zeros_like(likelihoods[0]), float("inf")
    for size in range(1, rounds + 1):
        losses = -((summed + likelihoods) / size).log().mean(1)  # with each of the members added
        best = int(losses.argmin())
        if not float(losses[best]) < lowest:
            break
        lowest = float(losses[best])
        counts[best] += 1
        summed = summed + likelihoods[best]
    return counts / counts.sum()
