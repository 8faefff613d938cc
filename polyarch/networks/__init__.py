"""Plain networks that tell `polyarch.supernets.gate` which of their channels to gate."""

from polyarch.networks.densenet import DenseNet
from polyarch.networks.enas import EnasNetwork
from polyarch.networks.inflated_resnet import InflatedResNet
from polyarch.networks.multi_branch_resnet import MultiBranchResNet
from polyarch.networks.residual_mlp import ResidualMLP

__all__ = ["DenseNet", "EnasNetwork", "InflatedResNet", "MultiBranchResNet", "ResidualMLP"]
