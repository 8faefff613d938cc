"""What stands on the page of stochastic architectures besides its claims."""

from __future__ import annotations

from polyarch_experiments.papers import Account

WIRINGS = Account(
    takeaway="Nothing here is decided yet: earlier numbers were of a network whose stages passed on their last module "
    "alone, and its networks did not fit their training images, so that they could not be overconfident. The network "
    "is now that of the paper, and the preset `long` tests its ensembles on networks that fit.",
    choices="""\
Stochastic architectures:

- Calibration errors carry their noise floor, what a perfectly calibrated predictor with the same confidences would have
  on as many examples, and a bootstrap interval; claims compare what lies above the floor.
- The preset `long` has a width of 16 and 60 epochs at a rate of 0.1, chosen for what two cores can train, not by any
  accuracy. Claims against baselines count as failed only where all networks of a comparison have a training accuracy
  above 99 %; that threshold is ours.
- Coefficients of wirings are (2 / k) sigmoid(t) for k inputs, so that they start as a mean; the paper gives no formula.
- The weight of the consistency loss is that of a sum over classes, as the paper writes it, and is chosen by validation
  images.""",
)
