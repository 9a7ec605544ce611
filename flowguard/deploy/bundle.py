"""The zip of the functions' code."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from flowguard.deploy.code_zip import CodeSource, homes_of, megabytes, unpacked, write_zip
from flowguard.deploy.codec_uses import flows_that_encrypt
from flowguard.deploy.compiled_code import compile_code, why_no_room, why_not_compiled
from flowguard.deploy.found import FoundFunction
from flowguard.deploy.own_wheel import NAME, TOOLS
from flowguard.deploy.pip_download import LambdaPlatform
from flowguard.deploy.problems import CannotPackage
from flowguard.deploy.project_code import ProjectCode, first_import_of, project_code
from flowguard.deploy.requirements import Requirements
from flowguard.deploy.wheel import Wheel, open_wheel, sha256_of
from flowguard.text.printable import printable

AT_LAMBDA: Final = frozenset({"boto3", "botocore", "s3transfer"})
"""The distributions of Lambda's own that are released together. What else boto3 needs stays in the zip."""

_CIPHERS: Final = "cryptography"
"""What an encrypting codec imports. It comes with an extra of flowguard."""

LARGEST_UPLOAD: Final = 50 * 1024 * 1024
"""Bytes of a zip that Lambda takes by itself. A larger one it takes from S3."""

ZIP: Final = "functions.zip"


class WheelSource(Protocol):
    """Where wheels are from: pip."""

    def download(self, wanted: Requirements, platform: LambdaPlatform, directory: Path) -> list[Path]:
        """Bring the wheels of requirements and of flowguard into a directory."""


@dataclass(frozen=True)
class BundleOrder:
    """What to pack.

    ``lambda_boto3`` leaves out what Lambda has; ``locked`` refuses what is not pinned. Where it is ``compiled``, it
    has compiled code beside the sources.
    """

    functions: tuple[FoundFunction, ...]
    platform: LambdaPlatform
    requirements: Requirements
    include: Sequence[Path] = ()
    lambda_boto3: bool = False
    locked: bool = False
    compiled: bool = True


@dataclass(frozen=True)
class Bundle:
    """A zip that was written. ``parts`` are its sources with their unpacked bytes, the biggest first."""

    zip: Path
    lock: Path
    size: int
    unpacked: int
    sha256: str
    parts: tuple[tuple[str, int], ...]
    left_out: tuple[str, ...]
    notes: tuple[str, ...] = field(repr=False)


def pack(order: BundleOrder, output: Path, *, wheels_from: WheelSource) -> Bundle:
    """Write the zip, and beside it the lock file that names what is in it.

    ``output`` is a directory, or the zip itself where it ends in ``.zip``. Raises :class:`CannotPackage` where that is
    not possible; files that were there before stay as they were.
    """
    file = output if output.suffix == ".zip" else output / ZIP
    lock = file.with_suffix(".lock")
    code = project_code([function.module for function in order.functions], include=order.include)
    with ExitStack() as held:
        new_zip, new_lock = (held.enter_context(_replacing(path)) for path in (file, lock))
        made = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="flowguard-package-")))
        download = wheels_from.download(order.requirements, order.platform, made)
        wheels = [held.enter_context(open_wheel(path)) for path in download]
        _check_pinned(order, wheels)
        uses_tools = first_import_of(TOOLS, [function.module for function in order.functions], code)
        for wheel in wheels:
            if wheel.distribution == NAME and uses_tools is None:
                wheel.leave_out(TOOLS)
        packed = [wheel for wheel in wheels if not _is_at_lambda(order, wheel)]
        sources: list[CodeSource] = [*code.trees, *packed]
        homes = homes_of(sources)
        why_sources_alone = _add_compiled(order, code, sources, homes, made) if order.compiled else None
        write_zip(new_zip, homes_of(sources))
        new_lock.write_text(_lock(order.platform, wheels), encoding="utf-8")
        return Bundle(
            zip=file,
            lock=lock,
            size=new_zip.stat().st_size,
            unpacked=unpacked(sources),
            sha256=sha256_of(new_zip),
            parts=tuple(
                sorted(((source.name, unpacked([source])) for source in sources), key=lambda part: (-part[1], part[0]))
            ),
            left_out=tuple(wheel.name for wheel in wheels if wheel not in packed),
            notes=(
                *_notes(order, code, wheels, homes, new_zip.stat().st_size, uses_tools),
                *filter(None, [why_sources_alone]),
            ),
        )


