"""Networks that hold several members keep the contract, and each member is a network of its own weights."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from polyarch.data import Batch
from polyarch.errors import InvalidInput
from polyarch.nn.member_layers import MemberHeads, MemberLinear, member_network
from polyarch.randomness import generator_at, global_seed
from polyarch.spaces import Architecture, Space
from polyarch.strategies import Supervised
from polyarch.supernets import MLPSupernet, PackedMLPSupernet, Supernet
from polyarch.tasks import Classification, MultiLabel, OwnTask, Regression, Task
from polyarch.testing import SupernetContract

MEMBERS, FEATURES, CLASSES = 3, 5, 4


def numbers(*shape: int, stream: str = "numbers") -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=generator_at(0, stream))


def packed(**options: object) -> PackedMLPSupernet:
    sizes = {"features": FEATURES, "classes": CLASSES, "members": MEMBERS, "width": 6, "max_depth": 2, "numbers": 3}
    with global_seed(0, "packed"):
        return PackedMLPSupernet(**{**sizes, **options}).double()  # type: ignore[arg-type]


class TestPacked(SupernetContract):
    def make_supernet(self) -> Supernet:
        return packed(dropouts=(0.0,), embedding_size=2)

    def make_inputs(self) -> Tensor:
        return numbers(8, FEATURES)

    def make_architectures(self, space: Space) -> list[Architecture]:
        return [space.architecture(names) for names in (["none", "1"], ["periodic", "2"], ["piecewise", "2"])]


def member(model: nn.Module, k: int, x: Tensor) -> Tensor:
    """What member k says, with its weights written out: diag(s) W diag(r)."""
    found = x
    for layer in model.modules():
        if isinstance(layer, MemberLinear):
            weight = layer.output_scales[k][:, None] * layer.weight * layer.input_scales[k]
            found = torch.relu(F.linear(found, weight, layer.bias[k]))
        elif isinstance(layer, MemberHeads):
            found = found @ layer.weight[k] + layer.bias[k]
    return found


def plain_pair() -> tuple[nn.Module, nn.Module]:
    """A supernet's model of one architecture, with random weights, and the network that is extracted from it."""
    net = packed(embeddings=("none",), dropouts=(0.0,))
    for name, parameter in net.named_parameters():
        parameter.data = numbers(*parameter.shape, stream=name)
    return net.model, net.extract(net.space.architecture(["2"]))


def test_members_are_separate_networks() -> None:
    model, network = plain_pair()
    x = numbers(7, FEATURES)
    separate = torch.stack([member(model, k, x) for k in range(MEMBERS)])
    torch.testing.assert_close(member_network(network)(x), separate)
    torch.testing.assert_close(network(x), torch.softmax(separate, -1).mean(0).log())


def test_training_minimises_the_mean_of_the_losses_of_members() -> None:
    model, network = plain_pair()
    x, y = numbers(7, FEATURES), torch.arange(7) % CLASSES
    expected = sum(F.cross_entropy(member(model, k, x), y).item() for k in range(MEMBERS)) / MEMBERS
    trained = member_network(network)
    strategy = Supervised(trained, torch.optim.SGD(network.parameters(), 0.1), task=Classification(tuple("abcd")))
    before = network(x)
    found = strategy.step([Batch(x, y)], generator=generator_at(0, "step"))
    assert found["loss"] == pytest.approx(expected, abs=1e-12)
    assert not network(x).equal(before)  # they share their parameters
    assert trained.state_dict().keys() == network.state_dict().keys()


def test_networks_without_members_are_left_alone() -> None:
    net = MLPSupernet(features=2, classes=2, width=3, max_depth=1, inner_widths=(2, 3))
    network = net.extract(net.space.sample(generator_at(0, "draw")))
    assert member_network(network) is network
    module = nn.Linear(2, 2)
    assert member_network(module) is module


TASKS: list[tuple[Task, Tensor]] = [
    (Classification(tuple("abcd"), class_weights=(1.0, 2.0, 0.5, 1.0)), torch.arange(7) % 4),
    (Regression(("a", "b"), (3.0, -2.0), (2.0, 0.5)), numbers(7, 2, stream="targets")),
    (MultiLabel(tuple("abcd")), numbers(7, 4, stream="targets") > 0),
    (OwnTask(lambda outputs, targets: (outputs - targets).square().mean(1), size=4), numbers(7, 4, stream="targets")),
]


@pytest.mark.parametrize(("task", "targets"), TASKS, ids=lambda one: getattr(one, "kind", ""))
def test_tasks_mix_members_as_they_mix_networks(task: Task, targets: Tensor) -> None:
    outputs = numbers(MEMBERS, 7, 4, stream="outputs")
    weights = torch.full((MEMBERS,), 1 / MEMBERS, dtype=torch.float64)
    torch.testing.assert_close(task.mix_members(outputs), task.mix(outputs, weights.log()))
    torch.testing.assert_close(Task.mix_members(task, outputs), task.mix_members(outputs))
    expected = torch.stack([task.loss(one, targets) for one in outputs]).mean()
    torch.testing.assert_close(task.loss(outputs, targets), expected)
    net = packed(embeddings=("none",), dropouts=(0.0,))
    net.mix_by(task.mix_members)
    network = net.extract(net.space.architecture(["2"])).eval()
    x = numbers(7, FEATURES)
    torch.testing.assert_close(network(x), task.mix(member_network(network)(x), weights.log()))


def test_numbers_mix_by_their_moments() -> None:
    """Against draws of the mixture of two Gaussians."""
    task = Regression(("a",), (0.0,), (1.0,))
    outputs = torch.tensor([[[1.0, 0.0]], [[-2.0, 1.0]]], dtype=torch.float64)
    mean, log_variance = task.mix_members(outputs)[0].tolist()
    assert mean == pytest.approx(-0.5)
    assert log_variance == pytest.approx(torch.tensor((1 + 1.5**2 + torch.e + 1.5**2) / 2).log().item())


def test_counts_are_those_of_the_members() -> None:
    net = packed(embeddings=("none",), dropouts=(0.0,))
    shared, own = FEATURES * 6 + 6 * 6, MEMBERS * ((FEATURES + 6 + 6) + (6 + 6 + 6) + (6 * CLASSES + CLASSES))
    architecture = net.space.architecture(["2"])
    assert net.parameter_count(architecture) == shared + own
    per_member = FEATURES * 6 + 6 * 6 + 6 * CLASSES
    assert net.float().mac_count(architecture, (FEATURES,)) == MEMBERS * per_member


def test_impossible_sizes_are_refused() -> None:
    with pytest.raises(InvalidInput, match="Expected up to 5 features that are numbers"):
        packed(numbers=6)
    with pytest.raises(InvalidInput, match="Expected 1 or more members"):
        packed(members=0)
