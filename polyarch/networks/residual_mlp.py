"""A residual network of linear layers, for tables."""

from __future__ import annotations

from torch import Tensor, nn

from polyarch.networks.gateable import gate_groups, require_positive


class ResidualLayers(nn.Module):
    """x + BN-linear-ReLU-linear of x: (B, width) -> (B, width)."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.branch = nn.Sequential(
            nn.BatchNorm1d(width), nn.Linear(width, inner), nn.ReLU(), nn.Linear(inner, width)
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        """(B, width) -> (B, width)."""
        changed: Tensor = x + self.branch(x)
        return changed


class ResidualMLP(nn.Module):
    """Residual blocks of two linear layers: (B, ...) of ``features`` numbers each -> (B, classes).

    Args:
        width: what the blocks read and give.
        depth: number of blocks.
        inner: the width inside of a block.
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

    def gate_groups(self) -> dict[str, list[str]]:
        """Every linear layer of the blocks, by name."""
        return gate_groups(self)
