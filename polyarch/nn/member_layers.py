"""Layers that hold several members of an ensemble, which share most of their weights.

Wen, Tran and Ba (2020), "BatchEnsemble: An Alternative Approach to Efficient Ensemble and Lifelong Learning",
arXiv:2002.06715; Gorishniy, Kotelnikov and Babenko (2024), "TabM: Advancing Tabular Deep Learning with
Parameter-Efficient Ensembling", arXiv:2410.24210.
"""

import math
from collections.abc import Callable
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from polyarch.nn.path_recording import Composed, call

Mix = Callable[[Tensor], Tensor]
"""The outputs (K, B, O) of K members -> those of one network that predicts like their mixture, (B, O)."""

Scales = Literal["signs", "normal", "ones"]

MEMBERS = "members"
"""The name of the module through which the outputs of members pass before they are mixed."""


class MemberLinear(Composed):
    """A linear layer per member, with one weight that vectors of the member scale: y_k = s_k W (r_k x_k) + b_k.

    That is a layer with the weight diag(s_k) W diag(r_k).

    Args:
        members: K.
        scales: how r_k differs from member to member at first: by ``signs`` -1 and 1, by ``normal`` numbers, or not at
            all. Without any difference before them, members would stay the same network.
    """

    def __init__(self, members: int, inputs: int, outputs: int, *, scales: Scales = "ones") -> None:
        super().__init__()
        bound = 1 / math.sqrt(inputs)
        first = torch.ones(members, inputs)
        if scales == "signs":
            first = torch.randint(0, 2, first.shape).float() * 2 - 1
        elif scales == "normal":
            first = torch.randn(first.shape)
        self.weight = nn.Parameter(torch.empty(outputs, inputs).uniform_(-bound, bound))  # W
        self.input_scales = nn.Parameter(first)  # r, (K, in)
        self.output_scales = nn.Parameter(torch.ones(members, outputs))  # s
        bias = torch.empty(outputs).uniform_(-bound, bound)
        self.bias = nn.Parameter(bias.repeat(members, 1))  # b, (K, out): the same for all members at first

    def forward(self, x: Tensor) -> Tensor:
        """(B, K, in), or (B, 1, in) for all members -> (B, K, out)."""
        return torch.addcmul(self.bias, F.linear(x * self.input_scales, self.weight), self.output_scales)


class MemberHeads(Composed):
    """A linear layer per member that shares nothing: (B, K, in) -> (B, K, out)."""

    def __init__(self, members: int, inputs: int, outputs: int) -> None:
        super().__init__()
        bound = 1 / math.sqrt(inputs)
        self.weight = nn.Parameter(torch.empty(members, inputs, outputs).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(members, outputs).uniform_(-bound, bound))

    def forward(self, x: Tensor) -> Tensor:
        """(B, K, in) -> (B, K, out)."""
        return torch.einsum("bki,kio->bko", x, self.weight) + self.bias


class MemberMixture(Composed):
    """What the members say together: (B, K, O) -> (B, O). `member_network` ends before they are mixed."""

    def __init__(self, mix: Mix) -> None:
        super().__init__()
        self.mix = mix
        self.members = nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """(B, K, O) -> (B, O)."""
        return self.mix(call(self.members, x.transpose(0, 1)))


def mix_classes(outputs: Tensor) -> Tensor:
    """log of the mean of softmax(logits_k): (K, B, C) -> (B, C)."""
    return torch.log_softmax(torch.logsumexp(torch.log_softmax(outputs, -1), 0), -1)


def member_network(network: nn.Module) -> nn.Module:
    """The same network, with the same parameters, up to its members: (B, ...) -> (K, B, O), before they are mixed.

    The loss of a mixture lets one member rely on the others; what is trained is therefore the mean of the losses of
    the members. A network without members is returned as it is: (B, ...) -> (B, O).
    """
    if not isinstance(network, fx.GraphModule):
        return network
    graph = fx.Graph()
    copied: dict[fx.Node, fx.Node] = {}
    for node in network.graph.nodes:
        copied[node] = graph.node_copy(node, copied.__getitem__)
        if node.op == "call_module" and str(node.target).rpartition(".")[2] == MEMBERS:
            graph.output(copied[node])
            return fx.GraphModule(network, graph, class_name="Members")
    return network
