"""A schedule that fits into a number of minutes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from polyarch.errors import ConfigError
from polyarch.runs.plan import PlannedStage, in_words, total_seconds
from polyarch.runs.run import Run
from polyarch.runs.settings import RunSettings
from polyarch.runs.spaces import interchoice_of

CAUTION = 0.75
"""The share of the time that is planned for: machines are noisy, and the first steps tell little."""

MOST_EPOCHS = {"train": 200, "retrain": 100}


def fitted(
    run: Run, planned: Callable[[RunSettings], list[PlannedStage]], *, asked: RunSettings, stretch: bool
) -> tuple[RunSettings, str | None]:
    """Settings whose plan takes about three quarters of ``max_minutes``, and what was changed, in words.

    Epochs and budgets shrink together until the plan fits; with ``stretch`` epochs also grow into time that is left.

    Args:
        asked: what the user set; that stays as it is.
    """
    settings = run.settings
    if settings.max_minutes is None:
        return settings, None
    allowed = 60 * settings.max_minutes
    target = CAUTION * allowed
    seconds = total_seconds(planned(settings))
    factor = 1.0
    if seconds > target:
        while seconds > target and factor > 0.005:
            factor *= 0.95
            seconds = total_seconds(planned(_scaled(run, factor, asked)))
        if seconds > allowed:
            raise ConfigError(
                f"Expected a run of at most {in_words(allowed)}. The shortest takes about {in_words(seconds)}; "
                "data.limit keeps fewer examples, and settings that you gave are not cut."
            )
    elif stretch:
        while seconds < 0.95 * target and factor < 50:
            factor *= 1.05
            seconds = total_seconds(planned(_scaled(run, factor, asked)))
    changed = _scaled(run, factor, asked)
    if changed == settings:
        return settings, None
    epochs = run.method.schedule_in_words(changed)
    return changed, f"time: {epochs}, so that the run takes about {in_words(seconds)} of {in_words(allowed)}"


def _scaled(run: Run, factor: float, asked: RunSettings) -> RunSettings:
    """All that costs time and was not given by the user, times the factor; what is compared only shrinks."""
    settings = run.settings
    retrain, shrink = settings.retrain, min(factor, 1.0)
    most = {section: max(MOST_EPOCHS[section], getattr(settings, section).epochs) for section in MOST_EPOCHS}
    if run.method.baseline_trains_as_long:
        most["retrain"] = max(MOST_EPOCHS["train"], retrain.epochs)
    least = run.method.fewest_epochs(settings)
    change: dict[str, Mapping[str, Any]] = {
        "train": {"epochs": min(max(int(settings.train.epochs * factor), least), most["train"])},
        "retrain": {
            "epochs": min(max(int(retrain.epochs * factor), 1), most["retrain"]),
            "seeds": shrunk(retrain.seeds, shrink**0.5, least=1),
            "random_architectures": shrunk(retrain.random_architectures, shrink**0.5, least=1),
        },
        "rank": {"architectures": shrunk(settings.rank.architectures, shrink, least=3)},
        "search": {"budget": shrunk(settings.search.budget, shrink, least=10)},
        **run.method.shrunk(settings, shrink),
    }
    free = {}
    for name, values in change.items():
        section = asked.sections.get(name) or getattr(asked, name)
        free[name] = {key: value for key, value in values.items() if key not in section.model_fields_set}
    return settings.changed(free)


def shrunk(count: int, factor: float, *, least: int) -> int:
    """A count times the factor, but not below ``least``."""
    return max(int(count * factor), min(count, least))


def supernet_epochs(settings: RunSettings) -> int:
    """The fewest epochs of a supernet: split weights are trained apart for one epoch or more."""
    interchoice = interchoice_of(settings.space)
    return 1 if interchoice is None or interchoice.split_epoch is None else interchoice.split_epoch + 1
