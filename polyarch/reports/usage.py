"""How the artifact of a run is loaded and used: blocks to copy, and what goes in and comes out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from polyarch.methods.depth.words import is_learned
from polyarch.reports.words import several
from polyarch.results import Results


@dataclass(frozen=True)
class Block:
    """A piece of code with a heading."""

    heading: str
    code: str


def blocks(results: Results) -> list[Block]:
    """For a shell, for polyarch, and for programs that do without it; paths start at the folder of the run."""
    shape = ", ".join(str(size) for size in results.data["input_shape"])
    dtype = str(results.data.get("dtype", "float32"))
    programs = results.settings.get("programs", ("pt2", "onnx"))
    folder = "artifact" if results.stochastic is None else "ensemble"
    tensor = f"inputs = torch.zeros(1, {shape}, dtype=torch.{dtype})  # raw examples: preprocessing is inside\n"
    found = [
        Block("In a shell", f"polyarch predict {folder} INPUT\npolyarch serve {folder}"),
        *_modes(results),
        Block(
            "In Python, with polyarch",
            "from pathlib import Path\n\nimport torch\nfrom polyarch import Predictor\n\n"
            f'predictor = Predictor.load(Path("{folder}"))\n{tensor}'
            "predictions = predictor(inputs)\n"
            "print(predictions.probabilities, predictions.entropy, predictions.flagged)",
        ),
    ]
    if "pt2" in programs:
        code = (
            f'import torch\n\nprogram = torch.export.load("{folder}/model.pt2").module()\n'
            f"{tensor}probabilities, entropy, mutual_information = program(inputs)"
        )
        found.append(Block("In Python, with torch alone", code))
    if "onnx" in programs:
        code = (
            f'import numpy\nimport onnxruntime\n\nsession = onnxruntime.InferenceSession("{folder}/model.onnx")\n'
            f"inputs = numpy.zeros((1, {shape}), dtype=numpy.{dtype})  # raw examples: preprocessing is inside\n"
            'probabilities, entropy, mutual_information = session.run(None, {"inputs": inputs})'
        )
        found.append(Block("With ONNX Runtime", code))
    return found


def _modes(results: Results) -> Iterator[Block]:
    """Ways to predict where a distribution was learned; the folder of the run has the weights for all of them."""
    ways: dict[str, str] = {}
    if results.depth is not None and is_learned(results.depth):
        ways = {"single": f"depth {results.depth.chosen} alone", "marginal": "the mixture of depths"}
        if results.depth.exits and results.space["kind"] != "module":  # own networks run as programs, which do not stop
            ways["early-exit"] = "easy examples use fewer blocks"
    if results.guided is not None:
        ways = {
            "single": "the best draw alone",
            "marginal": f"the mixture of {several(results.guided.members, 'draw')}",
        }
    if ways:
        lines = [f"polyarch predict RUN INPUT --mode {mode}  # {words}" for mode, words in ways.items()]
        yield Block("In a shell, with the folder of this report as RUN", "\n".join(lines))


def inputs_in_words(results: Results) -> str:
    """What the network takes in."""
    shape = ", ".join(str(size) for size in results.data["input_shape"])
    dtype = results.data.get("dtype", "float32")
    return f"{dtype} of shape (N, {shape}) for N examples"


def classes_in_words(results: Results, most: int = 20) -> str:
    """The classes in the order of the outputs; of many only the first."""
    names = [str(name) for name in results.data["classes"]]
    shown = ", ".join(names[:most])
    more = f", … ({len(names) - most:,} more)" if len(names) > most else ""
    number = "1 class" if len(names) == 1 else f"{len(names):,} classes"
    return f"{number}: {shown}{more}"
