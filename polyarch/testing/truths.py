"""The contract of truths."""

from unittest import TestCase

import numpy as np

from polyarch.errors import InvalidInput
from polyarch.spaces import Architecture, Choice, Space
from polyarch.tables import Truth


class TruthContract:
    """Inherit, and return a truth whose architectures can be listed, and an unknown architecture."""

    shown = 30
    """The number of architectures that are checked one by one."""

    def make_truth(self) -> Truth:
        """The truth under test."""
        raise NotImplementedError

    def make_stranger(self) -> Architecture:
        """An architecture that the truth does not know."""
        return Space("elsewhere", (Choice("only", ("a", "b")),)).architecture(["a"])

    def test_listed_architectures_are_known_once(self) -> None:
        """As many as the length says, all in the truth's space."""
        truth = self.make_truth()
        listed = truth.architectures()
        assert len(listed) == len(set(listed)) == len(truth) > 0
        assert all(architecture in truth and architecture.space == truth.space for architecture in listed[: self.shown])

    def test_accuracies_are_percentages(self) -> None:
        """Finite numbers in 0..100, not shares in 0..1."""
        truth = self.make_truth()
        accuracies = [truth.accuracy(architecture) for architecture in truth.architectures()]
        assert all(0 <= accuracy <= 100 for accuracy in accuracies)
        assert max(accuracies) > 1

    def test_curves_end(self) -> None:
        """Every curve has finite values without padding."""
        truth = self.make_truth()
        for architecture in truth.architectures()[: self.shown]:
            for measure in truth.measures:
                curve = truth.curve(architecture, measure)
                assert curve.dtype == np.float64 and curve.ndim == 1 and len(curve) > 0
                assert np.isfinite(curve).all()

    def test_unknown_measures_are_refused(self) -> None:
        """With an error that names the known ones."""
        truth = self.make_truth()
        with TestCase().assertRaises(InvalidInput) as caught:
            truth.curve(truth.architectures()[0], "no such measure")
        assert all(measure in str(caught.exception) for measure in truth.measures)

    def test_strangers_are_refused(self) -> None:
        """With an error that names the stranger."""
        truth, stranger = self.make_truth(), self.make_stranger()
        assert stranger not in truth and "a text" not in truth
        with TestCase().assertRaises(InvalidInput) as caught:
            truth.accuracy(stranger)
        assert stranger.key in str(caught.exception)

    def test_architectures_are_found_by_names(self) -> None:
        """Also in a space with another name and another order of the options."""
        truth = self.make_truth()
        turned = Space("turned", tuple(Choice(c.name, c.options[::-1], c.kind) for c in truth.space.choices))
        for architecture in truth.architectures()[: self.shown]:
            same = turned.architecture(architecture.to_dict())
            assert same in truth
            assert truth.accuracy(same) == truth.accuracy(architecture)
