"""What stands on the page of the paper besides its claims."""

from __future__ import annotations

from polyarch_experiments.papers import Account

INTERCHOICE = Account(
    takeaway="With one seed per space the effect of inter-choice weights on what a supernet selects is undecided. In "
    "the paper's own network with all operations a bias adds less to a training step than the paper reports; the other "
    "spaces have not been timed.",
    choices="""\
Inter-choice weights:

- Size, length and learning rate of the supernets are those of the other rankings on NAS-Bench-201 at this size; they
  were not chosen by what inter-choice weights gain.
- What training costs is measured in processor time: by the clock, on a busy machine, spaces differed by more than kinds
  of weights.""",
)
