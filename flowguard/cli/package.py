"""The command of ``flowguard package``, which writes the zip of the functions' code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from flowguard.cli.printing import complain, say, say_json
from flowguard.deploy.bundle import Bundle, BundleOrder, pack
from flowguard.deploy.code_zip import LARGEST_UNPACKED, megabytes
from flowguard.deploy.found import FunctionKind, find_functions, what_calls_it_needs
from flowguard.deploy.options import DeployOptions
from flowguard.deploy.pip_download import LambdaPlatform, Pip
from flowguard.deploy.problems import CannotDeploy, CannotPackage
from flowguard.deploy.requirements import requirements_of
from flowguard.errors import DefinitionError
from flowguard.project.loading import NoSuchFlow
from flowguard.text.printable import one_line

_DIRECTORY = click.Path(path_type=Path, exists=True, file_okay=False)


class NoZip(click.ClickException):
    """The code cannot be packed. Nothing was written."""

    exit_code = click.UsageError.exit_code


@click.command()
@click.argument("modules", metavar="MODULE[:FLOW]...", nargs=-1, required=True)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=Path("build"),
    help="The directory, or the .zip file.",
    show_default=True,
)
@click.option("-r", "--requirements", type=click.Path(path_type=Path), help="A file of requirements, or a lock file.")
@click.option("--options", type=click.Path(path_type=Path), help="The options that flowguard iac has got.")
@click.option(
    "--architecture",
    type=click.Choice(["arm64", "x86_64"]),
    help="Another than that of the options; arm64 where there are none.",
)
@click.option("--lambda-boto3", is_flag=True, help="Leave out boto3, botocore and s3transfer; Lambda has its own.")
@click.option("--locked", is_flag=True, help="Refuse requirements that pin not all.")
@click.option("--sources-only", is_flag=True, help="Leave out compiled code: a smaller zip, and slower cold starts.")
@click.option("--include", type=click.Path(path_type=Path), multiple=True, help="A further file or directory of yours.")
@click.option("--find-links", type=_DIRECTORY, multiple=True, help="A directory of wheels.")
@click.option("--no-index", is_flag=True, help="Take wheels from --find-links only.")
@click.option("--json", "as_json", is_flag=True, help="A line of JSON that says what is in the zip.")
def package(  # noqa: PLR0913 - the options of a command
    modules: tuple[str, ...],
    *,
    output: Path,
    requirements: Path | None,
    options: Path | None,
    architecture: str | None,
    lambda_boto3: bool,
    locked: bool,
    sources_only: bool,
    include: tuple[Path, ...],
    find_links: tuple[Path, ...],
    no_index: bool,
    as_json: bool,
) -> None:
    """Write the code that the handlers of each MODULE need as one zip for Lambda.

    In it are your own code, this flowguard, and the wheels of the requirements: those of --requirements, or else of
    requirements.txt or pyproject.toml here. pip chooses them for the runtime and architecture of the template. Equal
    code and wheels give equal bytes. The lock file beside the zip pins the wheels; give it as --requirements to get
    the same again. Compiled code is in the zip too, for quicker starts, where this Python is the runtime's.

    Handlers are found as flowguard iac finds them, so the zip has what the template names.

    The exit code is 0, or 2 where something cannot be packed; then nothing is written.
    """
    try:
        chosen = DeployOptions.read(options) if options is not None else DeployOptions()
        order = BundleOrder(
            functions=find_functions(modules),
            platform=LambdaPlatform(chosen.runtime, architecture or chosen.architecture),
            requirements=requirements_of(requirements, directory=Path.cwd()),
            include=include,
            lambda_boto3=lambda_boto3,
            locked=locked,
            compiled=not sources_only,
        )
        packed = pack(order, output, wheels_from=Pip(find_links=find_links, no_index=no_index))
    except (CannotDeploy, CannotPackage, NoSuchFlow, DefinitionError) as error:
        raise NoZip(str(error)) from None
    called = (what_calls_it_needs(function, chosen.settings) for function in order.functions)
    for note in (*filter(None, called), *packed.notes):
        complain(note)
    if as_json:
        say_json(json.dumps(_facts(order, packed), ensure_ascii=False))
    else:
        _show(order, packed)


def _show(order: BundleOrder, packed: Bundle) -> None:
    limit = megabytes(LARGEST_UNPACKED)
    say(one_line(f"{packed.zip}: {megabytes(packed.size)}, unpacked {megabytes(packed.unpacked)} of at most {limit}"))
    say(f"for {order.platform}, sha256 {packed.sha256}")
    say(one_line(f"handlers: {', '.join(_handlers(order)) or 'none of a template'}"))
    for name, size in packed.parts:
        say(one_line(f"  {megabytes(size):>9}  {name}"))
    for name in packed.left_out:
        say(one_line(f"   left out  {name}"))


def _handlers(order: BundleOrder) -> list[str]:
    return [function.handler for function in order.functions if function.kind is not FunctionKind.CALLED]


def _facts(order: BundleOrder, packed: Bundle) -> dict[str, Any]:
    return {
        "zip": str(packed.zip),
        "lock": str(packed.lock),
        "bytes": packed.size,
        "unpacked": packed.unpacked,
        "most_unpacked": LARGEST_UNPACKED,
        "sha256": packed.sha256,
        "runtime": order.platform.runtime,
        "architecture": order.platform.architecture,
        "handlers": _handlers(order),
        "requirements": order.requirements.origin,
        "parts": [{"name": name, "unpacked": size} for name, size in packed.parts],
        "left_out": list(packed.left_out),
        "notes": list(packed.notes),
    }