def _add_compiled(
    order: BundleOrder, code: ProjectCode, sources: list[CodeSource], homes: dict[str, CodeSource], directory: Path
) -> str | None:
    """Add compiled code to the sources of the zip, or return why it is left out."""
    if (why := why_not_compiled(order.platform)) is not None:
        return why
    compiled = compile_code(homes, edited=code.trees, directory=directory)
    if (why := why_no_room([*sources, compiled])) is None:
        sources.append(compiled)
    return why


def _is_at_lambda(order: BundleOrder, wheel: Wheel) -> bool:
    return order.lambda_boto3 and wheel.distribution in AT_LAMBDA


def _unpinned(order: BundleOrder, wheels: Sequence[Wheel]) -> list[Wheel]:
    """Return the wheels that another day may bring in another version. This flowguard is always the one that runs."""
    return [wheel for wheel in wheels if wheel.distribution not in (NAME, *order.requirements.pinned)]


def _check_pinned(order: BundleOrder, wheels: Sequence[Wheel]) -> None:
    loose = _unpinned(order, wheels)
    if order.locked and loose:
        problem = f"{', '.join(wheel.name for wheel in loose)} are not pinned there; pin each with == and its version"
        raise CannotPackage(printable(order.requirements.origin), problem)


def _lock(platform: LambdaPlatform, wheels: Sequence[Wheel]) -> str:
    lines = sorted(wheel.pin for wheel in wheels if wheel.distribution != NAME)
    return "\n".join([f"# The wheels of the functions for {platform}, made by flowguard package.", *lines, ""])


def _notes(
    order: BundleOrder,
    code: ProjectCode,
    wheels: Sequence[Wheel],
    homes: dict[str, CodeSource],
    size: int,
    uses_tools: str | None,
) -> Iterator[str]:
    if uses_tools is not None:
        yield f"{printable(uses_tools)}, so the zip has flowguard's tools too"
    if loose := _unpinned(order, wheels):
        named = ", ".join(wheel.name for wheel in loose)
        yield f"{printable(order.requirements.origin)} pins no version of {named}; the lock file does: give it with -r"
    conditional = [wheel.name for wheel in wheels if wheel.is_conditional]
    if conditional and sys.version_info[:2] != order.platform.version:
        here = "{}.{}".format(*sys.version_info)
        named = ", ".join(conditional)
        yield f"what {named} need on some Pythons only was chosen for this one, {here}: run it on the runtime's"
    there = {path.partition("/")[0].partition(".")[0] for path in homes} | (AT_LAMBDA if order.lambda_boto3 else set())
    for name, where in code.libraries.items():
        if name not in there:
            yield f"{printable(where)} imports {name}, which no requirement brings"
    if _CIPHERS not in there and (flows := ", ".join(flows_that_encrypt(order.functions))):
        yield (
            f"the codec of {flows} needs {_CIPHERS}, which no requirement brings: each function of it fails; add "
            f"{NAME}[codec] to the requirements"
        )
    if size > LARGEST_UPLOAD:
        yield f"the zip is above {megabytes(LARGEST_UPLOAD)}, so Lambda takes it from S3 only"


@contextmanager
def _replacing(file: Path) -> Iterator[Path]:
    """Replace a file at the end of the block, or not at all."""
    if file.is_dir():
        raise CannotPackage(printable(str(file)), "cannot be written: it is a directory")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    except OSError as error:
        raise CannotPackage(printable(str(file)), f"cannot be written: {error.strerror}") from None
    made = Path(name)
    try:
        with open(handle, "wb"):  # noqa: PTH123  # of an open handle, to close it
            pass
        yield made
        made.chmod(0o644)
        made.replace(file)
    except OSError as error:
        raise CannotPackage(printable(str(error.filename or file)), f"cannot be written: {error.strerror}") from None
    finally:
        made.unlink(missing_ok=True)
