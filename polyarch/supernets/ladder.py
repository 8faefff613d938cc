"""Networks of a supernet that are scaled as a whole, from narrow and shallow to wide and deep."""

from polyarch.nn import ElasticConv2d, Repeat
from polyarch.nn.elastic_layers import ElasticLayer
from polyarch.spaces import Architecture
from polyarch.supernets.module import ModuleSupernet
from polyarch.supernets.supernet import Supernet


def ladder(net: Supernet) -> list[Architecture]:
    """The networks in which all widths are at one level and all depths at another; none where choices are no sizes.

    A level is a share of the options: with W levels, the most options that a width has, a choice of k options takes
    option round(w (k - 1) / (W - 1)) at level w. Widths are the `Sizes` of elastic layers, depths those of `Repeat`
    blocks. Kernels are the smallest, and other choices take their first option.

    Only supernets whose smaller networks share the weights of larger ones have sizes.

    >>> from polyarch.supernets import ResNetSupernet
    >>> net = ResNetSupernet(widths=(8, 16), max_depth=2, stages=2, kernels=(3,))
    >>> [one.key for one in ladder(net)]
    ['8|1|16|1', '8|2|16|2', '16|1|32|1', '16|2|32|2']
    """
    if not isinstance(net, ModuleSupernet):
        return []
    widths, depths, kernels = set[str](), set[str](), set[str]()
    for module in net.model.modules():
        if isinstance(module, Repeat):
            depths.add(module.choice.name)
        elif isinstance(module, ElasticLayer):
            widths |= {source.choice.name for source in (*module.inputs.sources, *module.outputs.sources)}
        if isinstance(module, ElasticConv2d):
            kernels |= {source.choice.name for source in module.kernel.sources}
    widths -= kernels
    space, found = net.space, dict[str, Architecture]()
    wide, deep = (max((len(space[name]) for name in names), default=1) for names in (widths, depths))
    for width in range(wide):
        for depth in range(deep):
            shares = dict.fromkeys(widths, _share(width, wide)) | dict.fromkeys(depths, _share(depth, deep))
            indices = (round(shares.get(choice.name, 0.0) * (len(choice) - 1)) for choice in space.choices)
            one = Architecture(space, tuple(indices))
            if one in space:
                found.setdefault(one.canonical(), one)
    return list(found.values()) if len(found) > 1 else []


def _share(level: int, levels: int) -> float:
    return level / (levels - 1) if levels > 1 else 0.0
