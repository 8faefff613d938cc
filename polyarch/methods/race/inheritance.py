"""What a child in a race begins with: the weights of its parent, as far as both have them.

Elsken et al. (2019), "Efficient Multi-objective Neural Architecture Search via Lamarckian Evolution",
arXiv:1804.09081.
"""

import shutil
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from polyarch.files import rename_folder
from polyarch.methods.race.candidates import Candidate
from polyarch.methods.race.training import CandidateTraining
from polyarch.runs.recipe import optimiser
from polyarch.training import CheckpointStore, WeightAverage


def hand_over(task: CandidateTraining, parent: Candidate, child: Candidate) -> None:
    """Gives a child the last checkpoint of its parent, unless it has one.

    A child of the same architecture goes on as if it were the parent. One of another architecture begins its momentum
    anew, and new channels and layers with fresh weights.
    """
    target = task.folder_of(child)
    if target.exists():
        return
    draft = target.with_suffix(".draft")
    shutil.rmtree(draft, ignore_errors=True)
    if parent.architecture == child.architecture:
        shutil.copytree(task.folder_of(parent), draft)
    else:
        saved = CheckpointStore(task.folder_of(parent)).load()
        assert saved is not None
        CheckpointStore(draft).save(saved["step"], _inherited(task, saved, child))
    rename_folder(draft, target)


def _inherited(task: CandidateTraining, saved: Mapping[str, Any], child: Candidate) -> dict[str, Any]:
    """The checkpoint of a parent as one of another architecture."""
    network = task.fresh(child)
    own = network.state_dict()
    callbacks = list(saved["callbacks"])
    place = saved["callback_names"].index(WeightAverage.__name__)
    callbacks[place] = {**callbacks[place], "average": overlapping(own, callbacks[place]["average"])}
    parts = {
        "network": overlapping(own, saved["parts"]["network"]),
        "optimizer": optimiser(network, task.settings).state_dict(),
    }
    return {**saved, "parts": parts, "callbacks": callbacks}


def overlapping(own: Mapping[str, Tensor], others: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Own tensors whose leading slices are those of the others with the same name, as far as both reach."""
    found = {}
    for name, tensor in own.items():
        result = tensor.clone()
        other = others.get(name)
        if other is not None and other.dim() == tensor.dim():
            part = tuple(slice(min(ours, theirs)) for ours, theirs in zip(tensor.shape, other.shape, strict=True))
            result[part] = other[part]
        found[name] = result
    return found
