"""A schedule that fits into a number of minutes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from polyarch.errors import ConfigError
from polyarch.runs.plan import PlannedStage, in_words, total_seconds
from polyarch.runs.settings import RunSettings
from polyarch.runs.spaces import interchoice_of

CAUTION = 0.75
"""The share of the time that is planned for: machines are noisy, and the first steps tell little."""

MOST_EPOCHS = {"train": 200, "retrain": 100}


def fitted(
    settings: RunSettings,
    planned: Callable[[RunSettings], list[PlannedStage]],
    *,
    asked: RunSettings,
    stretch: bool,
) -> tuple[RunSettings, str | None]:
    """Settings whose plan takes about three quarters of ``max_minutes``, and what was changed, in words.

    Epochs and budgets shrink together until the plan fits; with ``stretch`` epochs also grow into time that is left.

    Args:
        asked: as the user gave them; what was given there stays as it is.
    """
    if settings.max_minutes is None:
        return settings, None
    allowed = 60 * settings.max_minutes
    target = CAUTION * allowed
    seconds = total_seconds(planned(settings))
    factor = 1.0
    if seconds > target:
        while seconds > target and factor > 0.005:
            factor *= 0.95
            seconds = total_seconds(planned(_scaled(settings, factor, asked)))
        if seconds > allowed:
            raise ConfigError(
                f"Expected a run of at most {in_words(allowed)}. The shortest takes about {in_words(seconds)}; "
                "data.limit keeps fewer examples, and settings that were given are not cut."
            )
    elif stretch:
        while seconds < 0.95 * target and factor < 50:
            factor *= 1.05
            seconds = total_seconds(planned(_scaled(settings, factor, asked)))
    changed = _scaled(settings, factor, asked)
    if changed == settings:
        return settings, None
    return changed, f"time: {_epochs(changed)}, so that the run takes about {in_words(seconds)} of {in_words(allowed)}"


def _epochs(settings: RunSettings) -> str:
    alone = f"{settings.retrain.epochs} for each network trained alone"
    words = {
        "variational-depth": f"up to {settings.train.epochs} epochs",
        "deterministic-depth": f"{settings.retrain.epochs} epochs for each network",
        "posterior-guided": f"{settings.train.epochs} epochs, {settings.guided.candidates} draws and {alone}",
        "stochastic": f"{settings.train.epochs} epochs under many architectures and {alone}",
    }
    return words.get(settings.method, f"{settings.train.epochs} epochs for the supernet and {alone}")


def _scaled(settings: RunSettings, factor: float, asked: RunSettings) -> RunSettings:
    """All that costs time and was not given by the user, times the factor; what is compared only shrinks."""
    shrink = min(factor, 1.0)
    change: dict[str, dict[str, Any]] = {
        "train": {"epochs": min(max(int(settings.train.epochs * factor), _least(settings)), _most("train", settings))},
        "retrain": {
            "epochs": min(max(int(settings.retrain.epochs * factor), 1), _most("retrain", settings)),
            "seeds": _shrunk(settings.retrain.seeds, shrink**0.5, least=1),
            "random_architectures": _shrunk(settings.retrain.random_architectures, shrink**0.5, least=1),
        },
        "rank": {"architectures": _shrunk(settings.rank.architectures, shrink, least=3)},
        "search": {"budget": _shrunk(settings.search.budget, shrink, least=10)},
        "guided": {
            "candidates": _shrunk(settings.guided.candidates, shrink, least=20),
            "random_candidates": _shrunk(settings.guided.random_candidates, shrink, least=5),
        },
    }
    updated = {}
    for name, values in change.items():
        given = getattr(asked, name).model_fields_set
        free = {key: value for key, value in values.items() if key not in given}
        updated[name] = getattr(settings, name).model_copy(update=free)
    return settings.model_copy(update=updated)


def _shrunk(count: int, factor: float, *, least: int) -> int:
    return max(int(count * factor), min(count, least))


def _least(settings: RunSettings) -> int:
    """Epochs of the supernet: split weights are trained apart for one epoch or more, and every stage has one."""
    if settings.differentiable.stages:
        return len(settings.differentiable.stages)
    interchoice = interchoice_of(settings.space)
    return 1 if interchoice is None or interchoice.split_epoch is None else interchoice.split_epoch + 1


def _most(section: str, settings: RunSettings) -> int:
    epochs: int = getattr(settings, section).epochs
    # What is compared with the one training of these methods has as many.
    is_one = settings.method in ("stochastic", "posterior-guided")
    return max(MOST_EPOCHS["train" if is_one else section], epochs)
