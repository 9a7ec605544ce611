"""The configuration for Terraform is a module: it takes variables, gives outputs, and configures no provider."""

from __future__ import annotations

import json
import re
from typing import Any, Final

import pytest

from flowguard.deploy.options import DeployOptions, FunctionOptions
from flowguard.deploy.terraform import terraform_json
from tests.deploy.exercised import needs
from tests.deploy.templates import MODULES, template

LISTS: Final = {
    "queue_urls": "aws_sqs_queue",
    "queue_arns": "aws_sqs_queue",
    "function_arns": "aws_lambda_function",
    "table_arns": "aws_dynamodb_table",
}
_REFERENCE: Final = re.compile(r"\$\{(\w+)\.(\w+)\.(\w+)\}")


def names(configuration: Any, kind: str) -> set[str]:
    name = "function_name" if kind == "aws_lambda_function" else "name"
    return {block[name] for block in configuration["resource"][kind].values()}


@pytest.mark.parametrize("name", ["orders", "everything"])
def test_each_output_names_all_that_is_made(name: str) -> None:
    configuration = template(name, "terraform-json")
    for output, kind in LISTS.items():
        listed = configuration["output"][output]["value"]
        assert listed.keys() == names(configuration, kind)
        for at_aws, reference in listed.items():
            match = _REFERENCE.fullmatch(reference)
            assert match is not None
            block = configuration["resource"][kind][match[2]]
            assert (match[1], at_aws) == (kind, block.get("function_name", block.get("name")))


def test_a_module_configures_no_provider() -> None:
    assert "provider" not in template("everything", "terraform-json")


def test_the_url_of_a_function_takes_no_output_away() -> None:
    options = DeployOptions(functions={"start": FunctionOptions(name="queue_urls")})
    configuration = json.loads(terraform_json(needs(MODULES["starting"], options=options), options))
    outputs = configuration["output"]
    assert isinstance(outputs["queue_urls"]["value"], dict)
    assert [name for name in outputs if name.startswith("nqueue_urls_")] != []
