"""A fully connected network for tables whose widths, depth, numeric embedding and dropout are choices.

Residual blocks and embeddings of numbers: Gorishniy et al. (2021), "Revisiting Deep Learning Models for Tabular Data",
arXiv:2106.11959; Gorishniy, Rubachev and Babenko (2022), "On Embeddings for Numerical Features in Tabular Deep
Learning", arXiv:2203.05556.
"""

from collections.abc import Sequence
from typing import get_args

from torch import Tensor, nn

from polyarch.errors import InvalidInput
from polyarch.nn import ElasticBatchNorm1d, ElasticLinear, OneOf, Sizes, call
from polyarch.nn.byte_dropout import ByteDropout
from polyarch.nn.numeric_embeddings import Embedding, numeric_embedding
from polyarch.nn.path_recording import Composed
from polyarch.supernets.elastic import ElasticSupernet, elastic, elastic_depth, require_positive


class ElasticMLPSupernet(ElasticSupernet):
    """A residual network of fully connected blocks: a_0 = f_0(x), a_i = a_{i-1} + f_i(a_{i-1}), y = head(a_d).

    A block is BN-ReLU-Linear-BN-ReLU-Dropout-Linear. The choices are ``embedding`` of the inputs, ``width`` of all a_i,
    ``dropout`` of all blocks, ``depth`` d, and the inner widths ``block0``, ``block1`` ... Narrow networks use slices
    of the weights of wide ones. What has a single option is no choice.

    Args:
        features: numbers per example; examples of other shapes are flattened.
        classes: the number of outputs.
        max_depth: the largest d; the smallest is 1.
        dropouts: probabilities to drop an inner feature in training. Scores that compare training losses prefer the
            smallest.
        embedding_size: of every number.
    """

    def __init__(
        self,
        *,
        features: int,
        classes: int,
        widths: Sequence[int] = (32, 64, 128),
        max_depth: int = 4,
        inner_widths: Sequence[int] = (64, 128, 256),
        embeddings: Sequence[Embedding] = ("none",),
        embedding_size: int = 8,
        dropouts: Sequence[float] = (0.0,),
    ) -> None:
        require_positive(features=features, classes=classes, max_depth=max_depth, embedding_size=embedding_size)
        require_positive(widths=widths, inner_widths=inner_widths)
        require_choices(embeddings, dropouts)
        width = elastic("width", widths)
        stems: dict[str, nn.Module] = {name: _stem(name, features, width, embedding_size) for name in embeddings}
        stem = OneOf("embedding", **stems) if len(stems) > 1 else stems[embeddings[0]]
        blocks = [_Block(width, elastic(f"block{i}", inner_widths), dropouts) for i in range(max_depth)]
        head = [ElasticBatchNorm1d(width), nn.ReLU(), ElasticLinear(width, classes)]
        super().__init__(nn.Sequential(nn.Flatten(), stem, elastic_depth("depth", blocks), *head), name="mlp")


class _Block(Composed):
    """(B, width) -> (B, width)."""

    def __init__(self, width: int | Sizes, inner: int | Sizes, dropouts: Sequence[float]) -> None:
        super().__init__()
        self.body = nn.Sequential(
            ElasticBatchNorm1d(width),
            nn.ReLU(),
            ElasticLinear(width, inner),
            ElasticBatchNorm1d(inner),
            nn.ReLU(),
            dropout(dropouts),
            ElasticLinear(inner, width),
        )

    def forward(self, x: Tensor) -> Tensor:
        """(B, width) -> (B, width)."""
        return x + call(self.body, x)


def _stem(name: Embedding, features: int, width: int | Sizes, size: int) -> nn.Sequential:
    embedding = numeric_embedding(name, features, size)
    if embedding is None:
        return nn.Sequential(ElasticLinear(features, width))
    return nn.Sequential(embedding, ElasticLinear(features * size, width))


def dropout(probabilities: Sequence[float]) -> nn.Module:
    """A layer whose probability to drop a feature is a choice, the same for all such layers of a network."""
    layers = {f"{p:g}": ByteDropout(p) if p else nn.Identity() for p in probabilities}
    return OneOf("dropout", tied=True, **layers) if len(layers) > 1 else next(iter(layers.values()))


def require_choices(embeddings: Sequence[str], dropouts: Sequence[float]) -> None:
    """Requires known embeddings and probabilities below 1, and one or more of each."""
    if not embeddings or not set(embeddings) <= set(get_args(Embedding)):
        raise InvalidInput(f"Expected embeddings out of {', '.join(get_args(Embedding))}. Got {list(embeddings)}.")
    if not dropouts or not all(0 <= p < 1 for p in dropouts):
        raise InvalidInput(f"Expected dropout probabilities of 0 or more and less than 1. Got {list(dropouts)}.")
