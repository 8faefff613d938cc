"""The wired supernet: stages of modules that read one or several of the modules before them.

Deng, Dong, Zhang and Zhu (2020), "Understanding and Exploring the Network with Stochastic Architectures", NeurIPS.
"""

from collections.abc import Sequence
from itertools import pairwise, takewhile

import torch
from torch import Tensor, nn

from polyarch.errors import InvalidInput
from polyarch.nn import DependentModule, WiredModule, call, record, skips_zeros
from polyarch.nn.operations import relu_conv_bn
from polyarch.nn.wired_module import Read, ReadAs, ReadAsEach, Reading, ReadWeighted
from polyarch.spaces import Architecture, Gates, module_sources, wired_shape, wired_space
from polyarch.supernets.supernet import Supernet, pooled_head, require_sizes

StageReadings = Sequence[Reading]
"""How each module of a stage reads the features before it."""


class WiredSupernet(Supernet):
    """Stem, stages of ReLU-Conv3x3-BN modules with a down-sampling module between them, pooled linear head.

    A module reads the mean of its active inputs: sum_i m_i f_i / sum_i m_i over the features f_i before it in its
    stage, where m is 1 for the module just before it, and the gate of ``on`` for all others. With gates (B, O) every
    example has its own wiring, and the batch statistics are those of the whole batch. Accepts images of any size:
    (B, in_channels, H, W) -> (B, classes).

    With ``wirings``, every wiring has its own coefficients of the inputs and its own scale and shift of the
    normalisation layers in stages; running statistics, convolutions, stem, down-sampling and head are shared. Only
    these wirings can then be used.

    Args:
        width: channels of the first stage; they double with each stage. WRN-28-10 has 160.
        modules: per stage.
        wirings: those with weights of their own; none by default.
        auxiliary: whether to add a second classifier on the features of the last stage but one, for training only: see
            `with_auxiliary`. ``forward`` and extracted networks ignore it.
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
        auxiliary: bool = False,
    ) -> None:
        super().__init__(wired_space(stages, modules))
        require_sizes(classes, width=width, in_channels=in_channels)
        if auxiliary and stages < 2:
            raise InvalidInput(f"Expected 2 or more stages for an auxiliary classifier. Got {stages}.")
        self.wirings = None if wirings is None else tuple(self.space.validate(wiring) for wiring in wirings)
        self._known = {wiring: index for index, wiring in enumerate(self.wirings or ())}
        if self.wirings is not None and not 0 < len(self._known) == len(self.wirings):
            raise InvalidInput(f"Expected one or more different wirings. Got {len(self._known)} different ones.")
        self._per_stage = modules
        sources = [module_sources(wiring) for wiring in self.wirings or ()]
        self.stem = nn.Sequential(nn.Conv2d(in_channels, width, 3, padding=1, bias=False), nn.BatchNorm2d(width))
        widths = [width * 2**stage for stage in range(stages)]
        self.blocks = nn.ModuleList(
            DependentModule(widths[stage], [wiring[stage][module] for wiring in sources])
            if sources
            else WiredModule(widths[stage])
            for stage in range(stages)
            for module in range(modules)
        )
        self.downs = nn.ModuleList(relu_conv_bn(*pair, 3, stride=2) for pair in pairwise(widths))
        self.head = pooled_head(nn.ReLU(), width=widths[-1], classes=classes)
        self.auxiliary = pooled_head(nn.ReLU(), width=widths[-2], classes=classes) if auxiliary else None

    def forward(self, x: Tensor, architecture: Architecture | Gates) -> Tensor:
        """(B, in_channels, H, W) -> (B, classes)."""
        return call(self.head, self._outputs(x, architecture)[-1])

    def with_auxiliary(self, x: Tensor, architecture: Architecture | Gates) -> tuple[Tensor, Tensor]:
        """The logits of ``forward`` and those of the auxiliary classifier, both (B, classes)."""
        if self.auxiliary is None:
            raise InvalidInput("Expected a network with an auxiliary classifier. Got one without.")
        outputs = self._outputs(x, architecture)
        return self.head(outputs[-1]), self.auxiliary(outputs[-2])

    def forward_many(self, x: Tensor, architectures: Sequence[Architecture]) -> Tensor:
        """(S, B, classes); modules that wirings share from the start on are computed once.

        A module depends on all modules before it, through the chain. So wirings sorted by what their modules read are
        the leaves of a tree, and a depth-first walk holds no more features than one wiring. In training mode the
        running statistics of a shared module are updated once.
        """
        rows = [[read for stage in self._readings(wiring, x) for read in (None, *stage)] for wiring in architectures]
        logits: dict[int, Tensor] = {}
        features: list[Tensor] = []  # of all nodes so far; node 0 of a stage is its input
        before: list[Reading | None] = []
        for row in sorted(range(len(rows)), key=lambda row: _sorting_key(rows[row])):
            common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, rows[row], strict=False)))
            del features[common:]
            for reading in rows[row][common:]:
                stage, node = divmod(len(features), self._per_stage + 1)
                if reading is None:
                    features.append(self._stage_input(stage, features[-1] if stage else x))
                else:
                    features.append(self._module(stage, node)(features[-node:], reading))
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
            if isinstance(module, DependentModule):
                unused.update(module.unselected(self._index(architecture)))
        return sum(parameter.numel() for parameter in self.parameters() if parameter not in unused)

    def _outputs(self, x: Tensor, architecture: Architecture | Gates) -> list[Tensor]:
        """The output of every stage."""
        outputs: list[Tensor] = []
        for stage, reads in enumerate(self._readings(architecture, x)):
            features = [self._stage_input(stage, outputs[-1] if stage else x)]
            for node, reading in enumerate(reads, start=1):
                features.append(self._module(stage, node)(features, reading))
            outputs.append(features[-1])
        return outputs

    def _module(self, stage: int, node: int) -> nn.Module:
        return self.blocks[stage * self._per_stage + node - 1]

    def _stage_input(self, stage: int, x: Tensor) -> Tensor:
        return call(self.downs[stage - 1] if stage else self.stem, x)

    def _readings(self, architecture: Architecture | Gates, x: Tensor) -> Sequence[StageReadings]:
        stages, modules = wired_shape(self.space)
        if isinstance(architecture, Architecture):
            self.space.validate(architecture)
            if self.wirings is None:
                return [[Read(sources) for sources in stage] for stage in module_sources(architecture)]
            return [[ReadAs(self._index(architecture))] * modules] * stages
        on = torch.stack([architecture[name][..., 1] for name in self.space.choice_names]).to(x)  # (E,) or (E, B)
        if self.wirings is not None:
            return [[self._as_wirings(on, self.wirings)] * modules] * stages
        chain = torch.ones_like(on[:1])
        parts = iter(on.split([target - 1 for _ in range(stages) for target in range(1, modules + 1)]))
        masks = [[torch.cat([next(parts), chain]) for _ in range(modules)] for _ in range(stages)]
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


def _sorting_key(readings: Sequence[Reading | None]) -> list[tuple[int, ...]]:
    """Sorts wirings next to those that they share most modules with."""
    return [
        reading.sources if isinstance(reading, Read) else (reading.wiring,)
        for reading in readings
        if isinstance(reading, Read | ReadAs)
    ]
