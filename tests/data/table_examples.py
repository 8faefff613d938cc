"""A small table, for the tests of this folder."""

from __future__ import annotations

import gzip
from pathlib import Path

PETS = """name,weight,colour,kind
Rex,20.5,brown,dog
Tom,4,black,cat
Ada,,white,dog
Kit,3.5,,cat
Bob,25,brown,dog
Mia,5,white,cat
"""


def written(folder: Path, text: str, name: str = "pets.csv") -> Path:
    path = folder / name
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path
