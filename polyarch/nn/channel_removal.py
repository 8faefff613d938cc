"""Makes networks smaller by removing the channels that no layer reads.

The network is recorded as a ``torch.fx`` graph. Two passes determine for every value

    forwards    which channels are zero for any input: dropped ones, and those computed from zeros alone; and which are
                fixed, the same for any input: what biases and normalisations make of zeros, and what follows from it
    backwards   which channels are read: layers read no dropped channels, additions read no zeros

and only channels that are read and not fixed remain. A layer keeps the rows of its kernel that are read and the columns
that it reads; if it reads fewer channels than its producer makes for others, it selects them by index. What constants
contribute to a layer goes into its bias. One pass in each direction suffices because constants do not depend on
readers.

Unknown operations are assumed to read and make all channels: then the result is correct, if larger than necessary.
Pruning libraries remove a channel from its producer and all readers at once; here, different readers of a value may
drop different channels.
"""

from collections import Counter
from collections.abc import Mapping
from functools import cached_property

from torch import Tensor, fx, nn

from polyarch.data.named_inputs import Inputs
from polyarch.nn.channel_classes import ChannelClasses, channel_classes
from polyarch.nn.channel_flow import ChannelFlow
from polyarch.nn.channel_gates import gated, sliced
from polyarch.nn.channel_operations import channel_axes, rule_of
from polyarch.nn.channel_recording import Recording, recorded
from polyarch.nn.channel_rules import Rule
from polyarch.nn.path_recording import NetworkCost


class ChannelGraph:
    """A network with gates, recorded once, from which channels can be removed again and again.

    Every removal copies the current weights of the network, whose ``forward`` must not change.

    Args:
        model: a network with gates, see `polyarch.nn.channel_gates`; not modified.
        example: a batch of inputs, (B, ...).
    """

    def __init__(self, model: nn.Module, example: Inputs) -> None:
        self.model = model
        self.example = example

    def removed(self, keep: Mapping[str, Tensor]) -> nn.Module:
        """A plain module with its own weights that computes the same as the gated network with dropped channels.

        It does so for images of any size, in evaluation and training mode; except that branches of ``forward`` on the
        mode are recorded for evaluation, and that constants are what batch normalisation makes of them in evaluation.

        Args:
            keep: gate name -> which channels it keeps, boolean (K,).
        """
        flow = self._flow(keep)
        for node in self._left(flow):
            flow.made[node] = self._rules[node].make(flow, node)
        return flow.network()

    def cost(self, keep: Mapping[str, Tensor]) -> NetworkCost:
        """The cost of the smaller network, computed without building it."""
        flow = self._flow(keep)
        sizes: dict[nn.Parameter, int] = {}
        macs = 0.0
        for node in self._left(flow):
            node_sizes, node_macs = self._rules[node].cost(flow, node)
            sizes |= node_sizes  # parameters that several nodes share count once
            macs += node_macs
        constants = sum(int(wanted.sum()) for wanted in flow.wanted.values())
        return NetworkCost(sum(sizes.values()) + constants, macs)

    def folds(self, keep: Mapping[str, Tensor]) -> bool:
        """Whether there are constants other than zero; what the network makes of them depends on its mode."""
        flow = self._flow(keep)
        return any(bool(flow.constants(node).any()) for node in flow.fixed)

    def ignores_input(self, keep: Mapping[str, Tensor]) -> bool:
        """Whether nothing is read of the input, so that the output is the same for all examples."""
        flow = self._flow(keep)
        return not any(bool(read.any()) for node, read in flow.read.items() if node.op == "placeholder")

    def gate_macs(self) -> dict[str, float]:
        """Gate name -> multiply-accumulates per example of the operations that read through the gate."""
        found: dict[str, float] = {}
        for node in self._recording.network.graph.nodes:
            if node.target is gated:
                name = str(node.args[1])
                found[name] = found.get(name, 0.0) + sum(self._recording.macs[user] for user in node.users)
        return found

    def classes(self) -> ChannelClasses:
        """Which channels belong together because they are added to, or multiplied by, each other."""
        flow = ChannelFlow(self.model, self._recording, self._axes, self._rules, {})
        return channel_classes(flow, self._rules)

    def readers(self) -> dict[str, list[str]]:
        """Gate name -> the convolutions and linear layers that read its channels next, across other operations."""
        found: dict[str, list[str]] = {}
        for node in self._recording.network.graph.nodes:
            if node.target is gated:
                names, seen, following = found.setdefault(str(node.args[1]), []), {node}, list(node.users)
                for user in following:  # grows on the way
                    if user not in seen and user.op == "call_module" and sliced(self._module(user)):
                        names.append(str(user.target))
                    elif user not in seen:
                        following += user.users
                    seen.add(user)
        return found

    def _module(self, node: fx.Node) -> nn.Module:
        return self._recording.network.get_submodule(str(node.target))

    def _flow(self, keep: Mapping[str, Tensor]) -> ChannelFlow:
        """Determines which channels are zero or fixed, from input to output, and which are read, the other way."""
        rules, kept = self._rules, {name: mask.cpu().bool() for name, mask in keep.items()}
        flow = ChannelFlow(self.model, self._recording, self._axes, rules, kept)
        nodes = list(rules)
        for node in nodes:
            flow.zero[node] = rules[node].zero(flow, node)
            flow.fixed[node] = flow.zero[node] | rules[node].fixed(flow, node)
            flow.read[node] = flow.nothing(node)
            flow.wanted[node] = flow.nothing(node)
        for node in reversed(nodes):
            if flow.read[node].any() or node.op == "output":
                for source, wanted in rules[node].reads(flow, node):
                    flow.read[source] |= wanted & ~flow.fixed[source]
                    flow.wanted[source] |= wanted & flow.constants(source)
        return flow

    def _left(self, flow: ChannelFlow) -> list[fx.Node]:
        return [node for node, read in flow.read.items() if read.any() or node.op in ("output", "placeholder")]

    @cached_property
    def _recording(self) -> Recording:
        return recorded(self.model, self.example)

    @cached_property
    def _rules(self) -> dict[fx.Node, Rule]:
        flow = ChannelFlow(self.model, self._recording, self._axes, {}, {})
        network = self._recording.network
        cuttable = _cuttable(network)
        return {node: rule_of(flow, node, network, cuttable) for node in network.graph.nodes}

    @cached_property
    def _axes(self) -> dict[fx.Node, int]:
        return channel_axes(self._recording)


def _cuttable(network: fx.GraphModule) -> set[str]:
    """The layers that may be cut: called by a single node, without hooks, with weights that nothing else uses."""
    nodes = network.graph.nodes
    calls = Counter(node.target for node in nodes if node.op == "call_module")
    owners = {node.target.rpartition(".")[0] for node in nodes if node.op == "get_attr"}
    places = Counter(id(parameter) for _, parameter in network.named_parameters(remove_duplicate=False))

    def may(target: str) -> bool:
        module = network.get_submodule(target)
        plain = type(module).__module__.startswith("torch.nn.modules.")
        hooked = module._forward_pre_hooks or module._forward_hooks
        return plain and not hooked and all(places[id(parameter)] == 1 for parameter in module.parameters())

    return {target for target, count in calls.items() if count == 1 and target not in owners and may(target)}
