"""The wheel of the flowguard that runs.

Its files are installed, or those of a checkout."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from hashlib import sha256
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Final

from flowguard.deploy.code_zip import write_zip
from flowguard.deploy.problems import CannotPackage
from flowguard.deploy.source_tree import SourceTree

NAME: Final = "flowguard-aws"
"""The name under which pip knows flowguard. Its module, and the files of its wheel, are spelled otherwise."""

MODULE: Final = "flowguard"
STRANGER: Final = MODULE
"""A distribution of others, a rate limiter. Its module has the same name, so nobody can have both."""

_SPELLED: Final = NAME.replace("-", "_")

TOOLS: Final = frozenset(
    {"__main__.py", "aws_facts", "cli", "deploy", "dev", "lint", "operate", "probe", "project", "sim", "testing", "ui"}
)
"""What of flowguard a function has no use for: its files and folders, of a developer's machine."""

_WHEEL: Final = "Wheel-Version: 1.0\nGenerator: flowguard\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


_LICENSES: Final = "licenses/"
"""The folder of licences in a wheel's ``.dist-info``."""


class _Files:
    """Files that are in memory."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self._files = files
        self.name = NAME
        self.sizes = {path: len(content) for path, content in files.items()}

    def read(self, path: str) -> bytes:
        return self._files[path]


def write_own_wheel(directory: Path) -> Path:
    """Write the wheel into a directory. Raises :class:`CannotPackage` where flowguard is not installed."""
    try:
        installed = distribution(NAME)
    except PackageNotFoundError:
        raise CannotPackage(NAME, "it is not installed, so its dependencies are not known: pip install it") from None
    tree = SourceTree(Path(__file__).parents[1])
    files = {path: tree.read(path) for path in tree.sizes}
    about = f"{_SPELLED}-{installed.version}.dist-info"
    files[f"{about}/METADATA"] = (installed.read_text("METADATA") or "").encode()
    files |= {f"{about}/{_LICENSES}{name}": text for name, text in _licenses(installed)}
    files[f"{about}/WHEEL"] = _WHEEL.encode()
    files[f"{about}/RECORD"] = _record(files, about).encode()
    wheel = directory / f"{_SPELLED}-{installed.version}-py3-none-any.whl"
    write_zip(wheel, dict.fromkeys(sorted(files), _Files(files)))
    return wheel


def _licenses(installed: Distribution) -> Iterator[tuple[str, bytes]]:
    """Yield the licence, which goes with each copy of the code."""
    folder = f".dist-info/{_LICENSES}"
    for file in [] if installed.files is None else installed.files:
        if folder in file.as_posix():
            yield file.as_posix().partition(folder)[2], file.read_binary()


def _record(files: dict[str, bytes], about: str) -> str:
    lines = [f"{path},sha256={_hash(content)},{len(content)}" for path, content in sorted(files.items())]
    return "\n".join([*lines, f"{about}/RECORD,,", ""])


def _hash(content: bytes) -> str:
    return base64.urlsafe_b64encode(sha256(content).digest()).rstrip(b"=").decode()
