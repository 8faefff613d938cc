"""A residual network of linear layers for table data, after He et al. (2016), arXiv:1512.03385."""

from torch import Tensor, nn

from polyarch.networks.gateable import GateableNetwork, require_positive


class ResidualLayers(nn.Module):
    """x + branch(x) with the branch BN-linear-ReLU-linear: (B, width) -> (B, width)."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.branch = nn.Sequential(
            nn.BatchNorm1d(width), nn.Linear(width, inner), nn.ReLU(), nn.Linear(inner, width)
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        """(B, width) -> (B, width)."""
        changed: Tensor = x + self.branch(x)
        return changed


class ResidualMLP(GateableNetwork):
    """Residual blocks of two linear layers: (B, ...) with ``features`` numbers per example -> (B, classes).

    Args:
        width: the width between blocks.
        depth: the number of blocks.
        inner: the width inside a block.
    """

    def __init__(self, *, features: int, classes: int, width: int = 64, depth: int = 3, inner: int = 128) -> None:
        super().__init__()
        require_positive(features=features, classes=classes, width=width, depth=depth, inner=inner)
        self.stem = nn.Sequential(nn.Flatten(), nn.Linear(features, width))
        self.blocks = nn.Sequential(*(ResidualLayers(width, inner) for _ in range(depth)))
        self.norm = nn.BatchNorm1d(width)
        self.activation = nn.ReLU()
        self.classifier = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        """(B, ...) -> (B, classes)."""
        logits: Tensor = self.classifier(self.activation(self.norm(self.blocks(self.stem(x)))))
        return logits
