"""Runs seen from outside, by what they leave in their folders: as tables, side by side, listed, and followed."""

from polyarch.overview.comparison import Comparison, compare
from polyarch.overview.frames import Frames, frames_of
from polyarch.overview.state import RunState, State, runs_in, state_of

__all__ = ["Comparison", "Frames", "RunState", "State", "compare", "frames_of", "runs_in", "state_of"]
