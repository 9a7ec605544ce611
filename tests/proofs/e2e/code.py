"""The zip of the functions, by ``flowguard package``, and the boto3 that Lambda has beside it."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.deploy.packaging.wheels import wheel_of_installed
from tests.proofs.e2e.command import flowguard

AT_LAMBDA: Final = ("boto3", "botocore", "s3transfer")
NEEDED: Final = (
    *AT_LAMBDA,
    *("jmespath", "python-dateutil", "six", "urllib3"),
    *("annotated-types", "pydantic", "pydantic-core", "typing-extensions", "typing-inspection"),
)
"""What flowguard and boto3 depend on. Their wheels are made of what is installed here, so no index is asked."""


NEEDED_BY: Final = {
    "flows.answer_ticket.handlers": (
        *("pydantic-ai-slim", "pydantic-graph", "genai-prices", "griffelib", "logfire-api", "opentelemetry-api"),
        *("httpx2", "httpcore2", "anyio", "h11", "idna", "truststore"),
    )
}
"""What further modules need, the requirement first."""


def packed(modules: Sequence[str], options: Path, directory: Path, *, include: Path) -> Path:
    """Write the zip that all functions share."""
    wheels = directory / "wheels"
    wheels.mkdir()
    further = [NEEDED_BY[module] for module in modules if module in NEEDED_BY]
    for name in (*NEEDED, *(name for names in further for name in names)):
        wheel_of_installed(wheels, name)
    requirements = directory / "requirements.txt"
    requirements.write_text("\n".join(("boto3", "pydantic", *(names[0] for names in further))))
    given = ["--options", str(options), "--include", str(include), "--find-links", str(wheels), "--no-index"]
    given += ["--requirements", str(requirements)]
    said = flowguard("package", *modules, *given, "--lambda-boto3", "--json", "-o", str(directory / "build"))
    return Path(json.loads(said)["zip"])


def boto3_of_lambda(directory: Path) -> Path:
    """Make a directory of what Lambda's own Python can import, and nothing else."""
    runtime = directory / "runtime"
    runtime.mkdir()
    for name in AT_LAMBDA:
        found = importlib.util.find_spec(name)
        assert found is not None
        assert found.origin is not None
        (runtime / name).symlink_to(Path(found.origin).parent)
    return runtime
