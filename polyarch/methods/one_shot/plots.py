"""Charts of a one-shot search: score against size, and which options the better architectures have."""

from collections.abc import Iterator, Mapping, Sequence

import altair as alt

from polyarch.methods.one_shot.record import ScoredArchitecture, SearchRecord
from polyarch.reports.drawing import Choices
from polyarch.reports.shares import Shares, option_bars, option_map
from polyarch.reports.specs import HEIGHT, Spec, data, spec_of
from polyarch.reports.text import estimator_name, several

MINIMISED = ("params", "macs", "latency")
"""Costs, of which less is better."""


def objective_of(search: SearchRecord) -> str:
    """The first objective that is not the size, which has an axis of its own."""
    return next((name for name in search.objectives if name != "params"), search.objectives[0])


def ordered(search: SearchRecord) -> list[ScoredArchitecture]:
    """Every architecture once, by the first objective, the best first."""
    objective = search.objectives[0]
    unique = {item.key: item for item in search.evaluated}
    return sorted(unique.values(), key=lambda item: item.score(objective), reverse=objective not in MINIMISED)


def best_quarter(items: Sequence[ScoredArchitecture]) -> Sequence[ScoredArchitecture]:
    """The first quarter of what is ordered, at least one."""
    return items[: max(-(-len(items) // 4), 1)]


def front(sizes: Sequence[float], scores: Sequence[float], *, maximise: bool) -> list[int]:
    """The Pareto front by increasing size: positions of points that no smaller or equal one beats or equals in score.

    Of equal points the first stands for all.
    """
    sign = -1.0 if maximise else 1.0
    order = sorted(range(len(sizes)), key=lambda index: (sizes[index], sign * scores[index]))
    kept: list[int] = []
    for index in order:
        if not kept or sign * scores[index] < sign * scores[kept[-1]]:
            kept.append(index)
    return kept


def counted_parameters(search: SearchRecord, best: dict[str, str] | None) -> int | None:
    """What the search counted for the best."""
    return next((item.parameters for item in search.evaluated if item.architecture == best), None)


def option_charts(search: SearchRecord, choices: Choices) -> Iterator[tuple[str, Spec]]:
    """Shares of options: bars side by side for a single choice, a map each for several."""
    best, everything = shares_of_options(search, choices)
    if len(best.choices) == 1:
        yield "options", option_bars([best, everything])
        return
    largest = max(best.largest, everything.largest)
    yield "options", option_map(best, largest)
    yield "options-all", option_map(everything, largest)


def shares_of_options(search: SearchRecord, choices: Choices) -> list[Shares]:
    """The share of every option among the best quarter of the search, and among everything searched."""
    items = ordered(search)
    best, choices = best_quarter(items), choices or _seen(items)
    return [
        _shares(f"the best quarter: {several(len(best), 'architecture')}", best, choices),
        _shares(f"all {len(items):,} searched", items, choices),
    ]


def score_against_size(search: SearchRecord, best: Mapping[str, str] | None) -> Spec:
    """Every searched architecture, the Pareto front as a line, the best one highlighted, a limit as a rule."""
    items, objective = ordered(search), objective_of(search)
    maximise = objective not in MINIMISED
    estimators = [score.estimator for score in items[0].scores if score.estimator != "params"]
    sizes, scores = [item.parameters for item in items], [item.score(objective) for item in items]
    rows = [
        {
            "architecture": item.key,
            "parameters": item.parameters,
            "score": score,
            **{f"score{index}": item.score(name) for index, name in enumerate(estimators)},
        }
        for item, score in zip(items, scores, strict=True)
    ]
    tooltip = [
        alt.Tooltip("architecture:N", title="architecture"),
        alt.Tooltip("parameters:Q", title="parameters", format=",d"),
        *(
            alt.Tooltip(f"score{index}:Q", title=estimator_name(name), format=",.6~r")
            for index, name in enumerate(estimators)
        ),
    ]
    wide = min(sizes) > 0 and max(sizes) > 20 * min(sizes)
    scale = alt.Scale(type="log", padding=12) if wide else alt.Scale(zero=False, padding=12)
    x = alt.X("parameters:Q", title="parameters", scale=scale, axis=alt.Axis(format="~s", tickCount=6))
    title = f"{estimator_name(objective)}, {'higher' if maximise else 'lower'} is better"
    y = alt.Y("score:Q", title=title, scale=alt.Scale(zero=False, padding=12))
    on_front = [rows[index] for index in front(sizes, scores, maximise=maximise)]
    highlighted = [row for row, item in zip(rows, items, strict=True) if item.architecture == best]
    layers = [
        data(rows).mark_point(style="others", filled=True, size=48, opacity=0.6).encode(x=x, y=y, tooltip=tooltip),
        data(on_front).mark_line(style="front", interpolate="step-after").encode(x=x, y=y),
        data(on_front).mark_point(style="front", size=60, strokeWidth=1.6).encode(x=x, y=y, tooltip=tooltip),
        data(highlighted).mark_point(style="best", filled=True, size=150, opacity=1).encode(x=x, y=y, tooltip=tooltip),
    ]
    limit = search.limits.get("params")
    if limit is not None and limit <= 2 * max(sizes):  # a limit far away would push all points into a corner
        rule = data([{"parameters": limit}]).mark_rule(style="limit")
        layers.append(rule.encode(x=x, tooltip=[alt.Tooltip("parameters:Q", title="limit", format=",d")]))
    return spec_of(layers, f"{estimator_name(objective)} against parameters", height=HEIGHT + 60)


def _shares(name: str, items: Sequence[ScoredArchitecture], choices: Choices) -> Shares:
    found = {}
    for choice, options in choices.items():
        taken = [item.architecture.get(choice) for item in items]
        found[choice] = {option: taken.count(option) / len(items) for option in options}
    return Shares(name, found)


def _seen(items: Sequence[ScoredArchitecture]) -> dict[str, list[str]]:
    """The options that were seen, for results that do not say which there are."""
    names = dict.fromkeys(choice for item in items for choice in item.architecture)
    return {
        name: list(dict.fromkeys(item.architecture[name] for item in items if name in item.architecture))
        for name in names
    }
