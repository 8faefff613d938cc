"""One training of an elastic network, and networks of every size out of it."""

from polyarch.methods.front.method import Front

__all__ = ["Front"]
