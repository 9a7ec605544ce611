"""The zip itself: equal files are equal bytes, and no path leads out of it."""

from __future__ import annotations

import stat
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from flowguard.deploy import code_zip
from flowguard.deploy.code_zip import homes_of, unpacked, write_zip
from flowguard.deploy.problems import CannotPackage


class Files:
    def __init__(self, name: str, files: Mapping[str, bytes]) -> None:
        self.name = name
        self.files = files
        self.sizes = {path: len(content) for path, content in files.items()}

    def read(self, path: str) -> bytes:
        return self.files[path]


def test_equal_files_are_equal_bytes_whatever_their_order(tmp_path: Path) -> None:
    files = {"b.py": b"b = 1", "a/c.py": b"", "a/b.py": b"x" * 9_000}
    one, other = tmp_path / "one.zip", tmp_path / "other.zip"
    write_zip(one, homes_of([Files("shop", files)]))
    write_zip(other, homes_of([Files("shop", dict(reversed(files.items())))]))
    assert one.read_bytes() == other.read_bytes()
    with zipfile.ZipFile(one) as opened:
        entries = opened.infolist()
        assert [entry.filename for entry in entries] == ["a/b.py", "a/c.py", "b.py"]
        assert {(entry.date_time, entry.create_system) for entry in entries} == {((1980, 1, 1, 0, 0, 0), 3)}
        assert {stat.filemode(entry.external_attr >> 16) for entry in entries} == {"-rwxr-xr-x"}
        assert opened.read("a/b.py") == files["a/b.py"]
    assert one.stat().st_size < 1_000, "it is compressed"


def test_what_two_sources_have_alike_is_there_once() -> None:
    one, other = Files("a 1", {"six.py": b"1"}), Files("b 1", {"six.py": b"1"})
    assert homes_of([one, other]) == {"six.py": one}


def test_two_files_for_one_place_are_refused() -> None:
    with pytest.raises(CannotPackage, match=r"six\.py of b 1: a 1 has another file of that name.*nothing was written"):
        homes_of([Files("a 1", {"six.py": b"1"}), Files("b 1", {"six.py": b"2"})])


@pytest.mark.parametrize("path", ["../x.py", "a/../../x", "/etc/x", "C:/x", "a\\b", "a\x1b.py", "a\ud800.py", ""])
def test_a_path_that_leads_out_of_the_zip_is_refused(path: str) -> None:
    with pytest.raises(CannotPackage, match=r"bad 1 has the file .* may lead out of the zip") as raised:
        homes_of([Files("bad 1", {path: b""})])
    assert str(raised.value).isprintable()


def test_what_is_too_large_for_lambda_is_refused_with_the_biggest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code_zip, "LARGEST_UNPACKED", 2 * 1024 * 1024)
    half = b"0" * 1024 * 1024
    fits = [Files("torch 2", {"torch.so": half}), Files("numpy 2", {"numpy.so": half})]
    assert len(homes_of(fits)) == 2
    assert unpacked(fits) == 2 * 1024 * 1024
    small = [Files(f"small {number}", {f"{number}.py": b"1"}) for number in range(9)]
    with pytest.raises(CannotPackage) as raised:
        homes_of([*small, *fits])
    told = str(raised.value)
    assert told.startswith(
        "2.0 MB unpacked: Lambda takes at most 2.0 MB; the biggest are torch 2 1.0 MB, numpy 2 1.0 MB,"
    )
    assert told.count("small") == 3
