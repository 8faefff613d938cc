"""The wired supernet: stages of modules that read one or several of the modules before them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

import torch
from torch import Tensor, nn

from polyarch.errors import InvalidInput
from polyarch.nn import DependentModule, WiredModule, call, record, skips_zeros
from polyarch.nn.operations import relu_conv_bn
from polyarch.nn.wired_module import Read, ReadAs, ReadAsEach, Reading, ReadWeighted
from polyarch.spaces import Architecture, Gates, module_sources, wired_shape, wired_space
from polyarch.supernets.supernet import Supernet

StageReadings = Sequence[Reading]
"""How each module of a stage reads the features before it."""


class WiredSupernet(Supernet):
    """Stem, stages of ReLU-Conv3x3-BN modules with a down-sampling module between them, pooled linear head.

    A module reads the uniform mean of its active inputs: sum_i m_i f_i / sum_i m_i over the features f_i before it in
    its stage, where m is 1 for the module before, and for all others the gate of ``on``. With gates (B, O) every
    example has a wiring of its own; the batch statistics are those of the whole batch then.

    With ``wirings`` the coefficients of the inputs and the scale and shift of the normalisation layers in stages belong
    to the wiring: each example goes by those of its own (running statistics, convolutions, stem, down-sampling and head
    are shared). Only these wirings can be used then.

    Args:
        width: channels of the first stage; they double with each stage. WRN-28-10 has 160.
        modules: per stage.
        in_channels: channels of the images.
        classes: number of classes.
        wirings: those that have weights of their own; by default there are no such weights.
        auxiliary: whether there is a second classifier, on the features of the last stage but one. It is for training
            alone, see `with_auxiliary`: ``forward`` and extracted networks do without.

    Images of any size go in: (B, in_channels, H, W) -> (B, classes).
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
        if min(width, in_channels) < 1 or classes < 2:
            raise InvalidInput(
                "Expected width and in_channels of 1 or more and 2 or more classes. "
                f"Got {width=}, {in_channels=}, {classes=}."
            )
        if auxiliary and stages < 2:
            raise InvalidInput(f"Expected 2 or more stages for an auxiliary classifier. Got {stages}.")
        self.wirings = None if wirings is None else tuple(self.space.validate(wiring) for wiring in wirings)
        self._known = {wiring: index for index, wiring in enumerate(self.wirings or ())}
        if self.wirings is not None and not 0 < len(self._known) == len(self.wirings):
            raise InvalidInput(f"Expected one or more different wirings. Got {len(self._known)} different ones.")
        self._per_stage = modules
        sources = [module_sources(wiring) for wiring in self.wirings or ()]
        self.stem = nn.Sequential(nn.Conv2d(in_channels, width, 3, padding=1, bias=False), nn.BatchNorm2d(width))
        self.blocks = nn.ModuleList(
            DependentModule(width * 2**stage, [wiring[stage][module] for wiring in sources])
            if sources
            else WiredModule(width * 2**stage)
            for stage in range(stages)
            for module in range(modules)
        )
        self.downs = nn.ModuleList(
            relu_conv_bn(width * 2**stage, width * 2 ** (stage + 1), 3, stride=2) for stage in range(stages - 1)
        )
        self.head = _classifier(width * 2 ** (stages - 1), classes)
        self.auxiliary = _classifier(width * 2 ** (stages - 2), classes) if auxiliary else None

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
        """(S, B, classes); what several wirings have in common from the start is computed once.

        A module depends on all modules before it, through the chain. So wirings in the order of what their modules read
        are the leaves of a tree, which is walked depth first: no more features are held than by one wiring. In training
        mode the running statistics of a shared module move once.
        """
        rows = [[read for stage in self._readings(wiring, x) for read in (None, *stage)] for wiring in architectures]
        logits: dict[int, Tensor] = {}
        features: list[Tensor] = []  # of the nodes of all stages so far; node 0 of a stage is its input
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
        """One plain network without a polyarch class inside: the walk of ``forward_many``, every weight there once."""
        if not architectures:
            raise InvalidInput("Expected at least one wiring. Got none.")
        return record(self, lambda x: self.forward_many(x, architectures))

    def parameter_count(self, architecture: Architecture) -> int:
        """The weights of the wiring's network: without the auxiliary classifier and the weights of other wirings."""
        unused = set() if self.auxiliary is None else set(self.auxiliary.parameters())
        for module in self.modules():
            if isinstance(module, DependentModule):
                unused.update(module.unselected(self._index(architecture)))
        return sum(parameter.numel() for parameter in self.parameters() if parameter not in unused)

    def _outputs(self, x: Tensor, architecture: Architecture | Gates) -> list[Tensor]:
        """What every stage puts out."""
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
        """Which wirings gates (E,) or (E, B) stand for."""
        bits = torch.tensor([wiring.indices for wiring in wirings], device=on.device)  # (S, E)
        equal = (bits.reshape(*bits.shape, *[1] * (on.dim() - 1)) == on).all(1)  # (S,) or (S, B)
        if not equal.any(0).all():
            raise InvalidInput(
                f"Expected gates of the {len(wirings)} wirings with weights of their own. Got gates of something else."
            )
        indices = equal.int().argmax(0)
        if on.dim() == 1:
            return ReadAs(int(indices))
        used, rows = indices.unique(return_inverse=True)
        return ReadAsEach(tuple(used.tolist()), rows)


def _classifier(width: int, classes: int) -> nn.Sequential:
    return nn.Sequential(nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, classes))


def _sorting_key(readings: Sequence[Reading | None]) -> list[tuple[int, ...]]:
    """Puts wirings next to those with which they have most in common."""
    return [
        reading.sources if isinstance(reading, Read) else (reading.wiring,)
        for reading in readings
        if isinstance(reading, Read | ReadAs)
    ]
