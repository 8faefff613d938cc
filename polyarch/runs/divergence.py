"""Says what diverged: the architecture and the setting that is to blame."""

from collections.abc import Iterator
from contextlib import contextmanager

from polyarch.errors import NotFiniteError
from polyarch.spaces import Architecture

LONGEST_KEY = 80


@contextmanager
def naming_divergence(setting: str, value: float, architecture: Architecture | None = None) -> Iterator[None]:
    """Adds to errors in the block which network was trained, and the setting that is likely too large.

    Args:
        setting: its name in a run description, such as ``train.learning_rate``.
        value: what it is.
        architecture: of the network; none for a supernet.
    """
    try:
        yield
    except NotFiniteError as error:
        key = "" if architecture is None else architecture.key
        short = key if len(key) <= LONGEST_KEY else f"{key[:LONGEST_KEY]}..."
        what = f"of the network {short}" if short else "of the supernet"
        raise error.at(what, advice=f"try a lower {setting} than {value:g}") from None
