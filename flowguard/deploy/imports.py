"""Names and ARNs in the options of a deployment that other stacks of CloudFormation export."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from flowguard.deploy.problems import CannotDeploy

Json = dict[str, Any]
Find = Callable[[str], str | None]
"""Tells the value of an export by its name. None leaves it to the deployment."""

_IMPORT: Final = re.compile("import(-arn)?:([A-Za-z0-9:-]+)")
_ROLES: Final = "arn:aws:iam::000000000000:"
_STAND_IN: Final = re.compile(f"(?:{_ROLES}(?:role|policy)/)?imported-[0-9a-f]{{16}}")

_ENDS: Final[Mapping[str, tuple[str, int]]] = {
    **dict.fromkeys(("tables", "scheduler_group"), ("/", 1)),
    **dict.fromkeys(("queues", "topics", "bucket", "buckets"), (":", 5)),
}
"""By the option: what parts the name from the rest of an ARN, and which part it is."""

_ARNS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("role", "scheduler_role", "senders", "operators"), "role"),
    **dict.fromkeys(("policies", "permissions_boundary"), "policy"),
}
"""The options that take ARNs, and of what."""


class Import(NamedTuple):
    """An export that an option names. ``of_arn`` says that it is an ARN, and the option takes the name in it.

    ``option`` is the option, or its section where that tells more.
    """

    export: str
    of_arn: bool
    option: str

    def __str__(self) -> str:
        return f"import{'-arn' if self.of_arn else ''}:{self.export}"

    @property
    def stand_in(self) -> str:
        """Return what stands for it until the deployment: a name, or an ARN of what takes none."""
        name = f"imported-{hashlib.sha256(str(self).encode()).hexdigest()[:16]}"
        return f"{_ROLES}{_ARNS[self.option]}/{name}" if self.option in _ARNS else name

    def of_value(self, value: str) -> str:
        """Return what the option says where the export has that value."""
        return value.rpartition(_ENDS[self.option][0])[2] if self.of_arn else value

    def as_json(self) -> Json:
        """Return what the option says, in CloudFormation's language."""
        value: Json = {"Fn::ImportValue": self.export}
        if not self.of_arn:
            return value
        between, place = _ENDS[self.option]
        return {"Fn::Select": [place, {"Fn::Split": [between, value]}]}


Imports = Mapping[str, Import]
"""By what stands for them."""


def with_values(given: Mapping[str, Any], find: Find) -> tuple[Json, dict[str, Import]]:
    """Return options with the values of the imports in them, and the imports. Something stands for a value not known.

    Raises :class:`CannotDeploy` for options that take no import.
    """
    imports: dict[str, Import] = {}
    problems: list[str] = []

    def said(value: Any, path: tuple[str, ...]) -> Any:
        if isinstance(value, dict):
            return {key: said(each, (*path, key)) for key, each in value.items()}
        if isinstance(value, list):
            return [said(each, path) for each in value]
        if (match := _read(value, path)) is None:
            return value
        if (option := _taken(path, of_arn=match[1] is not None)) is None:
            problems.append(f"{'.'.join(path)} takes no {match[0]}")
            return value
        read = Import(match[2], match[1] is not None, option)
        imports[read.stand_in] = read
        known = find(read.export)
        return read.stand_in if known is None else read.of_value(known)

    options = said(_as_existing(given), ())
    if problems:
        raise CannotDeploy("the options", tuple(problems))
    if group_is_imported(imports):
        options["schedule_groups"] = {options["settings"]["scheduler_group"]: {"existing": True}}
    return options, imports


def _read(value: Any, path: tuple[str, ...]) -> re.Match[str] | None:
    return _IMPORT.fullmatch(value) if isinstance(value, str) and path[0] != "tags" else None


def _taken(path: tuple[str, ...], *, of_arn: bool) -> str | None:
    """Return the option of a place, or its section. None for one that takes no import."""
    match path:
        case ("tables" | "queues" | "topics" as section, _, "name"):
            return section
        case ("settings", "bucket" | "scheduler_group" as option) | ("queues", _, "buckets" as option):
            return option
        case (*_, option) if option in _ARNS and not of_arn:
            return option
        case (*_, "environment", _) if not of_arn:
            return "environment"
        case _:
            return None


def _as_existing(given: Mapping[str, Any]) -> Json:
    """Return options in which each resource that an import names is there already."""
    options = {**given}
    for section in ("tables", "queues", "topics"):
        resources = given.get(section)
        if isinstance(resources, dict):
            options[section] = {name: _existing(each) for name, each in resources.items()}
    return options


def _existing(resource: Any) -> Any:
    if not isinstance(resource, dict) or _read(resource.get("name"), ("",)) is None:
        return resource
    return {**resource, "existing": True}


def group_is_imported(imports: Imports) -> bool:
    """Answer whether the group of schedules goes by another stack's name for it."""
    return any(each.option == "scheduler_group" for each in imports.values())


def shown(text: str, imports: Imports) -> str:
    """Return a text for people, which names imports as the options do."""
    by_name = {stand_in.rpartition("/")[2]: str(each) for stand_in, each in imports.items()}
    return _STAND_IN.sub(lambda match: by_name.get(match[0].rpartition("/")[2], match[0]), text)


def importing(value: Any, imports: Imports) -> Any:
    """Return a value of a template in which functions of CloudFormation are where something stood for an import."""
    match value:
        case str() if value in imports:
            return imports[value].as_json()
        case str():
            return _substituted(value.replace("${", "${!"), imports, value)
        case {"Fn::Sub": str(text)}:
            return _substituted(text, imports, value)
        case dict():
            return {key: importing(each, imports) for key, each in value.items()}
        case list():
            return [importing(each, imports) for each in value]
        case _:
            return value


def _substituted(text: str, imports: Imports, value: Any) -> Any:
    """Return a text of ``Fn::Sub`` with variables where something stood for an import. Or ``value`` if nothing did."""
    variables = {_variable(each): imports[each].as_json() for each in _STAND_IN.findall(text) if each in imports}
    if not variables:
        return value
    named = _STAND_IN.sub(lambda match: f"${{{_variable(match[0])}}}" if match[0] in imports else match[0], text)
    return {"Fn::Sub": [named, variables]}


def _variable(stand_in: str) -> str:
    return f"Imported{stand_in.rpartition('-')[2]}"
