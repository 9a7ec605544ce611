"""Makes of a configuration in JSON the plan that Terraform would show, without Terraform.

The shape is that of the page "JSON Output Format" of Terraform, and of ``hcl/plan.json``, which Terraform 1.11.4 with
hashicorp/aws 5.100.0 has shown of ``hcl/`` (what nobody reads is left out there). A plan of JSON syntax keeps texts as
they are written; one of HCL has references alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from tests.deploy.terraform_schema import META, SCHEMA

_REFERENCE: Final = re.compile(r"(?<!\$)\$\{([^{}]+)\}")


def plan_of(configuration: Mapping[str, Any], *, is_hcl: bool = False) -> dict[str, Any]:
    """The plan of a first deployment. All attributes of what is made are known after it is applied."""
    resources, changes, configured = [], [], []
    for kind, named in configuration["resource"].items():
        for name, block in named.items():
            arguments = {key: value for key, value in block.items() if key not in META}
            values, unknown, expressions = _planned(
                arguments, SCHEMA.get(kind, {}), configuration["resource"], is_hcl=is_hcl
            )
            place = {"address": f"{kind}.{name}", "mode": "managed", "type": kind, "name": name}
            resources.append({**place, "values": values})
            changes.append({**place, "change": {"actions": ["create"], "after_unknown": {**unknown, "arn": True}}})
            configured.append({**place, "expressions": expressions})
    return {
        "format_version": "1.2",
        "variables": {name: {"value": "given"} for name in configuration["variable"]},
        "planned_values": {"root_module": {"resources": resources}},
        "resource_changes": changes,
        "configuration": {"root_module": {"resources": configured}},
    }


def _planned(block: Mapping[str, Any], schema: Mapping[str, Any], made: Any, *, is_hcl: bool) -> tuple[Any, Any, Any]:
    """A block's values, what of it is unknown, and its expressions."""
    values: dict[str, Any] = {}
    unknown: dict[str, Any] = {}
    expressions: dict[str, Any] = {}
    for name, value in block.items():
        if name in schema.get("blocks", {}):
            several = value if isinstance(value, list) else [value]
            parts = [_planned(each, schema["blocks"][name], made, is_hcl=is_hcl) for each in several]
            values[name], unknown[name], expressions[name] = (list(each) for each in zip(*parts, strict=True))
            continue
        given = _value(value, made)
        references = [
            part for each in _REFERENCE.findall(json.dumps(value)) for part in (each, each.rpartition(".")[0])
        ]
        written = {} if is_hcl and references else {"constant_value": value}
        expressions[name] = {**written, **({"references": references} if references else {})}
        if given is None:
            unknown[name] = True
        else:
            values[name] = given
    return values, unknown, expressions


def _value(value: Any, made: Any) -> Any:
    """An argument as it is planned. None where it refers to what is known only after the plan is applied."""
    if not isinstance(value, str):
        return None if _REFERENCE.search(json.dumps(value)) else value
    if (match := _REFERENCE.fullmatch(value)) is not None:
        kind, _, attribute = (*match[1].split("."), "")[:3]
        known = made.get(kind, {}).get(match[1].split(".")[1], {}).get(attribute)
        return known if isinstance(known, str) and "${" not in known else None
    if "${var." in value:
        return []  # the actions of alarms without a topic
    return None if _REFERENCE.search(value) else value.replace("$${", "${").replace("%%{", "%{")
