"""Zero-cost proxies: scores of networks that nobody has trained.

SynFlow: Tanaka, Kunin, Yamins and Ganguli (2020), "Pruning neural networks without any data by iteratively conserving
synaptic flow", arXiv:2006.05467; as a score of architectures: Abdelfattah, Mehrotra, Dudziak and Lane (2021),
"Zero-Cost Proxies for Lightweight NAS", arXiv:2101.08134. NASWOT: Mellor, Turner, Storkey and Crowley (2021), "Neural
Architecture Search without Training", arXiv:2006.04647.
"""

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.utils._python_dispatch import TorchDispatchMode

from polyarch.data import BatchSource, Inputs
from polyarch.data.named_inputs import mapped
from polyarch.errors import InvalidInput, NotFiniteError
from polyarch.estimators.estimator import Estimator
from polyarch.nn import BatchStatistics, example_input
from polyarch.spaces import Architecture
from polyarch.supernets import Supernet

FreshNetwork = Callable[[Architecture], nn.Module]
"""An architecture -> a network with weights as it would have at the start of a training of its own."""


class ZeroCostEstimator(Estimator):
    """A score of one network, read off a forward and perhaps a backward pass.

    Args:
        fresh: makes the networks that are scored. Without it they have the weights of the supernet, which are those of
            the papers as long as the supernet is untrained.
    """

    def __init__(self, *, fresh: FreshNetwork | None = None) -> None:
        self.fresh = fresh

    @abstractmethod
    def value(self, network: nn.Module) -> float:
        """The score of a network, which is a copy that may be changed; infinite or NaN where it is undefined."""

    def score(self, net: Supernet, architecture: Architecture) -> float:
        """The score of the architecture; raises `NotFiniteError` if it is not finite."""
        value = self.value(net.extract(architecture) if self.fresh is None else self.fresh(architecture))
        if not math.isfinite(value):
            raise NotFiniteError(f"Expected a finite {self.name} of {architecture.key}. Got {value}.")
        return value


class BatchProxy(ZeroCostEstimator):
    """A score of a network on one batch, with the statistics of that batch and without dropout.

    Args:
        batches: the first batch is used.
        fresh: see `ZeroCostEstimator`.
    """

    def __init__(self, batches: BatchSource, *, fresh: FreshNetwork | None = None) -> None:
        super().__init__(fresh=fresh)
        self.batches = batches

    @property
    def policy(self) -> str:
        """The batch-statistics policy in words."""
        return str(BatchStatistics())

    @abstractmethod
    def read(self, network: nn.Module, inputs: Inputs, targets: Tensor) -> float:
        """The score of a network that is ready for the batch; infinite or NaN where it is undefined."""

    def value(self, network: nn.Module) -> float:
        """The score of a network on the first batch."""
        batch = next(self.batches.epoch(0))
        BatchStatistics().prepare(network, ())
        return self.read(network, example_input(network, batch.inputs, rows=len(batch.targets)), batch.targets)


class SynFlow(ZeroCostEstimator):
    """How much flows through a network in which every weight is positive: log(1 + sum_w |w dR/d|w||).

    R is the sum of the outputs for an input of ones, with all parameters replaced by their absolute values and in
    double precision. The sum is over the weights of layers, not over biases. In a linear network R is the sum over all
    paths from an input to an output of the products of |w| along the path, and in a chain of L layers without biases
    the sum over weights is L R. As in Abdelfattah et al., normalisation is left out, and so is the ceiling of ReLU6,
    which positive weights soon reach. The logarithm keeps the order, and numbers readable.

    Args:
        example: a batch or the shape of one example, as in `MACs`; only integer inputs, such as tokens, are read.
        fresh: see `ZeroCostEstimator`.
    """

    name = "synflow"

    def __init__(self, example: Inputs | Sequence[int], *, fresh: FreshNetwork | None = None) -> None:
        super().__init__(fresh=fresh)
        self.example = example

    def value(self, network: nn.Module) -> float:
        """The logarithm of 1 + the flow."""
        network.double().eval()
        for name, layer in list(network.named_modules(remove_duplicate=False)):
            if isinstance(layer, LEFT_OUT):
                network.set_submodule(name, _Copy())
        weights = [parameter for parameter in network.parameters() if parameter.dim() > 1]
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.abs_()
        outputs = network(mapped(_ones, example_input(network, self.example)))
        gradients = torch.autograd.grad(outputs.sum(), weights, allow_unused=True)
        flows = (
            (weight * gradient).abs().sum().item()
            for weight, gradient in zip(weights, gradients, strict=True)
            if gradient is not None
        )
        return math.log1p(sum(flows))


class NASWOT(BatchProxy):
    """How differently a network treats different examples: log det K, K_ij = N_A - d_H(c_i, c_j).

    c_i is the binary code of example i: which of the N_A rectifiers of the network are active, that is, have an input
    above 0; d_H is the Hamming distance. K is (B, B). The score is undefined where K is singular: where two examples
    have the same code, or a network has fewer rectifiers than there are examples. Targets are not read; the paper has
    128 examples.
    """

    name = "naswot"

    def read(self, network: nn.Module, inputs: Inputs, targets: Tensor) -> float:
        """The logarithm of the determinant; minus infinity if the kernel is singular."""
        with torch.no_grad(), _CodeKernel(len(targets)) as recorded:
            network(inputs)
        spectrum = torch.linalg.eigvalsh(recorded.kernel)  # ascending
        rounding = len(targets) * torch.finfo(torch.float64).eps * spectrum[-1]
        return spectrum.log().sum().item() if spectrum[0] > rounding else -math.inf


LEFT_OUT = (_NormBase, nn.LayerNorm, nn.GroupNorm, nn.Hardtanh)
"""Layers without a place in a linear network; `nn.ReLU6` is an `nn.Hardtanh`."""


class _Copy(nn.Module):
    """The input itself, copied: the layer that follows may work in place, and others may read the input."""

    def forward(self, x: Tensor) -> Tensor:
        """(B, ...) -> (B, ...)."""
        return x.clone()


def _ones(inputs: Tensor) -> Tensor:
    """Ones in place of numbers; tokens and masks stay as they are."""
    return torch.ones_like(inputs) if inputs.is_floating_point() else inputs


aten: Any = torch.ops.aten
RECTIFIERS = {
    getattr(aten, name + suffix)
    for name in ("relu", "hardtanh", "leaky_relu", "elu", "silu", "hardswish", "gelu")
    for suffix in ("", "_")
}
"""Rectifiers and their smooth relatives, called through modules, as functions or in place."""


class _CodeKernel(TorchDispatchMode):
    """Adds up K over the rectifiers that run inside the block: the number of equal digits of two codes.

    Torch's own operations are watched, not modules: networks may call rectifiers as functions.
    """

    def __init__(self, examples: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.kernel = torch.zeros(examples, examples, dtype=torch.float64)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.overloadpacket in RECTIFIERS:
            examples, x = len(self.kernel), args[0]
            if len(x) % examples:
                raise InvalidInput(f"Expected rows of {examples} examples at every rectifier. Got {tuple(x.shape)}.")
            codes = (x > 0).reshape(examples, -1).double().cpu()  # (B, units)
            self.kernel += codes @ codes.T + (1 - codes) @ (1 - codes).T
        return func(*args, **(kwargs or {}))
