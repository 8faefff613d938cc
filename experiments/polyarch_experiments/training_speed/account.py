"""What stands on the pages of the thesis besides its claims."""

from __future__ import annotations

from polyarch_experiments.papers import Account

RANKING = Account(
    takeaway="On learning curves from scratch, the training loss of the last epoch ranks networks better than "
    "validation accuracy early in training. After long training of a supernet with fair paths, training speed ranks "
    "128 cells better than validation accuracy does, but no better than their number of parameters, which needs no "
    "training and is ahead within the interval; the other strategies have not been run as long.",
    choices="""\
Training speed:

- The recipe of the supernets (learning rate 0.1, one cell per stage, images of 16 pixels) and their length were found
  by trial on 64 random cells that the experiments used before: fair paths for 16 epochs at 16 pixels and for 4 epochs
  at 32 pixels were tried together. Earlier trials had not helped: single paths for up to 30 epochs (validation accuracy
  only, another draw of cells), fair paths for 6 epochs with a short run at a rate of 0.1, and two cells per stage.
- The rate of the short runs was set to 0.001 after `fine_tuning` on 24 of those cells.
- The preset `long` has the rates of the thesis instead: 0.01 after single paths, 0.001 after other strategies, and a
  proximal weight of 10.
- Those 64 cells were not typical: parameters correlate with the accuracy by 0.57 in them and by 0.75 in the whole
  table. 128 distinct networks take their place, the first of one random order of all; nothing was chosen by them, and
  they were not drawn again although their parameters predict the accuracy better than usual. `fine_tuning` has other
  networks of the same order, so that what it shows can be used without looking at those.
- That strategies are compared fairly from 80 passes on, and that the goal is judged with FairNAS, was decided on those
  cells, too.
- Curves from scratch: the sum over all epochs was judged first; the thesis means the last epoch by SoTL unless it says
  otherwise.""",
)

SEARCH = Account(
    takeaway="On Bayesian linear regression and Fourier series the sum of training losses behaves as the thesis "
    "derives. SoTL-DARTS does not collapse to skips on NAS-Bench-201, but two seeds leave most claims about searched "
    "cells undecided.",
    choices="""\
Differentiable search:

- The size of `cell_search` at the preset `cpu` was chosen after a trial: with 4,000 images and 20 epochs DARTS had not
  collapsed (1 skip after 19 epochs, one seed).
- At the preset `long`, `cell_shape` has three seeds in networks of 8 layers: with two, not even equal counts decide.
- Learning rates of q at small sizes are scaled so that a search takes as many effective steps as with the thesis'
  settings; they were not chosen by the accuracies shown.""",
)
