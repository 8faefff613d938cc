"""Which results on posterior-guided search decide claims: those that were measured with the authors' prior."""

from __future__ import annotations

from collections.abc import Sequence

from polyarch_experiments.experiment import Settings
from polyarch_experiments.results import Claim, Finding
from polyarch_experiments.verdict import finding, paired

EARLIER = (
    "the authors' prior (d^2 / N of 3e-4 for MI, 1e-4 for M and 2e-7 for E; here it was 1/300 for all) and an MI with "
    "more channels (here it had kernels of a further size), as the preset cpu has them now"
)


def lower(name: str, ours: Sequence[float], theirs: Sequence[float]) -> Finding:
    """Values that a claim expects below those of others, as the difference paired by seed."""
    return finding(name, paired(ours, theirs), below=0)


def if_fair(settings: Settings, claims: list[Claim]) -> list[Claim]:
    """The claims as they are or, if the results have the prior that was ours before, all of them undecided."""
    if "prior_examples" in settings:
        return claims
    return [one.model_copy(update={"supported": None, "needs": EARLIER}) for one in claims]
