"""Detects the collapse of a differentiable search, and can stop the search or roll it back.

The eigenvalue criterion is DARTS-ES: Zela, Elsken, Saikia, Marrakchi, Brox and Hutter (2020), "Understanding and
Robustifying Differentiable Architecture Search", arXiv:1909.09656.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Literal, get_args

from polyarch.errors import InvalidInput, UnknownName
from polyarch.training.callbacks import Callback, FitState, Row

Action = Literal["warn", "stop", "roll_back"]
"""Report it; also stop the search; also restore the last epoch before the trouble."""

_NEEDED = ("epoch", "skip_share", "entropy_share")


@dataclass(frozen=True)
class CollapseLimits:
    """What counts as a collapse.

    - Skips: more than the share ``skips`` of the chosen operations are skips, ``patience`` epochs in a row.
    - Growth: the mean of the last ``window`` eigenvalues exceeds ``growth`` times the mean of the ``window`` before
      them, if that is positive; the defaults are those of the DARTS-ES code. It is a warning rather than a proof: in
      some searches the eigenvalue grows although the architectures do not get worse.
    - Too sure too early: in the first half of the epochs the entropy of q is below the share ``lowest_entropy`` of its
      maximum, ``patience`` epochs in a row, although the weights have hardly learned.
    - Undecided: at the end the entropy is above the share ``highest_entropy``, so the chosen options are hardly more
      probable than the others. This is only reported, as there is nothing left to stop.

    Skips and eigenvalues do not count in the first epochs, the share ``after``.
    """

    skips: float = 0.5
    growth: float = 1.3
    window: int = 5
    lowest_entropy: float = 0.1
    highest_entropy: float = 0.9
    patience: int = 3
    after: float = 0.2

    def __post_init__(self) -> None:
        shares = (self.skips, self.lowest_entropy, self.highest_entropy, self.after)
        if not all(0 <= share <= 1 for share in shares):
            raise InvalidInput(f"Expected shares in 0..1. Got {self}.")
        if self.window < 1 or self.patience < 1 or self.growth <= 1:
            raise InvalidInput(f"Expected a window and patience of 1 or more, and a growth above 1. Got {self}.")


@dataclass(frozen=True)
class _Trouble:
    """What is wrong, in a word and in a sentence, and the last epoch before it, if there is one."""

    kind: str
    sentence: str
    before: int | None


class CollapseGuard(Callback):
    """Checks every epoch's row against `CollapseLimits`; place it after `SearchDiagnostics`.

    Args:
        action: what to do at the first trouble. Rolling back needs up to ``window + patience`` copies of the training
            state, in memory and in checkpoints.
        say: receives every finding, e.g. to print it.

    ``findings`` has one "expected ... Got ..." sentence for every trouble; ``back_to`` is the epoch to restore at the
    end.
    """

    def __init__(
        self,
        action: Action = "warn",
        limits: CollapseLimits = CollapseLimits(),  # noqa: B008 - frozen
        *,
        say: Callable[[str], None] | None = None,
    ) -> None:
        if action not in get_args(Action):
            raise UnknownName("kind of action", action, get_args(Action))
        self.action = action
        self.limits = limits
        self.say = say
        self.findings: list[str] = []
        self.back_to: int | None = None
        self._seen: list[Row] = []
        self._present: list[str] = []
        self._states: dict[int, dict[str, Any]] = {}

    def on_epoch_end(self, state: FitState, row: Row) -> None:
        """Checks the epoch and acts on new troubles."""
        for name in _NEEDED:
            if name not in row:
                raise UnknownName("measured value", name, row)
        self._seen.append({name: row[name] for name in (*_NEEDED, "eigenvalue") if name in row})
        troubles = list(self._troubles(state.epochs))
        begun = [trouble for trouble in troubles if trouble.kind not in self._present]
        for trouble in begun:
            self._tell(trouble.sentence)
        if self.action != "warn":
            self._stop(state, [trouble.before for trouble in begun if trouble.kind != "undecided"])
        self._present = [trouble.kind for trouble in troubles]
        if self.action == "roll_back":
            self._keep(state, int(row["epoch"]))

    def on_end(self, state: FitState) -> None:
        """Restores the last epoch before the trouble."""
        if self.back_to is not None:
            state.load_parts(self._states[self.back_to])

    def state_dict(self) -> dict[str, Any]:
        """The findings, the relevant values of all rows, and the states to roll back to."""
        return {
            "findings": self.findings,
            "back_to": self.back_to,
            "seen": self._seen,
            "present": self._present,
            "states": self._states,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores what ``state_dict`` returned."""
        self.findings, self.back_to = state["findings"], state["back_to"]
        self._seen, self._present, self._states = state["seen"], state["present"], state["states"]

    def _tell(self, sentence: str) -> None:
        self.findings.append(sentence)
        if self.say:
            self.say(sentence)

    def _stop(self, state: FitState, before: list[int | None]) -> None:
        """Stops if there are new troubles, and picks the last epoch before all of them."""
        if not before:
            return
        state.should_stop = True
        known = [epoch for epoch in before if epoch is not None]
        if self.action == "stop":
            self._tell("The search was stopped.")
        elif len(known) < len(before):
            self._tell("The search was stopped; there is no epoch before the trouble to roll back to.")
        else:
            self.back_to = min(known)
            self._tell(f"The search was stopped and rolled back to epoch {self.back_to}, the last before the trouble.")

    def _keep(self, state: FitState, epoch: int) -> None:
        """Keeps the states that later epochs could roll back to."""
        if self.back_to is None:
            self._states[epoch] = state.copied_parts()
            measured = [int(row["epoch"]) for row in self._seen if "eigenvalue" in row]
            kept = {*range(epoch + 1 - self.limits.patience, epoch + 1), *measured[-self.limits.window :]}
        else:
            kept = {self.back_to}
        self._states = {known: parts for known, parts in self._states.items() if known in kept}

    def _troubles(self, epochs: int) -> Iterator[_Trouble]:
        limits, last = self.limits, self._seen[-1]
        judged = [row for row in self._seen if row["epoch"] >= limits.after * epochs]
        early = [row for row in self._seen if row["epoch"] + 1 <= epochs / 2]
        now = f"Epoch {last['epoch']:.0f}: expected"
        if _lasts(judged, limits.patience, lambda row: row["skip_share"] > limits.skips):
            yield _Trouble(
                "skips",
                f"{now} at most {limits.skips:.0%} of the operations to be skips. Got {last['skip_share']:.0%} (epochs "
                f"in a row: {limits.patience}).",
                _before(judged, limits.patience),
            )
        yield from self._growth(judged, now)
        is_early = early[-1:] == [last]
        if is_early and _lasts(early, limits.patience, lambda row: row["entropy_share"] < limits.lowest_entropy):
            yield _Trouble(
                "too sure",
                f"{now} an entropy of q of at least {limits.lowest_entropy:.0%} of its maximum in the first half of "
                f"the epochs. Got {last['entropy_share']:.1%} (epochs in a row: {limits.patience}).",
                _before(early, limits.patience),
            )
        if last["epoch"] == epochs - 1 and last["entropy_share"] > limits.highest_entropy:
            yield _Trouble(
                "undecided",
                f"{now} an entropy of q of at most {limits.highest_entropy:.0%} of its maximum at the end. Got "
                f"{last['entropy_share']:.1%}: the chosen options are hardly more probable than the rest.",
                None,
            )

    def _growth(self, judged: list[Row], now: str) -> Iterator[_Trouble]:
        window = self.limits.window
        measured = [row for row in judged if "eigenvalue" in row]
        if len(measured) < 2 * window:
            return
        values = [row["eigenvalue"] for row in measured]
        present, past = fmean(values[-window:]), fmean(values[-2 * window : -window])
        if past > 0 and present > self.limits.growth * past:
            yield _Trouble(
                "growth",
                f"{now} the dominant eigenvalue to grow by a factor below {self.limits.growth:g} (window: {window}). "
                f"Got {present / past:.2f}, from {past:.3g} to {present:.3g}.",
                int(measured[-window - 1]["epoch"]),
            )


def _lasts(rows: list[Row], patience: int, holds: Callable[[Row], bool]) -> bool:
    """Whether a condition holds for the last ``patience`` rows."""
    return len(rows) >= patience and all(map(holds, rows[-patience:]))


def _before(rows: list[Row], patience: int) -> int | None:
    """The epoch before the last ``patience`` rows."""
    first = int(rows[-patience]["epoch"])
    return first - 1 if first else None
