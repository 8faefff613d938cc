"""Drop-path: Larsson, Maire and Shakhnarovich (2017), "FractalNet: Ultra-Deep Neural Networks without Residuals",
arXiv:1605.07648; for every example alone as in Liu, Simonyan and Yang (2019), "DARTS: Differentiable Architecture
Search", arXiv:1806.09055."""

import torch.nn.functional as F
from torch import Tensor, nn


class DropPath(nn.Dropout):
    """Zeroes all that a path passes on of an example, with probability p, and scales the others by 1 / (1 - p).

    y_b = x_b m_b / (1 - p) with m_b ~ Bernoulli(1 - p), so that E[y] = x. In evaluation mode y = x.
    """

    def forward(self, x: Tensor) -> Tensor:
        """(B, ...) -> (B, ...)."""
        if not self.training:
            return x
        return x * F.dropout(x.new_ones(len(x), *[1] * (x.dim() - 1)), self.p)
