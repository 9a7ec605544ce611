"""A reader of Terraform's plans, as ``terraform show -json`` writes them.

What a plan leaves open until it is applied, as ARNs, is followed through the plan's copy of the configuration.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from flowguard.deploy.planned.problems import NotReadable
from flowguard.deploy.planned.resources import HERE, KINDS, STREAM_HERE, Resource, Resources, queue_url
from flowguard.deploy.planned.terraform_kinds import TYPES, Placed, made_of
from flowguard.deploy.planned.values import UNKNOWN

_REFERENCE: Final = re.compile(r"(?<!\$)\$\{([^{}]+)\}")
_INDEX: Final = re.compile(r'\[(?:[0-9]+|"[^"]*")\]')
_DIRECT: Final = frozenset(
    {
        *("arn", "bucket", "destination_arn", "endpoint", "event_bus_name", "event_source_arn", "function_name"),
        *("kms_key_arn", "kms_key_id", "kms_master_key_id", "log_group_name", "policy_arn", "queue_url", "role"),
        *("key_id", "rule", "source", "table_name", "target_key_id", "topic_arn"),
    }
)
"""The arguments that take a name, a URL or an ARN. An expression with one reference is that reference itself."""

_DYNAMIC: Final = frozenset(
    {"destination_config", "environment", "point_in_time_recovery", "scaling_config", "ttl", "vpc_config"}
)
"""The blocks that only the configuration adds. The provider itself fills in others when it applies a plan."""

_PLACES: Final = {
    ("aws_caller_identity", "account_id"): HERE.account,
    ("aws_partition", "partition"): HERE.partition,
    ("aws_region", "id"): HERE.region,
    ("aws_region", "name"): HERE.region,
    ("aws_region", "region"): HERE.region,
}
Section = dict[str, Any]


def read_plan(file: Path) -> Resources:
    """Read the resources of a plan. Raises :class:`NotReadable`."""
    try:
        plan = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise NotReadable(str(file), f"it is no JSON of terraform show -json: {error}") from None
    return resources_of(str(file), plan)


def resources_of(file: str, plan: Any) -> Resources:
    """Return the resources that there will be after a plan."""
    if not isinstance(plan, dict) or "planned_values" not in plan or "configuration" not in plan:
        problem = "it is no plan: it has no planned_values and configuration; write one with terraform show -json PLAN"
        raise NotReadable(file, problem)
    try:
        planned = _Plan(plan)
        return Resources(file, [*made_of(planned.blocks())])
    except KeyError as error:
        raise NotReadable(file, f"it has not the form of a plan: something in it has no {error}") from None
    except (AttributeError, TypeError, RecursionError):
        raise NotReadable(file, "it has not the form of a plan: something in it has another type") from None


class _Plan:
    """Finds the blocks of a plan, and what they refer to."""

    def __init__(self, plan: Section) -> None:
        self._variables = {name: given.get("value") for name, given in plan.get("variables", {}).items()}
        self._root = plan["configuration"]["root_module"]
        changes = [change for change in plan["resource_changes"] if "deposed" not in change]  # another of its address
        self._open = {change["address"]: change["change"]["after_unknown"] for change in changes}
        self._values: dict[str, Section] = {}
        self._configured: dict[str, tuple[str, Section, str]] = {}
        for part in (plan.get("prior_state", {}).get("values", {}), plan["planned_values"]):
            self._take(part.get("root_module", {}), "", self._root, is_data_only=part is not plan["planned_values"])

    def _take(self, module: Section, path: str, configuration: Section, *, is_data_only: bool) -> None:
        """Remember the resources of a module, with their blocks of its configuration."""
        blocks = {
            f"{_mode(block)}{block['type']}.{block['name']}": block for block in configuration.get("resources", [])
        }
        for resource in module.get("resources", []):
            if is_data_only and resource["mode"] != "data":
                continue
            label = f"{_mode(resource)}{resource['type']}.{resource['name']}"
            self._values[resource["address"]] = {"values": {}, **resource}  # nothing of it may be known
            block = blocks.get(label, {})
            provider = str(block.get("provider_config_key", ""))
            self._configured[resource["address"]] = path, block.get("expressions", {}), provider
        for child in module.get("child_modules", []):
            call = _INDEX.sub("", child["address"]).rpartition("module.")[2]
            inner = configuration.get("module_calls", {}).get(call, {}).get("module", {})
            self._take(child, f"{child['address']}.", inner, is_data_only=is_data_only)

    def blocks(self) -> Iterator[Placed]:
        """Yield the address, type, arguments and provider of each resource that there will be."""
        for address, resource in self._values.items():
            if resource["mode"] == "managed" and resource["type"] in TYPES:
                path, expressions, provider = self._configured[address]
                arguments = self._arguments(resource["values"], expressions, self._open.get(address, {}), path)
                place = f"{provider} {resource['values'].get('region', '')}"
                yield Placed(address, resource["type"], arguments, place, _given(expressions))

    def _arguments(self, values: Section, expressions: Section, unknown: Any, path: str) -> Section:
        """Return the arguments of a block, as far as they are known. Those that say nothing are left out."""
        is_open = unknown if isinstance(unknown, dict) else {}
        arguments = {}
        for name in values.keys() | expressions.keys() | (is_open.keys() & _DYNAMIC):
            given, written = values.get(name), expressions.get(name)
            if given is not None:
                argument = self._argument(given, written, is_open.get(name), path)
            elif is_open.get(name) is True and (written is not None or name in _DYNAMIC):
                argument = self._expressed(name, written, path)
            else:
                continue
            arguments[name] = argument
        return arguments

    def _argument(self, given: Any, written: Any, unknown: Any, path: str) -> Any:
        """Return a value of the plan, whose parts may be open."""
        if isinstance(given, list) and given and isinstance(given[0], dict):
            blocks = written if isinstance(written, list) and len(written) == len(given) else [{}] * len(given)
            opens = unknown if isinstance(unknown, list) and len(unknown) == len(given) else [{}] * len(given)
            return [
                self._arguments(each, block, is_open, path)
                for each, block, is_open in zip(given, blocks, opens, strict=True)
            ]
        if isinstance(unknown, dict):
            written_parts = written.get("constant_value") if isinstance(written, dict) else None
            parts = written_parts if isinstance(written_parts, dict) else {}
            names = [name for name, is_open in unknown.items() if is_open is True]
            return {**given, **{name: self._text(parts[name], path) if name in parts else UNKNOWN for name in names}}
        return given

    # -- what expressions say

    def _expressed(self, name: str, expression: Any, path: str) -> Any:
        """Return what an expression says. JSON syntax keeps its text, HCL its references alone."""
        if not isinstance(expression, dict):
            return UNKNOWN
        if "constant_value" in expression:
            return self._text(expression["constant_value"], path)
        references = expression.get("references", [])
        bases = [each for each in references if not any(other.startswith(f"{each}.") for other in references)]
        bases = [each for each in bases if not any(other.startswith(f"{each}[") for other in references)]
        return self._referred(bases[0], path) if name in _DIRECT and len(bases) == 1 else UNKNOWN

    def _text(self, value: Any, path: str) -> Any:
        """Return what is written in JSON syntax, with its references followed."""
        if isinstance(value, list):
            return [self._text(item, path) for item in value]
        if isinstance(value, dict):
            return {name: self._text(item, path) for name, item in value.items()}
        if not isinstance(value, str):
            return value
        if "%{" in value.replace("%%{", ""):
            return UNKNOWN
        values = {reference: self._referred(reference, path) for reference in _REFERENCE.findall(value)}
        if not all(isinstance(each, str | int | float) for each in values.values()):
            return UNKNOWN
        text = _REFERENCE.sub(lambda match: str(values[match[1]]), value)
        return UNKNOWN if "${" in text.replace("$${", "") else text.replace("$${", "${").replace("%%{", "%{")

    def _referred(self, reference: str, path: str) -> Any:
        """Return what a reference of a module refers to."""
        parts = reference.strip().split(".")
        match parts:
            case ["var", name]:
                return self._variable(name, path)
            case ["module", call, output]:
                return self._output(call, output, path)
            case ["data", type_, _, attribute]:
                place = _PLACES.get((type_, attribute))
                return self._values_of(reference.rpartition(".")[0], attribute, path) if place is None else place
            case [type_, _, attribute] if type_ in TYPES:
                return self._attribute(f"{path}{parts[0]}.{parts[1]}", attribute)
            case _:
                return UNKNOWN

    def _variable(self, name: str, path: str) -> Any:
        if not path:
            return self._variables.get(name, UNKNOWN)
        outer, call = _outer(path)
        given = self._module(outer).get("module_calls", {}).get(call, {}).get("expressions", {}).get(name)
        return self._expressed("arn", given, outer)

    def _output(self, call: str, output: str, path: str) -> Any:
        if not any(address.startswith(f"{path}module.{call}.") for address in self._values):
            return UNKNOWN  # it has several instances, or nothing in it
        outputs = self._module(f"{path}module.{call}.").get("outputs", {})
        return self._expressed("arn", outputs.get(output, {}).get("expression"), f"{path}module.{call}.")

    def _module(self, path: str) -> Section:
        """Return the configuration of a module."""
        module: Section = self._root
        for call in _INDEX.sub("", path).split("module.")[1:]:
            module = module.get("module_calls", {}).get(call.removesuffix("."), {}).get("module", {})
        return module

    def _values_of(self, address: str, attribute: str, path: str) -> Any:
        values = self._values.get(f"{path}{address}", {}).get("values", {})
        return UNKNOWN if values.get(attribute) is None else values[attribute]

    def _attribute(self, address: str, attribute: str) -> Any:
        """Return an attribute of a resource: as it is planned, or what it will be here."""
        addresses = [each for each in self._values if each == address or each.startswith(f"{address}[")]
        if len(addresses) != 1:
            return UNKNOWN
        resource = self._values[addresses[0]]
        if (known := resource["values"].get(attribute)) is not None:
            return known
        type_, argument = TYPES[resource["type"]]
        if type_ not in KINDS:
            return UNKNOWN
        kind, values = KINDS[type_], resource["values"]
        named = {
            kind.name: values.get(argument),
            kind.within: values.get("event_bus_name"),
            kind.path: values.get("path"),
        }
        there = Resource(addresses[0], type_, {key: value for key, value in named.items() if value is not None})
        return _of_resource(there, attribute)


def _given(expressions: Section) -> frozenset[str]:
    """Return the arguments that refer to what is no resource of the plan."""
    return frozenset(name for name, written in expressions.items() if any(map(_is_outside, _references(written))))


def _references(written: Any) -> list[str]:
    if not isinstance(written, dict):
        return []
    return [*written.get("references", []), *_REFERENCE.findall(json.dumps(written.get("constant_value", "")))]


def _is_outside(reference: str) -> bool:
    return reference.partition(".")[0].strip() in ("var", "local", "module", "data", "each", "count")


def _of_resource(there: Resource, attribute: str) -> Any:
    if attribute == "arn" or (attribute == "id" and there.type in ("AWS::SNS::Topic", "AWS::SecretsManager::Secret")):
        return there.arn
    if there.name is UNKNOWN:
        return UNKNOWN
    if there.type == "AWS::SQS::Queue" and attribute in ("id", "url"):
        return queue_url(there.name)
    if attribute == "stream_arn":
        return f"{there.arn}/stream/{STREAM_HERE}"
    return there.name if attribute in ("id", "name", "function_name", "bucket", "key_id") else UNKNOWN


def _outer(path: str) -> tuple[str, str]:
    """Return the path of the module that calls a module, and the call's name."""
    outer, _, call = path.rstrip(".").rpartition("module.")
    return outer, _INDEX.sub("", call)


def _mode(block: Section) -> str:
    return "data." if block.get("mode") == "data" else ""
