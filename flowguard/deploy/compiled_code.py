"""The compiled form of the code in a zip.

A function cannot keep what it compiles, for its files are read-only: each cold start would compile all that it imports.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from flowguard.deploy.code_zip import LARGEST_UNPACKED, CodeSource, megabytes, unpacked
from flowguard.deploy.pip_download import LambdaPlatform
from flowguard.deploy.problems import CannotPackage

NAME: Final = "compiled code"

CHECKED: Final = "checked-hash"
UNCHECKED: Final = "unchecked-hash"
"""Whether Python compares compiled code with its source each time that it is imported."""

_NOT_ALL: Final = 1
"""The exit code of compileall where a file is no code of this Python, such as a template of a generator."""


class CompiledCode:
    """What was compiled of the files of a zip. ``root`` has it at its paths in the zip."""

    name: Final = NAME

    def __init__(self, root: Path) -> None:
        self._root = root
        files = sorted(root.rglob("*.pyc"))
        self.sizes: Mapping[str, int] = {file.relative_to(root).as_posix(): file.stat().st_size for file in files}

    def read(self, path: str) -> bytes:
        return (self._root / path).read_bytes()


def why_not_compiled(platform: LambdaPlatform) -> str | None:
    """Return why this Python cannot compile for the runtime. None where it can."""
    if sys.implementation.name == "cpython" and sys.version_info[:2] == platform.version:
        return None
    here = "{}.{}".format(*sys.version_info)
    return (
        f"{NAME} is left out, so each cold start compiles what it imports: this is Python {here}, and "
        f"{platform.runtime} reads its own alone; run flowguard package on that Python"
    )


def why_no_room(sources: Sequence[CodeSource]) -> str | None:
    """Return why compiled code is left out of these sources. None where Lambda takes all of them."""
    if (size := unpacked(sources)) <= LARGEST_UNPACKED:
        return None
    return (
        f"{NAME} is left out, so each cold start compiles what it imports: with it the zip would have "
        f"{megabytes(size)} unpacked, and Lambda takes at most {megabytes(LARGEST_UNPACKED)}"
    )


def compile_code(homes: Mapping[str, CodeSource], *, edited: Sequence[CodeSource], directory: Path) -> CompiledCode:
    """Compile the files of a zip. What is no code is passed over.

    It is made of the very bytes that go into the zip, in a Python that has nothing else loaded: equal code is equal
    bytes. What is among the ``edited`` is compared with its source when it is imported, for handlers are edited in the
    console of Lambda. Of all else not even the source is read. Raises :class:`CannotPackage` where that Python fails.
    """
    root = directory / "compiled"
    files: dict[str, list[Path]] = {CHECKED: [], UNCHECKED: []}
    for path, source in homes.items():
        if path.endswith(".py"):
            file = root / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(source.read(path))
            files[CHECKED if source in edited else UNCHECKED].append(file)
    for mode, some in files.items():
        if some:  # without any, compileall takes all that Python can import
            _compile(root, some, mode)
    made = CompiledCode(root)
    if not made.sizes:
        raise CannotPackage(NAME, f"{sys.executable} -m compileall has compiled nothing")
    return made


def _compile(root: Path, files: Sequence[Path], mode: str) -> None:
    options = ("-q", "-q", "--invalidation-mode", mode, "-s", str(root), "-i", "-")
    try:
        ran = subprocess.run(  # noqa: S603  # arguments of ours, and no shell
            [sys.executable, "-I", "-S", "-X", "utf8", "-m", "compileall", *options],
            input="".join(f"{file}\n" for file in files).encode(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )
    except OSError as error:
        raise CannotPackage(NAME, f"{sys.executable} cannot be run: {error.strerror}") from None
    if ran.returncode not in (0, _NOT_ALL):
        raise CannotPackage(NAME, f"{sys.executable} -m compileall ended with {ran.returncode}")
