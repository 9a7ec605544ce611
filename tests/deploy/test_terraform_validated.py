"""``terraform validate`` takes a configuration that uses the modules, as the page shows it.

It needs ``terraform`` on the PATH, and in ``TERRAFORM_PLUGINS`` a directory with the provider, laid out as
``terraform init -plugin-dir`` takes it: neither can be fetched from a package registry. The provider may be older than
the modules ask for; then what it does not know is left out.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from tests.deploy.templates import MODULES, template

PAGE: Final = Path("docs/guides/your-own-infrastructure.md")
PLUGINS: Final = Path(os.environ.get("TERRAFORM_PLUGINS", "no-plugins")).absolute()
PROVIDER: Final = PLUGINS / "registry.terraform.io" / "hashicorp" / "aws"
ASKED_FOR: Final = (6, 29)
NEWER: Final = {"invoked_via_function_url", "max_message_size", "warm_throughput"}
"""Arguments that providers before that do not have, or not with these values."""

AROUND: Final = """
provider "aws" {
  region = "eu-west-1"
}
resource "aws_s3_object" "code" {
  bucket = "my-code"
  key    = "orders.zip"
}
resource "aws_sns_topic" "on_call" {}
resource "aws_iam_role" "shop" {
  assume_role_policy = "{}"
}
"""


def without(value: Any, names: set[str]) -> Any:
    if isinstance(value, dict):
        return {key: without(each, names) for key, each in value.items() if key not in names}
    return [without(each, names) for each in value] if isinstance(value, list) else value


def write(directory: Path, name: str, version: str) -> str:
    """Write the module of a deployment for the provider that is there. Returns the block that uses it."""
    is_old = tuple(map(int, version.split("."))) < ASKED_FOR
    configuration = without(template(name, "terraform-json"), NEWER if is_old else set())
    configuration["terraform"]["required_providers"]["aws"]["version"] = version
    (directory / "build" / name).mkdir(parents=True)
    (directory / "build" / name / "main.tf.json").write_text(json.dumps(configuration), encoding="utf-8")
    given = "".join(f'  {variable} = "given"\n' for variable in configuration["variable"])
    return f'module "{name}_alone" {{\n  source = "./build/{name}"\n{given}}}\n'


def terraform(directory: Path, *arguments: str) -> str:
    environment = {**os.environ, "CHECKPOINT_DISABLE": "1"}
    command = ["terraform", *arguments]
    return subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False).stdout


@pytest.mark.long("asks the provider itself for the schema of which an excerpt is compared otherwise")
def test_terraform_takes_the_modules_and_what_the_page_does_with_one(tmp_path: Path) -> None:
    if shutil.which("terraform") is None or not PROVIDER.is_dir():
        pytest.skip("needs terraform on the PATH, and its provider hashicorp/aws in TERRAFORM_PLUGINS")
    [version] = [each.name for each in PROVIDER.iterdir()]
    [used] = re.findall(r"^```hcl\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    modules = [write(tmp_path, name, version) for name in MODULES]
    (tmp_path / "main.tf").write_text(AROUND + used + "".join(modules), encoding="utf-8")
    terraform(tmp_path, "init", "-input=false", f"-plugin-dir={PLUGINS}")
    told = json.loads(terraform(tmp_path, "validate", "-json"))
    assert [(each["summary"], each["detail"][:300]) for each in told["diagnostics"]] == []
    assert told["valid"]
