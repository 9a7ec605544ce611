"""The event source mappings of a queue: Lambda polls the queue while they are on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from flowguard.aws.pause_rows import UNBOUNDED
from flowguard.startup.named_tuple import NamedTuple

if TYPE_CHECKING:
    from mypy_boto3_lambda import LambdaClient

OFF: Final = frozenset({"Disabled", "Disabling"})
"""States of a mapping that polls no more."""


class QueueMapping(NamedTuple):
    """A mapping from a queue to a function. ``at_once`` is its largest concurrency, 0 for none."""

    uuid: str
    function: str
    is_on: bool
    at_once: int


class QueueMappings(NamedTuple):
    """The mappings of one account and region."""

    client: LambdaClient

    def of(self, queue_arn: str) -> list[QueueMapping]:
        """Return the mappings of a queue."""
        pages = self.client.get_paginator("list_event_source_mappings").paginate(EventSourceArn=queue_arn)
        return [_mapping(given) for page in pages for given in page["EventSourceMappings"]]

    def turn_off(self, mapping: QueueMapping) -> None:
        """Let it poll no more. That takes AWS up to a minute. Batches at work end."""
        self.client.update_event_source_mapping(UUID=mapping.uuid, Enabled=False)

    def turn_on(self, mapping: QueueMapping, at_once: int) -> None:
        """Let it poll at this largest concurrency. 0 takes the bound away."""
        change: Any = {"UUID": mapping.uuid, "Enabled": True}
        if at_once != mapping.at_once:  # a mapping with pollers of its own takes no such setting
            change["ScalingConfig"] = {} if at_once == UNBOUNDED else {"MaximumConcurrency": at_once}
        self.client.update_event_source_mapping(**change)


def _mapping(given: Any) -> QueueMapping:
    at_once = given.get("ScalingConfig", {}).get("MaximumConcurrency", UNBOUNDED)
    function = given["FunctionArn"].partition(":function:")[2]
    return QueueMapping(given["UUID"], function, given.get("State") not in OFF, at_once)
