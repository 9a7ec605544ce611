"""The account that checks ask. It is live at AWS, or what a file will make of one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol

from flowguard.deploy.finding import LiveFinding
from flowguard.errors import FlowguardError

DEFAULT_TIMEOUT: Final = 3
"""Seconds after which a function is stopped whose time-out nobody set."""


class NotKnown(FlowguardError):
    """An account cannot answer a question. It names what among its notes."""


def known(*checks: Iterator[LiveFinding]) -> Iterator[LiveFinding]:
    """Yield the findings of checks, of each as far as its questions are answered."""
    for check in checks:
        with suppress(NotKnown):
            yield from check


class Account(Protocol):
    """Answers what the checks ask, in the words of AWS's API.

    None stands for what does not exist, or may not be read: ``was_read`` tells which. A question that cannot be
    answered raises :class:`NotKnown`, and so does a value in an answer when it is looked at.
    """

    @property
    def account(self) -> str | None: ...

    @property
    def region(self) -> str | None: ...

    @property
    def adds_tags(self) -> bool:
        """Answer whether a deployment may add tags that are not in here: those of its stack."""
        ...

    def was_read(self, service: str, operation: str, resource: str) -> bool:
        """Answer whether the operation was not refused for a resource, by the name or ARN that it was asked for."""
        ...

    def queue(self, name: str, arn: str | None = None) -> Mapping[str, str] | None: ...

    def queues_of(self, tag: str, flows: list[str]) -> list[str] | None: ...

    def untagged_queues(self, tag: str, flows: list[str], names: Sequence[str]) -> list[str]:
        """Return those of the queues that are there and known to lack the tag of one of these flows."""
        ...

    def subscriptions(self, topic: str) -> list[Mapping[str, str]] | None: ...

    def topic_policies(self, topic: str) -> list[Any] | None:
        """Return the documents of the policies of the topic of that ARN. A file may leave parts of them open."""
        ...

    def topic_key(self, topic: str) -> str | None: ...

    def has_bus(self, name: str) -> bool | None: ...

    def rules(self, queue: str, bus: str) -> list[Any] | None:
        """Return the ARNs of the rules of a bus that send to the queue of that ARN. A file may leave some open."""
        ...

    def rule_settings(self, queue: str, bus: str) -> list[Mapping[str, Any]] | None:
        """Return the state and the pattern of each of these rules. None if one of them may not be read."""
        ...

    def has_schedule_group(self, name: str) -> bool | None: ...

    def schedule(self, group: str, name: str) -> Mapping[str, Any] | None: ...

    def table(self, name: str) -> Mapping[str, Any] | None: ...

    def table_key(self, name: str) -> str | None: ...

    def time_to_live(self, name: str) -> Mapping[str, Any] | None: ...

    def restorable(self, name: str) -> bool | None: ...

    def runs(self, table: str, most: int) -> Iterator[Mapping[str, Any]]: ...

    def stream_keeps(self, arn: str) -> int | None: ...

    def function(self, name: str) -> Mapping[str, Any] | None: ...

    def loops(self, function: str) -> str | None: ...

    def reserved(self, function: str) -> int | None:
        """Return the invocations at once that are kept for a function, and the most that it has."""
        ...

    def event_sources(self, function: str) -> list[Mapping[str, Any]] | None: ...

    def readers(self, queue: str) -> list[Mapping[str, Any]] | None:
        """Return the event source mappings of the queue of that ARN, whosever function they are for."""
        ...

    def pipes(self, source: str) -> list[str] | None:
        """Return the names of the pipes of EventBridge that read the queue or stream of that ARN."""
        ...

    def queue_policies(self, queue: str) -> list[Any] | None:
        """Return the documents of the policies of the queue of that name. A file may leave parts of them open."""
        ...

    def function_url(self, name: str) -> bool | None: ...

    def url_auth(self, name: str) -> str | None: ...

    def log_group(self, function: str) -> Mapping[str, Any] | None: ...

    def code_signing(self, function: str) -> str | None: ...

    def tags_of_function(self, name: str) -> Mapping[str, str] | None: ...

    def tags_of_table(self, name: str) -> Mapping[str, str] | None: ...

    def role(self, name: str) -> Mapping[str, Any] | None: ...

    def trust(self, role: str) -> Any:
        """Return the document of the trust policy of a role. None if it may not be read."""
        ...

    def has_role(self, name: str) -> bool | None:
        """Answer whether a role exists. None if that is not known."""
        ...

    def has_bucket(self, name: str) -> bool | None: ...

    def has_secret(self, name: str) -> bool | None:
        """Answer whether a secret is there to stay. None if that is not known.

        It goes by its name or ARN.
        """
        ...

    def bucket_key(self, bucket: str) -> str | None: ...

    def notified_queues(self, bucket: str) -> list[str] | None: ...

    def notified_topics(self, bucket: str) -> list[str] | None: ...

    def secret_key(self, name: str) -> str | None: ...

    def key(self, name: str) -> str | None:
        """Return the ARN of a customer's key, by its ARN, its id or an alias. None for a key of AWS."""
        ...

    def key_policy(self, key: str) -> Any:
        """Return the document of the policy of a key. None if it is not known."""
        ...

    def denied(
        self, role: str, actions: list[str], resource: str, context: Mapping[str, str | None] | None = None
    ) -> list[str] | None: ...

    def clock(self) -> float | None: ...

    def notes(self) -> Iterator[LiveFinding]:
        """Yield what was not answered."""
        ...


def function_name(place: str) -> str:
    """Return the name of a function from its name or ARN. That may be partial, and have an alias."""
    parts = place.split(":")
    if place.startswith("arn:") and len(parts) > 6:
        return parts[6]
    return parts[2] if ":function:" in place else parts[0]
