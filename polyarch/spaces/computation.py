"""What a cell computes, written so that cells of the same network have the same text.

A cell adds, copies and leaves out values, so many of its descriptions give one and the same network: an operation that
reaches no output does not count, a skip repeats a sum, and nodes may come in another order.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, permutations, product

Atom = str | int
"""The name of an input, or the number of an operation with weights of its own."""

Term = tuple[str, Atom]
"""The linear operations that an atom passed, the last one first, and the atom."""

Sum = tuple[Term, ...]
"""A sum of terms; a term may come several times, and nothing at all is zero."""


class Computation:
    """Sums of inputs and of operations, each with weights of its own.

    Two computations have the same key exactly if some renaming of weights turns one into the other. An operation used
    twice is not two operations:

    >>> shared, separate = Computation(), Computation()
    >>> twice = 2 * shared.operation("conv", shared.input("x"))
    >>> two = separate.operation("conv", separate.input("x")) + separate.operation("conv", separate.input("x"))
    >>> shared.key([twice]), separate.key([two])
    ('conv(x);0+0', 'conv(x);conv(x);0+1')
    """

    def __init__(self) -> None:
        self._operations: list[tuple[str, Sum]] = []

    @staticmethod
    def input(name: str) -> Sum:
        """An input of the cell."""
        return (("", name),)

    @staticmethod
    def linear(name: str, value: Sum) -> Sum:
        """A linear operation without weights, which can be applied to every term: f(a + b) = f(a) + f(b)."""
        return tuple((f"{name} {passed}", atom) for passed, atom in value)

    def operation(self, name: str, value: Sum) -> Sum:
        """An operation with weights of its own, applied to a sum."""
        self._operations.append((name, value))
        return (("", len(self._operations) - 1),)

    def key(self, outputs: Iterable[Sum]) -> str:
        """All operations that reach an output, then the outputs, whose order does not count.

        Operations are numbered in the order of their texts, in which their inputs are spelled out. Among those of the
        same text the numbers are the ones that give the first key in the alphabet.
        """
        outputs = list(outputs)
        texts: list[str] = []
        for name, value in self._operations:  # their inputs come before them
            texts.append(f"{name}({_written(value, texts)})")
        alike: dict[str, list[int]] = {}
        for number in sorted(self._used(outputs), key=lambda number: (texts[number], number)):
            alike.setdefault(texts[number], []).append(number)
        orders = product(*map(permutations, alike.values()))
        return min(self._text(list(chain(*order)), outputs) for order in orders)

    def _used(self, outputs: Iterable[Sum]) -> set[int]:
        """The operations that reach an output."""
        waiting, used = list(_operations_in(chain(*outputs))), set[int]()
        while waiting:
            number = waiting.pop()
            if number not in used:
                used.add(number)
                waiting.extend(_operations_in(self._operations[number][1]))
        return used

    def _text(self, order: list[int], outputs: list[Sum]) -> str:
        names = {number: str(position) for position, number in enumerate(order)}
        chosen = [self._operations[number] for number in order]
        operations = [f"{name}({_written(value, names)})" for name, value in chosen]
        return ";".join([*operations, *sorted(_written(output, names) for output in outputs)])


def _operations_in(terms: Iterable[Term]) -> Iterator[int]:
    return (atom for _, atom in terms if isinstance(atom, int))


def _written(value: Sum, names: Mapping[int, str] | list[str]) -> str:
    terms = sorted(passed + (atom if isinstance(atom, str) else names[atom]) for passed, atom in value)
    return "+".join(terms) or "nothing"
