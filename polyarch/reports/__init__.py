"""Reports: one HTML file per run, a card per artifact, and drawings of architectures."""

from polyarch.reports.drawing import draw
from polyarch.reports.model_card import write_model_card, write_model_cards
from polyarch.reports.page import write_report

__all__ = ["draw", "write_model_card", "write_model_cards", "write_report"]
