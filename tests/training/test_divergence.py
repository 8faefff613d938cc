"""Training that diverges stops with one sentence, and its last checkpoint is a good one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Generator, nn

import polyarch
from polyarch.data import Batch, Batches, spirals
from polyarch.errors import NotFiniteError
from polyarch.strategies import Supervised
from polyarch.training import CheckpointStore, fit


class Diverging(Supervised):
    """Goes wrong in one place after so many steps."""

    def __init__(self, where: str, after: int) -> None:
        network = nn.Linear(2, 2)
        super().__init__(network, torch.optim.SGD(network.parameters(), lr=0.1))
        self.linear = network
        self.where = where
        self.left = after

    def step(self, train: Sequence[Batch], held_out: Sequence[Batch] = (), *, generator: Generator) -> dict[str, float]:
        found = super().step(train, held_out, generator=generator)
        self.left -= 1
        if self.left == 0 and self.where == "weights":
            with torch.no_grad():
                self.linear.bias.fill_(torch.inf)
        return {**found, "loss": float("nan")} if self.left == 0 and self.where == "loss" else found

    def evaluate(self, batches: Iterable[Batch], *, generator: Generator) -> dict[str, float]:
        return {"loss": float("inf") if self.where == "valid" and self.left <= 0 else 1.0}


@pytest.mark.parametrize(
    ("where", "sentence"),
    [
        ("loss", "Expected a finite loss. Got nan in epoch 1, step 6; try a lower learning rate."),
        ("valid", "Expected a finite valid_loss. Got inf in epoch 1, step 10; try a lower learning rate."),
        (
            "weights",
            "Expected finite weights. Got NaN or infinity in 'bias' in epoch 1, step 7; try a lower learning rate",
        ),
    ],
)
def test_the_sentence_names_the_epoch_and_the_last_checkpoint_is_good(
    where: str, sentence: str, tmp_path: Path
) -> None:
    store = CheckpointStore(tmp_path)
    batches = Batches(spirals(40, seed=0), 8)
    with pytest.raises(NotFiniteError) as caught:
        fit(Diverging(where, 7), batches, batches, epochs=3, seed=0, checkpoints=store, checkpoint_seconds=0)
    assert str(caught.value).startswith(sentence)
    kept = store.load()
    assert kept is not None and kept["step"] == (9 if where == "valid" else 6)
    assert all(value.isfinite().all() for value in kept["parts"]["network"].values())


def test_weights_that_the_last_step_breaks_are_noticed() -> None:
    batches = Batches(spirals(40, seed=0), 8)
    with pytest.raises(NotFiniteError, match="Expected finite weights"):
        fit(Diverging("weights", 5), batches, epochs=1, seed=0)


TINY: dict[str, Any] = {
    "data.limit": 40, "space.width": 8, "train.epochs": 1, "scores.steps": 1, "rank.architectures": 0,
    "search.budget": 2, "search.window": 2, "search.population": 2, "search.tournament": 2, "retrain.epochs": 2,
    "retrain.seeds": 1, "retrain.members": 1, "retrain.random_architectures": 0, "programs": [],
}  # fmt: skip


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("train.learning_rate", "of the supernet .*; try a lower train.learning_rate than 1e"),
        (
            "retrain.learning_rate",
            r"in epoch \d, step \d of the network .* in stage 'retrain'; try a lower retrain.learning_rate than 1e.*; "
            "the last good checkpoint is kept",
        ),
    ],
)
def test_runs_name_stage_network_and_setting(setting: str, sentence: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"method": "one-shot", "space": "mlp", "quiet": True, "report": False}
    with pytest.raises(NotFiniteError, match=sentence) as caught:
        polyarch.search("spirals", out=tmp_path / "run", settings={**TINY, setting: 1e30}, **options)
    assert "\n" not in str(caught.value)
