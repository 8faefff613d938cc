"""Zero-cost proxies that move the inputs of a network: the covariance of Jacobians, and the Zen-score.

Jacobian covariance: Mellor, Turner, Storkey and Crowley (2020), "Neural Architecture Search without Training", first
version, arXiv:2006.04647v1. Zen-score: Lin, Wang, Sun, Chen, Sun, Qian, Li and Jin (2021), "Zen-NAS: A Zero-Shot NAS
for High-Performance Deep Image Recognition", arXiv:2102.01063.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils._python_dispatch import TorchDispatchMode

from polyarch.data import Inputs, NamedInputs
from polyarch.errors import InvalidInput
from polyarch.estimators.zero_cost import BatchProxy, FreshNetwork, ZeroCostEstimator
from polyarch.nn import BatchStatistics, example_input
from polyarch.randomness import generator_at

FLOOR = 1e-5
"""Added to eigenvalues, as in the paper."""


class JacobianCovariance(BatchProxy):
    """How differently outputs depend on the inputs of different examples: -sum_i (log(v_i + k) + 1 / (v_i + k)).

    v are the eigenvalues of the (B, B) correlation matrix of the rows of J: J_n is the gradient of the sum of all
    outputs for the input of example n, and k is 1e-5. Rows that are not correlated have v = 1 and the highest score.
    Targets are not read.
    """

    name = "jacob_cov"

    def read(self, network: nn.Module, inputs: Inputs, targets: Tensor) -> float:
        """The score; NaN where an input changes nothing."""
        moved = _numbers(inputs)
        for one in moved:
            one.requires_grad_()
        gradients = torch.autograd.grad(network(inputs).sum(), moved, allow_unused=True, materialize_grads=True)
        jacobian = torch.cat([gradient.flatten(1) for gradient in gradients], dim=1).double()  # (B, inputs)
        correlations = torch.corrcoef(jacobian)
        if not correlations.isfinite().all():
            return math.nan
        values = torch.linalg.eigvalsh(correlations).clamp_min(0) + FLOOR
        return -float((values.log() + 1 / values).sum())


def _numbers(inputs: Inputs) -> list[Tensor]:
    """The inputs that can be moved."""
    tensors = [one for _, one in inputs.items()] if isinstance(inputs, NamedInputs) else [inputs]
    found = [one for one in tensors if one.is_floating_point()]
    if not found:
        raise InvalidInput("Expected inputs of numbers, which can be moved a little. Got only whole numbers.")
    return found


class Zen(ZeroCostEstimator):
    """How expressive the features of a network are: log E ||f(x) - f(x + a e)||_F + sum_l log s_l.

    x and e are standard normal, a is 0.01, all weights of layers are drawn from a standard normal distribution, and f
    are the features of an image before they are pooled for the classifier. s_l^2 is the mean variance over the channels
    of batch normalisation layer l, which without this term would hide how large its inputs are.

    Args:
        example: a batch or the shape of one example, as in `MACs`.
        pairs: how many x and e the expectation is over.
        seed: of weights and inputs.
        fresh: see `ZeroCostEstimator`.
    """

    name = "zen"

    def __init__(
        self, example: Inputs | Sequence[int], *, pairs: int = 32, seed: int = 0, fresh: FreshNetwork | None = None
    ) -> None:
        super().__init__(fresh=fresh)
        self.example = example
        self.pairs = pairs
        self.seed = seed

    @property
    def policy(self) -> str:
        """The batch-statistics policy in words."""
        return str(BatchStatistics())

    @torch.no_grad()
    def value(self, network: nn.Module) -> float:
        """The score; minus infinity where the inputs change nothing."""
        if isinstance(self.example, NamedInputs):
            raise InvalidInput(f"Expected networks with one input for the Zen-score. Got {len(self.example.keys())}.")
        generator = generator_at(self.seed, "zen")
        for parameter in network.parameters():
            if parameter.dim() > 1:
                parameter.copy_(torch.randn(parameter.shape, generator=generator))
        BatchStatistics().prepare(network, ())
        (one,) = _numbers(example_input(network, self.example))
        x, noise = (torch.randn(self.pairs, *one.shape[1:], generator=generator).to(one) for _ in range(2))
        with _scales(network) as scales:
            features = _features(network, x)
            logarithms = sum(math.log(scale) if scale > 0 else -math.inf for scale in scales)
        distances = (features - _features(network, x + STEP * noise)).double().flatten(1).norm(dim=1)
        return float(distances.mean().log()) + logarithms


STEP = 0.01
"""How far inputs are moved."""


@contextmanager
def _scales(network: nn.Module) -> Iterator[list[float]]:
    """Collects the roots of the mean variances of what enters batch normalisation inside the block."""
    found: list[float] = []

    def keep(layer: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        x = inputs[0].double().movedim(1, 0).flatten(1)  # (C, B places)
        found.append(math.sqrt(x.var(1, correction=0).mean().item()))

    layers = [layer for layer in network.modules() if isinstance(layer, _BatchNorm)]
    hooks = [layer.register_forward_pre_hook(keep) for layer in layers]
    try:
        yield found
    finally:
        for hook in hooks:
            hook.remove()


def _features(network: nn.Module, x: Tensor) -> Tensor:
    """(B, C, H, W) before the last pooling over all places or, without one, the outputs of the network."""
    with _LastPooled() as recorded:
        outputs: Tensor = network(x)
    return outputs if recorded.features is None else recorded.features


aten: Any = torch.ops.aten
POOLINGS = {aten.mean, aten._adaptive_avg_pool2d}


class _LastPooled(TorchDispatchMode):
    """Keeps what the last pooling of images to single places was given inside the block."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.features: Tensor | None = None

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        outputs = func(*args, **(kwargs or {}))
        if func.overloadpacket in POOLINGS and args[0].dim() == 4 and outputs.numel() == math.prod(args[0].shape[:2]):
            self.features = args[0]
        return outputs
