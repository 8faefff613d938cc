"""Built-in networks of elastic layers keep the contract, and their sizes and counts are those of extracted networks."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from polyarch.errors import InvalidInput
from polyarch.nn import ElasticLayer
from polyarch.randomness import generator_at, global_seed
from polyarch.spaces import Architecture, Space
from polyarch.supernets import ElasticMLPSupernet, MobileSupernet, PooledSupernet, ResNetSupernet, Supernet
from polyarch.testing import SpaceContract, SupernetContract

SHAPES = [(1, 8, 8), (1, 28, 28), (3, 32, 32)]


def images(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, dtype=dtype, generator=generator_at(0, "inputs"))


def small_resnet(**options: int) -> ResNetSupernet:
    return ResNetSupernet(**{"in_channels": 1, "classes": 3, "widths": (2, 3), "max_depth": 2, "stages": 2, **options})  # type: ignore[arg-type]


def smallest(space: Space) -> Architecture:
    return space.architecture([choice.options[0] for choice in space.choices])


def largest(space: Space) -> Architecture:
    return space.architecture([choice.options[-1] for choice in space.choices])


class TestResNet(SupernetContract):
    def make_supernet(self) -> Supernet:
        return small_resnet().double()

    def make_inputs(self) -> Tensor:
        return images(6, 1, 7, 6)

    def make_architectures(self, space: Space) -> list[Architecture]:
        return [smallest(space), *super().make_architectures(space)[:1], largest(space)]


class TestResNetOfLargestKernelsInChannelsLast(TestResNet):
    """In single precision and the memory format of training; without transforms gradients have equal norms."""

    tolerance = 1e-4

    def make_supernet(self) -> Supernet:
        net = ResNetSupernet(widths=(4, 8), max_depth=2, kernels=(3,), stages=2, classes=1, stem_stride=2)
        return net.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]

    def make_inputs(self) -> Tensor:
        return images(4, 3, 9, 9, dtype=torch.float32).contiguous(memory_format=torch.channels_last)

    def make_architectures(self, space: Space) -> list[Architecture]:
        return super().make_architectures(space)[:2]


class TestPooled(SupernetContract):
    def make_supernet(self) -> Supernet:
        return PooledSupernet(
            widths=(4, 6), max_depth=1, plain_widths=(2, 3), stages=2, classes=3, in_channels=1
        ).double()

    def make_inputs(self) -> Tensor:
        return images(6, 1, 7, 6)

    def make_architectures(self, space: Space) -> list[Architecture]:
        plain = space.architecture({**smallest(space).to_dict(), "family": "plain", "plain.width": "3"})
        return [smallest(space), plain, space.architecture({**largest(space).to_dict(), "family": "pooled"})]


def test_both_views_are_the_mean_of_an_image_and_its_mirror_image() -> None:
    net = PooledSupernet(widths=(4, 6), max_depth=1, stages=2, classes=3, in_channels=1).double().eval()
    one = smallest(net.space)
    both = net.space.architecture({**one.to_dict(), "view": "both"})
    x = images(3, 1, 8, 8)
    torch.testing.assert_close(net(x, both), (net(x, one) + net(x.flip(-1), one)) / 2)
    assert net.parameter_count(both) == net.parameter_count(one)
    assert net.mac_count(both, x) == 2 * net.mac_count(one, x)
    extracted = net.extract(one).state_dict()
    assert net.extract(both).state_dict().keys() == extracted.keys()  # so that weights can be handed over


class TestMobile(SupernetContract):
    def make_supernet(self) -> Supernet:
        return MobileSupernet(
            widths=(4, 6), max_depth=2, expansions=(2, 3), stages=2, head_channels=5, classes=3, in_channels=1
        ).double()

    def make_inputs(self) -> Tensor:
        return images(6, 1, 7, 6)

    def make_architectures(self, space: Space) -> list[Architecture]:
        return [*super().make_architectures(space)[:2], largest(space)]


class TestMLP(SupernetContract):
    def make_supernet(self) -> Supernet:
        return ElasticMLPSupernet(
            features=6, classes=1, widths=(3, 5), max_depth=2, inner_widths=(2, 4, 6),
            embeddings=("none", "periodic", "piecewise"), embedding_size=2,
        ).double()  # fmt: skip

    def make_inputs(self) -> Tensor:
        return images(8, 2, 3)

    def make_architectures(self, space: Space) -> list[Architecture]:
        base = largest(space)
        return [smallest(space), base, *(base.replace(embedding=name) for name in ("none", "periodic"))]


class TestSpaceOfMobile(SpaceContract):
    def make_space(self) -> Space:
        return MobileSupernet(max_depth=2, stages=1).space


def agree(net: Supernet, architecture: Architecture, x: Tensor) -> None:
    """The extracted network has the counted size and computes what the path computes, hard or with one-hot gates."""
    network = net.extract(architecture).eval()
    sizes = [parameter.numel() for parameter in network.parameters()]
    assert net.parameter_count(architecture) == sum(sizes)
    assert not any(isinstance(module, ElasticLayer) for module in network.modules())
    with torch.no_grad():
        expected = network(x)
        torch.testing.assert_close(net(x, architecture), expected, rtol=1e-8, atol=1e-10)
        torch.testing.assert_close(net(x, architecture.one_hot()), expected, rtol=1e-8, atol=1e-10)


def trained(net: Supernet) -> Supernet:
    """With weights, scales and statistics that differ from channel to channel."""
    generator = generator_at(0, "trained")
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
        for name, buffer in net.named_buffers():
            if buffer.is_floating_point():
                noise = torch.rand(buffer.shape, generator=generator)
                buffer.copy_(noise + 0.5 if name.endswith("var") else noise)
    return net.double().eval()


def check_random_architectures(shape: tuple[int, ...], count: int) -> None:
    net = trained(ResNetSupernet(in_channels=shape[0], stages=2 if shape[1] < 16 else 3))
    counts = set()
    for position in range(count):
        architecture = net.space.sample(generator_at(0, "architecture", position))
        agree(net, architecture, images(2, *shape))
        counts.add(net.parameter_count(architecture))
    assert len(counts) > count // 2


@pytest.mark.parametrize("shape", SHAPES[:2])
def test_random_resnets_have_the_sizes_of_their_extracted_networks(shape: tuple[int, ...]) -> None:
    check_random_architectures(shape, 4)


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_200_random_resnets_have_the_sizes_of_their_extracted_networks(shape: tuple[int, ...]) -> None:
    check_random_architectures(shape, 200)


def test_sizes_of_resnets_for_images_of_32_pixels() -> None:
    net = ResNetSupernet()
    assert 4_000 < net.parameter_count(smallest(net.space)) < 6_000
    assert 2_000_000 < net.parameter_count(largest(net.space)) < 6_000_000
    assert net.mac_count(smallest(net.space), (3, 32, 32)) < 1e6


def test_a_resnet_counted_by_hand() -> None:
    """Width w, kernel k: a block has 2 k^2 w^2 + 4 w weights; one between stages k^2 (v w + w^2) + v w + 2 (v + w)."""
    net = small_resnet()
    options = {
        "stage1.width": "3", "stage1.kernel": "5", "stage1.depth": "2",
        "stage2.width": "4", "stage2.kernel": "3", "stage2.depth": "1",
    }  # fmt: skip
    first, between = 2 * 25 * 9 + 4 * 3, 9 * (3 * 4 + 4 * 4) + 3 * 4 + 2 * (3 + 4)
    expected = 9 * 3 + 2 * first + between + 2 * 4 + (4 * 3 + 3)
    assert net.parameter_count(net.space.architecture(options)) == expected
    pixels = 8 * 8
    macs = pixels * (9 * 3 + 2 * 2 * 25 * 9) + pixels // 4 * (9 * (3 * 4 + 4 * 4) + 3 * 4) + 4 * 3
    assert net.mac_count(net.space.architecture(options), (1, 8, 8)) == macs


def test_choices_of_blocks_beyond_the_depth_do_not_distinguish() -> None:
    net = MobileSupernet(max_depth=2, stages=1, widths=(4, 8))
    shallow = net.space.architecture(
        {c.name: "1" if c.name.endswith("depth") else c.options[0] for c in net.space.choices}
    )
    moved = shallow.replace(**{"stage1.block2.kernel": "5", "stage1.block2.squeeze": "on"})
    assert moved != shallow and moved.canonical() == shallow.canonical()
    assert shallow.replace(**{"stage1.block1.kernel": "5"}).canonical() != shallow.canonical()
    assert shallow.replace(**{"stage1.width": "8"}).canonical() != shallow.canonical()


def test_squeeze_and_excitation_is_chosen_block_by_block() -> None:
    net = MobileSupernet(max_depth=1, stages=1, widths=(4, 8))
    on = largest(net.space)
    off = on.replace(**{"stage1.block1.squeeze": "off"})
    hidden = 8 * 6
    narrow = hidden // 4
    assert net.parameter_count(on) - net.parameter_count(off) == 2 * hidden * narrow + hidden + narrow


def test_dropout_is_one_choice_for_all_blocks() -> None:
    net = ElasticMLPSupernet(features=4, classes=2, widths=(4,), max_depth=3, inner_widths=(8,), dropouts=(0.0, 0.25))
    assert net.space.choice_names == ("depth", "dropout") and net.space["dropout"].options == ("0", "0.25")
    network = net.extract(largest(net.space))
    assert [part.p for part in network.modules() if isinstance(part, nn.Dropout)] == [0.25] * 3
    assert not any(isinstance(part, nn.Dropout) for part in net.extract(smallest(net.space)).modules())


def test_a_single_option_is_no_choice() -> None:
    net = small_resnet(max_depth=1)
    assert not any(name.endswith("depth") for name in net.space.choice_names)
    with pytest.raises(InvalidInput, match="with Sizes, among the submodules"):
        ResNetSupernet(widths=(4,), kernels=(3,), max_depth=1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ResNetSupernet(widths=()), r"Expected 1 or more widths. Got \(\)."),
        (lambda: ResNetSupernet(classes=0), "Expected 1 or more classes. Got 0."),
        (lambda: ResNetSupernet(kernels=(2, 3)), "all odd or all even"),
        (lambda: MobileSupernet(expansions=(0, 2)), "Expected 1 or more expansions"),
        (lambda: ElasticMLPSupernet(features=3, classes=2, embeddings=("fourier",)), "Expected embeddings out of none"),  # type: ignore[arg-type]
        (lambda: ElasticMLPSupernet(features=3, classes=2, dropouts=(1.0,)), "Expected dropout probabilities"),
    ],
)
def test_impossible_networks(make: object, message: str) -> None:
    assert callable(make)
    with pytest.raises(InvalidInput, match=message):
        make()


def test_networks_of_one_seed_are_alike() -> None:
    nets = []
    for _ in range(2):
        with global_seed(0, "net"):
            nets.append(small_resnet())
    first, second = nets
    architecture = smallest(first.space)
    x = images(2, 1, 8, 8, dtype=torch.float32)
    assert first.eval()(x, architecture).equal(second.eval()(x, architecture))
