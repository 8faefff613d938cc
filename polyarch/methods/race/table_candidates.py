"""Who takes part in a race on a table: settings that are known to be good, and relatives of the best of them.

Settings are those of Gorishniy, Kotelnikov and Babenko (2024), "TabM: Advancing Tabular Deep Learning with
Parameter-Efficient Ensembling", arXiv:2410.24210, and neighbours of them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from torch import Generator

from polyarch.methods.race.candidates import Candidate, Recipe
from polyarch.runs.run import Run
from polyarch.spaces import Architecture, mutate
from polyarch.supernets import PackedMLPSupernet

KNOWN_GOOD: Sequence[tuple[dict[str, str], Recipe]] = (
    ({"embedding": "none", "depth": "2", "dropout": "0.1"}, Recipe(2e-3, 3e-4)),
    ({"embedding": "piecewise", "depth": "2", "dropout": "0.1"}, Recipe(2e-3, 3e-4)),
    ({"embedding": "periodic", "depth": "2", "dropout": "0.1"}, Recipe(2e-3, 3e-4)),
    ({"embedding": "none", "depth": "3", "dropout": "0"}, Recipe(1e-3, 3e-4)),
    ({"embedding": "none", "depth": "2", "dropout": "0.3"}, Recipe(4e-3, 3e-2)),
    ({"embedding": "piecewise", "depth": "3", "dropout": "0.3"}, Recipe(1e-3, 3e-4)),
    ({"embedding": "periodic", "depth": "1", "dropout": "0"}, Recipe(2e-3, 3e-2)),
    ({"embedding": "none", "depth": "1", "dropout": "0.1"}, Recipe(4e-3, 3e-4)),
)
"""Options of the space `packed` with a recipe; the first is the plain network."""

PARENTS = 4
"""So many of the best have relatives."""


def is_table_race(run: Run) -> bool:
    """Whether candidates hold several members, as suggested for tables; others race by rungs alone."""
    return isinstance(run.net, PackedMLPSupernet)


def starters(run: Run, count: int) -> list[Candidate]:
    """The first settings that the space has and the limits allow; random networks where these are too few."""
    known = [(architecture, recipe) for options, recipe in KNOWN_GOOD for architecture in _fitting(run, options)]
    fitting = [pair for pair in dict.fromkeys(known) if run.limits.allows(pair[0])]
    recipe = KNOWN_GOOD[0][1]
    missing = count - len(fitting)
    drawn = run.draw(missing, "race", besides=[one for one, _ in fitting]) if missing > 0 else []
    pairs = [*fitting, *((architecture, recipe) for architecture in drawn)][:count]
    return [Candidate(one, recipe=how, is_reference=place == 0) for place, (one, how) in enumerate(pairs)]


def relatives(run: Run, ordered: Sequence[Candidate], count: int, generator: Generator) -> list[Candidate]:
    """New candidates: one of the best with another seed, and with one choice, learning rate or decay changed or none.

    Args:
        ordered: all candidates so far, the best first.
    """
    best = ordered[:PARENTS]
    return [
        replace(
            _changed(run, best[_drawn(len(best), generator)], generator), seed=len(ordered) + place, is_reference=False
        )
        for place in range(count)
    ]


def _changed(run: Run, parent: Candidate, generator: Generator) -> Candidate:
    recipe = parent.recipe
    assert recipe is not None
    match _drawn(4, generator):
        case 0:
            moved = mutate(parent.architecture, generator)
            return replace(parent, architecture=moved) if run.limits.allows(moved) else parent
        case 1:
            rate = recipe.learning_rate * (0.5, 2.0)[_drawn(2, generator)]
            return replace(parent, recipe=replace(recipe, learning_rate=rate))
        case 2:
            decay = recipe.weight_decay * (0.1, 10.0)[_drawn(2, generator)]
            return replace(parent, recipe=replace(recipe, weight_decay=decay))
    return parent


def _fitting(run: Run, options: dict[str, str]) -> Iterator[Architecture]:
    """The architecture of these options, if the space has them; what is no choice of the space does not matter."""
    choices = run.net.space.choices
    if all(options.get(choice.name) in choice.options for choice in choices):
        yield run.net.space.architecture({choice.name: options[choice.name] for choice in choices})


def _drawn(count: int, generator: Generator) -> int:
    return int(torch.randint(count, (1,), generator=generator))
