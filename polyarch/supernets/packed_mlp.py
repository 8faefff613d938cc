"""A fully connected network for tables that holds several members, which share most of their weights.

Gorishniy, Kotelnikov and Babenko (2024), "TabM: Advancing Tabular Deep Learning with Parameter-Efficient Ensembling",
arXiv:2410.24210.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from polyarch.errors import InvalidInput
from polyarch.nn import OneOf, call
from polyarch.nn.member_layers import MemberHeads, MemberLinear, MemberMixture, Mix, Scales, mix_classes
from polyarch.nn.numeric_embeddings import Embedding, numeric_embedding
from polyarch.nn.path_recording import Composed
from polyarch.supernets.elastic import ElasticSupernet, elastic_depth, require_positive
from polyarch.supernets.elastic_mlp import dropout, require_choices


class PackedMLPSupernet(ElasticSupernet):
    """K fully connected networks in one: a_1 = f_1(x), a_i = f_i(a_{i-1}), y = mix_k head_k(a_{d,k}).

    A block f_i is Linear-ReLU-Dropout, of whose weights members have their own rank-1 scaling; see `MemberLinear`. The
    choices are the ``embedding`` of the inputs, the ``depth`` d and the ``dropout`` of all blocks. What has a single
    option is no choice. The output is the mixture of all members, by default of classes; see `mix_by`.

    Args:
        features: numbers per example; examples of other shapes are flattened.
        classes: the number of outputs.
        members: K.
        width: of the features a_i of a member.
        max_depth: the largest d; the smallest is 1.
        numbers: the leading features that are embedded; those behind them, such as one-hot categories, are not. All by
            default.
        embedding_size: of every number.
    """

    def __init__(
        self,
        *,
        features: int,
        classes: int,
        members: int = 16,
        width: int = 128,
        max_depth: int = 3,
        embeddings: Sequence[Embedding] = ("none", "periodic", "piecewise"),
        dropouts: Sequence[float] = (0.0, 0.1, 0.3),
        numbers: int | None = None,
        embedding_size: int = 8,
    ) -> None:
        require_positive(features=features, classes=classes, members=members, width=width, max_depth=max_depth)
        require_choices(embeddings, dropouts)
        numbers = features if numbers is None else numbers
        if not 0 <= numbers <= features:
            raise InvalidInput(f"Expected up to {features} features that are numbers. Got {numbers}.")
        stems: dict[str, nn.Module] = {
            name: _Stem(name, numbers, features - numbers, members=members, width=width, embedding_size=embedding_size)
            for name in embeddings
        }
        stem = OneOf("embedding", **stems) if len(stems) > 1 else stems[embeddings[0]]
        blocks = [
            nn.Sequential(*([MemberLinear(members, width, width)] if place else []), nn.ReLU(), dropout(dropouts))
            for place in range(max_depth)
        ]  # the first linear layer is that of the stem
        layers = [nn.Flatten(), stem, elastic_depth("depth", blocks), MemberHeads(members, width, classes)]
        super().__init__(nn.Sequential(*layers, MemberMixture(mix_classes)), name="packed")

    def mix_by(self, mix: Mix) -> None:
        """Mixes the outputs of members as the task does."""
        assert isinstance(self.model, nn.Sequential)
        self.model[-1] = MemberMixture(mix)


class _Stem(Composed):
    """Embeds the leading numbers, leaves the other features, and hands all to every member: (B, F) -> (B, K, width)."""

    def __init__(
        self, name: Embedding, numbers: int, others: int, *, members: int, width: int, embedding_size: int
    ) -> None:
        super().__init__()
        self.embedding = numeric_embedding(name, numbers, embedding_size) if numbers else None
        self.numbers, self.others = numbers, others
        embedded = numbers if self.embedding is None else numbers * embedding_size
        # As in the paper: signs for numbers as they are, normal numbers for embedded ones.
        scales: Scales = "signs" if self.embedding is None else "normal"
        self.linear = MemberLinear(members, embedded + others, width, scales=scales)

    def forward(self, x: Tensor) -> Tensor:
        """(B, F) -> (B, K, width)."""
        if self.embedding is not None:
            embedded = call(self.embedding, x[:, : self.numbers])
            x = torch.cat([embedded, x[:, self.numbers :]], 1) if self.others else embedded
        return call(self.linear, x.unsqueeze(1))
