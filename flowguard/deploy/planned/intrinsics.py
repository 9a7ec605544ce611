"""The functions of CloudFormation's templates, as far as the template alone tells what they return."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from flowguard.deploy.planned.resources import HERE, KINDS, REDRIVE_IS_GIVEN, STREAM_HERE, Resource, queue_url
from flowguard.deploy.planned.values import UNKNOWN, is_known

_PSEUDO: Final = {
    "AWS::AccountId": HERE.account,
    "AWS::Partition": HERE.partition,
    "AWS::Region": HERE.region,
    "AWS::URLSuffix": "amazonaws.com",
}
_STACK: Final = "AWS::CloudFormation::Stack"
_ABSENT: Final = object()
_VARIABLE: Final = re.compile(r"\$\{([^!}][^}]*)\}")
_BY_ARN: Final = ("AWS::SNS::Topic", "AWS::SecretsManager::Secret", "AWS::IAM::ManagedPolicy")
"""The types that ``Ref`` gives by the ARN, and not by the name."""


Nested = tuple[Mapping[str, Any], "Beside"]
Beside = Callable[[str], Nested | None]
"""Reads a template of a nested stack by its ``TemplateURL``, and tells what is beside it. None for one elsewhere."""


class Intrinsics:
    """Resolves what a template says. ``UNKNOWN`` stands for what it leaves open.

    ``beside`` reads the templates of its nested stacks. ``path`` comes before the labels of a nested stack.
    """

    def __init__(
        self,
        template: Mapping[str, Any],
        parameters: Mapping[str, Any],
        beside: Beside = lambda _: None,
        path: str = "",
    ) -> None:
        self._template = template
        self._beside = beside
        self._path = path
        self._children: dict[str, Intrinsics | None] = {}
        self._parameters = _PSEUDO | self._defaults() | dict(parameters)
        self._resolving: set[str] = set()

    def _defaults(self) -> dict[str, Any]:
        declared = self._template.get("Parameters") or {}
        return {name: _default(parameter) for name, parameter in declared.items()}

    def resources(self) -> Iterator[Resource]:
        """Yield the resources that the conditions let be. One whose condition is open has an open name."""
        for label, resource in self._template["Resources"].items():
            if label.startswith("Fn::"):
                yield Resource(f"{self._path}{label}", _STACK, {})  # a loop, which may make any resources
                continue
            is_there = self._condition(resource["Condition"]) if "Condition" in resource else True
            if is_there is True and (child := self._child(label)) is not None:
                yield from child.resources()
                continue
            properties = self.resolved(resource.get("Properties", {})) if is_there is not False else {}
            type_ = str(resource.get("Type"))
            if is_there is UNKNOWN and type_ in KINDS:
                properties = {**properties, KINDS[type_].name: UNKNOWN}
            if type_ == "AWS::SQS::Queue" and self._is_given(resource.get("Properties", {}).get("RedrivePolicy")):
                properties = {**properties, REDRIVE_IS_GIVEN: True}
            if is_there is not False:
                yield Resource(f"{self._path}{label}", type_, properties if isinstance(properties, dict) else {})

    def output(self, name: str) -> Any:
        """Return an output of a nested stack."""
        return self.resolved((self._template.get("Outputs") or {})[name]["Value"])

    def _child(self, label: str) -> Intrinsics | None:
        """Return the nested stack of that label. None for another resource, and for a template that is not here."""
        resource = self._template["Resources"].get(label, {})
        if label not in self._children and resource.get("Type") == _STACK:
            self._children[label] = None  # a stack that names its own outputs has none
            self._children[label] = self._nested(label, self.resolved(resource.get("Properties", {})))
        return self._children.get(label)

    def _nested(self, label: str, properties: Mapping[str, Any]) -> Intrinsics | None:
        url = properties.get("TemplateURL")
        if not isinstance(url, str) or (there := self._beside(url)) is None:
            return None
        template, beside = there
        everywhere = {name: value for name, value in self._parameters.items() if ":" in name}
        given = everywhere | (properties.get("Parameters") or {})
        return Intrinsics(template, given, beside, f"{self._path}{label}.")

    def _is_given(self, value: Any) -> bool:
        """Answer whether a value depends on a parameter, another stack or what is stored elsewhere."""
        if isinstance(value, list):
            return any(map(self._is_given, value))
        if isinstance(value, str):
            return "{{resolve:" in value
        if not isinstance(value, dict):
            return False
        names = [value["Ref"]] if "Ref" in value else _VARIABLE.findall(str(value.get("Fn::Sub", "")))
        given = self._template.get("Parameters") or {}
        return "Fn::ImportValue" in value or any(name in given for name in names) or self._is_given([*value.values()])

    def resolved(self, value: Any) -> Any:
        """Return a value without functions."""
        resolved = self._resolved(value)
        return UNKNOWN if resolved is _ABSENT else resolved

    def _resolved(self, value: Any) -> Any:
        if isinstance(value, list):
            return [item for item in map(self._resolved, value) if item is not _ABSENT]
        if not isinstance(value, dict):
            return value
        if len(value) == 1:
            [(name, given)] = value.items()
            if name == "Ref" or str(name).startswith("Fn::"):
                return self._called(name, given)
        return {
            key: item
            for key, item in zip(value, map(self._resolved, value.values()), strict=True)
            if item is not _ABSENT
        }

    def _called(self, name: str, given: Any) -> Any:
        functions: dict[str, Callable[[Any], Any]] = {
            "Ref": self._ref,
            "Fn::GetAtt": self._attribute,
            "Fn::Sub": self._substituted,
            "Fn::Join": self._joined,
            "Fn::Split": self._split,
            "Fn::Select": self._selected,
            "Fn::FindInMap": self._looked_up,
            "Fn::If": self._chosen,
            "Fn::ImportValue": self._imported,
        }
        try:
            return functions[name](given) if name in functions else UNKNOWN
        except (ValueError, TypeError, KeyError, IndexError, AttributeError):
            return UNKNOWN  # it is given what it does not take: CloudFormation says so

    # -- references

    def _ref(self, name: Any) -> Any:
        if name == "AWS::NoValue":
            return _ABSENT
        if name in self._parameters:
            return self._parameters[name]
        resource = self._resource(name)
        if resource is None:
            return UNKNOWN
        if resource.type in _BY_ARN:
            return resource.arn
        if resource.type == "AWS::SQS::Queue" and resource.name is not UNKNOWN:
            return queue_url(resource.name)
        return resource.name

    def _attribute(self, given: Any) -> Any:
        label, attribute = given.split(".", 1) if isinstance(given, str) else given
        if attribute.startswith("Outputs.") and (child := self._child(label)) is not None:
            return child.output(attribute.removeprefix("Outputs."))
        resource = self._resource(label)
        if resource is None or resource.arn is UNKNOWN:
            return UNKNOWN
        if attribute in ("Arn", "TopicArn"):
            return resource.arn
        names = {"QueueName", "TopicName", "Name"}
        return resource.name if attribute in names else _stream(resource) if attribute == "StreamArn" else UNKNOWN

    def _resource(self, label: str) -> Resource | None:
        """Return a resource with its name alone. None if nobody knows it, or names lead in a circle."""
        declared = self._template["Resources"].get(label)
        kind = KINDS.get(str(declared.get("Type"))) if declared is not None else None
        if kind is None or label in self._resolving:
            return None
        self._resolving.add(label)
        try:
            given = {kind.name: UNKNOWN, **declared.get("Properties", {})}
            named = {name: self.resolved(given[name]) for name in (kind.name, kind.within) if name in given}
            return Resource(f"{self._path}{label}", declared["Type"], named)
        finally:
            self._resolving.remove(label)

    # -- texts and choices

    def _substituted(self, given: Any) -> Any:
        text, variables = (given, {}) if isinstance(given, str) else given
        values = {
            name: self.resolved(variables[name]) if name in variables else self._variable(name)
            for name in _VARIABLE.findall(text)
        }
        if not all(map(is_known, values.values())):
            return UNKNOWN
        return _VARIABLE.sub(lambda match: str(values[match[1]]), text).replace("${!", "${")

    def _variable(self, name: str) -> Any:
        return self._ref(name) if "." not in name else self._attribute(name)

    def _joined(self, given: Any) -> Any:
        between, parts = given[0], self.resolved(given[1])
        return between.join(map(str, parts)) if is_known(parts) else UNKNOWN

    def _split(self, given: Any) -> Any:
        text = self.resolved(given[1])
        return UNKNOWN if text is UNKNOWN else text.split(given[0])

    def _selected(self, given: Any) -> Any:
        index, values = self.resolved(given[0]), self.resolved(given[1])
        return UNKNOWN if UNKNOWN in (index, values) else values[int(index)]

    def _imported(self, given: Any) -> Any:
        """Return what another stack exports, which parameters may say."""
        return self._parameters.get(f"import:{self.resolved(given)}", UNKNOWN)

    def _looked_up(self, given: Any) -> Any:
        name, first, second = (self.resolved(part) for part in given[:3])
        if not is_known([name, first, second]):
            return UNKNOWN
        return self.resolved(self._template["Mappings"][name][first][second])

    def _chosen(self, given: Any) -> Any:
        name, if_true, if_false = given
        holds = self._condition(name)
        return UNKNOWN if holds is UNKNOWN else self._resolved(if_true if holds else if_false)

    def _condition(self, name: Any) -> Any:
        """Return whether a condition holds. ``UNKNOWN`` if nobody knows."""
        conditions = self._template.get("Conditions") or {}
        if not isinstance(name, str) or name not in conditions or f"condition {name}" in self._resolving:
            return UNKNOWN
        self._resolving.add(f"condition {name}")
        try:
            return self._holds(conditions[name])
        finally:
            self._resolving.remove(f"condition {name}")

    def _holds(self, condition: Any) -> Any:
        if not isinstance(condition, dict) or len(condition) != 1:
            return UNKNOWN
        [(name, given)] = condition.items()
        if name == "Condition":
            return self._condition(given)
        if not isinstance(given, list):
            return UNKNOWN
        if name == "Fn::Equals":
            sides = self.resolved(given)
            return (
                str(sides[0]) == str(sides[1])
                if len(sides) == 2 and is_known(sides) and not _is_here(sides)
                else UNKNOWN
            )
        held = [self._holds(each) for each in given]
        if name == "Fn::Not" and len(held) == 1:
            return UNKNOWN if held[0] is UNKNOWN else not held[0]
        if name in ("Fn::And", "Fn::Or"):
            settled = name == "Fn::Or"  # one such side settles it
            return settled if settled in held else UNKNOWN if UNKNOWN in held else not settled
        return UNKNOWN


def _is_here(sides: list[Any]) -> bool:
    """Answer whether a side of a comparison depends on where the template is deployed."""
    return any(place in str(side) for side in sides for place in (HERE.region, HERE.account))


def _default(parameter: Any) -> Any:
    if not isinstance(parameter, dict) or str(parameter.get("Type")).startswith("AWS::SSM::Parameter"):
        return UNKNOWN
    default = parameter.get("Default", UNKNOWN)
    is_list = "List" in str(parameter.get("Type"))
    return default.split(",") if is_list and isinstance(default, str) else default


def _stream(table: Resource) -> str:
    return f"{table.arn}/stream/{STREAM_HERE}"
