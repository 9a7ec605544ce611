"""The parts of a template that is too large for one stack, each with the resources that go into it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any, Final, NamedTuple

Json = dict[str, Any]

BASE: Final = "base"
_SHARED: Final = (
    "AWS::DynamoDB::Table",
    "AWS::SNS::Topic",
    "AWS::Scheduler::ScheduleGroup",
    "AWS::SecretsManager::Secret",
)
"""The types whose resources stay where they are when flows come and go."""

_ANCHORS: Final[Mapping[str, str]] = {
    "AWS::Events::Rule": "Targets",
    "AWS::Lambda::EventSourceMapping": "FunctionName",
    "AWS::Lambda::Permission": "FunctionName",
    "AWS::Lambda::Url": "TargetFunctionArn",
    "AWS::Logs::MetricFilter": "LogGroupName",
    "AWS::SNS::Subscription": "Endpoint",
    "AWS::SNS::TopicPolicy": "Topics",
    "AWS::SQS::QueuePolicy": "Queues",
    "AWS::Scheduler::Schedule": "Target",
}
"""The property of a resource without tags that names the one which it belongs to."""

_LAST: Final = ("AWS::Events::Rule", "AWS::SNS::Subscription", "AWS::SQS::QueuePolicy")
"""The types whose resources are in a part that comes after all flows, from the first deployment on.

