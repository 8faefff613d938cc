"""What is chosen for a user who only brings data: a space, its width and a schedule, each with its reason in words."""

import statistics
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from polyarch.data import Dataset
from polyarch.errors import InvalidInput
from polyarch.estimators import MACs
from polyarch.plugins import SPACES
from polyarch.randomness import generator_at
from polyarch.runs.display import several
from polyarch.runs.evaluation import evaluation_of
from polyarch.runs.own_module import Builder
from polyarch.runs.plan import work_alone
from polyarch.runs.run import Run
from polyarch.runs.sections import OptimiserSettings
from polyarch.runs.settings import RunSettings
from polyarch.runs.workspace import Workspace
from polyarch.settings import Settings
from polyarch.strategies import FairPaths

SMALL_IMAGE = 40
"""Sides up to this go to the cell network, which halves its resolution only twice."""

SHARE = 0.25
"""The share of random architectures that must keep the limits for a width to be taken."""

DRAWS = 100

AUGMENTED_EPOCHS = 10
"""With fewer epochs images are left as they are: a network that sees each a few times does not learn it by heart."""

SUPERNET_WORK = 6e11
RETRAIN_WORK = 9e11
"""Forward multiply-accumulates that a training may take: two and three minutes at 5e9 per second, a core's rate.

They are counted, not timed: the same data give the same schedule on every machine."""

WORK = 1e12
"""The same for methods with one training: five to ten minutes on a core, small convolutions being slow."""

FEWEST_EPOCHS = 8
"""A network with which fewer fit into the work is too wide."""
MOST_EPOCHS = 60

SMALLEST_IMAGE = 8
"""Smaller images have nothing left after two halvings."""

WIDTHS = (16, 12, 8, 6, 4)
"""Channels of the first of three stages."""

SMALLEST_EXAMPLE = 2.5e5
"""What the fixed costs of a step amount to per example: a tiny network is not as fast as it is small."""


@dataclass(frozen=True)
class Suggestion:
    """Settings by section for what was not asked for, and the reasons in words.

    Args:
        run: the run on which they were tried, which goes on if its data and space are the ones that were chosen.
    """

    settings: Mapping[str, Mapping[str, Any]]
    reasons: list[str]
    run: Run | None = None


@dataclass(frozen=True)
class SpaceProposal:
    """Settings of a space, and the reason for it in words."""

    settings: dict[str, Any]
    reason: str


def suggest(asked: RunSettings, data: Dataset, builder: Builder | None = None) -> Suggestion:
    """A space and a schedule for one training of a supernet and some of single networks.

    A space that was asked for stays and gets a schedule only.
    """
    found: dict[str, Any] = {"data": {"validation": validation_share(data)}}
    given = asked.model_dump(mode="json", exclude_unset=True)
    if asked.space.kind == "auto":
        proposal, run = widest(asked, data, found, _proposals(data))
        found["space"], reason = proposal.settings, proposal.reason
    else:
        run = trial(asked, data, found, builder)
        reason = "your own network" if asked.space.kind == "module" else "as asked for"
    reasons = [f"space {run.settings.space.kind}: {reason}"]
    schedule, reason = _schedule(run, asked)
    reasons.append(reason)
    if data.is_image and merged(schedule, given)["retrain"]["epochs"] >= AUGMENTED_EPOCHS:
        found["data"] |= _augmentation(data)
        augmentation = merged(found, given)["data"]
        if augmentation["flip"] or augmentation["shift"]:
            mirrored = " and mirrored" if augmentation["flip"] else ""
            reasons.append(
                f"augmentation: training images are shifted by up to {augmentation['shift']} pixels{mirrored} at "
                "random (data.shift and data.flip change it)"
            )
    return Suggestion({**found, **schedule}, reasons, run)


def validation_share(data: Dataset) -> float:
    """A fifth of the training examples, but no more than 5,000."""
    return round(min(0.2, 5000 / len(data.train)), 3)


