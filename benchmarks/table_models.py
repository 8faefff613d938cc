"""What a user would try on a table instead of a search: models with their usual settings, on the same examples.

Gradient boosting, extra trees, a random forest and an SVM by scikit-learn; LightGBM and CatBoost with early stopping on
validation data; TabM by its authors, with early stopping, for as long as a search may take. The last three need
``pip install 'polyarch[benchmark]'``.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import QuantileTransformer, StandardScaler
from sklearn.svm import SVC
from torch import Tensor

Part = tuple[NDArray[np.float64], NDArray[np.int64]]
"""Encoded rows (N, F), standardised, and classes (N,)."""
Predict = Callable[[NDArray[np.float64]], NDArray[np.float64]]
"""Rows (N, F) -> probabilities (N, C)."""

EXTRA = ("lightgbm", "catboost", "tabm")
SMALLEST = 1e-6
"""Probabilities are at least so large: trees that have not seen a class in a place give it 0."""


def require_models() -> None:
    """Refuses to compare without the models that users know."""
    missing = [name for name in EXTRA if importlib.util.find_spec(name) is None]
    if missing:
        raise SystemExit(
            f"Expected the packages {', '.join(EXTRA)} for a comparison on tables. Found no {', '.join(missing)}; "
            "run: pip install 'polyarch[benchmark]'"
        )


def fitted_models(
    train: Part, valid: Part, classes: int, *, seed: int, seconds: float
) -> Iterator[tuple[str, Predict, float]]:
    """Every model by name with the processor seconds that its training took.

    Args:
        valid: for early stopping, where it is usual.
        seconds: the most that TabM may take.
    """
    import lightgbm
    from catboost import CatBoostClassifier

    boosted = lightgbm.LGBMClassifier(n_estimators=2000, learning_rate=0.05, n_jobs=1, random_state=seed, verbose=-1)
    stop = {"eval_set": [valid], "callbacks": [lightgbm.early_stopping(50, verbose=False)]}
    cat = CatBoostClassifier(
        iterations=2000, learning_rate=0.1, random_seed=seed, thread_count=1, verbose=0, allow_writing_files=False
    )
    models: dict[str, tuple[Any, dict[str, Any]]] = {
        "gradient boosting": (HistGradientBoostingClassifier(random_state=seed), {}),
        "extra trees": (ExtraTreesClassifier(500, random_state=seed), {}),
        "random forest": (RandomForestClassifier(500, random_state=seed), {}),
        "svm": (make_pipeline(StandardScaler(), SVC(C=10, probability=True, random_state=seed)), {}),
        "lightgbm": (boosted, stop),
        "catboost": (cat, {"eval_set": valid, "early_stopping_rounds": 50}),
    }
    for name, (model, options) in models.items():
        started = time.process_time()
        model.fit(*train, **options)
        yield name, model.predict_proba, time.process_time() - started
    started = time.process_time()
    predict = fitted_tabm(train, valid, classes, seed=seed, seconds=seconds)
    yield "tabm", predict, time.process_time() - started


def log_probabilities(predict: Predict, rows: NDArray[np.float64]) -> Tensor:
    """(N, F) -> (1, N, C), those of one member."""
    return torch.from_numpy(np.asarray(predict(rows), dtype=np.float64)).clamp_min(SMALLEST).log()[None]


PATIENCE = 16
BATCH = 256


def fitted_tabm(train: Part, valid: Part, classes: int, *, seed: int, seconds: float) -> Predict:
    """TabM as in its authors' example: numbers by quantiles, AdamW at 0.002, patience 16, default sizes."""
    from tabm import TabM

    torch.manual_seed(seed)
    scaler = QuantileTransformer(
        n_quantiles=max(min(len(train[0]) // 30, 1000), 10), output_distribution="normal", random_state=seed
    )
    noise = np.random.default_rng(seed).normal(0, 1e-5, train[0].shape)
    scaler.fit(train[0] + noise)

    def scaled(rows: NDArray[np.float64]) -> Tensor:
        return torch.from_numpy(scaler.transform(rows)).float()

    network = TabM.make(n_num_features=train[0].shape[1], d_out=classes)
    optimizer = torch.optim.AdamW(network.parameters(), lr=2e-3, weight_decay=3e-4)
    inputs, targets = scaled(train[0]), torch.from_numpy(train[1])
    held_out, held_out_targets = scaled(valid[0]), torch.from_numpy(valid[1])

    def probabilities(rows: Tensor) -> Tensor:
        network.eval()
        with torch.no_grad():
            found = [network(part).softmax(-1).mean(1) for part in rows.split(1024)]
        return torch.cat(found)

    best, lowest, waited, started = network.state_dict(), float("inf"), 0, time.process_time()
    while waited < PATIENCE and time.process_time() - started < seconds:
        network.train()
        for rows in _batches(len(inputs), started, seconds):
            outputs = network(inputs[rows])  # (B, K, C)
            loss = F.cross_entropy(outputs.flatten(0, 1), targets[rows].repeat_interleave(outputs.shape[1]))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        found = float(F.nll_loss(probabilities(held_out).clamp_min(SMALLEST).log(), held_out_targets))
        waited += 1
        if found < lowest:
            lowest, waited = found, 0
            best = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    network.load_state_dict(best)
    return lambda rows: probabilities(scaled(rows)).double().numpy()


def _batches(examples: int, started: float, seconds: float) -> Iterator[Tensor]:
    """Those of an epoch, as far as the time goes."""
    for rows in torch.randperm(examples).split(BATCH):
        if time.process_time() - started > seconds:
            return
        yield rows
