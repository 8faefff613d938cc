"""Plain networks whose channels can be gated."""

from polyarch.networks.densenet import DenseNet
from polyarch.networks.enas_cell import EnasNetwork
from polyarch.networks.inflated_resnet import InflatedResNet
from polyarch.networks.multi_branch import MultiBranchResNet
from polyarch.networks.residual_mlp import ResidualMLP

__all__ = ["DenseNet", "EnasNetwork", "InflatedResNet", "MultiBranchResNet", "ResidualMLP"]
