"""The page of one or more documents: every claim with what the paper reports, what we measured, and a verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pydantic import ValidationError

from polyarch.errors import ConfigError, CorruptFile
from polyarch.export.records import first_problem
from polyarch.files import write_output
from polyarch_experiments.accounts import ACCOUNTS
from polyarch_experiments.experiment import Experiment
from polyarch_experiments.figures import write_figures
from polyarch_experiments.papers import PAPERS
from polyarch_experiments.prices import planned_price, prices
from polyarch_experiments.results import VERDICTS, Claim, ExperimentResults

HEAD = """\
Written by `polyarch experiment page` from the stored results of the experiments. Every claim of the paper appears with
what the paper reports, what we measured, and a verdict. A claim *holds* or *fails* if the 95 % interval of what it is
about lies on one side of its bound, and is *undecided* if it does not or if the test was not a fair one. Where cells
are ranked, intervals are of a paired bootstrap over seeds and cells; elsewhere they are Student's over seeds. Claims on
several quantities hold if all do and fail if one does, and the verdict on each quantity stands beside theirs. We do not
reproduce the paper's numbers: our sizes are those that two CPU cores train in minutes or hours. Values are means over
seeds, followed by the standard deviation over seeds. *Mean log p* is the mean log-probability of the true class on test
data, in nats; *mean p* is its mean
probability. Bars in figures extend one standard deviation to either side.
"""

BY_MEANS = "Claims without an interval are judged by means over seeds."
THEN = (
    "These results lack values that the experiment records now. What its claims were judged by then is shown; they are "
    "undecided until it is run again."
)
AGAIN = "another run of the experiment, whose claims are judged by intervals now"
OUTDATED = "These results are of what the experiment tested before, so its claims are undecided."
EARLIER = "Measured with the settings listed here, which the preset had before; the command now has others."
NOT_RUN = "No results of these experiments are stored, so what they test is undecided."
LAST = 1000
"""Where claims that are not among the numbered ones of a paper stand."""


def results_of(
    documents: Sequence[str], experiments: Mapping[str, Experiment], folder: Path
) -> list[tuple[Experiment, ExperimentResults]]:
    """The experiments of documents that have results in the folder, document by document, by their first claim."""
    found = {}
    for path in sorted(folder.glob("*.json")):
        try:
            results = ExperimentResults.model_validate_json(path.read_text())
        except ValidationError as error:
            place, problem = first_problem(error)
            raise CorruptFile(f"Expected {place} in {path} to fit an experiment. Found: {problem}.") from None
        found[results.experiment] = results
    kept = [(experiments[name], results) for name, results in sorted(found.items()) if name in experiments]
    kept = [pair for pair in kept if pair[0].document in documents]
    kept.sort(key=lambda pair: (documents.index(pair[0].document), _first(pair[1].claims)))
    for document in documents:
        if not any(experiment.document == document for experiment, _ in kept):
            known = sorted({experiment.document for experiment in experiments.values()})
            raise ConfigError(f"Expected results of a document out of {known} in {folder}. Found none of {document!r}.")
    return kept


def write_page(documents: Sequence[str], experiments: Mapping[str, Experiment], folder: Path, out: Path) -> None:
    """Writes the page of one or more documents, and its figures into a folder beside it, named like the page.

    Args:
        folder: of the results files; those of other documents are left alone.
    """
    kept = results_of(documents, experiments, folder)
    for experiment, results in kept:
        if is_current(experiment, results):
            write_figures(experiment.figures(results.settings, results.runs), out.with_suffix(""))
    names = {experiment.name for experiment, _ in kept}
    not_run = [one for name, one in sorted(experiments.items()) if one.document in documents and name not in names]
    write_output(out, page(documents, kept, out.stem, not_run))


def is_current(experiment: Experiment, results: ExperimentResults) -> bool:
    """Whether stored results have all that the experiment judges by now."""
    if experiment.outdated(results.settings) is not None:
        return False
    try:
        experiment.judge(results.settings, results.runs)
    except KeyError:
        return False
    return True


def judged_claims(experiment: Experiment, results: ExperimentResults) -> list[Claim]:
    """The claims as the experiment judges them now; if the results are not current, those of then, all undecided."""
    if is_current(experiment, results):
        return experiment.judge(results.settings, results.runs)
    needs = experiment.outdated(results.settings) or AGAIN
    return [claim.model_copy(update={"supported": None, "needs": needs}) for claim in results.claims]


def page(
    documents: Sequence[str],
    kept: Sequence[tuple[Experiment, ExperimentResults]],
    figures: str,
    not_run: Sequence[Experiment] = (),
) -> str:
    """The text of the page.

    Args:
        figures: the folder of the figures, relative to the page.
        not_run: experiments on the documents without results.
    """
    judged = [(experiment, results, judged_claims(experiment, results)) for experiment, results in kept]
    accounts = [ACCOUNTS[document] for document in documents if document in ACCOUNTS]
    lines = [f"# {' and '.join(documents).capitalize()}", ""]
    lines += [f"{account.takeaway}\n" for account in accounts]
    everything = [claim for _, _, claims in judged for claim in claims]
    lines += [_counts(everything), "", *_pending(not_run), HEAD]
    if any(claim.supported is not None and not claim.findings for claim in everything):
        lines += [BY_MEANS, ""]
    papers = dict.fromkeys(PAPERS[document] for document in documents if document in PAPERS)
    lines += [f"Paper: {paper}.\n" for paper in papers]
    for document in documents:
        if len(documents) > 1:
            lines += [f"Claims on {document}:", ""]
        lines += ["| # | claim | verdict | experiment |", "|---|---|---|---|"]
        rows = [(claim, one) for one, _, claims in judged if one.document == document for claim in claims]
        for claim, experiment in sorted(rows, key=lambda row: row[0].number or LAST):
            link = f"[`{experiment.name}`](#{experiment.name})"
            lines.append(f"| {claim.number or 'beyond'} | {claim.text} | **{claim.verdict}**{_parts(claim)} | {link} |")
        if document != documents[-1]:
            lines.append("")
    for experiment, results, claims in judged:
        lines += ["", f"## {experiment.name}", "", *_section(experiment, results, claims, figures)]
    if not_run:
        lines += ["", "## Not run yet", "", NOT_RUN, "", "| experiment | what it tests | what it would take |"]
        lines += ["|---|---|---|", *(f"| `{one.name}` | {one.claim} | {planned_price(one)} |" for one in not_run)]
    if accounts:
        lines += ["", "## How these settings were chosen", "", "\n\n".join(account.choices for account in accounts)]
    return "\n".join(lines) + "\n"


def _pending(not_run: Sequence[Experiment]) -> list[str]:
    """How many experiments have no results, and where they are listed."""
    if not not_run:
        return []
    are = "1 experiment has" if len(not_run) == 1 else f"{len(not_run)} experiments have"
    return [f"{are} [not run yet](#not-run-yet).", ""]


def _counts(claims: Sequence[Claim]) -> str:
    """How many claims have which verdict."""
    counts = Counter(claim.verdict for claim in claims)
    shown = f"{counts['holds']} hold, {counts['fails']} fail and {counts['undecided']} are undecided"
    return f"Of {len(claims)} claims {shown}."


def _parts(claim: Claim) -> str:
    """The verdicts on the parts of a claim that has several."""
    if len(claim.findings) < 2:
        return ""
    parts = (f"{part.name} {'not run' if part.value is None else VERDICTS[part.supported]}" for part in claim.findings)
    return f": {', '.join(parts)}"


def _first(claims: Sequence[Claim]) -> int:
    return min((claim.number for claim in claims if claim.number is not None), default=LAST)


def _section(
    experiment: Experiment, results: ExperimentResults, claims: Sequence[Claim], figures: str
) -> Iterator[str]:
    yield experiment.claim
    yield ""
    yield "```sh"
    yield f"polyarch experiment run {experiment.name} --preset {results.preset} --out runs/{experiment.name}"
    yield "```"
    yield ""
    if results.settings != experiment.presets.get(results.preset):
        yield EARLIER
        yield ""
    yield f"Settings: {', '.join(_in_words(results.settings))}."
    for sentence in prices(experiment, results):
        yield ""
        yield sentence
    for claim in claims:
        yield ""
        yield f"- **{claim.text}** {claim.verdict.capitalize()}."
        yield f"    - paper: {claim.document}"
        yield f"    - here: {claim.numbers}"
        if claim.ours:
            yield f"    - threshold: ours, {claim.ours}"
        if claim.needs and claim.supported is None:
            yield f"    - a fair test would take: {claim.needs}"
    if not is_current(experiment, results):
        yield ""
        yield THEN if experiment.outdated(results.settings) is None else OUTDATED
        return
    for caption, table in experiment.tables(results.settings, results.runs).items():
        yield ""
        yield f"{caption}:"
        yield ""
        for row in (table.columns, ["---"] * len(table.columns), *table.rows):
            yield f"| {' | '.join(row)} |"
    for name in experiment.figures(results.settings, results.runs):
        yield ""
        yield f"![{experiment.name}: {name.replace('_', ' ')}]({figures}/{name}.png)"


def _in_words(settings: Mapping[str, object], section: str = "") -> Iterator[str]:
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _in_words(value, f"{section}{name}.")
        else:
            shown = ", ".join(map(str, value)).join("()") if isinstance(value, list) else str(value)
            yield f"{section}{name} {shown}"
