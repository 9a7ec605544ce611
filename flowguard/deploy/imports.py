"""Names and ARNs in the options of a deployment that other stacks of CloudFormation export."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from flowguard.deploy.problems import CannotDeploy
from flowguard.text.printable import printable

Json = dict[str, Any]
Find = Callable[[str], str | None]
"""Tells the value of an export by its name. None leaves it to the deployment."""

_MARKS: Final = ("import:", "import-arn:")
_IMPORT: Final = re.compile("import(-arn)?:([A-Za-z0-9:-]+)")
_FORM: Final = "import:NAME or import-arn:NAME, with a NAME of a-z, A-Z, 0-9, : and -"
NOBODY: Final = "000000000000"
"""The account of what stands for an import."""
_NAME: Final = "imported-{0}"
_REGION: Final = "region-"
_KEY: Final = f"arn:aws:kms:{_REGION}{{0}}:{NOBODY}:key/imported-{{0}}"

_ENDS: Final[Mapping[str, tuple[str, int]]] = {
    **dict.fromkeys(("tables", "scheduler_group"), ("/", 1)),
    **dict.fromkeys(("queues", "topics", "bucket", "buckets"), (":", 5)),
}
"""By the option: what parts the name from the rest of an ARN, and which part it is."""

_WHOLE: Final[Mapping[str, str]] = {
    **dict.fromkeys(("role", "scheduler_role", "senders", "operators"), f"arn:aws:iam::{NOBODY}:role/{_NAME}"),
    **dict.fromkeys(("policies", "permissions_boundary"), f"arn:aws:iam::{NOBODY}:policy/{_NAME}"),
    **dict.fromkeys(("kms_key", "bucket_key"), _KEY),
    "code_signing": f"arn:aws:lambda:here:{NOBODY}:code-signing-config:csc-0{{0}}",
    "subnets": "subnet-{0}",
    "security_groups": "sg-{0}",
}
"""The options that take an ARN or an id and no name, with the form of what stands for it."""

_HASH: Final = "[0-9a-f]{16}"
_STAND_IN: Final = re.compile(
    "|".join(form.format(_HASH) for form in (*dict.fromkeys(_WHOLE.values()), _NAME, f"{_REGION}{{0}}"))
)


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
        """Return what stands for it until the deployment."""
        return _WHOLE.get(self.option, _NAME).format(hashlib.sha256(str(self).encode()).hexdigest()[:16])

    def of_value(self, value: str) -> str:
        """Return what the option says where the export has that value."""
        return value.rpartition(_ENDS[self.option][0])[2] if self.of_arn else value

    def as_json(self) -> Json:
        """Return what the option says, in CloudFormation's language."""
        return self._part(*_ENDS[self.option]) if self.of_arn else {"Fn::ImportValue": self.export}

    def region_as_json(self) -> Json:
        """Return the region in the ARN that it is, in CloudFormation's language."""
        return self._part(":", 3)

    def _part(self, between: str, place: int) -> Json:
        return {"Fn::Select": [place, {"Fn::Split": [between, {"Fn::ImportValue": self.export}]}]}


Imports = Mapping[str, Import]
"""By what stands for them."""


def with_values(given: Mapping[str, Any], find: Find) -> tuple[Json, dict[str, Import]]:
    """Return options with the values of the imports in them, and the imports. Something stands for a value not known.

    Raises :class:`CannotDeploy` for options that take no import, and for texts that begin as one and are none.
    """
    imports: dict[str, Import] = {}
    problems: list[str] = []

    def said(value: Any, path: tuple[str, ...]) -> Any:
        if isinstance(value, dict):
            return {key: said(each, (*path, key)) for key, each in value.items()}
        if isinstance(value, list):
            return [said(each, path) for each in value]
        if (match := _read(value, path)) is None:
            problems.extend(_ill_formed(value, path))
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
        group = {options["settings"]["scheduler_group"]: {"existing": True}}
        options["schedule_groups"] = {**options.get("schedule_groups", {}), **group}
    return options, imports


def _read(value: Any, path: tuple[str, ...]) -> re.Match[str] | None:
    return _IMPORT.fullmatch(value) if isinstance(value, str) and path[0] != "tags" else None


def _ill_formed(value: Any, path: tuple[str, ...]) -> Iterator[str]:
    """Yield what is wrong with a text that begins as an import does and is none."""
    if isinstance(value, str) and path[0] != "tags" and value.startswith(_MARKS):
        yield f"{'.'.join(path)} is {printable(value)}; another stack's export is written {_FORM}"


def _taken(path: tuple[str, ...], *, of_arn: bool) -> str | None:
    """Return the option of a place, or its section. None for one that takes no import."""
    match path:
        case ("tables" | "queues" | "topics" as section, _, "name"):
            return section
        case ("settings", "bucket" | "scheduler_group" as option):
            return option
        case ("queues" | "topics", _, "buckets" as option):
            return option
        case (*_, option) if option in _WHOLE and not of_arn:
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
    by_name |= dict.fromkeys(map(_region_of, imports), "REGION")
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
    functions = _functions(imports)
    variables = {_variable(each): functions[each] for each in _STAND_IN.findall(text) if each in functions}
    if not variables:
        return value
    named = _STAND_IN.sub(lambda match: f"${{{_variable(match[0])}}}" if match[0] in functions else match[0], text)
    return {"Fn::Sub": [named, variables]}


def _functions(imports: Imports) -> dict[str, Json]:
    """Return for each placeholder the function of CloudFormation that gives its value."""
    regions = {_region_of(stand_in): each.region_as_json() for stand_in, each in imports.items()}
    return {**regions, **{stand_in: each.as_json() for stand_in, each in imports.items()}}


def _region_of(stand_in: str) -> str:
    """Return what stands for the region of a key, by what stands for the key. Nothing for other stand-ins."""
    return "".join(part for part in stand_in.split(":") if part.startswith(_REGION))


def _variable(stand_in: str) -> str:
    kind, _, rest = re.split("[/:]", stand_in)[-1].partition("-")
    return f"{kind.capitalize()}{rest}"
