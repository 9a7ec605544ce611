"""The download of wheels for Lambda, by pip in a separate process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from flowguard.deploy.own_wheel import NAME, STRANGER, write_own_wheel
from flowguard.deploy.problems import CannotPackage
from flowguard.deploy.requirements import Requirements
from flowguard.deploy.wheel import sha256_of
from flowguard.text.printable import bounded, printable

LONGEST: Final = 900.0
"""Seconds after which pip is stopped."""

_MACHINES: Final = {"arm64": "aarch64", "x86_64": "x86_64"}
_UNREACHABLE: Final = ("connection broken by", "Temporary failure in name resolution", "Max retries exceeded")


@dataclass(frozen=True)
class LambdaPlatform:
    """What the functions run on. ``runtime`` is Lambda's name, such as python3.13."""

    runtime: str
    architecture: str

    def __str__(self) -> str:
        return f"{self.runtime} on {self.architecture}"

    @property
    def version(self) -> tuple[int, int]:
        major, _, minor = self.runtime.removeprefix("python").partition(".")
        return int(major), int(minor)

    def arguments(self) -> Iterator[str]:
        """Yield what pip has to know.

        A wheel may need the glibc of the runtime's Amazon Linux, or an older one.
        """
        newest = 34 if self.version >= (3, 12) else 26
        machine = _MACHINES[self.architecture]
        yield from ("--only-binary=:all:", "--implementation=cp", "--python-version={}.{}".format(*self.version))
        yield from (f"--platform=manylinux_2_{minor}_{machine}" for minor in range(newest, 16, -1))
        yield f"--platform=manylinux2014_{machine}"


_STRANGER: Final = (
    f"it asks for {STRANGER}, which is another project on the package index, with a module of this name; pip knows "
    f"this one as {NAME}"
)


@dataclass(frozen=True)
class Pip:
    """The pip of a Python. ``find_links`` are directories of wheels; with ``no_index`` there is no other place."""

    find_links: Sequence[Path] = ()
    no_index: bool = False
    python: str = sys.executable
    longest: float = LONGEST

    def download(self, wanted: Requirements, platform: LambdaPlatform, directory: Path) -> list[Path]:
        """Bring the wheels of requirements and of flowguard into a directory.

        Raises :class:`CannotPackage` with what pip says where it fails.
        """
        if wanted.names(STRANGER):
            raise CannotPackage(wanted.origin, _STRANGER)
        wheels = directory / "wheels"
        own_file = directory / "own.txt"
        own_file.write_text("".join(f"{line}\n" for line in self._own(wanted, directory)), encoding="utf-8")
        files = [own_file] if wanted.file is None else [own_file, wanted.file]
        self._run(
            platform,
            *(f"--requirement={file}" for file in files),
            *(f"--find-links={place.resolve()}" for place in self.find_links),
            *(["--no-index"] if self.no_index else []),
            f"--dest={wheels}",
        )
        return sorted(wheels.glob("*.whl"))

    def _own(self, wanted: Requirements, directory: Path) -> Iterator[str]:
        """Yield this flowguard, then the requirements that are in no file.

        pip takes it for what other lines ask of flowguard only if it comes first. Requirements that have hashes need
        one for it too, and those that have flowguard's own mean that one.
        """
        if not (wanted.hashed and wanted.names(NAME)):
            wheel = write_own_wheel(directory)
            digest = f" --hash=sha256:{sha256_of(wheel)}" if wanted.hashed else ""
            yield f"{NAME} @ {wheel.as_uri()}{digest}"
        yield from wanted.lines

    def _run(self, platform: LambdaPlatform, *arguments: str) -> None:
        # Without the current directory on its path: a module of the user's may be called like one of pip's.
        command = [self.python, "-P", "-m", "pip", "download", "--quiet", "--no-input", "--disable-pip-version-check"]
        try:
            ran = subprocess.run(  # noqa: S603  # arguments of ours, and no shell
                [*command, *platform.arguments(), *arguments],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
                timeout=self.longest,
            )
        except subprocess.TimeoutExpired:
            problem = f"it had not ended after {self.longest:.0f} s, and was stopped; try again, or use --find-links"
            raise CannotPackage("pip", problem) from None
        except OSError as error:
            raise CannotPackage("pip", f"{self.python} cannot be run: {error.strerror}") from None
        if ran.returncode:
            raise CannotPackage("pip", _problem(ran.stderr, platform))


def _problem(output: str, platform: LambdaPlatform) -> str:
    if "No module named pip" in output:
        return "this Python has none: install it with python -m ensurepip"
    errors = [line for line in output.splitlines() if line.startswith("ERROR:")] or output.splitlines()[-1:]
    output = bounded(printable(" ".join(line.removeprefix("ERROR: ") for line in errors)), 1_000)
    if any(mark in output for mark in _UNREACHABLE):
        return (
            f"the package index is out of reach; name a directory of wheels with --find-links, and --no-index: {output}"
        )
    return f"it found no wheels for {platform}: {output}. What has no wheel there, build and name with --find-links"
