from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from polyarch.errors import InvalidInput, NotFiniteError
from polyarch.files import (
    Journal,
    check_output,
    is_stream,
    new_file,
    remove_temporaries,
    write_atomically,
    write_json,
    write_output,
)


class Broken(BaseException):
    """Stands for whatever ends a process in the middle of a write, Ctrl-C included."""


class TestWriting:
    @pytest.mark.parametrize(("content", "expected"), [("straße\n", "straße\n".encode()), (b"\x00\xff", b"\x00\xff")])
    def test_text_and_bytes_in_a_new_folder(self, tmp_path: Path, content: str | bytes, expected: bytes) -> None:
        path = tmp_path / "a" / "b" / "file"
        write_atomically(path, content)
        assert path.read_bytes() == expected
        assert stat.S_IMODE(path.stat().st_mode) == 0o644

    def test_new_content_replaces_old(self, tmp_path: Path) -> None:
        path = tmp_path / "file"
        for content in ("long first content", "short"):
            write_atomically(path, content)
        assert path.read_text() == "short"

    @pytest.mark.parametrize("moment", ["fsync", "replace"])
    def test_old_file_survives_a_broken_write(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
    ) -> None:
        path = tmp_path / "file"
        write_atomically(path, "old")

        def break_off(*_: object) -> None:
            raise Broken

        monkeypatch.setattr(os, moment, break_off)
        with pytest.raises(Broken):
            write_atomically(path, "new")
        assert path.read_text() == "old"
        assert list(tmp_path.iterdir()) == [path]  # no temporary file is left

    @pytest.mark.parametrize("bad", [float("nan"), float("inf")])
    def test_json_refuses_what_other_readers_cannot_read(self, tmp_path: Path, bad: float) -> None:
        path = tmp_path / "results.json"
        write_json(path, {"a": [1, 2.5, None]})
        with pytest.raises(NotFiniteError, match=r"in .*results\.json\. Got NaN or infinity at 'a\.1\.loss'"):
            write_json(path, {"a": [1.0, {"loss": bad}]})
        assert json.loads(path.read_text()) == {"a": [1, 2.5, None]}


class TestJournal:
    records = ({"step": 1, "loss": 0.1}, {"step": 2, "loss": 1e-17}, {"step": 3, "name": "ä\nb"})

    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        path = tmp_path / "folder" / "journal.jsonl"
        journal = Journal(path)
        for record in self.records:
            journal.append(record)
        assert journal.records == list(self.records)
        return path

    def test_records_survive(self, path: Path) -> None:
        journal = Journal(path)
        assert journal.records == list(self.records)
        journal.append({"step": 4})
        assert Journal(path).records == [*self.records, {"step": 4}]

    def test_any_flipped_bit_ends_the_journal_there(self, path: Path) -> None:
        content = path.read_bytes()
        ends = [index + 1 for index, byte in enumerate(content) if byte == ord("\n")]
        for place in range(len(content)):
            for bit in range(8):
                damaged = bytearray(content)
                damaged[place] ^= 1 << bit
                path.write_bytes(damaged)
                found = Journal(path).records
                assert found == list(self.records[: sum(end <= place for end in ends)]) or found == list(self.records)

    def test_journals_without_checksums_get_them(self, path: Path) -> None:
        path.write_text("".join(json.dumps(record) + "\n" for record in self.records))
        assert Journal(path).records == list(self.records)
        assert path.read_text().count('"crc32"') == 3
        assert Journal(path).records == list(self.records)

    def test_opening_does_not_touch_a_whole_file(self, path: Path) -> None:
        before = path.stat().st_ino
        Journal(path)
        assert path.stat().st_ino == before

    def test_a_line_torn_anywhere_is_dropped(self, path: Path) -> None:
        content = path.read_bytes()
        ends = [index + 1 for index, byte in enumerate(content) if byte == ord("\n")]
        for length in range(len(content)):
            path.write_bytes(content[:length])
            whole = sum(end <= length for end in ends)
            journal = Journal(path)
            assert journal.records == list(self.records[:whole])
            journal.append({"step": 9})  # must start on a line of its own
            assert Journal(path).records == [*self.records[:whole], {"step": 9}]

    def test_nothing_after_a_damaged_line_is_believed(self, path: Path) -> None:
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(lines[0] + b"\x00" * (len(lines[1]) - 1) + b"\n" + lines[2])
        assert Journal(path).records == [self.records[0]]
        assert path.read_bytes() == lines[0]

    def test_a_refused_record_leaves_no_trace(self, path: Path) -> None:
        journal = Journal(path)
        with pytest.raises(NotFiniteError, match="at 'loss'"):
            journal.append({"loss": float("nan")})
        assert Journal(path).records == journal.records == list(self.records)


class TestOutputs:
    """Files that a user names: whatever is no regular file is written through, and stays what it is."""

    @pytest.mark.parametrize("exists", [True, False])
    def test_a_link_stays_and_its_target_is_replaced(self, tmp_path: Path, exists: bool) -> None:
        target, link = tmp_path / "folder" / "target", tmp_path / "link"
        target.parent.mkdir()
        if exists:
            target.write_text("old")
        link.symlink_to(target)
        write_output(link, "new")
        assert link.is_symlink() and target.read_text() == "new"
        assert list(target.parent.iterdir()) == [target]

    def test_a_pipe_is_written_through(self, tmp_path: Path) -> None:
        pipe = tmp_path / "pipe"
        os.mkfifo(pipe)
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        try:
            write_output(pipe, "through")
            assert os.read(reader, 100) == b"through"
        finally:
            os.close(reader)
        assert stat.S_ISFIFO(pipe.stat().st_mode) and is_stream(pipe)

    def test_a_device_stays_a_device(self, tmp_path: Path) -> None:
        link = tmp_path / "null"
        link.symlink_to("/dev/null")
        for path in (link, Path("/dev/null")):
            write_output(path, "gone")
        assert link.is_symlink() and stat.S_ISCHR(Path("/dev/null").stat().st_mode)

    def test_a_minus_is_standard_output(self, capsysbinary: pytest.CaptureFixture[bytes], tmp_path: Path) -> None:
        write_output(Path("-"), "straße\n")
        assert capsysbinary.readouterr().out == "straße\n".encode()

    def test_what_cannot_be_a_file_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        (tmp_path / "loop").symlink_to(tmp_path / "loop")
        for path, reason in (
            (tmp_path, "Got the folder"),
            (tmp_path / "file" / "x" / "y.csv", "Not a directory"),
            (tmp_path / ("n" * 300), "name too long"),
            (tmp_path / "loop", "loop"),
        ):
            with pytest.raises(InvalidInput, match=reason) as caught:
                check_output(path)
            assert "\n" not in str(caught.value)
            with pytest.raises(InvalidInput, match=reason):
                write_output(path, "x")

    def test_what_killed_writers_left_is_removed(self, tmp_path: Path) -> None:
        (tmp_path / "deep").mkdir()
        with pytest.raises(Broken), new_file(tmp_path / "deep" / "file"):
            left = next((tmp_path / "deep").iterdir())
            (tmp_path / left.name).write_text("left by a killed writer")
            raise Broken
        (tmp_path / "kept").touch()
        remove_temporaries(tmp_path)
        assert sorted(path.name for path in tmp_path.rglob("*")) == ["deep", "kept"]
