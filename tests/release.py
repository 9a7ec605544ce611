"""``python -m tests.release DIRECTORY``: build the wheel and the sdist that are published, and check them.

Beside them it writes a bill of materials of the wheel. All files have the moment of the last commit, so that who builds
the same commit gets the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from email import message_from_bytes
from importlib.metadata import distribution
from pathlib import Path
from typing import Any, Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT: Final = Path(__file__).parents[1]
TOOLS: Final = ROOT / ".engines" / "release" / "bin" / "python"


def said(*command: str | Path, folder: Path = ROOT, **environment: str) -> str:
    """Run a command to its end, and return what it printed. Raises CalledProcessError where it fails."""
    done = subprocess.run(
        [*map(str, command)], cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.stderr.write(f"{done.stdout}{done.stderr}")
    done.check_returncode()
    return done.stdout


def built(source: Path, to: Path) -> list[Path]:
    """Build the wheel and the sdist of a source tree, and return both, the wheel first."""
    moment = said("git", "log", "-1", "--format=%ct").strip()
    said(TOOLS, "-m", "build", "--no-isolation", "--outdir", to, source, SOURCE_DATE_EPOCH=moment)
    return [next(to.glob(pattern)) for pattern in ("*.whl", "*.tar.gz")]


def bill_of(wheel: Path) -> Path:
    """Write the bill of materials of a wheel beside it, and check it.

    It has what the wheel needs and what that needs, in the versions of this environment: those that were tested.
    """
    needs = wheel.with_suffix(".needs")
    needs.write_text("".join(f"{each}\n" for each in sorted(_pinned(_required_by(wheel)))), encoding="utf-8")
    moment = said("git", "log", "-1", "--format=%ct").strip()
    options = ("--pyproject", ROOT / "pyproject.toml", "--mc-type", "library", "--sv", "1.6", "--output-reproducible")
    bill = json.loads(said(TOOLS.with_name("cyclonedx-py"), "requirements", needs, *options, SOURCE_DATE_EPOCH=moment))
    needs.unlink()
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    bill["metadata"]["component"]["hashes"] = [{"alg": "SHA-256", "content": digest}]
    file = wheel.with_suffix(".cdx.json")
    file.write_text(f"{json.dumps(bill, indent=2, sort_keys=True)}\n", encoding="utf-8")
    check_bill(bill, wheel)
    return file


def check_bill(bill: Any, wheel: Path) -> None:
    """Raise ValueError for a bill that is not of this wheel, or lacks what it needs."""
    about, whole = _about(wheel), bill["metadata"]["component"]
    if (whole["name"], whole["version"]) != (about["Name"], about["Version"]):
        raise ValueError(f"the bill is of {whole['name']} {whole['version']}, and the wheel of {about['Version']}")
    if whole["hashes"][0]["content"] != hashlib.sha256(wheel.read_bytes()).hexdigest():
        raise ValueError("the bill is of other bytes than the wheel's")
    listed = {canonicalize_name(part["name"]): part["version"] for part in bill["components"]}
    for need in _required_by(wheel):
        version = listed.get(canonicalize_name(need.name))
        if version is None or version not in need.specifier:
            raise ValueError(f"the wheel needs {need}, and the bill has {version}")


def _about(wheel: Path) -> Any:
    with zipfile.ZipFile(wheel) as archive:
        [metadata] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return message_from_bytes(archive.read(metadata))


def _required_by(wheel: Path) -> list[Requirement]:
    return [*_without_extras(_about(wheel).get_all("Requires-Dist", []))]


def _without_extras(requirements: list[str]) -> Iterator[Requirement]:
    for need in map(Requirement, requirements):
        if need.marker is None or need.marker.evaluate({"extra": ""}):
            yield need


def _pinned(needs: list[Requirement]) -> set[str]:
    """Return what is needed, and what that needs, in the versions that are installed here."""
    waiting, pinned = [canonicalize_name(need.name) for need in needs], {}
    while waiting:
        if (name := waiting.pop()) not in pinned:
            installed = distribution(name)
            pinned[name] = f"{name}=={installed.version}"
            waiting += [canonicalize_name(need.name) for need in _without_extras(installed.requires or [])]
    return {*pinned.values()}


def main(to: Path) -> None:
    files = built(ROOT, to)
    said(TOOLS, "-m", "twine", "check", "--strict", *files)
    files.append(bill_of(files[0]))
    sys.stdout.write("".join(f"{file}\n" for file in files))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
