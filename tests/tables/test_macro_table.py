"""The NAS-Bench-Macro table."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from polyarch.errors import CorruptFile, MissingData
from polyarch.spaces.macro import parse_macro
from polyarch.tables import CurveTable, load_macro
from polyarch.testing import TruthContract

HEADER = "arch,test_acc_0,test_acc_1,test_acc_2,mean_acc,std,params,flops"


@pytest.fixture(scope="module")
def macro(data_root: Path) -> CurveTable:
    path = data_root / "nas_bench_macro" / "nb_macro_cifar10.csv.gz"
    if not path.is_file():
        pytest.skip(f"needs NAS-Bench-Macro: {path} is not there")
    return load_macro(path)


class TestMacro(TruthContract):
    @pytest.fixture(autouse=True)
    def _loaded(self, macro: CurveTable) -> None:
        self.table = macro

    def make_truth(self) -> CurveTable:
        return self.table


def test_known_values(macro: CurveTable) -> None:
    assert len(macro) == 3**8 == macro.space.size
    assert max(map(macro.accuracy, macro.architectures())) == pytest.approx(93.1267, abs=1e-4)
    assert macro.accuracy(parse_macro("22212202")) == pytest.approx(93.1267, abs=1e-4)
    empty = parse_macro("00000000")
    assert macro.accuracy(empty) == pytest.approx((45.32 + 45.33 + 45.44) / 3)
    assert [macro.value(empty, column) for column in macro.columns] == [45.32, 45.33, 45.44, 387882, 7713280]


def test_small_absent_and_damaged(tmp_path: Path) -> None:
    path = tmp_path / "macro.csv.gz"
    with pytest.raises(MissingData, match=r"github\.com/xiusu/NAS-Bench-Macro"):
        load_macro(path)
    path.write_bytes(gzip.compress(f"{HEADER}\n01201201,1,2,6,3,0,10,20\n".encode()))
    assert load_macro(path).accuracy(parse_macro("01201201")) == 3
    for row, sentence in (("0120120,1,2,6,3,0,10,20", "8 digits"), ("01201201,1,2,x,3,0,10,20", "could not convert")):
        path.write_bytes(gzip.compress(f"{HEADER}\n{row}\n".encode()))
        with pytest.raises(CorruptFile, match=sentence):
            load_macro(path)
    path.write_bytes(b"not gzip")
    with pytest.raises(CorruptFile, match="to be the table of NAS-Bench-Macro"):
        load_macro(path)
