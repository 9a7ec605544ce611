"""Holds a configuration in Terraform's JSON syntax to the schema of its provider, without Terraform.

``terraform_schema.json`` is an excerpt of what ``terraform providers schema -json`` says for hashicorp/aws 5.100.0:
for each resource that flowguard writes, its arguments with their types, and its blocks with how often they may occur.
What is newer was added by hand, from the provider's pages.
To renew the excerpt, pipe that into ``python -m tests.deploy.terraform_schema``.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

FILE: Final = Path(__file__).with_suffix(".json")
SCHEMA: Final[Mapping[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))
META: Final = {"depends_on", "lifecycle"}
_NAME: Final = re.compile("[A-Za-z_][A-Za-z0-9_-]*")
_REFERENCE: Final = re.compile(r"\$\{(aws_\w+)\.(\w+)\.(\w+)\}")


def problems_of_configuration(configuration: Mapping[str, Any]) -> list[str]:
    """What the provider would refuse."""
    resources = configuration["resource"]
    found = []
    for kind, named in resources.items():
        if kind not in SCHEMA:
            found.append(f"{kind} is no resource")
            continue
        for name, block in named.items():
            where = f"{kind}.{name}"
            if not _NAME.fullmatch(name):
                found.append(f"{where}: {name!r} is no name")
            given = {key: value for key, value in block.items() if key not in META}
            found += _block_problems(where, given, SCHEMA[kind])
            found += _reference_problems(where, block, resources)
    return found


def _block_problems(where: str, given: Mapping[str, Any], schema: Mapping[str, Any]) -> Iterator[str]:
    attributes, blocks = schema["attributes"], schema.get("blocks", {})
    for name, value in given.items():
        if name in blocks:
            several = value if isinstance(value, list) else [value]
            if blocks[name]["max"] and len(several) > blocks[name]["max"]:
                yield f"{where}: {name} is there {len(several)} times of {blocks[name]['max']}"
            for one in several:
                yield from _block_problems(f"{where}.{name}", one, blocks[name])
        elif name not in attributes or attributes[name][1] == "computed":
            yield f"{where}: {name} is no argument"
        elif problem := _type_problem(value, attributes[name][0]):
            yield f"{where}: {name} {problem}"
    needed = [name for name, (_, use) in attributes.items() if use == "required"]
    needed += [name for name, block in blocks.items() if block["min"]]
    yield from (f"{where}: {name} is missing" for name in needed if name not in given)


def _type_problem(value: Any, kind: Any) -> str | None:
    if isinstance(value, str) and value.startswith("${"):
        return None  # an expression, whose type Terraform knows when it has been applied
    match kind:
        case ["list" | "set", inner]:
            if not isinstance(value, list):
                return "is no list"
            return next((problem for one in value if (problem := _type_problem(one, inner))), None)
        case ["map", inner]:
            if not isinstance(value, dict):
                return "is no map"
            return next((problem for one in value.values() if (problem := _type_problem(one, inner))), None)
        case "number":
            return None if isinstance(value, int | float) and not isinstance(value, bool) else "is no number"
        case "bool":
            return None if isinstance(value, bool) else "is no truth value"
        case _:
            return None if isinstance(value, str) else "is no text"


def _reference_problems(where: str, block: Any, resources: Mapping[str, Any]) -> Iterator[str]:
    for kind, name, attribute in _REFERENCE.findall(json.dumps(block)):
        if name not in resources.get(kind, {}):
            yield f"{where}: {kind}.{name} is not there"
        elif attribute not in SCHEMA[kind]["attributes"]:
            yield f"{where}: {kind} has no {attribute}"


def excerpt(whole: Any) -> str:
    """Take from a provider's schema what ``FILE`` has."""
    [provider] = whole["provider_schemas"].values()
    lines = [
        f" {json.dumps(kind)}: {json.dumps(_slim(provider['resource_schemas'][kind]['block']), sort_keys=True)}"
        for kind in sorted(SCHEMA)
    ]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _slim(block: Any) -> dict[str, Any]:
    attributes = {name: [one.get("type"), _use(one)] for name, one in block.get("attributes", {}).items()}
    blocks = {
        name: {"min": one.get("min_items", 0), "max": one.get("max_items", 0), **_slim(one["block"])}
        for name, one in block.get("block_types", {}).items()
    }
    return {"attributes": attributes, **({"blocks": blocks} if blocks else {})}


def _use(attribute: Mapping[str, Any]) -> str:
    return next((use for use in ("required", "optional") if attribute.get(use)), "computed")


if __name__ == "__main__":
    FILE.write_text(excerpt(json.load(sys.stdin)), encoding="utf-8")
