"""What a progressive search does between its stages: options that are weak go, and skips are held back (P-DARTS)."""

from torch import nn

from polyarch.distributions import FactorisedCategorical, FactorisedDirichlet
from polyarch.nn import ChoiceBlock, OneOf
from polyarch.supernets import Supernet
from polyarch.supernets.darts import EdgeOperations

Kept = dict[str, list[int]]
"""Choice -> the options that go on."""


def strongest_options(q: FactorisedCategorical | FactorisedDirichlet, most: int) -> Kept:
    """The ``most`` most probable options of every choice of an operation, in their order; wirings keep all."""
    kept: Kept = {}
    for choice in q.space.choices:
        if choice.kind != "wiring":
            order = q.mean()[choice.name].detach().argsort(descending=True, stable=True).tolist()
            kept[choice.name] = sorted(order[:most])
    return kept


def drop_skips(net: Supernet) -> list[nn.Dropout]:
    """Puts a dropout layer, of probability 0, in place of every identity that is an option of an operation choice.

    In evaluation mode it is the identity that it was.
    """
    layers: list[nn.Dropout] = []
    for module in list(net.modules()):
        if isinstance(module, ChoiceBlock | EdgeOperations | OneOf):
            options = module.options if isinstance(module, OneOf) else module.operations
            for name, operation in list(options.named_children()):
                if isinstance(operation, nn.Identity):
                    layers.append(nn.Dropout(0.0))
                    options.add_module(name, layers[-1])
    return layers
