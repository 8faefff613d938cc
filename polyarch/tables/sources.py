"""Finds truths by name or path."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from polyarch.data.locations import data_root
from polyarch.errors import InvalidInput, MissingData, UnknownName
from polyarch.spaces.nb101 import NB101_PARENTS
from polyarch.tables.curve_table import CurveTable
from polyarch.tables.nasbench101 import NASBench101
from polyarch.tables.nasbench201 import NASBench201
from polyarch.tables.nasbench301 import NASBench301
from polyarch.tables.nasbench_macro import load_macro
from polyarch.tables.nats import TABLES
from polyarch.tables.spikenas import load_spikenas
from polyarch.tables.truth import Truth


@dataclass(frozen=True)
class TruthSource:
    """A truth with a one-line description, its place in the data folder, and a loader for the text after a colon."""

    what: str
    place: str
    load: Callable[[str], Truth]


def load_truth(name: str | Path) -> Truth:
    """Loads a truth by name, or a `CurveTable` from a file or the folder of a build.

    ``nb201`` and ``nb201:cifar100_test_200`` (a column), ``nats:cifar10`` (a data set; ``nats:cifar10_12`` its runs of
    12 epochs), ``macro``, ``spikenas``, ``nb101:1`` (a 1shot1 space), ``nb301``, or the path of an ``.npz`` that
    `CurveTable.save` wrote or of a folder with ``truth.npz``, optionally with a column after a colon.
    """
    text = str(name)
    known, _, detail = text.partition(":")
    if known in SOURCES:
        return SOURCES[known].load(detail)
    found = table_file(text)
    if found is None:
        raise UnknownName("truth (or the path of an .npz file)", text, SOURCES)
    path, column = found
    table = CurveTable.load(path)
    return table.by(column) if column else table


def table_file(text: str) -> tuple[Path, str] | None:
    """The file that a path or the folder of a build refers to, and the column after a colon; None for other names."""
    before, _, after = text.rpartition(":")
    for place, column in ((text, ""), (before, after)):
        if place.endswith(".npz"):
            return Path(place), column
        if place and Path(place).is_dir():
            return Path(place) / "truth.npz", column
    return None


def _nb101(detail: str) -> Truth:
    if detail and detail not in map(str, NB101_PARENTS):
        raise InvalidInput(f"Expected a 1shot1 space, nb101:1, nb101:2 or nb101:3. Got {detail!r} after the colon.")
    return NASBench101.load(space=int(detail or 3))


def _nats(detail: str) -> Truth:
    name = detail or "cifar10"
    if name not in TABLES:
        raise UnknownName("table of NATS-Bench", name, TABLES)
    path = data_root() / "nas_bench_201" / f"nats_{name}.npz"
    if not path.is_file():
        raise MissingData(
            f"Expected the learning curves of NATS-Bench at {path}. Found no such file; POLYARCH_DATA names the data "
            "folder, and `polyarch truth convert nats NATS-tss-v1_0-3ffb9-simple.tar "
            f"--out {path.parent / 'nats.npz'}` makes it from the official archive "
            "(links in github.com/D-X-Y/NATS-Bench)."
        )
    return CurveTable.load(path)


def _table(load: Callable[[], CurveTable]) -> Callable[[str], Truth]:
    return lambda column: load().by(column) if column else load()


def _nb301(detail: str) -> Truth:
    if detail:
        raise InvalidInput(f"Expected nb301 alone. Got {detail!r} after a colon.")
    return NASBench301.load()


SOURCES = {
    "nb201": TruthSource(
        "NAS-Bench-201, 15,625 cells, a column after the colon",
        "nas_bench_201/nb201_table.csv.gz",
        lambda column: NASBench201.load(column=column) if column else NASBench201.load(),
    ),
    "nats": TruthSource(
        "NATS-Bench, learning curves of the same cells, cifar10, cifar100 or imagenet16 after the colon; cifar10_12 "
        "and so on are those of 12 epochs",
        "nas_bench_201/nats_cifar10.npz",
        _nats,
    ),
    "macro": TruthSource("NAS-Bench-Macro, 6561 chains", "nas_bench_macro/nb_macro_cifar10.csv.gz", _table(load_macro)),
    "spikenas": TruthSource(
        "SpikeNAS-Bench, learning curves of 15,625 spiking cells",
        "spikenas_bench/spikenas_cifar10.npz",
        _table(load_spikenas),
    ),
    "nb101": TruthSource(
        "NAS-Bench-101 for the 1shot1 spaces 1, 2 and 3, by the number after the colon",
        "nas_bench_101/nb101.npz",
        _nb101,
    ),
    "nb301": TruthSource("NAS-Bench-301, a surrogate for DARTS networks", "nas_bench_301/xgb_v1.0", _nb301),
}