A later release's policy may name roles of any flow, and a subscription or rule waits for it. One that moved to another
stack would be made there, and then removed by the stack that it has left: AWS knows it by its queue alone.
"""

_WATCHED: Final = frozenset({"FunctionName", "QueueName"})
"""The properties that are dimensions of alarms too."""

_FUNCTION: Final = "AWS::Lambda::Function"
_OF_ALARMS: Final = (_FUNCTION, "AWS::SQS::Queue")
_NAMING: Final = ("AWS::IAM::Role", _FUNCTION, "AWS::SQS::QueuePolicy")
"""The types that AWS makes also where a queue that they name is not there yet."""

_VARIABLE: Final = re.compile(r"\$\{([A-Za-z0-9]+)(?:\.([A-Za-z0-9.]+))?\}")


class Reference(NamedTuple):
    """A reference to a resource: its label and an attribute for ``Fn::GetAtt``, or ``""`` for ``Ref``."""

    label: str
    attribute: str


class Parts:
    """Says in which part each resource of a template is.

    ``flows`` are the values of the tags of flows. ``queues`` names the flow, or the base, of each queue that any flow
    may use, by the queue's name: its tag names the first of those that use it now.
    """

    def __init__(
        self, resources: Mapping[str, Json], tag: str, flows: Sequence[str], queues: Mapping[str, str]
    ) -> None:
        self._resources = resources
        self._tag = tag
        self._flows = frozenset(flows)
        self._queues = queues
        self._named = {
            (name, resource["Properties"][name]): label
            for label, resource in resources.items()
            for name in _WATCHED & resource["Properties"].keys()
            if resource["Type"] in _OF_ALARMS
        }
        self._part = {label: self._place(label) for label in resources}
        self._merge()

    def __getitem__(self, label: str) -> str:
        """Return the name of the part of a resource."""
        return self._part[label]

    def needed(self) -> dict[str, set[str]]:
        """Return the parts that each part needs, and those that come first because its functions use them.

        Of functions that send to each other the later one is made without waiting: what it sends to may come after it.
        """
        needed = self._needed()
        for label, resource in self._resources.items():
            for after in resource.get("DependsOn", []):
                if self._part[label] not in _all_needed(needed, self._part[after]):
                    needed[self._part[label]].add(self._part[after])
        return needed

    def _needed(self) -> dict[str, set[str]]:
        needed: dict[str, set[str]] = {name: set() for name in self._part.values()}
        for label, resource in self._resources.items():
            for each in (*references(resource["Properties"]), *_dependencies(resource)):
                if each.label in self._part and not is_by_name(self._resources, label, each):
                    needed[self._part[label]].add(self._part[each.label])
        return {name: parts - {name} for name, parts in needed.items()}

    def all(self) -> dict[str, dict[str, Json]]:
        """Return the resources of each part. One that others need comes before them."""
        return {
            name: {label: resource for label, resource in self._resources.items() if self._part[label] == name}
            for name in TopologicalSorter(self.needed()).static_order()
        }

    def _place(self, label: str) -> str:
        """Return the part of a resource."""
        home, resource = self._home(label), self._resources[label]
        if resource["Type"] not in _LAST:
            return home
        return f"policies-{home if home != BASE else self._queue_of(resource)}"

    def _queue_of(self, resource: Json) -> str:
        """Return the name of the queue whose policy a resource of the base is, so that the base of these is not large.

        A part takes so many roles of others as parameters, and each policy names some.
        """
        named = references(resource["Properties"].get("Queues"))
        return next((self._resources[each.label]["Properties"]["QueueName"] for each in named), BASE)

    def _home(self, label: str) -> str:
        """Return the flow of a resource, or the base."""
        resource = self._resources[label]
        if resource["Type"] in _SHARED:
            return BASE
        if (home := self._queues.get(resource["Properties"].get("QueueName", ""))) is not None:
            return home
        if (anchor := _ANCHORS.get(resource["Type"])) is not None:
            places = [each.label for each in references(resource["Properties"][anchor])]
            return next((self._home(place) for place in places if place in self._resources), BASE)
        if resource["Type"] == "AWS::CloudWatch::Alarm":
            return self._watched(resource["Properties"])
        tags = {each["Key"]: each["Value"] for each in resource["Properties"].get("Tags", [])}
        return tags[self._tag] if tags.get(self._tag) in self._flows else BASE

    def _watched(self, alarm: Json) -> str:
        """Return the flow of what an alarm watches: a queue, a function, or what logs count of a flow."""
        [dimension] = alarm["Dimensions"]
        if (label := self._named.get((dimension["Name"], dimension["Value"]))) is not None:
            return self._home(label)
        flow = str(alarm["MetricName"]).removeprefix("events-")
        return flow if flow in self._flows else BASE

    def _merge(self) -> None:
        """Put parts together that need each other."""
        while (circle := _circle(self._needed())) is not None:
            first = min(circle, key=lambda name: (name != BASE, name))
            self._part = {label: first if part in circle else part for label, part in self._part.items()}


def _circle(needed: Mapping[str, set[str]]) -> set[str] | None:
    try:
        TopologicalSorter(needed).prepare()
    except CycleError as error:
        return {*error.args[1]}
    return None


def _all_needed(needed: Mapping[str, set[str]], part: str) -> set[str]:
    """Return a part and all that it needs, and what these need."""
    reached, ahead = {part}, [part]
    while ahead:
        more = needed[ahead.pop()] - reached
        reached |= more
        ahead += more
    return reached


def references(value: Any) -> Iterator[Reference]:
    """Yield what a value refers to. Parameters and conditions are among it."""
    match value:
        case {"Ref": str(label)}:
            yield Reference(label, "")
        case {"Fn::GetAtt": [label, attribute]}:
            yield Reference(label, attribute)
        case {"Fn::Sub": str(text)}:
            yield from (Reference(label, attribute) for label, attribute in _VARIABLE.findall(text))
        case dict():
            for each in value.values():
                yield from references(each)
        case list():
            for each in value:
                yield from references(each)
        case _:
            pass


def is_by_name(resources: Mapping[str, Json], label: str, reference: Reference) -> bool:
    """Answer whether a resource may name another part's queue by an ARN made of its name, and waits for none then."""
    is_arn = resources[reference.label]["Type"] == "AWS::SQS::Queue" and reference.attribute == "Arn"
    return is_arn and resources[label]["Type"] in _NAMING


def _dependencies(resource: Json) -> Iterator[Reference]:
    """Yield what a resource waits for. A function does so where it can."""
    after = resource.get("DependsOn", []) if resource["Type"] != _FUNCTION else []
    return (Reference(label, "") for label in after)
