"""What is chosen for a user who only brings data and minutes: a space, its largest size, a recipe and the time."""

from collections.abc import Iterator
from typing import Any

from polyarch.data import Dataset
from polyarch.errors import ConfigError
from polyarch.methods.front.settings import FrontSettings
from polyarch.methods.front.sizes import end_seconds, sizes_of, step_seconds
from polyarch.runs.display import several
from polyarch.runs.image_augmentation import crop_side
from polyarch.runs.own_module import Builder
from polyarch.runs.plan import in_words, usual_seconds
from polyarch.runs.recipe import suitable_recipe
from polyarch.runs.run import Run
from polyarch.runs.settings import RunSettings
from polyarch.runs.suggestion import SpaceProposal, Suggestion, merged, trial, validation_share

WIDEST = (96, 64, 48, 32, 24, 16)
"""Channels of the first stage of the largest size, to choose from."""

SHARES = (0.5, 0.625, 0.75, 1.0)
"""The widths of sizes, relative to the largest: about 25 to 100 % of its multiply-accumulates."""

USUAL_STEPS = 3000
"""The largest size is the widest network that has time for so many steps; a guess, not compared with others yet."""

IMAGES = 32
"""Of a batch: half as many as where a step trains one network, for twice as many steps."""

FEWEST_SIZES = 3
"""A space of which fewer sizes keep the limits is too wide."""

LEAST_SECONDS = 6.0
"""A shorter training is not worth its start."""


def suggest_front(asked: RunSettings, data: Dataset, builder: Builder | None) -> Suggestion:
    """A space, a recipe and how the time is spent; what was asked for stays."""
    found: dict[str, Any] = {"data": {"validation": validation_share(data)}}
    if asked.space.kind != "auto":
        run = trial(asked, data, found, builder)
        reason = "your own network" if asked.space.kind == "module" else "as asked for"
        found["front"] = _recipe(asked, data, run)
    else:
        for proposal in _proposals(data):
            run = trial(asked, data, {**found, "space": proposal.settings})
            sizes, recipe = sizes_of(run), _recipe(asked, data, run)
            step = step_seconds(run, sizes, crop_side(run, recipe.get("crop", 1.0))) if sizes else 0.0
            if len(sizes) >= FEWEST_SIZES and recipe["seconds"] >= USUAL_STEPS * step:
                break
        found |= {"space": proposal.settings, "front": recipe}
        reason = proposal.reason
    taken = merged(found["front"], asked.section(FrontSettings).model_dump(exclude_unset=True))
    count = len(sizes_of(run))
    reasons = [
        f"space {run.settings.space.kind}: {reason}",
        f"front: one training of {in_words(taken['seconds'])} for {several(count, 'size')}; every step trains the "
        f"largest, the smallest and {taken.get('between', FrontSettings().between)} more, which learn from the largest",
    ]
    return Suggestion(found, reasons, run)


def _proposals(data: Dataset) -> Iterator[SpaceProposal]:
    """From wide to narrow."""
    if not data.is_image:
        for width in (128, 64, 32):
            widths = [width // 8, width // 4, width // 2, width]
            yield SpaceProposal(
                {
                    "kind": "mlp",
                    "elastic": True,
                    "width": width,
                    "widths": widths,
                    "inner_widths": [2 * one for one in widths],
                    "max_depth": 3,
                },
                f"fully connected networks of widths up to {width} and up to three blocks",
            )
        return
    for width in WIDEST:
        widths = [round(share * width) for share in SHARES]
        yield SpaceProposal(
            {"kind": "pooled", "widths": widths, "max_depth": 1, "min_depth": 1, "plain_widths": [16]},
            f"pooled convolutions of {widths[0]} to {widths[-1]} channels; wider ones would take too few steps",
        )


def _recipe(asked: RunSettings, data: Dataset, run: Run) -> dict[str, Any]:
    """How training goes, and for how long."""
    examples = len(run.feed.train)
    found = suitable_recipe(data, examples)
    if data.is_image:  # a step sees every image several times
        found |= {"batch_size": min(IMAGES, found["batch_size"]), "learning_rate": 0.05}
    given = asked.section(FrontSettings).seconds
    if given is not None:
        return {**found, "seconds": given}
    if asked.max_minutes is None:
        seconds = usual_seconds(examples)
        return {**found, "seconds": round(seconds, 1), "clock": "work"}
    end = end_seconds(run, sizes_of(run))
    seconds = 60 * asked.max_minutes - end
    if seconds < LEAST_SECONDS:
        raise ConfigError(
            f"Expected a limit of {(end + LEAST_SECONDS) / 60:.1f} minutes or more for a front. "
            f"Got {asked.max_minutes:g}."
        )
    return {**found, "seconds": round(seconds, 1), "clock": "real"}
