"""The wired supernet: stages of modules that read one or several of the modules before them.

Deng, Dong, Zhang and Zhu (2020), "Understanding and Exploring the Network with Stochastic Architectures", NeurIPS.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise, takewhile
from typing import Literal, cast

import torch
from torch import Tensor, nn

from polyarch.errors import InvalidInput
from polyarch.nn import DependentModule, WiredModule, WiringNorm, call, record, skips_zeros
from polyarch.nn.operations import relu_conv_bn
from polyarch.nn.wired_module import (
    DependentSum,
    Read,
    ReadAs,
    ReadAsEach,
    Reading,
    ReadWeighted,
    WiringNormed,
    read_features,
)
from polyarch.spaces import Architecture, Gates, module_sources, wired_shape, wired_space
from polyarch.supernets.darts_teaching import auxiliary_classifier
from polyarch.supernets.supernet import Supernet, pooled_head, require_sizes

StageReadings = Sequence[Reading]
"""How each module of a stage, and its output, reads the features before it."""

WiredLayout = Literal["aggregated", "last"]


class WiredSupernet(Supernet):
    """Stem, stages of ReLU-Conv3x3-BN modules with a down-sampling module between them, pooled linear head.

    A module reads the mean of its active inputs: sum_i m_i f_i / sum_i m_i over the features f_i before it in its
    stage, where m is 1 for the module just before it, and the gate of ``on`` for all others. So does the output of a
    stage. Between stages, a 1x1 convolution doubles the channels and an average pooling halves the sides. With gates
    (B, O) every example has its own wiring, and the batch statistics are those of the whole batch. Accepts images of
    any size: (B, in_channels, H, W) -> (B, classes).

    With ``wirings``, every wiring has its own coefficients of the inputs and its own scale and shift of all
    normalisation layers; running statistics, convolutions and head are shared. Only these wirings can then be used.

    Args:
        width: channels of the first stage; they double with each stage. WRN-28-10 has 160.
        modules: per stage.
        wirings: those with weights of their own; none by default.
        own_norms: whether wirings have a scale and shift of their own, or nothing but coefficients.
        auxiliary: whether to add a second classifier, that of DARTS, on the input of the last stage, for training only:
            see `with_auxiliary`. ``forward`` and extracted networks ignore it.
        layout: ``last`` is the network of polyarch 0.7, for what was stored then: a stage passes on its last module
            alone, down-sampling is a 3x3 convolution with a stride, coefficients are unbounded, normalisation layers
            outside of modules are shared, and the auxiliary classifier is linear, on the output of the last stage but
            one.
    """

    def __init__(
        self,
        *,
        width: int = 16,
        modules: int = 8,
        stages: int = 3,
        in_channels: int = 3,
        classes: int = 10,
        wirings: Sequence[Architecture] | None = None,
        own_norms: bool = True,
        auxiliary: bool = False,
        layout: WiredLayout = "aggregated",
    ) -> None:
        aggregated = layout == "aggregated"
        super().__init__(wired_space(stages, modules, aggregated=aggregated))
        require_sizes(classes, width=width, in_channels=in_channels)
        if auxiliary and stages < 2:
            raise InvalidInput(f"Expected 2 or more stages for an auxiliary classifier. Got {stages}.")
        self.wirings = None if wirings is None else tuple(self.space.validate(wiring) for wiring in wirings)
        self._known = {wiring: index for index, wiring in enumerate(self.wirings or ())}
        if self.wirings is not None and not 0 < len(self._known) == len(self.wirings):
            raise InvalidInput(f"Expected one or more different wirings. Got {len(self._known)} different ones.")
        self._shape = wired_shape(self.space)
        sources = [module_sources(wiring) for wiring in self.wirings or ()]
        normed = len(sources) if own_norms and aggregated else 0
        widths = [width * 2**stage for stage in range(stages)]
        stem = nn.Conv2d(in_channels, width, 3, padding=1, bias=False)
        self.stem = WiringNormed(stem, width, normed) if normed else nn.Sequential(stem, nn.BatchNorm2d(width))
        self.blocks = nn.ModuleList(
            DependentModule(
                widths[stage], [wiring[stage][module] for wiring in sources], bounded=aggregated, own_norms=own_norms
            )
            if sources
            else WiredModule(widths[stage])
            for stage in range(stages)
            for module in range(modules)
        )
        self.downs = nn.ModuleList(
            _down_sampling(*pair, normed) if aggregated else relu_conv_bn(*pair, 3, stride=2)
            for pair in pairwise(widths)
        )
        self.outputs = nn.ModuleList(
            DependentSum([wiring[stage][modules] for wiring in sources])
            for stage in range(stages)
            if sources and aggregated
        )
        self.head = pooled_head(nn.ReLU(), width=widths[-1], classes=classes)
        self.auxiliary: nn.Sequential | None = None
        if auxiliary:
            linear = not aggregated
            self.auxiliary = (
                pooled_head(nn.ReLU(), width=widths[-2], classes=classes)
                if linear
                else auxiliary_classifier(widths[-1], classes)
            )

    def forward(self, x: Tensor, architecture: Architecture | Gates) -> Tensor:
        """(B, in_channels, H, W) -> (B, classes)."""
        for features in self._stages(x, architecture):
            last = features[-1]
        return call(self.head, last)

    def with_auxiliary(self, x: Tensor, architecture: Architecture | Gates) -> tuple[Tensor, Tensor]:
        """The logits of ``forward`` and those of the auxiliary classifier, both (B, classes)."""
        if self.auxiliary is None:
            raise InvalidInput("Expected a network with an auxiliary classifier. Got one without.")
        for before, features in pairwise(self._stages(x, architecture)):
            read = features[0] if self._shape.aggregated else before[-1]
            last = features[-1]
        return self.head(last), self.auxiliary(read)

    def forward_many(self, x: Tensor, architectures: Sequence[Architecture]) -> Tensor:
        """(S, B, classes); modules that wirings share from the start on are computed once.

        A module depends on all modules before it, through the chain. So wirings sorted by what their modules read are
        the leaves of a tree, and a depth-first walk holds no more features than one wiring. In training mode the
        running statistics of a shared module are updated once.
        """
        rows = [self._row(self._readings(wiring, x)) for wiring in architectures]
        nodes = 1 + self._shape.modules + self._shape.aggregated
        logits: dict[int, Tensor] = {}
        features: list[Tensor] = []  # of all nodes so far; node 0 of a stage is its input
        before: list[Reading | None] = []
        for row in sorted(range(len(rows)), key=lambda row: _sorting_key(rows[row])):
            common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, rows[row], strict=False)))
            del features[common:]
            for reading in rows[row][common:]:
                stage, node = divmod(len(features), nodes)
                if node:
                    features.append(self._node(stage, node, features[-node:], cast(Reading, reading)))
                else:
                    features.append(self._stage_input(stage, features[-1] if stage else x, reading))
            before = rows[row]
            logits[row] = call(self.head, features[-1])
        return torch.stack([logits[row] for row in range(len(rows))])

    def extract_many(self, architectures: Sequence[Architecture]) -> nn.Module:
        """One plain network without a polyarch class inside that computes ``forward_many``, with every weight once."""
        if not architectures:
            raise InvalidInput("Expected at least one wiring. Got none.")
        return record(self, lambda x: self.forward_many(x, architectures))

    def parameter_count(self, architecture: Architecture) -> int:
        """The number of weights without the auxiliary classifier and the weights of other wirings."""
        unused = set() if self.auxiliary is None else set(self.auxiliary.parameters())
        for module in self.modules():
            if isinstance(module, DependentSum | WiringNorm):
                unused.update(module.unselected(self._index(architecture)))
        return sum(parameter.numel() for parameter in self.parameters() if parameter not in unused)

    def _stages(self, x: Tensor, architecture: Architecture | Gates) -> Iterator[list[Tensor]]:
        """The features of every stage: its input, its modules and, if it is not the last of them, its output."""
        for stage, reads in enumerate(self._readings(architecture, x)):
            features = [self._stage_input(stage, x, reads[0])]
            for node, reading in enumerate(reads, start=1):
                features.append(self._node(stage, node, features, reading))
            x = features[-1]
            yield features

    def _node(self, stage: int, node: int, features: Sequence[Tensor], reading: Reading) -> Tensor:
        """A module or, after all of them, the output of the stage."""
        if node <= self._shape.modules:
            return cast(Tensor, self.blocks[stage * self._shape.modules + node - 1](features, reading))
        return (
            cast(Tensor, self.outputs[stage](features, reading)) if self.outputs else read_features(features, reading)
        )

    def _stage_input(self, stage: int, x: Tensor, reading: Reading | None) -> Tensor:
        before = self.downs[stage - 1] if stage else self.stem
        return cast(Tensor, before(x, reading)) if isinstance(before, WiringNormed) else call(before, x)

    def _row(self, readings: Sequence[StageReadings]) -> list[Reading | None]:
        """What every node reads; inputs of stages are the same for all wirings unless these normalise them."""
        own = isinstance(self.stem, WiringNormed)
        return [read for stage in readings for read in (stage[0] if own else None, *stage)]

    def _readings(self, architecture: Architecture | Gates, x: Tensor) -> Sequence[StageReadings]:
        stages, targets = self._shape.stages, self._shape.modules + self._shape.aggregated
        if isinstance(architecture, Architecture):
            self.space.validate(architecture)
            if self.wirings is None:
                return [[Read(sources) for sources in stage] for stage in module_sources(architecture)]
            return [[ReadAs(self._index(architecture))] * targets] * stages
        on = torch.stack([architecture[name][..., 1] for name in self.space.choice_names]).to(x)  # (E,) or (E, B)
        if self.wirings is not None:
            return [[self._as_wirings(on, self.wirings)] * targets] * stages
        chain = torch.ones_like(on[:1])
        parts = iter(on.split([target - 1 for _ in range(stages) for target in range(1, targets + 1)]))
        masks = [[torch.cat([next(parts), chain]) for _ in range(targets)] for _ in range(stages)]
        skipping = skips_zeros()
        return [[ReadWeighted(mask / mask.sum(0), skipping) for mask in stage] for stage in masks]

    def _index(self, wiring: Architecture) -> int:
        if wiring not in self._known:
            raise InvalidInput(
                f"Expected one of the {len(self._known)} wirings with weights of their own. Got {wiring}."
            )
        return self._known[wiring]

    def _as_wirings(self, on: Tensor, wirings: Sequence[Architecture]) -> ReadAs | ReadAsEach:
        """The wirings that gates (E,) or (E, B) represent."""
        bits = torch.tensor([wiring.indices for wiring in wirings], device=on.device)  # (S, E)
        equal = (bits.reshape(*bits.shape, *[1] * (on.dim() - 1)) == on).all(1)  # (S,) or (S, B)
        if not equal.any(0).all():
            raise InvalidInput(
                f"Expected gates of the {len(wirings)} wirings with weights of their own. Got gates of another wiring."
            )
        indices = equal.int().argmax(0)
        if on.dim() == 1:
            return ReadAs(int(indices))
        used, rows = indices.unique(return_inverse=True)
        return ReadAsEach(tuple(used.tolist()), rows)


def _down_sampling(inputs: int, outputs: int, wirings: int) -> nn.Module:
    """ReLU, 1x1 convolution, normalisation, for every wiring if there are some, and average pooling to half the side.

    Sides are rounded up, so that any image keeps a pixel.
    """
    pooling = nn.AvgPool2d(2, ceil_mode=True)
    *before, norm = relu_conv_bn(inputs, outputs, 1)
    if wirings:
        return WiringNormed(nn.Sequential(*before), outputs, wirings, pooling)
    return nn.Sequential(*before, norm, pooling)


def _sorting_key(readings: Sequence[Reading | None]) -> list[tuple[int, ...]]:
    """Sorts wirings next to those that they share most modules with."""
    return [
        reading.sources if isinstance(reading, Read) else (reading.wiring,)
        for reading in readings
        if isinstance(reading, Read | ReadAs)
    ]
