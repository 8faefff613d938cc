"""What `polyarch predict` reads: tables, arrays and images."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from torch import Tensor

from polyarch.errors import CorruptFile, DataError, PolyarchError
from polyarch.prediction.inputs import read_inputs
from polyarch.prediction.predictor import Predictor

Command = Callable[..., subprocess.CompletedProcess[str]]


class TestInputs:
    def collect(self, path: Path, predictor: Predictor) -> tuple[list[str], Tensor]:
        inputs = read_inputs(path, predictor)
        return inputs.ids, torch.cat(list(inputs.batches))

    @pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".parquet"])
    def test_tables(
        self, suffix: str, table: pd.DataFrame, tmp_path: Path, predictors: dict[str, Predictor], examples: ModuleType
    ) -> None:
        path = tmp_path / f"rows{suffix}"
        frame = table[table.columns[::-1]]  # found by name, not by place
        frame.to_parquet(path) if suffix == ".parquet" else frame.to_csv(path, index=False)
        inputs = read_inputs(path, predictors["table"])
        rows = torch.cat(list(inputs.batches))
        assert torch.equal(rows.nan_to_num(-9), examples.rows(40, seed=3).nan_to_num(-9))
        assert inputs.ids == [str(number) for number in range(1, 41)]
        assert inputs.target == "label" and inputs.targets is not None
        assert inputs.targets.tolist() == [0, 1, 2, 0] * 10

    def test_ids_and_columns_that_are_no_labels(
        self, table: pd.DataFrame, tmp_path: Path, predictors: dict[str, Predictor]
    ) -> None:
        path = tmp_path / "rows.csv"
        table.assign(ID=[f"p{number}" for number in range(40)]).to_csv(path, index=False)
        assert read_inputs(path, predictors["table"]).ids[:2] == ["p0", "p1"]
        table.assign(label=["low"] * 39 + ["other"], note="x").to_csv(path, index=False)
        assert read_inputs(path, predictors["table"]).targets is None
        table.assign(guess="low", hint="-").drop(columns="label").to_csv(path, index=False)
        assert read_inputs(path, predictors["table"]).targets is None  # two candidates, none by name

    def test_arrays(self, tmp_path: Path, predictors: dict[str, Predictor], examples: ModuleType) -> None:
        path, images = tmp_path / "a.npz", examples.images(5)
        np.savez(path, images.numpy())
        assert torch.equal(self.collect(path, predictors["image"])[1], images)
        np.savez(path, x=images.permute(0, 2, 3, 1).numpy().astype(np.int64), y=np.zeros(5))
        ids, found = self.collect(path, predictors["image"])
        assert torch.equal(found, images) and ids == ["0", "1", "2", "3", "4"]
        np.savez_compressed(path, x=np.array([[1, 2]]))
        assert self.collect(path, predictors["vector"])[1].tolist() == [[1.0, 2.0]]
        np.savez(path, x=examples.rows(3).numpy())
        assert self.collect(path, predictors["table"])[1].shape == (3, 4)

    def test_images(self, tmp_path: Path, predictors: dict[str, Predictor], examples: ModuleType) -> None:
        images = examples.images(3)
        names = ["b.png", "a/z.PNG", ".hidden/x.png"]
        for name, image in zip(names, images, strict=True):
            (tmp_path / name).parent.mkdir(exist_ok=True)
            Image.fromarray(image.permute(1, 2, 0).numpy()).save(tmp_path / name)
        (tmp_path / "notes.txt").write_text("no image")
        (tmp_path / ".hidden.png").write_text("no image either")
        ids, found = self.collect(tmp_path, predictors["image"])
        assert ids == ["a/z.PNG", "b.png"]
        assert torch.equal(found, images[[1, 0]])
        ids, found = self.collect(tmp_path / "b.png", predictors["image"])
        assert ids == ["b.png"] and torch.equal(found, images[:1])
        floats = replace(predictors["image"], input_dtype=torch.float32)
        assert torch.equal(self.collect(tmp_path / "b.png", floats)[1], images[:1].float() / 255)

    def test_a_large_folder_is_streamed(self, tmp_path: Path, predictors: dict[str, Predictor]) -> None:
        for number in range(300):
            Image.new("RGB", (8, 8)).save(tmp_path / f"{number:03}.png")
        (tmp_path / "299.png").write_bytes(b"damaged")
        batches = read_inputs(tmp_path, predictors["image"]).batches
        assert len(next(batches)) == 256  # the damaged image was not looked at yet
        with pytest.raises(CorruptFile, match=r"299\.png"):
            next(batches)

    @pytest.mark.parametrize(
        ("kind", "name", "content", "words"),
        [
            ("image", "nothing", None, "Expected a file or a folder at .*nothing"),
            ("image", "rows.csv", b"a,b\n1,2\n", r"Expected images \(3, 8, 8\) for this artifact. Found a table"),
            ("vector", "rows.csv", b"a,b\n1,2\n", "vectors of .* in an .npz file"),
            ("table", "a.png", b"", "Expected rows of a table with 4 columns .* Found an image"),
            ("vector", "a.png", b"", "Found an image"),
            ("image", "a.png", b"no image", "a.png to be a readable image"),
            ("image", "a.png", b"", "a.png to be a readable image"),
            ("image", "a.txt", b"", "Expected .csv, .csv.gz, .parquet, .npz, an image or a folder"),
            ("table", "rows.csv", b"", "rows.csv"),
            ("table", "rows.csv", b"age,colour,income,city\n", "Expected rows in"),
            ("table", "rows.csv", b"age,colour,income\n1,red,2\n", "Expected columns 'city'"),
            ("table", "rows.csv", b"age,colour,income,city\n1,red,2,a\nold,red,2,a\n", "Found 'old' in row 2"),
            ("table", "rows.csv", b"age,colour,income,city\ninf,red,2,a\n", "finite numbers"),
            ("table", "rows.csv", b"\xff\xfe\x00", "rows.csv"),
            ("table", "rows.parquet", b"PAR1", "rows.parquet"),
            ("table", "rows.csv.gz", b"no gzip", "rows.csv.gz"),
            ("image", "a.npz", b"no zip", "a.npz to be a file of plain numpy arrays"),
            ("image", "a.npz", b"", "a.npz"),
        ],
    )
    def test_wrong_files(
        self, kind: str, name: str, content: bytes | None, words: str, tmp_path: Path, predictors: dict[str, Predictor]
    ) -> None:
        if content is not None:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(PolyarchError, match=words) as caught:
            self.collect(tmp_path / name, predictors[kind])
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize(
        ("kind", "arrays", "words"),
        [
            ("image", {"x": np.zeros((2, 4, 4, 3), np.uint8)}, r"shape \(N, 3, 8, 8\) in .*a.npz. Found"),
            ("image", {"x": np.zeros((0, 3, 8, 8), np.uint8)}, "Expected examples of shape"),
            ("image", {"x": np.uint8(3)}, "Expected examples of shape"),
            ("image", {"x": np.zeros((2, 3, 8, 8))}, "bytes 0..255 in .* Found float64"),
            ("image", {"x": np.full((2, 3, 8, 8), 256)}, "Found 256..256"),
            ("image", {"a": np.zeros(2), "b": np.zeros(2)}, "Expected an array x, or only one array, .* Found a, b"),
            ("vector", {"x": np.array([["a", "b"]])}, "Expected numbers"),
            ("vector", {"x": np.array([[1, None]], dtype=object)}, "plain numpy arrays"),
            ("vector", {"x": np.array([[0.0, 0.0], [np.nan, 0.0]])}, "NaN or infinity in example 1 of .*a.npz"),
            ("vector", {"x": np.array([[1e300, 0.0]])}, "NaN or infinity in example 0"),
            ("table", {"x": np.array([[np.inf, 0, 0, 0]])}, "infinity in example 0"),
        ],
    )
    def test_wrong_arrays(
        self, kind: str, arrays: dict[str, Any], words: str, tmp_path: Path, predictors: dict[str, Predictor]
    ) -> None:
        np.savez(tmp_path / "a.npz", **arrays)
        with pytest.raises(PolyarchError, match=words):
            self.collect(tmp_path / "a.npz", predictors[kind])

    def test_empty_folders(self, tmp_path: Path, predictors: dict[str, Predictor]) -> None:
        with pytest.raises(DataError, match="Expected images in"):
            self.collect(tmp_path, predictors["image"])
        with pytest.raises(DataError, match="Found a folder"):
            self.collect(tmp_path, predictors["table"])
