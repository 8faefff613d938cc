"""Options and their shares, of a probability or of architectures, as bars or as a map."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import altair as alt

from polyarch.reports.drawing import LABELS
from polyarch.reports.specs import HEIGHT, Spec, data, legend, short_names, spec_of
from polyarch.reports.text import percent

WIDE_CELLS = "bandwidth('x') < 36 ? 0 : 1"
"""The opacity of text in cells: on narrow screens cells keep only their colour and their tooltip."""

_TOOLTIP = [alt.Tooltip("choice:N"), alt.Tooltip("option:N"), alt.Tooltip("share:Q", format=".1%")]


@dataclass(frozen=True)
class Shares:
    """choice -> option -> share, in order, and a name that says of what."""

    name: str
    choices: Mapping[str, Mapping[str, float]]

    @property
    def largest(self) -> float:
        """The largest share."""
        return max(share for options in self.choices.values() for share in options.values())

    @property
    def columns(self) -> list[str] | None:
        """Short names of the options where every choice offers the same ones; else None."""
        first, *others = (list(options) for options in self.choices.values())
        if any(found != first for found in others):
            return None
        usual = [LABELS.get(option, option) for option in first]
        return short_names(usual if len(set(usual)) == len(usual) else first)


def learned_shares(q: Mapping[str, Sequence[float]], choices: Mapping[str, Sequence[str]]) -> Shares:
    """A learned distribution; where options have no names they are numbered."""
    found = {}
    for choice, values in q.items():
        names = choices.get(choice, ())
        numbers = [str(position + 1) for position in range(len(values))]
        found[choice] = dict(zip(names if len(names) == len(values) else numbers, values, strict=True))
    return Shares("the learned distribution q", found)


def option_chart(shares: Shares) -> Spec:
    """Bars for a single choice, a map for several."""
    return option_bars([shares]) if len(shares.choices) == 1 else option_map(shares, shares.largest)


def option_map(shares: Shares, largest: float) -> Spec:
    """Choices in rows, options in columns, shares as colour.

    Where choices offer different options the columns are only numbered, and each cell names its option.

    Args:
        largest: the share with the strongest colour, the same for maps side by side.
    """
    columns = shares.columns
    most = max(len(options) for options in shares.choices.values())
    labels = columns or [str(position + 1) for position in range(most)]
    names = short_names(list(shares.choices))
    rows = [
        {
            "choice": choice,
            "option": option,
            "share": share,
            "label": name,
            "column": column,
            "words": percent(share, 0) if columns else f"{option}\n{percent(share, 0)}",
        }
        for name, (choice, options) in zip(names, shares.choices.items(), strict=True)
        for column, (option, share) in zip(labels, options.items(), strict=False)
    ]
    axis = alt.Axis(orient="top", labelAngle=-35 if any(len(name) > 9 for name in labels) else 0, labelLimit=90)
    encoded = data(rows).encode(
        x=alt.X("column:N", scale=alt.Scale(domain=labels), title=None, axis=axis if columns else None),
        y=alt.Y("label:N", scale=alt.Scale(domain=names), title=None, axis=alt.Axis(labelLimit=140)),
        tooltip=_TOOLTIP,
    )
    colour = alt.Color("share:Q", scale=alt.Scale(domain=[0, largest]), legend=None)
    words = encoded.mark_text(
        style="words",
        lineBreak="\n",
        baseline="middle",
        dy=0 if columns else -6,
        limit=alt.ExprRef("bandwidth('x') - 6"),
        opacity=alt.ExprRef(WIDE_CELLS),
    )
    layers = [encoded.mark_rect(cornerRadius=3, style="tile").encode(color=colour), words.encode(text="words:N")]
    return spec_of(layers, f"Share of every option: {shares.name}", height=(32 if columns else 42) * len(names))


def option_bars(distributions: Sequence[Shares]) -> Spec:
    """For a single choice: a bar per option, and one beside it per further distribution."""
    names = [shares.name for shares in distributions]
    ((choice, options),) = distributions[0].choices.items()
    rows = [
        {"choice": choice, "option": option, "share": share, "series": shares.name}
        for shares in distributions
        for option, share in shares.choices[choice].items()
    ]
    encoded = data(rows).mark_bar(cornerRadiusEnd=2).encode(
        x=alt.X("option:N", sort=list(options), title=choice, axis=alt.Axis(labelAngle=0, labelLimit=70)),
        y=alt.Y("share:Q", title="share", axis=alt.Axis(format="~%")),
        color=alt.Color("series:N", scale=alt.Scale(domain=names), title=None, legend=legend(names)),
        tooltip=[alt.Tooltip("series:N", title="among"), *_TOOLTIP],
    )  # fmt: skip
    if len(names) > 1:
        encoded = encoded.encode(xOffset=alt.XOffset("series:N", scale=alt.Scale(domain=names)))
    return spec_of([encoded], "Share of every option", height=HEIGHT - 60)
