"""Search for a depth: q(depth) learned with the weights of a residual network, or networks of fixed depths."""

from polyarch.methods.depth.search import DepthSearch, choose_depth, depth_prior, expected_depth, prune

__all__ = ["DepthSearch", "choose_depth", "depth_prior", "expected_depth", "prune"]
