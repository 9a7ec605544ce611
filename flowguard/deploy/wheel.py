"""A wheel as the files that it would install, read without installing it."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from flowguard.deploy.problems import CannotPackage

_DATA = re.compile(r"^[^/]+\.data/(?P<scheme>[^/]+)/(?P<path>.+)$")


def normal(name: str) -> str:
    """Return the one spelling of a distribution's name."""
    return re.sub(r"[-_.]+", "-", name).lower()


def sha256_of(file: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal digits."""
    return sha256(file.read_bytes()).hexdigest()


class Wheel:
    """A wheel that is open. Scripts, headers and compiled caches of it are left out."""

    def __init__(self, file: Path, opened: zipfile.ZipFile) -> None:
        distribution, self.version, *_ = file.name.removesuffix(".whl").split("-")
        self.distribution = normal(distribution)
        self._file = file
        self._opened = opened
        members = {_installed(member.filename): member for member in opened.infolist() if not member.is_dir()}
        self._members = {path: member for path, member in members.items() if path is not None}

    def leave_out(self, names: frozenset[str]) -> None:
        """Leave out files and folders of its package by their names there."""
        self._members = {
            path: member for path, member in self._members.items() if names.isdisjoint(path.split("/")[1:2])
        }

    @property
    def name(self) -> str:
        """Return the name and version, as pip writes them."""
        return f"{self.distribution} {self.version}"

    @property
    def sizes(self) -> Mapping[str, int]:
        return {path: member.file_size for path, member in self._members.items()}

    @property
    def is_conditional(self) -> bool:
        """Return whether it needs something on some Pythons only."""
        about = f"{self._file.name.split('-')[0]}-{self.version}.dist-info/METADATA"
        lines = self.read(about).decode(errors="replace").splitlines() if about in self._members else []
        needs = (line for line in lines if line.startswith("Requires-Dist:") and "extra ==" not in line)
        return any("python_version" in need or "python_full_version" in need for need in needs)

    def read(self, path: str) -> bytes:
        """Read a file. Raises :class:`CannotPackage` where the wheel is broken there."""
        try:
            return self._opened.read(self._members[path])
        except (zipfile.BadZipFile, RuntimeError, NotImplementedError, EOFError, OSError) as error:
            raise CannotPackage(self._file.name, f"{path} cannot be read from this wheel: {error}") from None

    @property
    def pin(self) -> str:
        """Return the line of a requirements file that takes this wheel and no other."""
        return f"{self.distribution}=={self.version} --hash=sha256:{sha256_of(self._file)}"


@contextmanager
def open_wheel(file: Path) -> Iterator[Wheel]:
    """Open a wheel. Raises :class:`CannotPackage` where it is none."""
    try:
        opened = zipfile.ZipFile(file)
    except (zipfile.BadZipFile, OSError) as error:
        raise CannotPackage(file.name, f"this is not a wheel that can be read: {error}") from None
    with opened:
        yield Wheel(file, opened)


def _installed(name: str) -> str | None:
    """Return where a member is installed. None for those that a function has no use for."""
    if "__pycache__" in name.split("/"):
        return None
    inner = _DATA.match(name)
    if inner is None:
        return name
    return inner["path"] if inner["scheme"] in ("purelib", "platlib") else None
