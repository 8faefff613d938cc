"""Zero-cost proxies that read the gradient of the loss on one batch: gradient norm, SNIP, GraSP and Fisher.

As scores of architectures, all four: Abdelfattah, Mehrotra, Dudziak and Lane (2021), "Zero-Cost Proxies for Lightweight
NAS", arXiv:2101.08134. SNIP: Lee, Ajanthan and Torr (2019), "SNIP: Single-shot Network Pruning based on Connection
Sensitivity", arXiv:1810.02340. GraSP: Wang, Zhang and Grosse (2020), "Picking Winning Tickets Before Training by
Preserving Gradient Flow", arXiv:2002.07376. Fisher: Turner, Crowley, O'Boyle, Storkey and Gray (2020), "BlockSwap:
Fisher-guided Block Substitution for Network Compression on a Budget", arXiv:1906.04113.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from polyarch.data import BatchSource, Inputs
from polyarch.errors import InvalidInput
from polyarch.estimators.zero_cost import BatchProxy, FreshNetwork
from polyarch.strategies.strategy import CLASSES
from polyarch.tasks import Task


class GradientProxy(BatchProxy):
    """A score of a network from the gradients of the loss L of one batch.

    Args:
        task: whose loss it is.
        batches, fresh: see `BatchProxy`.
    """

    def __init__(self, batches: BatchSource, *, task: Task = CLASSES, fresh: FreshNetwork | None = None) -> None:
        super().__init__(batches, fresh=fresh)
        self.task = task

    @abstractmethod
    def sensitivity(self, network: nn.Module, loss: Callable[[], Tensor]) -> Tensor:
        """The score of a network whose mean loss on the batch is ``loss()``."""

    def read(self, network: nn.Module, inputs: Inputs, targets: Tensor) -> float:
        """The score of a network on a batch."""

        def loss() -> Tensor:
            outputs = network(inputs)
            return self.task.loss(outputs, targets.to(outputs.device))

        return self.sensitivity(network, loss).item()


class GradientNorm(GradientProxy):
    """How strongly the loss pulls at the weights: the sum over layers of ||dL/dW||_2."""

    name = "grad_norm"

    def sensitivity(self, network: nn.Module, loss: Callable[[], Tensor]) -> Tensor:
        """The sum of the norms."""
        return _total(gradient.norm() for _, gradient in _gradients(network, loss()))


class SNIP(GradientProxy):
    """How much the loss depends on single connections: sum_w |w dL/dw|."""

    name = "snip"

    def sensitivity(self, network: nn.Module, loss: Callable[[], Tensor]) -> Tensor:
        """The sum of the sensitivities."""
        return _total((weight * gradient).abs().sum() for weight, gradient in _gradients(network, loss()))


class GraSP(GradientProxy):
    """How much of the gradient flow would go with the weights: -sum_w w (H g)_w, g = dL/dw, H = d^2 L / dw^2."""

    name = "grasp"

    def sensitivity(self, network: nn.Module, loss: Callable[[], Tensor]) -> Tensor:
        """Minus the product of the weights with H g, which is the gradient of g . g with one of both held fixed."""
        pairs = _gradients(network, loss(), create_graph=True)
        weights = [weight for weight, _ in pairs]
        flow = _total((gradient * gradient.detach()).sum() for _, gradient in pairs)
        try:
            curved = torch.autograd.grad(flow, weights, allow_unused=True)
        except RuntimeError as error:
            if "is not implemented" not in str(error):
                raise
            raise InvalidInput(f"Expected layers with second derivatives for grasp. Found: {error}.") from None
        products = zip(weights, curved, strict=True)
        return -_total((weight * one).sum() for weight, one in products if one is not None)


class Fisher(GradientProxy):
    """How much the loss depends on whole channels: sum_c 1/2 mean_n (sum_s z_ncs dL/dz_ncs)^2.

    z are the outputs of convolutions and linear layers, n the examples of the batch, c the channels of all layers and s
    the places of a channel.
    """

    name = "fisher"

    def sensitivity(self, network: nn.Module, loss: Callable[[], Tensor]) -> Tensor:
        """The sum over the channels of all layers."""
        with _outputs_of_layers(network) as outputs:
            value = loss()
        gradients = torch.autograd.grad(value, outputs, allow_unused=True)
        products = [z * one for z, one in zip(outputs, gradients, strict=True) if one is not None]
        return _total(product.sum(-1).square().mean(0).sum() / 2 for product in products)


def _gradients(network: nn.Module, loss: Tensor, *, create_graph: bool = False) -> list[tuple[Tensor, Tensor]]:
    """The weights w of layers, which have more than one dimension, with dL/dw where the loss depends on them."""
    weights = [parameter for parameter in network.parameters() if parameter.dim() > 1]
    found = torch.autograd.grad(loss, weights, create_graph=create_graph, allow_unused=True)
    return [(weight, one) for weight, one in zip(weights, found, strict=True) if one is not None]


@contextmanager
def _outputs_of_layers(network: nn.Module) -> Iterator[list[Tensor]]:
    """Collects the outputs of convolutions and linear layers that run inside the block, as (B, channels, places)."""
    outputs: list[Tensor] = []

    def keep(layer: nn.Module, _: object, found: Tensor) -> Tensor:
        z = found if isinstance(layer, _ConvNd) else found.movedim(-1, 1)
        outputs.append(z.flatten(2) if z.dim() > 2 else z[..., None])
        back = outputs[-1].view(z.shape)  # what follows reads the collected tensor, so that it has a gradient ...
        return (back if isinstance(layer, _ConvNd) else back.movedim(1, -1)).clone()  # ... and may work in place

    layers = [layer for layer in network.modules() if isinstance(layer, _ConvNd | nn.Linear)]
    hooks = [layer.register_forward_hook(keep) for layer in layers]
    try:
        yield outputs
    finally:
        for hook in hooks:
            hook.remove()


def _total(values: Iterable[Tensor]) -> Tensor:
    """The sum, 0 of none."""
    return torch.stack([torch.zeros((), dtype=torch.float64), *(value.double() for value in values)]).sum()
