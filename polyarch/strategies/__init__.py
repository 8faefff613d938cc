"""Strategies: how one training step updates weights and distributions over architectures."""

from polyarch.strategies.bilevel import Bilevel
from polyarch.strategies.consistency import Consistency, DropoutPass, RandomPass, WiringPass
from polyarch.strategies.distilled import Distilled
from polyarch.strategies.hypergradients import HeldOutLoss, Hypergradient, LossSum, take_step
from polyarch.strategies.inner_loops import InnerLoop, InnerSteps, PathGradients
from polyarch.strategies.mixed_supernet import MixedSupernet, Weighing
from polyarch.strategies.one_shot import OneShot
from polyarch.strategies.paths import FairPaths, PathSampler, RandomPaths, SandwichPaths
from polyarch.strategies.posterior_guided import GuidedDepth, PosteriorGuided
from polyarch.strategies.sandwich import Sandwich
from polyarch.strategies.stochastic import DrawUnit, StochasticArchitectures
from polyarch.strategies.strategy import Loss, Stateful, Strategy, measure
from polyarch.strategies.supervised import Supervised, SupervisedWithAuxiliary
from polyarch.strategies.unrolled_hypergradients import UnrolledLoss, UnrolledLossSum
from polyarch.strategies.variational import Variational

__all__ = [
    "Bilevel", "Consistency", "Distilled", "DrawUnit", "DropoutPass", "FairPaths", "GuidedDepth", "HeldOutLoss",
    "Hypergradient", "InnerLoop", "InnerSteps", "Loss", "LossSum", "MixedSupernet", "OneShot", "PathGradients",
    "PathSampler", "PosteriorGuided", "RandomPass", "RandomPaths", "Sandwich", "SandwichPaths", "Stateful",
    "StochasticArchitectures", "Strategy", "Supervised", "SupervisedWithAuxiliary", "UnrolledLoss", "UnrolledLossSum",
    "Variational", "Weighing", "WiringPass", "measure", "take_step",
]  # fmt: skip
