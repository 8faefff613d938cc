"""The first lines of a report: how good the answer is, and whether the search beat random architectures."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from polyarch.reports.score_text import ScoreText
from polyarch.reports.section import Tile
from polyarch.reports.text import count, several
from polyarch.results import Estimate, Judged, PredictorRecord, Results, Role


@dataclass(frozen=True)
class Entry:
    """One side of the comparison: networks, and the mean of their scores."""

    name: str
    role: Role
    mean: float
    runs: tuple[Judged, ...]
    text: ScoreText
    is_answer: bool = False

    @property
    def estimate(self) -> Estimate:
        """The mean with its interval over test examples and networks."""
        return replace(self.text.measured(*self.runs, stream=self.name), value=self.mean)

    @property
    def scores(self) -> tuple[float, ...]:
        """That of every network."""
        return tuple(one.score for one in self.runs)

    @property
    def shown(self) -> str:
        """Mean and interval."""
        return self.text.estimate(self.estimate)

    def over(self, other: "Entry") -> Estimate:
        """The difference, on the same test examples."""
        return self.estimate.minus(other.estimate)

    def against(self, other: "Entry") -> str:
        """How far it is above or below another one."""
        return self.text.compared(self.over(other))


def entries(results: Results, answer: Role = Role.BEST) -> list[Entry]:
    """The contenders and the mixtures that are not among them; the first with the role of the answer is the answer."""
    text = ScoreText.of(results)
    found = [Entry(one.name, one.role, one.mean, tuple(one.runs), text) for one in results.comparison or [] if one.runs]
    known = {one.name for one in found}
    for one in results.predictors:
        is_mixture = len(one.members) > 1
        if one.name not in known and (is_mixture or not results.comparison):
            role = Role.MIXTURE if is_mixture else Role.BASELINE if one.folder is None else Role.BEST
            found.append(Entry(one.name, role, one.score, (one,), text))
    chosen = with_role(found, answer) or next(iter(found), None)
    return [replace(one, is_answer=True) if one is chosen else one for one in found]


def with_role(found: Sequence[Entry], role: Role) -> Entry | None:
    """The first with this role."""
    return next((entry for entry in found if entry.role is role), None)


def answer_of(found: Sequence[Entry]) -> Entry | None:
    """The one that the run leads to."""
    return next((entry for entry in found if entry.is_answer), None)


def mixtures(results: Results) -> list[PredictorRecord]:
    """The predictors with several members."""
    return [one for one in results.predictors if len(one.members) > 1]


def predictor_in(results: Results, folder: str | None) -> PredictorRecord | None:
    """The first predictor in a folder of the run; None is for those that are only compared with."""
    return next((one for one in results.predictors if one.folder == folder), None)


def sentences(results: Results) -> list[str]:
    """The result in words; a difference whose interval holds 0 is not called a gain."""
    found = entries(results)
    best = answer_of(found)
    if best is None:
        return ["This run has not reached the comparison yet, so there are no test results."]
    parameters = exported_parameters(results)
    size = f" with {count(parameters)} parameters" if parameters is not None else ""
    runs = f" (mean over {several(len(best.scores), 'seed')})" if len(best.scores) > 1 else ""
    said = f"On {results.data['name']}, the best architecture reaches {best.shown} test {best.text.title}{runs}{size}."
    return [said, *_against_random(best, found), *_against_reference(found), *_others(results, best, found)]


def tiles(results: Results) -> Iterator[Tile]:
    """The numbers of the sentences, to be seen at a glance."""
    yield from score_tiles(results)
    parameters = exported_parameters(results)
    if parameters is not None:
        yield Tile("parameters", count(parameters), "of the best architecture")


def score_tiles(results: Results) -> Iterator[Tile]:
    """Test scores: of the answer, compared with random architectures, and of a mixture."""
    found = entries(results)
    best, random = answer_of(found), with_role(found, Role.RANDOM)
    if best is None:
        return
    text = best.text
    yield Tile(f"test {text.title}", text.value(best.mean), several(len(best.scores), "seed"))
    if random is not None:
        difference = best.over(random)
        note = "more than chance" if difference.is_clear else "may be chance"
        yield Tile("vs. random", text.signed(difference.value), f"{text.unit}; {note}")
    for predictor in mixtures(results)[:1]:
        yield Tile("ensemble", text.value(predictor.score), several(len(predictor.members), "network"))


def best_architecture(results: Results) -> dict[str, str] | None:
    """The exported one, or else the one that was trained alone."""
    if results.artifact is not None and "architecture" in results.artifact:
        exported: dict[str, str] = results.artifact["architecture"]
        return exported
    best = results.contender(Role.BEST)
    return best.runs[0].architecture if best is not None and best.runs else None


def exported_parameters(results: Results) -> int | None:
    """The size of the exported network."""
    return None if results.artifact is None else results.artifact.get("parameters")


def _against_random(best: Entry, found: Sequence[Entry]) -> Iterator[str]:
    random = with_role(found, Role.RANDOM)
    if random is None:
        return
    number = len(random.scores)
    who = f"the mean of {several(number, 'random architecture')}" if number > 1 else "a random architecture"
    against = f"{best.against(random)} {who} trained the same way ({random.shown})"
    difference, gain = best.over(random), best.text.metric.gain(best.mean, random.mean)
    once = " Each was trained once: another seed may change this." if len(best.scores) == number == 1 else ""
    if gain > 0 and difference.is_clear:
        yield f"That is {against}: more than chance.{once}"
    else:
        chance = "more than chance" if difference.is_clear else "which may be chance"
        clearly = "clearly " if gain > 0 else ""
        yield (
            f"That is {against}, {chance}: on these data, the search did not find an architecture that is {clearly}"
            f"better than a random one.{once}"
        )


def _against_reference(found: Sequence[Entry]) -> Iterator[str]:
    """The mixture, which is the answer of a search, or else the best network, against what a user would try first."""
    references = [entry for entry in found if entry.role is Role.BASELINE]
    ours = with_role(found, Role.MIXTURE) or answer_of(found)
    if references and ours is not None and ours not in references:
        others = " and ".join(f"{ours.against(one)} {one.name} ({one.shown})" for one in references)
        yield f"With {ours.shown}, the {ours.name} is {others}."


def _others(results: Results, best: Entry, found: Sequence[Entry]) -> Iterator[str]:
    inherited = with_role(found, Role.INHERITED)
    if inherited is not None:
        yield f"Without retraining, with the weights of the supernet, the best architecture reaches {inherited.shown}."
    exported = next((one for one in results.predictors if len(one.members) == 1), None)
    alone = best.estimate if exported is None else best.text.measured(exported)
    for one in mixtures(results):
        together = best.text.measured(one)
        change = best.text.compared(together.minus(alone))
        yield f"The {one.name} reaches {best.text.estimate(together)}, {change} the best network alone."
