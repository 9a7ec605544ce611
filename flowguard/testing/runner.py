"""The runner of flows in a test.

Handlers and boto3 calls are real, AWS is in memory, and time is moved.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any, Final, Self

from pydantic import BaseModel

from flowguard.aws.writes import from_item
from flowguard.client import FlowClient, Started
from flowguard.destinations import Destination, Queue
from flowguard.errors import FlowguardError, SettingsError
from flowguard.flow import AnyFlow
from flowguard.names.ids import SeededIds
from flowguard.payload.encoding import Payload
from flowguard.project.declared import DeclaredKey
from flowguard.protocol.groups import request_of
from flowguard.sim.delivered import Delivered
from flowguard.sim.engine import Engine
from flowguard.sim.final_state import plain
from flowguard.sim.posted_messages import Posted
from flowguard.sim.recording import RecordedRecord, read_recording
from flowguard.sim.virtual import VirtualTime
from flowguard.testing.arguments import (
    check_event,
    check_flows,
    check_request,
    check_within,
    read_items,
    read_table,
)
from flowguard.testing.explorer.record.view import body_of
from flowguard.testing.flow_result import FlowResult, RunEnd, SentMessage, name_at_end
from flowguard.testing.shared_world import SharedWorld
from flowguard.testing.story import story
from flowguard.verdicts import AnswerVerdict
from flowguard.wire.attributes import Attribute
from flowguard.wire.envelope import BadRecord

MOST_DELIVERIES: Final = 1_000
_FOR_A_REQUEST: Final = 10
"""Deliveries more for each request of a group: its own hops, and its answer."""


class NotAtRest(FlowguardError):
    """Messages still come after very many deliveries. ``last`` are lines about the last of them."""

    def __init__(self, deliveries: int, last: tuple[str, ...]) -> None:
        super().__init__(deliveries, last)
        self.deliveries = deliveries
        self.last = last

    def __str__(self) -> str:
        lines = "\n".join(self.last)
        return (
            f"messages still come after {self.deliveries:,} deliveries; a flow that never rests is run for a time: "
            f"run(within=timedelta(…)); one with more work than that, by FlowRunner(…, most={2 * self.deliveries}). "
            f"The last of them:\n{lines}"
        )


class NoFlow(FlowguardError):
    """The runner knows none of the flows."""

    def __str__(self) -> str:
        return "the runner has no flow to run; send(MyFlow, payload), or serve(MyFlow) before you deliver events"


class FlowRunner:
    """Runs flows in a test. Open it as a block, on an AWS and a clock that are open.

    Queues, topics and tables are made when they are used. Equal values of ``seed`` give equal ids and delays. A flow
    that is not at rest within ``most`` deliveries, and ten for each request of a group, is stopped. What a
    method cannot use it refuses with :class:`flowguard.errors.SettingsError`, and nothing has changed.

    ::

        runner.send(PlaceOrder, OrderPlaced(order_id="o1"))
        result = runner.run()
        assert result.run("o1").status == "COMPLETED"
    """

    def __init__(self, aws: Engine, clock: VirtualTime, *, seed: int = 0, most: int = MOST_DELIVERIES) -> None:
        self._world = SharedWorld(aws, clock, seed=seed)
        self._most = most
        self._ids = SeededIds(seed + 1)
        self._rows: list[Delivered] = []
        self._sent: list[SentMessage] = []

    def __enter__(self) -> Self:
        self._world.__enter__()
        return self

    def __exit__(self, *of_error: Any) -> None:
        self._world.__exit__(*of_error)

    # -- what is there before

    def serve(self, *flows: AnyFlow) -> Self:
        """Run the functions of these flows too. That is for flows that others start, or whose events are delivered."""
        check_flows("serve", flows)
        self._world.serve(flows)
        return self

    def table(self, name: str, key: DeclaredKey, *items: Mapping[str, Any] | BaseModel) -> Self:
        """Make a table of yours with these items in it. ``key`` is its hash key.

        Or ``("order_id", "line")`` with a range key, ``{"shop": "S", "day": "N"}`` where one is no text. What a flow's
        module lists in ``TABLES`` and ``ITEMS`` need not be given. An item that the engine refuses leaves those
        before it there.
        """
        declared = read_table(name, key)
        world = self._world
        if (known := world.keys.get(name, declared)) != declared:
            raise SettingsError("flow_runner.table", f"{name} has the key {known} already, not {declared}")
        read = read_items(name, items)
        world.declare(name, declared)
        dynamodb = world.aws.client("dynamodb")
        for number, item in enumerate(read, 1):
            try:
                dynamodb.put_item(TableName=name, Item=item)
            except dynamodb.exceptions.ClientError as refused:
                problem = f"item {number} of {name}: {refused.response['Error']['Message']}"
                raise SettingsError("flow_runner.table", problem) from None
        return self

    def queue(self, name: str) -> Self:
        """Make a queue of yours, so that a test may say that nothing was sent to it.

        Queues that messages are sent to are made then. A name that ends in ``.fifo`` makes a FIFO queue.
        """
        if not _is_name(name):
            raise SettingsError("flow_runner.queue", f'name is {name!r}; give the name of the queue: queue("mails")')
        self._world.provisioner.queue(name)
        return self

    # -- what comes in

    def send(  # noqa: PLR0913 - the parts of a request, each with a default
        self,
        flow: AnyFlow,
        payload: Payload,
        *,
        object_id: str | None = None,
        request_id: str | None = None,
        requested_at: int | None = None,
        reply_to: Destination | str | None = None,
        attributes: Mapping[str, Attribute | str] | None = None,
        tenant: str | None = None,
        lane: str | None = None,
    ) -> Started:
        """Ask for a run, as :meth:`flowguard.FlowClient.start` does. The same ``request_id`` twice is one run.

        ``object_id``, ``requested_at``, ``reply_to``, ``attributes``, ``tenant`` and ``lane`` are those of that method.
        """
        about: dict[str, Any] = {
            "object_id": object_id,
            "request_id": request_id,
            "requested_at": requested_at,
            "reply_to": reply_to,
            "attributes": attributes,
            "tenant": tenant,
            "lane": lane,
        }
        check_flows("send", [flow])
        check_request(flow, payload, **about)
        self.serve(flow)
        services = self._world.services
        client = FlowClient(services.sender, clock=services.clock, ids=self._ids, signer=services.signer)
        return client.start(flow, payload, **about)

    def answer(self, flow: AnyFlow, awaited: str, payload: object) -> AnswerVerdict:
        """Answer what runs of the flow wait for, as :meth:`flowguard.FlowClient.answer` does.

        ``awaited`` is a token, its link, or an id: of an event, or the ``uniquerequestid`` of what a party outside was
        sent. The next :meth:`run` delivers what follows.
        """
        check_flows("answer", [flow])
        return FlowClient.of(self._world.services).answer(flow, awaited, payload)

    def fail(self, flow: AnyFlow, awaited: str, why: str, *, kind: str = "Failed") -> AnswerVerdict:
        """Say that what runs of the flow wait for has failed, as :meth:`flowguard.FlowClient.fail` does.

        ``awaited``, ``why`` and ``kind`` are those of that method.
        """
        check_flows("fail", [flow])
        return FlowClient.of(self._world.services).fail(flow, awaited, why, kind=kind)

    def cancel(self, flow: AnyFlow, object_id: str, *, why: str) -> bool:
        """Cancel the run of an object, and answer whether one was going on. The next :meth:`run` ends it as FAILED.

        ``why`` is the text of its error, as of :meth:`flowguard.FlowClient.cancel`.
        """
        check_flows("cancel", [flow])
        return FlowClient.of(self._world.services).cancel(flow, object_id, why=why)

    def deliver(self, *events: Any) -> Self:
        """Put Lambda events into the queues that they say, as recorded or as the builders make them.

        The same event twice is a message delivered twice. Raises :class:`flowguard.EnvelopeError` for what cannot be
        read; then none is delivered.
        """
        self._check()
        for record in [record for number, event in enumerate(events, 1) for record in _records(number, event)]:
            self._world.put(record.envelope, record.raw)
        return self

    # -- delivery and its result

    def run(self, *, within: timedelta | None = None) -> FlowResult:
        """Deliver all messages, delayed ones too. The clock moves to each. Raises :class:`NotAtRest`.

        ``within`` delivers only what is due by then, and leaves the clock there.
        """
        self._check()
        if within is not None:
            check_within(within)
        world, first = self._world, len(self._world.posted)
        until = None if within is None else world.clock.now() + within // timedelta(milliseconds=1)
        rows: list[Delivered] = []
        most = self._most
        while (row := world.step(until)) is not None:
            rows.append(row)
            self._rows.append(row)
            most += _FOR_A_REQUEST * sum(request_of(sent.id or "") is not None for sent in row.sends)
            if len(rows) > most:
                raise NotAtRest(most, tuple(story(rows[-5:], world.start)))
        if until is not None:
            world.clock.move_to(until)
        return self._result(rows, first)

    def step(self) -> FlowResult:
        """Deliver the message that is due next, and no other. The clock goes along.

        So a test lets something happen between two stages of a run: a newer request comes, or a copy of the first one.
        Where no message is left, nothing is delivered.
        """
        self._check()
        first = len(self._world.posted)
        row = self._world.step(None)
        rows = [] if row is None else [row]
        self._rows += rows
        return self._result(rows, first)

    def timeline(self) -> str:
        """Return the time line of everything that was delivered so far, and the runs as they are."""
        return str(self._result(self._rows, len(self._world.posted)))

    def _check(self) -> None:
        if not self._world.flows:
            raise NoFlow

    def _result(self, rows: list[Delivered], first: int) -> FlowResult:
        """Return what these deliveries did. ``first`` is the place of their first message among all that were sent."""
        world = self._world
        graves = {flow.dead_letters.short_name for flow in world.flows if isinstance(flow.dead_letters, Queue)}
        self._sent += map(_message, world.posted[len(self._sent) :])
        messages = tuple(self._sent[first:])
        return FlowResult(
            deliveries=tuple(rows),
            tables={table: self._items(table) for table in sorted(world.provisioner.tables)},
            messages=messages,
            earlier=tuple(self._sent[:first]),
            dead_letters=tuple(message for message in messages if message.to in graves),
            ends=tuple(self._ends()),
            start=world.start,
            destinations=frozenset(self._destinations()),
        )

    def _destinations(self) -> Iterator[str]:
        """Yield the names of what messages can be sent to: what there is, and what was sent to."""
        world = self._world
        yield from (name_at_end(posted.name) for posted in world.posted)
        yield from world.provisioner.queues
        for page in world.aws.client("sqs").get_paginator("list_queues").paginate():
            yield from (url.rpartition("/")[2] for url in page.get("QueueUrls", ()))
        for page in world.aws.client("sns").get_paginator("list_topics").paginate():
            yield from (name_at_end(topic["TopicArn"]) for topic in page["Topics"])

    def _items(self, table: str) -> tuple[Mapping[str, Any], ...]:
        items = [plain(from_item(raw)) for raw in self._world.scan(table)]
        return tuple(sorted(items, key=lambda item: json.dumps(item, sort_keys=True)))

    def _ends(self) -> Iterator[RunEnd]:
        world = self._world
        for raw in sorted(world.scan(world.settings.table), key=lambda item: str(item["pk"])):
            if raw["sk"]["S"] != "run":
                continue
            _, flow, object_id = raw["pk"]["S"].split("#", 2)
            item = world.store.whole(raw)
            yield RunEnd(
                flow=flow,
                object_id=object_id,
                request_id=item.request_id,
                status=item.status.value,
                stage=item.stage,
                hop=item.hop,
                state=_read(item.state),
                result=_read(item.result),
                error=item.error,
            )


def _records(number: int, event: Any) -> Iterator[RecordedRecord]:
    check_event(number, event)
    for record in read_recording(event):
        if isinstance(record, BadRecord):
            raise record.error
        yield record


def _read(text: str | None) -> Any:
    return None if text is None else json.loads(text)


def _message(sent: Posted) -> SentMessage:
    return SentMessage(
        to=sent.name, body=body_of(sent), id=sent.id, delay=sent.delay, attributes=sent.attributes, group=sent.group
    )


def _is_name(value: object) -> bool:
    return isinstance(value, str) and value != ""