def with_suggestions(asked: RunSettings, suggested: Mapping[str, Any]) -> RunSettings:
    """Everything that was asked for, and suggestions for the rest."""
    update: dict[str, Any] = {"sections": dict(asked.sections)}
    for name, values in suggested.items():
        given: Settings = asked.sections.get(name) or getattr(asked, name)
        chosen = SPACES[values["kind"]] if given is asked.space and asked.space.kind == "auto" else type(given)
        kept = given.model_dump(exclude_unset=True) if isinstance(given, chosen) else {}
        target = update["sections"] if name in asked.sections else update
        target[name] = chosen.model_validate({**values, **kept})
    return asked.model_copy(update=update)


def merged(suggested: Mapping[str, Any], asked: Mapping[str, Any]) -> dict[str, Any]:
    """What was asked for, and what was suggested where nothing was."""
    result = dict(suggested)
    for key, value in asked.items():
        both = isinstance(value, Mapping) and isinstance(result.get(key), Mapping)
        result[key] = merged(result[key], value) if both else value
    return result


def _augmentation(data: Dataset) -> dict[str, Any]:
    channels, height, width = data.input_shape
    side = min(height, width)
    return {
        "shift": side // 14 if channels == 1 else side // 8,
        # Photographs are in colour and may be mirrored; digits and letters, mostly grey, may not.
        "flip": channels == 3 and data.name != "svhn",
    }


def widest(
    asked: RunSettings, data: Dataset, found: Mapping[str, Any], proposals: Iterable[SpaceProposal]
) -> tuple[SpaceProposal, Run]:
    """The first proposal of which a quarter of the architectures keep the counted limits, or the last; with its run."""
    for proposal in proposals:
        run = trial(asked, data, {**found, "space": proposal.settings})
        limits = run.counted_limits
        if not limits.limits:
            return proposal, run
        draws = [run.net.space.sample(generator_at(asked.seed, "fit", position)) for position in range(DRAWS)]
        kept = sum(map(limits.allows, draws))
        if kept >= SHARE * DRAWS:
            reason = f"{proposal.reason}; {kept} of {DRAWS} random architectures keep the limits"
            return SpaceProposal(proposal.settings, reason), run
    reason = f"{proposal.reason}; few architectures keep the limits, even at this width"
    return SpaceProposal(proposal.settings, reason), run


