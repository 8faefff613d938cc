"""Reports: one HTML file per run, and drawings of architectures."""

from polyarch.reports.drawing import draw
from polyarch.reports.page import write_report

__all__ = ["draw", "write_report"]
