"""What stands on the page of variational depth besides its claims."""

from __future__ import annotations

from polyarch_experiments.papers import Account

DEPTH = Account(
    takeaway="A learned depth follows the data: it grows with the rotation of spirals, and the blocks after it do "
    "little; the exact posterior for the final weights is about half as deep as the q that was learned with them. "
    "Weighted by the learned q, the mixture predicts worse than a fixed depth chosen on validation data where spirals "
    "are noisy, and weighted by what fits these data better where noise or few points leave much to overfit; whether "
    "harder images get deeper networks is undecided.",
    choices="""\
- The number of steps on spirals, 3,000, was set after looking at one run each of 1,500, 3,000 and 6,000 steps on six
  seeds; an earlier version had the same number. `spiral_depth` now has the 8,000 of the authors' code.
- `spiral_depth` and `spiral_noise` were first judged with the weights that validation data prefer, which are the
  default of a search. The comparison with the learned q, which the paper makes, was added after their results.
- The size of the image networks (16 channels, 6,000 images, 24 epochs) was set by time alone.
- The thresholds that are ours were written before the results, except for the confidence of 0.95 in the claim on early
  exit.
- Claims are judged by the depths of the exact posterior on spirals, and by the 95 % rule on the learned q on images,
  where the exact posterior is next to certain of the deepest network.""",
)
