"""Wheels made by hand, and wheels of what is installed here."""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Mapping, Sequence
from importlib.metadata import distribution
from pathlib import Path
from typing import Final

RUNTIME: Final = "python{}.{}".format(*sys.version_info)
ANYWHERE: Final = "py3-none-any"
HERE: Final = "cp{0}{1}-cp{0}{1}-manylinux_2_17_x86_64".format(*sys.version_info)
"""The tag of compiled code that runs in this process, as if each machine were a Linux of Intel's."""


def write_wheel(
    folder: Path,
    name: str,
    version: str = "1.0",
    *,
    files: Mapping[str, bytes | str] | None = None,
    requires: Sequence[str] = (),
    tag: str = ANYWHERE,
) -> Path:
    """Write a wheel with the module of that name, or with these files."""
    spelled = name.replace("-", "_")
    about = f"{spelled}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    metadata += "".join(f"Requires-Dist: {one}\n" for one in requires)
    whole = {
        **(files if files is not None else {f"{spelled}.py": f"VERSION = {version!r}\n"}),
        f"{about}/METADATA": metadata,
        f"{about}/WHEEL": f"Wheel-Version: 1.0\nGenerator: hand\nRoot-Is-Purelib: true\nTag: {tag}\n",
        f"{about}/RECORD": "",
    }
    wheel = folder / f"{spelled}-{version}-{tag}.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_STORED) as packed:
        for path, content in whole.items():
            packed.writestr(path, content)
    return wheel


def wheel_of_installed(folder: Path, name: str) -> Path:
    """Write a wheel of a distribution as it is installed here, compiled parts included."""
    installed = distribution(name)
    here = Path(str(installed.locate_file("")))
    members = [str(one) for one in installed.files or ()]
    code = [one for one in members if ".dist-info/" not in one and "__pycache__" not in one and ".." not in one]
    requires = [one for one in installed.requires or () if "extra ==" not in one]
    compiled = any(one.endswith((".so", ".pyd")) for one in code)
    files = {one: (here / one).read_bytes() for one in code}
    tag = HERE if compiled else ANYWHERE
    return write_wheel(folder, name, installed.version, files=files, requires=requires, tag=tag)


def contents(file: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(file) as opened:
        return {one: opened.read(one) for one in opened.namelist()}
