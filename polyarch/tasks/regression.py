"""One number or several, with their uncertainty.

Networks that return a mean and a variance: Nix and Weigend (1994), "Estimating the Mean and Variance of the Target
Probability Distribution", ICNN; mixtures of them: Lakshminarayanan, Pritzel and Blundell (2017), "Simple and Scalable
Predictive Uncertainty Estimation using Deep Ensembles", arXiv:1612.01474; the weighted gradient: Seitzer, Tavakoli,
Antic and Martius (2022), "On the Pitfalls of Heteroscedastic Uncertainty Estimation with Probabilistic Neural
Networks", arXiv:2203.09168; by how much an ensemble errs less than its members: Krogh and Vedelsby (1995), "Neural
Network Ensembles, Cross Validation, and Active Learning", NIPS 7.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from polyarch.errors import InvalidInput
from polyarch.predictive import threshold_at
from polyarch.predictive.conformal_intervals import ConformalIntervals, IntervalMethod, fit_intervals
from polyarch.predictive.conformal_quantile import least_examples
from polyarch.predictive.gaussian_mixture import GaussianMixture, fit_scale
from polyarch.predictive.metrics import METRICS, Metric
from polyarch.predictive.regression_metrics import crps, mae, mixture_negative_log_likelihood, r2, rmse
from polyarch.predictive.uncertainty import at_least_single
from polyarch.tasks.task import Calibration, Task, member_weights, unseen

LOG_VARIANCES = (-14.0, 14.0)
"""The range of log variances of standardised targets; without a lower end the density has no bound."""


@dataclass(frozen=True)
class Regression(Task):
    """p(y | x) = prod_t N(y_t; mean_t, variance_t), for targets (B, T) of floats.

    A network returns 2T numbers per example: T means m, then T log variances r, of standardised targets
    z = (y - location) / scale. So

        mean = location + scale m,    variance = scale^2 exp(r)

    The log-likelihood has its true value, but another gradient, because the true one, (z - m) exp(-r) for the mean,
    ignores examples of large variance and explodes at small ones (Seitzer et al.). With error e = z - m,

        d/dm = e    (least squares),    d/dr = min(1, exp(r)) (e^2 exp(-r) - 1) / 2

    Every factor is above 0, so that both vanish where they did.

    Args:
        names: of the targets.
        location, scale: mean and standard deviation of the training targets; see `standardised`.
        metric: what selection goes by; the RMSE by default. Metrics of several targets are means over targets of
            errors in units of their scale.
        coverage: of the intervals.
        intervals: how conformal intervals are made.

    Example:
        >>> task = Regression(("price",), location=(100.0,), scale=(10.0,))
        >>> outputs = torch.tensor([[[0.5, 0.0]]])  # one member, one example: mean 105, standard deviation 10
        >>> mean, std, *_ = task.read(outputs, torch.ones(1), {})
        >>> mean.item(), std.item()
        (105.0, 10.0)
    """

    kind: ClassVar[str] = "regression"
    metrics: ClassVar[Sequence[Metric]] = tuple(METRICS[name] for name in ("rmse", "mae", "r2", "crps"))
    readouts: ClassVar[Mapping[str, str]] = {
        "mean": "(B, targets): the expected value of every target, in the order of `targets`.",
        "std": "(B, targets): its standard deviation; std^2 = noise_std^2 + disagreement_std^2.",
        "noise_std": "(B, targets): the part of it that the members expect.",
        "disagreement_std": "(B, targets): the part by which the members differ; 0 for one member.",
        "low": "(B, targets): the lower end of the interval.",
        "high": "(B, targets): the upper end of the interval.",
    }

    starts_at_zero: ClassVar[bool] = True  # zeros are mean and variance of the training targets

    names: tuple[str, ...] = ("target",)
    location: tuple[float, ...] = (0.0,)
    scale: tuple[float, ...] = (1.0,)
    metric: str = ""
    coverage: float = 0.9
    intervals: IntervalMethod = "scaled"

    def __post_init__(self) -> None:
        if not len(self.names) == len(self.location) == len(self.scale) or min(self.scale, default=0) <= 0:
            raise InvalidInput(
                f"Expected a location and a scale above 0 for each of {len(self.names)} targets. "
                f"Got {self.location} and {self.scale}."
            )

    @property
    def outputs(self) -> int:
        """A mean and a log variance per target."""
        return 2 * len(self.names)

    def standardised(self, targets: Tensor) -> Self:
        """The same task with the location and scale of training targets (N, T); a constant target gets scale 1."""
        self.check(targets)
        values = targets.double()
        spread = values.std(0, correction=0)
        scale = torch.where(spread > 0, spread, 1.0)
        return replace(self, location=tuple(values.mean(0).tolist()), scale=tuple(scale.tolist()))

    def check(self, targets: Tensor) -> None:
        """Refuses anything but finite floats (B, T)."""
        wanted = len(self.names)
        if not targets.is_floating_point() or targets.dim() != 2 or targets.shape[1] != wanted:
            raise InvalidInput(
                f"Expected numbers (N, {wanted}) of a floating-point type for regression. Got {targets.dtype} of shape "
                f"{tuple(targets.shape)}."
            )
        if not targets.isfinite().all():
            raise InvalidInput("Expected finite targets for regression. Got NaN or infinity.")

    def log_likelihood(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """sum_t log N(y_t; mean_t, variance_t), in units of the targets: (..., B, 2T), (B, T) -> (..., B)."""
        return -self._with_gradient(outputs, self._errors(outputs, targets)).sum(-1)

    def distillation(self, outputs: Tensor, teacher: Tensor, targets: Tensor) -> Tensor:
        """The mean over examples of E_{y ~ teacher}[-log p(y)], summed over targets.

        That is the loss at the teacher's mean with squared errors larger by the teacher's variance exp(r'):

            E = (((m' - m)^2 + exp(r')) exp(-r) + r + log(2 pi)) / 2 + log scale

        with the gradients of the loss: a mean learns by least squares.
        """
        errors = teacher[..., : len(self.names)] - outputs[..., : len(self.names)]
        return self._with_gradient(outputs, errors, self._log_variances(teacher).exp()).sum(-1).mean()

    def mix(self, outputs: Tensor, log_weights: Tensor) -> Tensor:
        """The Gaussian with mean and variance of the mixture: right about both, not about the mixture's shape."""
        mixture = self.mixture(outputs, log_weights.exp())
        location, scale = self._units(outputs)
        variance = mixture.variance / scale.square()
        return torch.cat([(mixture.mean - location) / scale, variance.log()], -1)

    def mix_members(self, outputs: Tensor) -> Tensor:
        """The same in standardised units: m = mean_k m_k, exp(r) = mean_k (exp(r_k) + (m_k - m)^2)."""
        means, noise = outputs[..., : len(self.names)], self._log_variances(outputs).exp()
        members = outputs.shape[0]
        mean = means.sum(0) / members  # ONNX would call the result of an operation mean like the output of this name
        return torch.cat([mean, ((noise + (means - mean).square()).sum(0) / members).log()], -1)

    def held_out(self, outputs: Tensor, folds: Tensor, shares: Tensor, targets: Tensor) -> Tensor:
        """Variances of the networks that an example is new to; means that differ and err as those of all K > 2 would.

        Let g_k = sum_s w_s m_sk be the mean of the networks without fold k, and g = mean_k g_k. At an example that is
        new to all of them (Krogh and Vedelsby),

            mean_k (z - g_k)^2 = (z - g)^2 + a,    a = mean_k (g_k - g)^2

        so the ensemble errs less than e = z - g_k, which is known of the k that the example is new to, by a factor of

            r = sqrt(1 - E[a] / E[e^2])

        Member sk gets the mean z - r e + d_sk. The deviations d are those of the K - 1 other networks, enlarged as if
        there were K; that of the k-th is left out, because it makes up a part of e. Networks differ less on examples
        that they were trained on than on new ones, so r is rather too large, and intervals are rather too wide.
        """
        parts, count = outputs.shape[1], len(self.names)
        location, scale = self._units(outputs)
        standardised, weights = (targets.to(outputs) - location) / scale, shares.to(outputs)
        means = outputs[..., :count]  # (S, K, N, T)
        new = unseen(means, folds)  # (S, N, T)
        errors = standardised - torch.einsum("s,snt->nt", weights, new)
        others = (means.sum(1) - new) / (parts - 1)
        is_other = (torch.arange(parts)[:, None] != folds)[:, :, None].to(outputs)
        within = (means - others[:, None]) * is_other * math.sqrt((parts - 1) / (parts - 2))
        ambiguity = torch.einsum("s,sknt->knt", weights, within).square().mean((0, 1))
        ratio = (1 - ambiguity / errors.square().mean(0)).nan_to_num(nan=1.0).clamp_min(0).sqrt()
        between = others - torch.einsum("s,snt->nt", weights, others)
        shifted = standardised - ratio * errors + within + between[:, None]
        log_variances = unseen(outputs[..., count:], folds)[:, None].expand_as(means)
        return torch.cat([shifted, log_variances], -1).flatten(0, 1)

    def tempered(self, outputs: Tensor, temperature: Tensor | float) -> Tensor:
        """Variances times T."""
        means, log_variances = outputs.to(at_least_single(outputs.dtype)).chunk(2, -1)
        return torch.cat([means, log_variances + torch.as_tensor(temperature).log().to(means)], -1)

    def read(self, outputs: Tensor, weights: Tensor, conformal: Mapping[str, Any]) -> tuple[Tensor, ...]:
        """Mean, standard deviation with its two parts, and the interval: conformal, or else of a Gaussian."""
        mixture = self.mixture(outputs, weights)
        mean, deviation = mixture.mean, mixture.deviation
        if conformal:
            low, high = ConformalIntervals.from_dict(conformal)(mixture)
        else:
            margin = NormalDist().inv_cdf((1 + self.coverage) / 2) * deviation
            low, high = mean - margin, mean + margin
        return mean, deviation, mixture.noise.sqrt(), mixture.disagreement.sqrt(), low, high

    def uncertainty(self, read: Sequence[Tensor]) -> Tensor:
        """The standard deviation, for several targets the mean in units of their scale."""
        return (read[1] / self._units(read[1])[1]).mean(-1)

    def errors(self, read: Sequence[Tensor], targets: Tensor) -> Tensor:
        """|mean - y|, for several targets the mean in units of their scale."""
        distance = (read[0] - targets.to(read[0])).abs()
        return distance[:, 0] if len(self.names) == 1 else (distance / self._units(distance)[1]).mean(-1)

    def calibrate(self, outputs: Tensor, targets: Tensor, weights: Tensor, *, flag: float) -> Calibration:
        """A temperature by likelihood, a threshold of the uncertainty, and intervals if the examples suffice."""
        mixture, (_, scale) = self.mixture(outputs, weights), self._units(outputs)
        # All targets share the temperature: each of their standardised values is an example.
        members = len(outputs)
        flat = GaussianMixture(
            (mixture.means / scale).reshape(members, -1, 1),
            (mixture.variances / scale.square()).reshape(members, -1, 1),
            mixture.weights,
        )
        (factor,) = fit_scale(flat, (targets / scale).reshape(-1, 1))
        tempered = self.tempered(outputs, factor**2)
        conformal: dict[str, Any] = {}
        if len(targets) >= least_examples(self.coverage):
            mixture = self.mixture(tempered, weights)
            conformal = fit_intervals(mixture, targets, coverage=self.coverage, method=self.intervals).to_dict()
        threshold = threshold_at(self.uncertainty(self.read(tempered, weights, conformal)), flag)
        return Calibration(factor**2, threshold, conformal)

    def measure(
        self, outputs: Tensor, targets: Tensor, weights: Tensor | None = None, *, names: Sequence[str] | None = None
    ) -> dict[str, float]:
        """Of the mixture: (K, N, 2T), (N, T)."""
        mixture = self.mixture(outputs, member_weights(weights, outputs))
        found: dict[str, Callable[[], float]] = {
            "loss": lambda: mixture_negative_log_likelihood(mixture, targets),
            "rmse": lambda: self._average(rmse(mixture.mean, targets)),
            "mae": lambda: self._average(mae(mixture.mean, targets)),
            "r2": lambda: float(r2(mixture.mean, targets).mean()),
            "crps": lambda: self._average(crps(mixture, targets)),
        }
        return {name: found[name]() for name in names or found}

    def mixture(self, outputs: Tensor, weights: Tensor) -> GaussianMixture:
        """The predictive distribution in units of the targets: (K, B, 2T), (K,)."""
        location, scale = self._units(outputs)
        means = location + scale * outputs[..., : len(self.names)]
        return GaussianMixture(means, scale.square() * self._log_variances(outputs).exp(), weights.to(means))

    def _with_gradient(self, outputs: Tensor, errors: Tensor, spread: Tensor | float = 0.0) -> Tensor:
        """-log N of standardised errors z - m, (..., B, T), whose value is true and whose gradient is ours.

        Args:
            spread: what is added to squared errors: the variance of what is learned, (..., B, T).
        """
        log_variances, squares = self._log_variances(outputs), errors.square() + spread
        constant = self._units(outputs)[1].log()
        losses = (squares * (-log_variances).exp() + log_variances + math.log(2 * math.pi)) / 2 + constant
        if not losses.requires_grad:
            return losses
        weights = log_variances.detach().exp().clamp_max(1)
        variance = squares.detach() * (-log_variances).exp() + log_variances
        gradient = (squares + weights * variance) / 2  # what is differentiated
        return gradient - gradient.detach() + losses.detach()

    def _errors(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """z - m, (..., B, T)."""
        location, scale = self._units(outputs)
        return (targets.to(outputs) - location) / scale - outputs[..., : len(self.names)]

    def _log_variances(self, outputs: Tensor) -> Tensor:
        return outputs[..., len(self.names) :].clamp(*LOG_VARIANCES)

    def _units(self, like: Tensor) -> tuple[Tensor, Tensor]:
        """Location and scale, (T,) each."""
        return like.new_tensor(self.location), like.new_tensor(self.scale)

    def _average(self, values: Tensor) -> float:
        """A single target's value; the mean over several targets in units of their scale."""
        return float(values) if len(values) == 1 else float((values / values.new_tensor(self.scale)).mean())
