"""Several fully connected depth networks side by side, as one batched computation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from polyarch.errors import InvalidInput
from polyarch.supernets.depth import FullyConnectedDepth

REPLICAS = 1
"""The dimension of the replicas in every parameter and buffer."""


class FullyConnectedReplicas(nn.Module):
    """R networks `FullyConnectedDepth` of one shape with weights of their own, computed together.

    Small networks spend their time between operations, not in them: R networks cost little more than one. Features are
    kept as (R, width, B): a product with (R, width, width) and batch statistics of R * width rows take no copies.

    Args:
        networks: whose weights, statistics and mode are copied; they stay as they are.
    """

    means: Tensor
    variances: Tensor
    batches: Tensor

    def __init__(self, networks: Sequence[FullyConnectedDepth]) -> None:
        super().__init__()
        if not networks:
            raise InvalidInput("Expected one or more networks to put side by side. Got none.")
        shapes = {tuple((name, value.shape, value.dtype) for name, value in n.state_dict().items()) for n in networks}
        if len(shapes) > 1:
            raise InvalidInput(f"Expected networks of one shape. Got {len(shapes)} different ones.")
        stems = [_linear(net.stem) for net in networks]
        blocks = [[_linear(block) for block in net.blocks] for net in networks]
        norms = [[_norm(block) for block in net.blocks] for net in networks]
        self.eps, self.momentum = norms[0][0].eps, cast(float, norms[0][0].momentum)
        self.stem_weight = _stacked([[stem.weight] for stem in stems])  # (1, R, width, features)
        self.stem_bias = _stacked([[stem.bias[:, None]] for stem in stems])  # (1, R, width, 1)
        self.weight = _stacked([[layer.weight for layer in row] for row in blocks])  # (D, R, width, width)
        self.bias = _stacked([[layer.bias[:, None] for layer in row] for row in blocks])  # (D, R, width, 1)
        self.scale = _stacked([[norm.weight for norm in row] for row in norms])  # (D, R, width)
        self.shift = _stacked([[norm.bias for norm in row] for row in norms])  # (D, R, width)
        self.head_weight = _stacked([[net.head.weight] for net in networks])  # (1, R, classes, width)
        self.head_bias = _stacked([[net.head.bias[:, None]] for net in networks])  # (1, R, classes, 1)
        means, variances = (
            [[getattr(n, name) for n in row] for row in norms] for name in ("running_mean", "running_var")
        )
        self.register_buffer("means", _stacked(means).data)  # (D, R, width)
        self.register_buffer("variances", _stacked(variances).data)
        counts = [[norm.num_batches_tracked for norm in row] for row in norms]
        self.register_buffer("batches", torch.tensor(counts).T.contiguous())  # (D, R)
        self.train(networks[0].training)

    @property
    def replicas(self) -> int:
        """R."""
        return self.weight.shape[REPLICAS]

    @property
    def max_depth(self) -> int:
        """D."""
        return len(self.weight)

    def forward(self, x: Tensor, depths: Sequence[int] | None = None) -> Tensor:
        """(R, B, features) -> the logits (R, S, B, classes) of S depths, all by default, from one walk."""
        return self._logits(x, depths).permute(0, 2, 3, 1)

    def log_likelihoods(self, x: Tensor, targets: Tensor, depths: Sequence[int] | None = None) -> Tensor:
        """log p of the targets: (R, B, features), (R, B) -> (R, S, B)."""
        logits = self._logits(x, depths)
        index = targets[:, None, None].expand(-1, 1, *logits.shape[2:])
        # Two classes side by side in memory would be many tiny softmaxes: ten times slower than along the second axis.
        return torch.log_softmax(logits, 1).gather(1, index).squeeze(1)

    def _logits(self, x: Tensor, depths: Sequence[int] | None) -> Tensor:
        """(R, classes, S, B)."""
        depths = range(self.max_depth + 1) if depths is None else depths
        if not depths or min(depths) < 0 or max(depths) > self.max_depth:
            raise InvalidInput(f"Expected depths from 0 to {self.max_depth}. Got {list(depths)}.")
        if self.training and x.shape[1] < 2:
            raise InvalidInput(f"Expected batches of 2 or more examples in training. Got {x.shape[1]}.")
        a = torch.baddbmm(self.stem_bias[0], self.stem_weight[0], x.flatten(2).transpose(1, 2))  # (R, width, B)
        reached, statistics = [a], []
        count = max(depths)
        for weight, bias, scale, shift, mean, variance in zip(
            self.weight[:count], self.bias[:count], self.scale.flatten(1)[:count], self.shift.flatten(1)[:count],
            self.means.flatten(1), self.variances.flatten(1), strict=False,
        ):  # fmt: skip
            rows = torch.baddbmm(bias, weight, a).relu_().view(1, -1, a.shape[-1])  # (1, R * width, B)
            if self.training:
                # Rows that are normalised one by one: a group norm, three times faster than batch norm in this layout.
                groups = rows.shape[1]
                rows, *found = torch.native_group_norm(rows, scale, shift, 1, groups, a.shape[-1], groups, self.eps)
                statistics.append(found)
            else:
                rows = F.batch_norm(rows, mean, variance, scale, shift, eps=self.eps)
            a = a + rows.view(a.shape)
            reached.append(a)
        if statistics:
            self._note(statistics, a.shape[-1])
        features = torch.cat([reached[depth] for depth in depths], 2)  # (R, width, S * B)
        logits = torch.baddbmm(self.head_bias[0], self.head_weight[0], features)
        split: Tensor = logits.unflatten(2, (len(depths), -1))
        return split

    @torch.no_grad()
    def _note(self, statistics: Sequence[Sequence[Tensor]], batch: int) -> None:
        """Moves the running averages of the first blocks towards (mean, 1 / deviation) of their batches."""
        means, inverses = (
            torch.cat(list(column)).view(-1, *self.means.shape[1:]) for column in zip(*statistics, strict=True)
        )
        variances = (inverses**-2 - self.eps) * (batch / (batch - 1))
        self.batches[: len(means)] += 1
        self.means[: len(means)].lerp_(means, self.momentum)
        self.variances[: len(means)].lerp_(variances, self.momentum)

    def split(self) -> list[FullyConnectedDepth]:
        """The networks apart again, with the weights and statistics as they are now."""
        return [self._apart(replica) for replica in range(self.replicas)]

    @torch.no_grad()
    def _apart(self, replica: int) -> FullyConnectedDepth:
        features, (classes, width) = self.stem_weight.shape[-1], self.head_weight.shape[-2:]
        with torch.device("meta"):  # no random numbers are used up for weights that are replaced
            net = FullyConnectedDepth(features=features, classes=classes, max_depth=self.max_depth, width=width)
        net.to(self.weight.dtype).to_empty(device=self.weight.device)
        _set(_linear(net.stem), self.stem_weight[0, replica], self.stem_bias[0, replica])
        _set(net.head, self.head_weight[0, replica], self.head_bias[0, replica])
        for depth, block in enumerate(net.blocks):
            _set(_linear(block), self.weight[depth, replica], self.bias[depth, replica])
            norm = _norm(block)
            _set(norm, self.scale[depth, replica], self.shift[depth, replica])
            assert norm.running_mean is not None and norm.running_var is not None
            assert norm.num_batches_tracked is not None
            norm.running_mean.copy_(self.means[depth, replica])
            norm.running_var.copy_(self.variances[depth, replica])
            norm.num_batches_tracked.copy_(self.batches[depth, replica])
        return net.train(self.training)


def _linear(module: nn.Module) -> nn.Linear:
    """The only linear layer of an input block or a residual block."""
    return next(layer for layer in module.modules() if isinstance(layer, nn.Linear))


def _norm(module: nn.Module) -> nn.BatchNorm1d:
    return next(layer for layer in module.modules() if isinstance(layer, nn.BatchNorm1d))


def _stacked(values: Sequence[Sequence[Tensor]]) -> nn.Parameter:
    """values[replica][position] as one tensor (positions, R, ...)."""
    return nn.Parameter(torch.stack([torch.stack(list(row)) for row in values], REPLICAS).detach().clone())


def _set(layer: nn.Linear | nn.BatchNorm1d, weight: Tensor, bias: Tensor) -> None:
    layer.weight.copy_(weight)
    layer.bias.copy_(bias.view_as(layer.bias))
