"""The event source mappings of a queue: Lambda polls the queue while they are on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from flowguard.aws import botocore_errors
from flowguard.aws.faults import error_code
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

    def turn_off(self, uuid: str, at_once: int | None) -> None:
        """Let it poll no more. That takes AWS up to a minute. Batches at work end. ``at_once`` is as in turn_on."""
        self.client.update_event_source_mapping(UUID=uuid, Enabled=False, **_scaling(at_once))

    def turn_on(self, uuid: str, at_once: int | None) -> QueueMapping | None:
        """Let it poll. Return what it is now, None where it is gone.

        ``at_once`` is its largest concurrency from now on, 0 for none. None leaves what it has.
        """
        try:
            return _mapping(self.client.update_event_source_mapping(UUID=uuid, Enabled=True, **_scaling(at_once)))
        except botocore_errors.ClientError as error:
            if error_code(error) != "ResourceNotFoundException":
                raise
            return None


def _scaling(at_once: int | None) -> Any:
    if at_once is None:
        return {}
    return {"ScalingConfig": {} if at_once == UNBOUNDED else {"MaximumConcurrency": at_once}}


def _mapping(given: Any) -> QueueMapping:
    at_once = given.get("ScalingConfig", {}).get("MaximumConcurrency", UNBOUNDED)
    function = given["FunctionArn"].partition(":function:")[2]
    return QueueMapping(given["UUID"], function, given.get("State") not in OFF, at_once)
