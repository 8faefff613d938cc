"""Which networks predict a table best together, chosen on validation data that may be few.

A setting is a candidate without its fold. Where folds validate, it has a network for each of them, and all training
examples tell how good it is: each is predicted by the network that was trained without it. Stone (1974),
"Cross-Validatory Choice and Assessment of Statistical Predictions", Journal of the Royal Statistical Society B.
"""

import statistics
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from polyarch.methods.race.candidates import Candidate
from polyarch.methods.race.rungs import Lane
from polyarch.methods.race.training import CandidateTraining, Leg
from polyarch.predictive.greedy_selection import bagged_weights
from polyarch.randomness import generator_at
from polyarch.runs.folds import WHOLE, fold_rows
from polyarch.runs.judging import Ensemble, MemberOutputs
from polyarch.runs.retraining import outputs
from polyarch.runs.run import Run

MOST_MEMBERS = 15
"""Networks in the ensemble: more would make programs large and slow, and hardly better."""

Setting = tuple[Lane, ...]
"""The lanes of one setting, one for every fold in order, or a single one."""


def table_training(run: Run) -> CandidateTraining:
    """Trains candidates on the examples of their folds."""
    return CandidateTraining(run, run.workspace.checkpoints / "race", fold_rows(run))


def complete_settings(lanes: Sequence[Lane]) -> list[Setting]:
    """Those with a network for every fold that any has; where none has all of them, those of the first fold alone."""
    found: dict[Candidate, list[Lane]] = {}
    for lane in lanes:
        found.setdefault(replace(lane.candidate, fold=0), []).append(lane)
    settings = [tuple(sorted(group, key=lambda lane: lane.candidate.fold)) for group in found.values()]
    folds = max(lane.candidate.fold for lane in lanes) + 1
    return [one for one in settings if len(one) == folds] or [one[:1] for one in settings]


def best_setting(run: Run, settings: Sequence[Setting]) -> Setting:
    """The best on validation data, on average over its folds; few examples make ties, which the loss breaks."""

    def mean(setting: Setting, name: str) -> float:
        return statistics.fmean(float(lane.last[name]) for lane in setting)

    return run.task.selection.best(
        settings, lambda one: mean(one, "valid_score"), loss=lambda one: mean(one, "valid_loss")
    )


def whole_leg(task: CandidateTraining, setting: Setting) -> Leg:
    """Trains a setting on all examples, for as many passes over them as its networks needed."""
    steps = statistics.median(int(lane.last["best_steps"]) for lane in setting) * more_examples(task)
    whole = replace(setting[0].candidate, fold=WHOLE)
    return Leg(whole, float(setting[0].last["seconds"]), steps=max(round(steps), 1))


def more_examples(task: CandidateTraining) -> float:
    """How many times as many examples all folds have as those that train the first."""
    return sum(map(len, task.folds)) / len(task.run.feed.train)


def whole_or(task: CandidateTraining, candidate: Candidate) -> Candidate:
    """The candidate trained on all examples, where it was, or as it is."""
    whole = replace(candidate, fold=WHOLE)
    return whole if task.weights_path(whole).exists() else candidate


class TableEnsembles:
    """Chooses ensembles of settings by what each says about examples that it was not trained on, computed once."""

    def __init__(self, run: Run, task: CandidateTraining) -> None:
        self.run = run
        self.task = task
        self._found: dict[Candidate, tuple[Tensor, Tensor]] = {}

    def shares(self, settings: Sequence[Setting]) -> Tensor:
        """The share of every setting in the ensemble, (S,); only the largest are kept."""
        found = bagged_weights(self._log_likelihoods(settings), generator=self._generator)
        kept = torch.zeros_like(found)
        largest = found.topk(min(max(MOST_MEMBERS // len(settings[0]), 1), len(found))).indices
        kept[largest] = found[largest]
        return kept / kept.sum()

    def loss(self, settings: Sequence[Setting]) -> float:
        """-(1/N) sum_n log sum_s w_s p_s(y_n | x_n) of the ensemble."""
        log_shares = self.shares(settings).log()
        return float(-torch.logsumexp(self._log_likelihoods(settings) + log_shares[:, None], 0).mean())

    def ensemble(self, settings: Sequence[Setting], shares: Sequence[float]) -> Ensemble:
        """The networks of all settings with a share, which those of a setting divide evenly."""
        kept = [(lane, share / len(one)) for one, share in zip(settings, shares, strict=True) if share for lane in one]
        members = [(lane.candidate.architecture, self.task.network(lane.candidate)) for lane, _ in kept]
        made = Ensemble.of(f"ensemble of {len(kept)}", members, [share for _, share in kept])
        chosen = [one for one, share in zip(settings, shares, strict=True) if share]
        valid = self._held_out(chosen, torch.tensor([share for share in shares if share], dtype=torch.float64))
        return self._with_known(made, valid, self._unseen(chosen[0])[1])

    def single(self, setting: Setting, name: str) -> tuple[Candidate, Ensemble]:
        """One network for a setting, calibrated by what its folds say: that of all examples or, without it, the first.

        Returns:
            the candidate, and a mixture of one.
        """
        candidate = whole_or(self.task, setting[0].candidate)
        made = Ensemble.of(name, [(candidate.architecture, self.task.network(candidate))])
        valid, targets = self._unseen(setting)
        return candidate, self._with_known(made, valid[None], targets)

    @property
    def _generator(self) -> torch.Generator:
        return generator_at(self.run.settings.seed, "ensemble")

    def _with_known(self, made: Ensemble, valid: Tensor, targets: Tensor) -> Ensemble:
        test = made.outputs(self.run.feed.in_order(self.run.feed.data.test))
        return replace(made, known=MemberOutputs(self.run.task, valid, targets, *test))

    def _held_out(self, settings: Sequence[Setting], shares: Tensor) -> Tensor:
        """What the members say about examples that only one network of each setting is new to, (M, N, O)."""
        if len(settings[0]) == 1:
            return torch.stack([self._unseen(one)[0] for one in settings])
        places = [lane.candidate.fold for lane in settings[0]]
        rows = [self.task.folds[place] for place in places]
        batches = self.run.feed.in_order(self.run.feed.data.train.subset(torch.cat(rows)))
        everywhere = [[outputs(self.task.network(lane.candidate), batches)[0] for lane in one] for one in settings]
        folds = torch.repeat_interleave(torch.arange(len(rows)), torch.tensor([len(part) for part in rows]))
        targets = self._unseen(settings[0])[1]
        return self.run.task.held_out(torch.stack([torch.stack(one) for one in everywhere]), folds, shares, targets)

    def _log_likelihoods(self, settings: Sequence[Setting]) -> Tensor:
        """log p_s(y_n | x_n) of settings s on examples n: (S, N)."""
        return torch.stack([self.run.task.log_likelihood(*self._unseen(one)) for one in settings])

    def _unseen(self, setting: Setting) -> tuple[Tensor, Tensor]:
        """Outputs (N, O) and targets (N, ...) of examples that are new to the network that predicts them."""
        parts = [self._validated(lane.candidate) for lane in setting]
        return torch.cat([found for found, _ in parts]), torch.cat([targets for _, targets in parts])

    def _validated(self, candidate: Candidate) -> tuple[Tensor, Tensor]:
        if candidate not in self._found:
            feed = self.task.feed(candidate)
            self._found[candidate] = outputs(self.task.network(candidate), feed.in_order(feed.valid))
        return self._found[candidate]
