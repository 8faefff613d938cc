"""Arrays of Matlab files, against scipy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.io import loadmat, savemat

from polyarch.data.matlab import read_matlab

NUMBERS = np.arange(-12, 12).reshape(2, 3, 4)
ARRAYS = {f"of_{kind}": NUMBERS.astype(kind) for kind in ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f4", "f8")}


@pytest.mark.parametrize("compressed", [False, True])
def test_arrays_of_every_type(compressed: bool, tmp_path: Path) -> None:
    """What holds no real numbers is left out."""
    others = {"text": "abc", "complex": NUMBERS * 1j, "cell": np.array([1, "a"], dtype=object)}
    more = {"a_long_name": np.ones((2, 0)), "n": 3.5}
    savemat(tmp_path / "a.mat", {**ARRAYS, **others, **more}, do_compression=compressed)
    theirs, ours = loadmat(tmp_path / "a.mat"), read_matlab(tmp_path / "a.mat")
    assert ours.keys() == ARRAYS.keys() | more.keys()
    for name, array in ours.items():
        assert array.dtype == theirs[name].dtype
        np.testing.assert_array_equal(array, theirs[name])
