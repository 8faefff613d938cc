"""The part of a report about a search for a depth: how deep the network needs to be, and what pruning costs."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from markupsafe import Markup

from polyarch.methods.depth.plots import depth_charts
from polyarch.methods.depth.prediction_maps import colour_of, prediction_maps, training_points
from polyarch.methods.depth.record import MIXTURE, PRUNED_MIXTURE, DepthMeasure, DepthPredictor, DepthRecord
from polyarch.reports.drawing import draw
from polyarch.reports.score_text import ScoreText
from polyarch.reports.section import Section, Tile
from polyarch.reports.specs import MOST_POINTS
from polyarch.reports.text import SPACE, count, percent, several
from polyarch.results import Judged, Results, Role

RULES = {
    "argmax": "the most probable depth",
    "95%": "the smallest depth with at least 95 % of the highest probability",
    "expected": "the mean depth, rounded",
}
UPDATES = {
    "gradient": "by gradient steps, together with the weights",
    "em": "in closed form, alternating with the weights (EM)",
}
POSTERIORS = {
    "exact": "the exact posterior for the final weights",
    "learned": "the posterior that was learned with the weights",
}
WEIGHTINGS = {
    "learned": "q as it was learned with the weights",
    "exact": "the exact posterior for the final weights",
    "stacked": "fitted to validation data",
}
ALL = "all depths weighted by the posterior"
DEEPEST = "This is the deepest depth on offer: going deeper may help."


Way = tuple[str, int, DepthMeasure | DepthPredictor]
"""What predicts, in how many blocks, and how well."""


def section(results: Results) -> Section:
    """The answer, every depth alone, ways to predict, early exit, and what is predicted at every depth."""
    record = results.found(DepthRecord)
    if record is None:
        return Section()
    options = [str(one.depth) for one in record.depths]
    # An own network runs as a program, which cannot stop early.
    exits = record.is_learned and record.exits and results.space["kind"] != "module"
    return Section(
        Path(__file__).with_name("report.html"),
        sentences=sentences(results, record),
        tiles=list(tiles(results, record)),
        answer=Role.MIXTURE if record.is_learned else Role.BEST,
        drawing=Markup(draw({"depth": str(record.chosen)}, "depth", choices={"depth": options})),
        modes={"early-exit": "easy examples use fewer blocks"} if exits else {},
        charts=dict(depth_charts(record, ScoreText.of(results))),
        values={
            "record": record,
            "rule_name": rule_name,
            "rules": RULES,
            "updates": UPDATES.get(record.updates, record.updates),
            "posteriors": POSTERIORS,
            "weightings": WEIGHTINGS,
            "times": [relative_time(results, record, one.blocks) for one in record.predictors],
            "classes_shown": [(str(name), colour_of(index)) for index, name in enumerate(results.data["classes"])],
            "points": training_points(record.functions) if record.functions else "",
            "most_points": MOST_POINTS,
            "maps": prediction_maps(record, len(results.data["classes"])),
        },
    )


def sentences(results: Results, record: DepthRecord) -> list[str]:
    """The depth, how well the default predicts, and how certain it is; what pruning loses is called a loss."""
    if not record.is_learned:
        return list(_baseline(results, record))
    first, *others = _ways(record)
    return [_preferred(results, record), _default(results, record, first), *_details(results, record, first, others)]


def tiles(results: Results, record: DepthRecord) -> Iterator[Tile]:
    """The numbers of the sentences, to be seen at a glance."""
    name, _, first = _ways(record)[0]
    alone, full = record.at(record.chosen), record.at(record.deepest)
    yield Tile("depth", f"{record.chosen} of {full.depth}", f"rule {rule_name(record.rule)}")
    if record.is_learned:
        yield Tile("likely depths", _range(*record.likely()), "90 % of the posterior")
    text = ScoreText.of(results)
    yield Tile(f"test {text.title}", text.value(first.score), name)
    yield Tile("parameters", count(alone.parameters), f"of {count(full.parameters)} at depth {full.depth}")
    ratio = relative_time(results, record, record.chosen)
    if ratio is not None:
        yield Tile("forward pass", percent(ratio, 0), f"of the time of all blocks, at depth {record.chosen}")
    leaving = record.chosen_exit
    if leaving is not None:
        note = f"blocks on average; {percent(leaving.accuracy)} accuracy"
        yield Tile("early exit", f"{leaving.mean_depth:.1f}", note)


def relative_time(results: Results, record: DepthRecord, blocks: int) -> float | None:
    """The seconds of a forward pass through so many blocks over those of all blocks, where both were measured."""
    full, alone, mixed = (results.seconds.get(f"forward_{name}") for name in ("full", "pruned", "mixture"))
    mixture = record.way(PRUNED_MIXTURE)
    known = {mixture.blocks: mixed} if mixture is not None and mixed else {}
    seconds = {**known, record.chosen: alone, record.deepest: full}.get(blocks)
    return seconds / full if full and seconds else None


def rule_name(rule: str) -> str:
    """95% -> 95 %."""
    return rule.replace("%", f"{SPACE}%")


def _preferred(results: Results, record: DepthRecord) -> str:
    others = [
        f"the {rule_name(rule)} rule gives {depth}" for rule, depth in record.choices.items() if rule != record.rule
    ]
    rules = "; ".join([f"{rule_name(record.rule)} rule", *([", ".join(others)] if others else [])])
    verb = "favours" if record.rule == "argmax" else "leads to"
    said = f"On {results.data['name']}, the posterior {verb} depth {record.chosen} of {record.deepest} ({rules})."
    return f"{said} {DEEPEST}" if record.chosen == record.deepest else said


def _ways(record: DepthRecord) -> list[Way]:
    """The mixture that predicts by default, if it was measured, and the chosen depth alone."""
    ways: list[Way] = [(f"depth {record.chosen} alone", record.chosen, record.at(record.chosen))]
    mixture = record.way(PRUNED_MIXTURE)
    if mixture is not None:
        ways.insert(0, (f"the mixture of the depths up to {mixture.blocks}", mixture.blocks, mixture))
    return ways


def _default(results: Results, record: DepthRecord, way: Way) -> str:
    (name, blocks, first), mixture, text = way, record.way(MIXTURE), ScoreText.of(results)
    used = (
        f"{blocks} of {several(record.deepest, 'block')}"
        if blocks < record.deepest
        else f"all {several(blocks, 'block')}"
    )
    said = f"{_sentence(name)} uses {used} and reaches {text.score_of(first)} test {text.title}"
    if mixture is not None:
        said += f", {_against(results, first, mixture)} {ALL}"
        said += f" ({text.score_of(mixture)})" if mixture.score != first.score else ""
    ratio = relative_time(results, record, blocks)
    if ratio is None or blocks == record.deepest:
        return f"{said}."
    share = percent(ratio, 0)
    return f"{said}; a forward pass {f'takes {share} of the time' if ratio < 1 else f'is not faster ({share})'}."


def _details(results: Results, record: DepthRecord, first: Way, others: Sequence[Way]) -> Iterator[str]:
    mixture, text = record.way(MIXTURE), ScoreText.of(results)
    if mixture is not None:
        likelihood = _likelihood(first[2].loss, mixture.loss)
        yield f"On test data, its mean log p of the true {_truth(results)} is {likelihood} {ALL}."
        for name, _, way in others:
            change = _against(results, way, mixture)
            yield (
                f"{_sentence(name)} reaches {text.score_of(way)} test {text.title}, {change} {ALL}, "
                f"and a mean log p of {_likelihood(way.loss, mixture.loss)} those."
            )
    yield from _weights(record)
    shallow, deep = record.likely()
    where = f"depth{'s' if shallow < deep else ''} {_range(shallow, deep)}"
    yield f"{percent(0.9, 0)} of the posterior lies on {where}."
    yield from _learned(record)
    leaving = record.chosen_exit
    if leaving is not None:
        yield (
            f"With early exit at a confidence of {percent(leaving.confidence)}, chosen on validation data, test "
            f"examples pass through {leaving.mean_depth:.1f} blocks on average and {percent(leaving.accuracy)} are "
            "classified correctly."
        )


def _sentence(words: str) -> str:
    """With a capital letter first."""
    return words[0].upper() + words[1:]


def _weights(record: DepthRecord) -> Iterator[str]:
    """Which weights the mixture has."""
    if not record.mixtures:
        return
    best = min(record.mixtures, key=lambda one: one.valid_loss)
    why = "which predict validation data best" if best.weighting == record.weighting else "as asked for"
    yield f"The depths of the mixture have {record.weighting} weights, {why}."


def _learned(record: DepthRecord) -> Iterator[str]:
    """How far the learned q was from the exact posterior, and what either would choose."""
    if record.divergence is None:
        return
    depth = record.other_choices.get(record.rule)
    other = "exact" if record.posterior == "learned" else "learned"
    choice = f"the same rule would choose depth {depth}" if depth != record.chosen else "it leads to the same depth"
    yield (
        f"When training stopped, the learned q was {record.divergence:.2f} nats (KL) away from the exact posterior for "
        f"the final weights; from the {other} one, {choice}."
    )


def _baseline(results: Results, record: DepthRecord) -> Iterator[str]:
    chosen, full = record.at(record.chosen), record.at(record.deepest)
    trained = f"{several(len(record.depths), 'network')} of depths up to {full.depth}, each trained alone"
    yield f"On {results.data['name']}, validation data favour depth {chosen.depth} among {trained}."
    text = ScoreText.of(results)
    reached = f"It reaches {text.score_of(chosen)} test {text.title} with {count(chosen.parameters)} parameters"
    if chosen.depth == full.depth:
        yield f"{reached}. {DEEPEST}"
        return
    yield (
        f"{reached}, {_against(results, chosen, full)} the deepest network ({text.score_of(full)} with "
        f"{count(full.parameters)} parameters)."
    )
    likelihood = _likelihood(chosen.loss, full.loss)
    yield f"On test data, its mean log p of the true {_truth(results)} is {likelihood} the deepest network."


def _against(results: Results, one: Judged, other: Judged) -> str:
    """How far a way to predict is above or below another one."""
    text = ScoreText.of(results)
    return text.compared(text.measured(one).minus(text.measured(other)))


def _truth(results: Results) -> str:
    return "class" if results.task.kind == "classification" else "target"


def _likelihood(loss: float, other: float) -> str:
    """Differences below the three digits shown do not count."""
    shown, compared_with = f"{-loss:.3f}", f"{-other:.3f}"
    if shown == compared_with:
        return f"{shown}, the same as that of"
    return f"{shown}, {'better' if loss < other else 'worse'} than the {compared_with} of"


def _range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first} to {last}"
