"""Figure 4.9b: sums of gradients and of losses of networks that are trained from scratch, and their parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from polyarch.errors import NotFiniteError
from polyarch.estimators import OngoingRun, Parameters, ShortRun
from polyarch.ranking import RankSamples
from polyarch.spaces import Architecture
from polyarch.supernets import Supernet
from polyarch.tables import NASBench201
from polyarch_experiments.distinct_cells import distinct_cells
from polyarch_experiments.experiment import Experiment, Settings, Table
from polyarch_experiments.figures import Row, Spec, lines, summary
from polyarch_experiments.measures import rank_correlation, spread
from polyarch_experiments.papers import TRAINING_SPEED
from polyarch_experiments.ranked_supernets import recipe, score_all, trial_of
from polyarch_experiments.results import Claim
from polyarch_experiments.training_speed.thesis_recipe import thesis_recipe
from polyarch_experiments.verdict import claim, finding, several_seeds

SUMS = {"sotl": "SoTL", "sog": "SoG", "sogn": "SoGN"}
FAIR_EPOCHS = 20
"""Epochs after which the thesis compares the sums."""


def items(settings: Settings) -> dict[str, int]:
    """Every seed: initial weights and batches are its own."""
    return {f"seed {seed}": seed for seed in range(settings["seeds"])}


def run(settings: Settings, seed: int, folder: Path) -> dict[str, Any]:
    """Trains every cell from scratch and keeps its sums after some epochs, and its truth."""
    trial = trial_of({**settings["run"], "seed": seed})  # an untrained supernet: cells start from initial weights
    batches = trial.feed.training_batches(settings["run"]["train"]["batch_size"])
    short = ShortRun(
        batches,
        steps=settings["epochs"][-1] * len(batches),
        learning_rate=settings["rate"],
        weight_decay=settings["run"]["train"]["weight_decay"],
        gradients=True,
        seed=seed,
    )
    cells = distinct_cells(settings["architectures"])
    table = NASBench201.load()
    stops = tuple(epoch * len(batches) for epoch in settings["epochs"])
    rows = score_all(Sums(trial.net, short, stops), cells, folder / f"seed-{seed}.jsonl")
    return {
        "sums": [row["sums"] for row in rows],
        "truth": [round(table.accuracy(cell), 3) for cell in cells],
        "params": [Parameters().score(trial.net, cell) for cell in cells],
    }


@dataclass(frozen=True)
class Sums:
    """The sums of the training of an architecture after some steps; None from a loss on that is not finite."""

    net: Supernet
    short: ShortRun
    stops: tuple[int, ...]

    def __call__(self, architecture: Architecture) -> dict[str, Any]:
        """More is better for all of them: SoTL with a minus."""
        ongoing = OngoingRun(self.short, self.net, architecture)
        found: list[dict[str, float] | None] = []
        for stop in self.stops:
            try:
                ongoing.advance(stop)
            except NotFiniteError:
                return {"sums": found + [None] * (len(self.stops) - len(found))}
            trace = ongoing.trace()
            assert trace.gradient_sum is not None and trace.gradient_norm is not None
            found.append({"sotl": -sum(trace.losses), "sog": trace.gradient_sum, "sogn": trace.gradient_norm})
        return {"sums": found}


def scores_after(run: Mapping[str, Any], name: str, stop: int) -> list[float]:
    """A sum of every cell at one of the stops; those that are not finite come last."""
    found = [None if sums[stop] is None else sums[stop][name] for sums in run["sums"]]
    last = min((one for one in found if one is not None), default=0.0) - 1
    return [last if one is None else one for one in found]


def judge(settings: Settings, runs: dict[str, Any]) -> list[Claim]:
    """SoG against SoGN at the end of the training."""
    first = next(iter(runs.values()))
    samples = RankSamples(first["truth"])
    draws = {name: samples.spearman([scores_after(run, name, -1) for run in runs.values()]) for name in SUMS}
    difference = several_seeds(draws["sog"] - draws["sogn"], len(runs))
    epochs = settings["epochs"][-1]
    return [
        claim(
            "From scratch, SoG ranks better than SoGN.",
            [finding("difference of Spearman", samples.interval(difference), above=0)],
            f"after {epochs} epochs: " + ", ".join(f"{SUMS[name]} {draws[name][0]:.2f}" for name in SUMS),
            number=5,
            document="up to 0.85 with SoG, 0.68 with SoGN, about 0.80 with the parameter count (figure 4.9b)",
            needs=None if epochs >= FAIR_EPOCHS else f"{FAIR_EPOCHS} epochs, not {epochs}",
        )
    ]


def _correlations(runs: Mapping[str, Any], name: str, stop: int) -> list[float]:
    return [rank_correlation(scores_after(run, name, stop), run["truth"]) for run in runs.values()]


def tables(settings: Settings, runs: dict[str, Any]) -> dict[str, Table]:
    """Spearman by epoch."""
    rows = [
        [shown, *(spread(_correlations(runs, name, stop), 2) for stop in range(len(settings["epochs"])))]
        for name, shown in SUMS.items()
    ]
    sizes = spread([rank_correlation(run["params"], run["truth"]) for run in runs.values()], 2)
    rows.append(["parameters", *[sizes] * len(settings["epochs"])])
    caption = f"Spearman with NAS-Bench-201 of sums over the training from scratch, by epoch ({_n(runs)} cells)"
    return {caption: Table(["", *map(str, settings["epochs"])], rows)}


def figures(settings: Settings, runs: dict[str, Any]) -> dict[str, Spec]:
    """The same as curves."""
    rows: list[Row] = [
        {"x": epoch, "series": shown, **summary(_correlations(runs, name, stop))}
        for name, shown in SUMS.items()
        for stop, epoch in enumerate(settings["epochs"])
    ]
    sizes = summary([rank_correlation(run["params"], run["truth"]) for run in runs.values()])
    rows += [{"x": epoch, "series": "parameters", **sizes} for epoch in settings["epochs"]]
    return {"gradient_sums": lines(rows, "epochs", "Spearman with the truth", series="score")}


def _n(runs: Mapping[str, Any]) -> int:
    return len(next(iter(runs.values()))["truth"])


_CPU: Settings = {
    "seeds": 2, "architectures": 64, "epochs": [1, 2, 5, 10, 20], "rate": 0.1,
    "run": recipe(size=16, cells=1, epochs=1, limit=2500),
}  # fmt: skip
_THESIS = thesis_recipe(rate=0.1)

GRADIENT_SUMS = Experiment(
    name="gradient_sums",
    document=TRAINING_SPEED,
    claim="Sums of gradients and of losses over a training from scratch against the true accuracy (figure 4.9b).",
    presets={
        "quick": {
            **_CPU, "seeds": 2, "architectures": 5, "epochs": [1, 2],
            "run": recipe(size=8, cells=1, epochs=1, limit=200),
        },
        "cpu": _CPU,
        "paper": {
            "seeds": 3, "architectures": 200, "epochs": [1, 2, 5, 10, 15, 20], "rate": 0.1, "run": _THESIS,
        },
    },
    items=items,
    task=run,
    judge=judge,
    figures=figures,
    tables=tables,
)  # fmt: skip
