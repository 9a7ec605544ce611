"""The functions of CloudFormation's templates, as far as the template alone tells what they return."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from flowguard.deploy.planned.dangling import VARIABLE, Dangling, dangling
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
        return {name: _default(parameter) for name, parameter in self._template["Parameters"].items()}

    def resources(self) -> Iterator[Resource]:
        """Yield the resources that the conditions let be. One whose condition is open has an open name."""
        for label, resource in self._template["Resources"].items():
            is_there = self._condition(resource["Condition"]) if "Condition" in resource else True
            if is_there is True and (child := self._child(label)) is not None:
                yield from child.resources()
            elif is_there is not False:
                yield self._made(label, resource, is_open=is_there is UNKNOWN)

    def _made(self, label: str, resource: Mapping[str, Any], *, is_open: bool) -> Resource:
        type_, resolved = str(resource.get("Type")), self.resolved(resource["Properties"])
        properties = resolved if isinstance(resolved, dict) else {}
        if is_open and type_ in KINDS:
            properties[KINDS[type_].name] = UNKNOWN
        if type_ == "AWS::SQS::Queue" and self._is_given(resource["Properties"].get("RedrivePolicy")):
            properties[REDRIVE_IS_GIVEN] = True
        return Resource(f"{self._path}{label}", type_, properties)

    def dangling(self) -> Iterator[Dangling]:
        """Yield the references to nothing, of the nested stacks too."""
        for each in dangling(self._template):
            yield each._replace(label=f"{self._path}{each.label}")
        for label in self._template["Resources"]:
            if (child := self._child(label)) is not None:
                yield from child.dangling()

    def output(self, name: str) -> Any:
        """Return an output of a nested stack."""
        return self.resolved(self._template["Outputs"][name]["Value"])

    def _child(self, label: str) -> Intrinsics | None:
        """Return the nested stack of that label. None for another resource, and for a template that is not here."""
        resource = self._template["Resources"].get(label, {})
        if label not in self._children and resource.get("Type") == _STACK:
            self._children[label] = None  # a stack that names its own outputs has none
            self._children[label] = self._nested(label, self.resolved(resource["Properties"]))
        return self._children.get(label)

    def _nested(self, label: str, properties: Any) -> Intrinsics | None:
        given = {"Parameters": {}, **properties} if isinstance(properties, dict) else {}
        match given:
            case {"TemplateURL": str(url), "Parameters": dict(parameters)}:
                there = self._beside(url)
            case _:
                return None
        if there is None:
            return None
        template, beside = there
        everywhere = {name: value for name, value in self._parameters.items() if ":" in name}
        return Intrinsics(template, everywhere | parameters, beside, f"{self._path}{label}.")

    def _is_given(self, value: Any) -> bool:
        """Answer whether a value depends on a parameter, another stack or what is stored elsewhere."""
        if isinstance(value, list):
            return any(map(self._is_given, value))
        if isinstance(value, str):
            return "{{resolve:" in value
        if not isinstance(value, dict):
            return False
        names = [value["Ref"]] if "Ref" in value else VARIABLE.findall(str(value.get("Fn::Sub", "")))
        given = any(name in self._template["Parameters"] for name in names)
        return given or "Fn::ImportValue" in value or self._is_given([*value.values()])

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
            return functions[name](given)
        except (ValueError, TypeError, KeyError, IndexError, AttributeError):
            return UNKNOWN  # it is no function here, or is given what is not known, or what it does not take

    # -- references

    def _ref(self, name: Any) -> Any:
        if name == "AWS::NoValue":
            return _ABSENT
        if name in self._parameters:
            return self._parameters[name]
        resource = self._resource(name)
        if resource.type in _BY_ARN:
            return resource.arn
        if resource.type == "AWS::SQS::Queue" and resource.name is not UNKNOWN:
            return queue_url(resource.name)
        return resource.name

    def _attribute(self, given: Any) -> Any:
        label, attribute = given.split(".", 1) if isinstance(given, str) else given
        if attribute.startswith("Outputs."):
            match self._child(label):
                case Intrinsics() as child:
                    return child.output(attribute.removeprefix("Outputs."))
                case _:
                    return UNKNOWN
        resource = self._resource(label)
        match attribute:
            case "Arn" | "TopicArn":
                return resource.arn
            case "QueueName" | "TopicName" | "Name":
                return resource.name
            case "StreamArn" if resource.arn is not UNKNOWN:
                return f"{resource.arn}/stream/{STREAM_HERE}"
            case _:
                return UNKNOWN

    def _resource(self, label: str) -> Resource:
        """Return a resource with its name alone. Raises KeyError if nobody knows it, or names lead in a circle."""
        declared = self._template["Resources"][label]
        kind, given = KINDS[declared["Type"]], declared["Properties"]
        if label in self._resolving:
            raise KeyError(label)
        self._resolving.add(label)
        try:
            named = {name: self.resolved(given[name]) for name in kind.named_by if name in given}
        finally:
            self._resolving.discard(label)
        return Resource(f"{self._path}{label}", declared["Type"], named)

    # -- texts and choices

    def _substituted(self, given: Any) -> Any:
        text, variables = (given, {}) if isinstance(given, str) else given
        values = {
            name: self.resolved(variables[name]) if name in variables else self._variable(name)
            for name in VARIABLE.findall(text)
        }
        if not all(map(is_known, values.values())):
            return UNKNOWN
        return VARIABLE.sub(lambda match: str(values[match[1]]), text).replace("${!", "${")

    def _variable(self, name: str) -> Any:
        return self._ref(name) if "." not in name else self._attribute(name)

    def _joined(self, given: Any) -> Any:
        between, parts = given[0], self.resolved(given[1])
        return between.join(map(str, parts)) if is_known(parts) else UNKNOWN

    def _split(self, given: Any) -> Any:
        return self.resolved(given[1]).split(given[0])

    def _selected(self, given: Any) -> Any:
        return self.resolved(given[1])[int(self.resolved(given[0]))]

    def _imported(self, given: Any) -> Any:
        """Return what another stack exports, which parameters may say."""
        return self._parameters.get(f"import:{self.resolved(given)}", UNKNOWN)

    def _looked_up(self, given: Any) -> Any:
        name, first, second = (self.resolved(part) for part in given[:3])
        return self.resolved(self._template["Mappings"][name][first][second])

    def _chosen(self, given: Any) -> Any:
        name, if_true, if_false = given
        holds = self._condition(name)
        return UNKNOWN if holds is UNKNOWN else self._resolved(if_true if holds else if_false)

    def _condition(self, name: Any) -> Any:
        """Return whether a condition holds. ``UNKNOWN`` if nobody knows."""
        mark = f"condition {name}"
        if mark in self._resolving:
            return UNKNOWN
        self._resolving.add(mark)
        try:
            return self._holds(self._template["Conditions"][name])
        except (AttributeError, KeyError, TypeError, ValueError):
            return UNKNOWN  # there is no such condition, or it has another form
        finally:
            self._resolving.discard(mark)

    def _holds(self, condition: Any) -> Any:
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
