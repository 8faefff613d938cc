from __future__ import annotations

import io
import os
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from polyarch.data import decode_image
from polyarch.data.decoding import read_header
from polyarch.data.image_folders import image_files
from polyarch.errors import CorruptFile, DataError
from polyarch.randomness import generator_at


def noise(*shape: int) -> Tensor:
    return torch.randint(256, shape, generator=generator_at(0, "pixels"), dtype=torch.uint8)


def saved(image: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def colour(pixels: Tensor) -> Image.Image:
    """(3, H, W) -> RGB."""
    return Image.fromarray(pixels.permute(1, 2, 0).numpy())


class TestShape:
    @pytest.mark.parametrize("channels", [1, 3])
    def test_right_size_comes_back_bit_for_bit(self, channels: int) -> None:
        pixels = noise(channels, 9, 9)
        image = colour(pixels) if channels == 3 else Image.fromarray(pixels[0].numpy())
        assert torch.equal(decode_image(saved(image), (channels, 9, 9)), pixels)

    def test_the_middle_is_kept(self) -> None:
        pixels = noise(3, 6, 10)
        assert torch.equal(decode_image(saved(colour(pixels)), (3, 6, 6)), pixels[:, :, 2:8])
        tall = pixels.transpose(1, 2).contiguous()
        assert torch.equal(decode_image(saved(colour(tall)), (3, 6, 6)), tall[:, 2:8])

    def test_shrinking_takes_the_mean_of_each_area(self) -> None:
        pixels = noise(3, 8, 8)
        means = pixels.double().view(3, 4, 2, 4, 2).mean((2, 4))
        got = decode_image(saved(colour(pixels)), (3, 4, 4)).double()
        assert (got - means).abs().max() <= 1  # rounded twice: along rows, then along columns

    def test_other_proportions(self) -> None:
        pixels = noise(3, 12, 12)
        assert torch.equal(decode_image(saved(colour(pixels)), (3, 6, 12)), pixels[:, 3:9])

    def test_enlarging(self) -> None:
        grey = Image.new("L", (3, 3), 77)
        assert decode_image(saved(grey), (1, 8, 8)).unique().tolist() == [77]

    def test_path_and_content_give_the_same(self, tmp_path: Path) -> None:
        content = saved(colour(noise(3, 40, 30)), "JPEG")
        (tmp_path / "a.jpg").write_bytes(content)
        assert torch.equal(decode_image(tmp_path / "a.jpg", (3, 5, 5)), decode_image(content, (3, 5, 5)))

    def test_large_photograph_is_close_to_its_exact_mean(self) -> None:
        """The decoder may shrink it first."""
        ramp = np.tile(np.linspace(0, 255, 800, dtype=np.uint8), (800, 1))
        content = saved(Image.fromarray(ramp), "JPEG", quality=95)
        means = torch.from_numpy(ramp).double().view(8, 100, 8, 100).mean((1, 3))
        assert (decode_image(content, (1, 8, 8))[0].double() - means).abs().max() < 3

    @pytest.mark.parametrize("shape", [(2, 8, 8), (8, 8)])
    def test_shape_that_is_no_image(self, shape: tuple[int, ...]) -> None:
        with pytest.raises(DataError, match=r"1, 3 or 4 channels. Got \("):
            decode_image(saved(Image.new("L", (8, 8))), shape)


class TestModes:
    def test_orientation_of_the_camera(self) -> None:
        pixels = noise(3, 6, 6)
        exif = Image.Exif()
        exif[0x0112] = 6  # turn by 90 degrees clockwise
        content = saved(colour(pixels), "PNG", exif=exif)
        assert torch.equal(decode_image(content, (3, 6, 6)), pixels.rot90(-1, (1, 2)))

    def test_transparency_lies_over_white(self) -> None:
        image = Image.new("RGBA", (2, 1), (10, 20, 30, 255))
        image.putpixel((1, 0), (10, 20, 30, 0))
        assert decode_image(saved(image), (3, 1, 2))[:, 0].T.tolist() == [[10, 20, 30], [255, 255, 255]]
        assert decode_image(saved(image), (4, 1, 2))[3].tolist() == [[255, 0]]

    def test_grey_with_transparency(self) -> None:
        image = Image.new("LA", (2, 2), (100, 0))
        assert decode_image(saved(image), (1, 2, 2)).unique().tolist() == [255]

    def test_palette_with_a_transparent_entry(self) -> None:
        image = Image.new("P", (2, 1), 0)
        image.putpalette([9, 8, 7, 50, 60, 70])
        image.putpixel((1, 0), 1)
        assert decode_image(saved(image), (3, 1, 2))[:, 0].T.tolist() == [[9, 8, 7], [50, 60, 70]]
        content = saved(image, transparency=1)
        assert decode_image(content, (3, 1, 2))[:, 0].T.tolist() == [[9, 8, 7], [255, 255, 255]]

    def test_sixteen_bits_of_grey(self) -> None:
        values = np.array([[0, 256, 65535, 32768]], dtype=np.uint16)
        assert decode_image(saved(Image.fromarray(values)), (1, 1, 4)).tolist() == [[[0, 1, 255, 128]]]

    def test_one_bit(self) -> None:
        image = Image.new("1", (2, 2), 1)
        assert decode_image(saved(image), (1, 2, 2)).unique().tolist() == [255]

    def test_cmyk(self) -> None:
        content = saved(Image.new("CMYK", (4, 4), (0, 0, 0, 0)), "JPEG")
        assert decode_image(content, (3, 4, 4)).min() > 250

    def test_floating_point_pixels(self) -> None:
        with pytest.raises(DataError, match=r"8 or 16 bit.*The image is odd\.tif"):
            decode_image(saved(Image.new("F", (2, 2)), "TIFF"), (1, 2, 2), "odd.tif")

    @pytest.mark.parametrize(("mode", "grey"), [("L", True), ("1", True), ("LA", True), ("RGB", False), ("P", False)])
    def test_header(self, mode: str, grey: bool) -> None:
        assert read_header(saved(Image.new(mode, (5, 3)))) == (5, 3, grey)


def png(width: int, height: int) -> bytes:
    """A file that claims to be an image of this size."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


class TestDamage:
    @pytest.mark.parametrize("side", [9_000, 12_000, 60_000])
    def test_image_that_would_fill_the_memory(self, tmp_path: Path, side: int) -> None:
        path = tmp_path / "bomb.png"
        path.write_bytes(png(side, side))
        with pytest.raises(CorruptFile, match=r"bomb\.png to have at most 67108864 pixels"):
            decode_image(path, (1, 8, 8))

    @pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF", "BMP"])
    @pytest.mark.parametrize("keep", [0, 10, 60, 0.5])
    def test_truncated_files_name_themselves(self, tmp_path: Path, kind: str, keep: float) -> None:
        content = saved(colour(noise(3, 64, 64)), kind)
        path = tmp_path / f"cut.{kind.lower()}"
        path.write_bytes(content[: int(keep * len(content)) if isinstance(keep, float) else keep])
        with pytest.raises(CorruptFile, match=rf"cut\.{kind.lower()} to be a readable image"):
            decode_image(path, (3, 8, 8))

    def test_every_damaged_byte_gives_pixels_or_a_sentence(self) -> None:
        content = bytearray(saved(colour(noise(3, 8, 8))))
        for position in range(0, len(content), 3):
            damaged = bytes(content[:position]) + bytes([content[position] ^ 0xFF]) + bytes(content[position + 1 :])
            try:
                assert decode_image(damaged, (3, 8, 8), "damaged.png").shape == (3, 8, 8)
            except CorruptFile as error:
                assert "damaged.png" in str(error)


POSTSCRIPT = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n"


class TestHostileFiles:
    def test_only_documented_formats_reach_pillow(self, tmp_path: Path) -> None:
        """Pillow would hand PostScript to Ghostscript."""
        (tmp_path / "image.png").write_bytes(POSTSCRIPT)
        for read in (read_header, lambda path: decode_image(path, (3, 9, 9))):
            with pytest.raises(CorruptFile, match="readable image"):
                read(tmp_path / "image.png")
        with pytest.raises(CorruptFile, match="readable image"):
            read_header(saved(colour(noise(3, 9, 9)), "TGA"))

    @pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF", "PPM"])
    def test_documented_formats_are_read(self, kind: str) -> None:
        assert read_header(saved(colour(noise(3, 9, 8)), kind))[:2] == (8, 9)

    def test_pipes_are_refused_and_not_waited_for(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "image.png")
        (tmp_path / "lost.png").symlink_to(tmp_path / "nothing")
        with pytest.raises(CorruptFile, match="Found something else, such as a pipe"):
            read_header(tmp_path / "image.png")
        with pytest.raises(CorruptFile, match="Found something else, such as a pipe"):
            list(image_files(tmp_path))
        with pytest.raises(CorruptFile, match="no such file"):
            read_header(tmp_path / "lost.png")
