"""A race of ordinary networks for the minutes that a user has, with a plain one among them."""

from polyarch.methods.race.method import Race

__all__ = ["Race"]
