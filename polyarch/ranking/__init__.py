"""How well predicted scores rank architectures against the truth."""

from polyarch.ranking.quality import Interval, RankQuality, rank_quality, regret, top_k

__all__ = ["Interval", "RankQuality", "rank_quality", "regret", "top_k"]
