"""One-shot search: a supernet trained by sampled paths, ranked by training speed and searched."""

from polyarch.methods.one_shot.strategies import fairnas, meta_prox, multi_path, multi_path_meta_prox, reptile, spos
from polyarch.runs.sections import CODE_PROXIMAL, THESIS_PROXIMAL

__all__ = [
    "CODE_PROXIMAL",
    "THESIS_PROXIMAL",
    "fairnas",
    "meta_prox",
    "multi_path",
    "multi_path_meta_prox",
    "reptile",
    "spos",
]