def fully_connected(data: Dataset) -> Iterator[SpaceProposal]:
    """From wide to narrow."""
    what = f"{len(data.columns)} columns" if data.is_table else f"examples of shape {data.input_shape}"
    for width in (128, 64, 32, 16, 8):
        inner = [width // 2, width, 2 * width]
        yield SpaceProposal(
            {"kind": "mlp", "width": width, "inner_widths": inner},
            f"{what} go to a fully connected network of width {width} that chooses its depth and inner widths",
        )


def _proposals(data: Dataset) -> Iterator[SpaceProposal]:
    """From wide to narrow."""
    if not data.is_image:
        yield from fully_connected(data)
        return
    side = min(data.input_shape[1:])
    if side <= SMALL_IMAGE:
        widest = min(max(side // 2, 4), 16)
        for cell_channels in [c for c in (16, 12, 8, 6, 4, 2) if c <= widest]:
            yield SpaceProposal(
                {"kind": "nb201", "channels": cell_channels},
                f"images of {side} pixels go to the NAS-Bench-201 cell network, with {cell_channels} channels",
            )
        return
    strides = [2, 1, 2, 1, 2, 1] if side > 80 else [1, 1, 2, 1, 2, 1]
    for share in (1.0, 0.75, 0.5, 0.25):
        channels = [max(int(c * share) // 4 * 4, 4) for c in (16, 16, 24, 24, 40, 40)]
        yield SpaceProposal(
            {
                "kind": "chain",
                "channels": channels,
                "strides": strides,
                "stem_stride": 2,
                "stem_channels": channels[0],
                "head_channels": int(128 * share),
            },
            f"images of {side} pixels go to a chain of MobileNetV2 blocks of {channels[0]} to {channels[-1]} channels",
        )


def _schedule(run: Run, settings: RunSettings) -> tuple[dict[str, Any], str]:
    """Epochs from the work that an example takes; more comparisons where training is cheap.

    Args:
        settings: as they were asked for; the reason speaks of them where they differ.
    """
    examples = len(run.feed.train)
    limits = run.counted_limits
    seed = run.settings.seed
    sizes = [
        MACs(run.feed.example.inputs).score(run.net, limits.sample(generator_at(seed, "work", i))) for i in range(8)
    ]
    example = statistics.fmean(sizes)
    work = max(example, SMALLEST_EXAMPLE) * examples
    asked = settings.model_dump(mode="json", exclude_unset=True)
    strategy, paths = _strategy(run, asked)
    passes = min(SUPERNET_WORK / work, 120 if run.feed.data.is_image else 60)
    train = max(round(passes / paths), 2)
    alone = work * work_alone(run)
    retrain = min(max(round(RETRAIN_WORK / alone), 3), 40)
    cheap = retrain * alone < RETRAIN_WORK / 4
    batch_size = 128 if not run.feed.data.is_image and examples > 4000 else 64
    batch_size = min(batch_size, max(examples // 16, 8))
    found: dict[str, Any] = {
        "train": {"strategy": strategy, "epochs": train, "batch_size": batch_size},
        "scores": {"batch_size": batch_size, "steps": 40},
        "rank": {"architectures": 12 if cheap else 6},
        "search": {"budget": 60 if cheap else 32},
        "retrain": {
            "epochs": retrain,
            "batch_size": batch_size,
            "seeds": 3 if cheap else 1,
            "random_architectures": 5 if cheap else 1,
        },
    }
    if evaluation_of(settings.space) is not None:  # what a recipe of its own has, as far as the data allow
        batch_size = min(settings.retrain.batch_size, max(examples // 16, 8))
        found["retrain"] |= {"batch_size": batch_size, "cutout": min(run.feed.data.input_shape[1:]) // 2}
    epochs = merged(found, asked)
    reason = (
        f"schedule: {several(epochs['train']['epochs'], 'epoch')} for the supernet by strategy "
        f"{epochs['train']['strategy']} and {epochs['retrain']['epochs']} for each network trained alone, "
        f"from {examples:,} training examples of about {_millions(example)} "
        f"multiply-accumulates each; architectures are ranked by {settings.search.objectives[0]}"
    )
    return found, reason


def _strategy(run: Run, asked: Mapping[str, Any]) -> tuple[str, int]:
    """Fair paths where they are defined, single ones elsewhere, or what was asked for; and the paths of a batch."""
    name = asked.get("train", {}).get("strategy")
    if name not in (None, "fair"):
        return name, run.settings.train.paths if name.startswith("multi_path") else 1
    try:
        return "fair", FairPaths(run.allowed.space).count
    except InvalidInput:
        return "single_path", 1


def epochs_within(work: float) -> int:
    """As many epochs as `WORK` allows, where one takes so many multiply-accumulates."""
    return min(max(round(WORK / work), 2), MOST_EPOCHS)


def with_baseline(train: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """A schedule of one training, and the same for the network that is trained alone to compare with."""
    same = merged(train, given.get("train", {}))
    alone = {key: value for key, value in same.items() if key in OptimiserSettings.model_fields}
    return {"train": train, "retrain": {**alone, "seeds": 1, "members": 1, "random_architectures": 0}}


def trial(asked: RunSettings, data: Dataset, found: Mapping[str, Any], builder: Builder | None = None) -> Run:
    """A run to try things on, with what has been found so far in place of what was not asked for."""
    return Run.build(with_suggestions(asked, found), Workspace(Path()), data=data, builder=builder)


def _millions(value: float) -> str:
    return f"{value / 1e6:.3g} million" if value >= 1e5 else f"{value:,.0f}"
