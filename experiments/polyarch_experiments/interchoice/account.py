"""What stands on the page of the paper besides its claims."""

from __future__ import annotations

from polyarch_experiments.papers import Account

INTERCHOICE = Account(
    takeaway="With one seed per space the effect of inter-choice weights on what a supernet selects is undecided. A "
    "bias costs little time per training step.",
    choices="""\
Inter-choice weights:

- Size, length and learning rate of the supernets are those of the other rankings on NAS-Bench-201 at this size; they
  were not chosen by what inter-choice weights gain.""",
)
