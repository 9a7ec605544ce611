"""The references of a template to nothing, for which CloudFormation refuses it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

VARIABLE: Final = re.compile(r"\$\{([^!}][^}]*)\}")
"""Matches a variable in a text of ``Fn::Sub``."""

_KNOWN_TRANSFORMS: Final = {"AWS::Serverless-2016-10-31", "AWS::LanguageExtensions", "AWS::CodeDeployBlueGreen"}
_OF_SAM: Final = "Serverless"
"""What the labels of the APIs that SAM makes begin with."""


class Dangling(NamedTuple):
    """The label of a resource or output, and a name there that nothing has."""

    label: str
    name: str


def dangling(template: Mapping[str, Any]) -> Iterator[Dangling]:
    """Yield the references to nothing, each once. Where a macro or a loop makes resources, there are none for certain.

    SAM and modules make resources whose labels begin with theirs.
    """
    labels = {*template["Resources"]}
    if _is_open(template, labels):
        return
    named = labels | {*template["Parameters"]}
    makers = tuple(sorted(_makers(template, labels)))
    parts = {**template["Resources"], **{f"Outputs.{name}": each for name, each in template["Outputs"].items()}}
    for label, part in parts.items():
        for name in dict.fromkeys(_names(part)):
            if not (name in named or name.startswith(("AWS::", *makers))):
                yield Dangling(label, name)


def _is_open(template: Mapping[str, Any], labels: set[str]) -> bool:
    """Answer whether something else than the template's own text makes resources of it."""
    return any(label.startswith("Fn::") for label in labels) or not _KNOWN_TRANSFORMS.issuperset(_transforms(template))


def _transforms(template: Mapping[str, Any]) -> list[str]:
    given = template.get("Transform", [])
    return [str(each) for each in (given if isinstance(given, list) else [given])]


def _makers(template: Mapping[str, Any], labels: set[str]) -> Iterator[str]:
    """Yield what the labels begin with of what SAM and modules make."""
    if any("Serverless" in each for each in _transforms(template)):
        yield from {_OF_SAM, *labels}
    for label, resource in template["Resources"].items():
        if str(resource.get("Type")).endswith("::MODULE"):
            yield label


def _names(value: Any) -> Iterator[str]:
    """Yield the labels that a part of a template refers to."""
    match value:
        case {"Ref": str(name), **rest} if not rest:
            yield name
        case {"Fn::GetAtt": str(place) | [str(place), *_], **rest} if not rest:
            yield place.partition(".")[0]
        case {"Fn::Sub": str(text), **rest} if not rest:
            yield from _variables(text, {})
        case {"Fn::Sub": [str(text), dict(given)], **rest} if not rest:
            yield from _variables(text, given)
            yield from _names(given)
        case dict():
            for key, each in value.items():
                yield from _depended_on(each) if key == "DependsOn" else _names(each)
        case list():
            for each in value:
                yield from _names(each)
        case _:
            pass


def _depended_on(given: Any) -> Iterator[str]:
    for each in given if isinstance(given, list) else [given]:
        if isinstance(each, str):
            yield each


def _variables(text: str, given: Mapping[str, Any]) -> Iterator[str]:
    return (name.partition(".")[0] for name in VARIABLE.findall(text) if name not in given)
