"""The permissions of each function, on the resources that its stages use."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, assert_never

from flowguard.deploy.codec_uses import codec_permissions
from flowguard.deploy.found import FoundFunction, FunctionKind, key_actions, keys_of
from flowguard.deploy.kafka_access import kafka_access
from flowguard.deploy.needs import Permission, StreamNeed, Target
from flowguard.deploy.options import SettingsOptions
from flowguard.deploy.sql_uses import sql_permissions
from flowguard.deploy.used import Uses
from flowguard.deploy.uses import WRITES, uses_of
from flowguard.destinations import Bus, Destination, Function, Queue, Topic, destination
from flowguard.flow import ATTACH, AnyFlow
from flowguard.project.declared import declared_tables, modules_of_flows
from flowguard.project.queues import callback_queues, queue_of
from flowguard.stage import AnyStage
from flowguard.worker.leases import keeps_lease

RECEIVES: Final = ("sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ReceiveMessage")
_READS_KINESIS: Final = (
    "kinesis:DescribeStream",
    "kinesis:DescribeStreamSummary",
    "kinesis:GetRecords",
    "kinesis:GetShardIterator",
    "kinesis:ListShards",
)
_READS_CHANGES: Final = (
    "dynamodb:DescribeStream",
    "dynamodb:GetRecords",
    "dynamodb:GetShardIterator",
    "dynamodb:ListStreams",
)
_SHARED: Final = ("dynamodb:PartiQLInsert", "dynamodb:PartiQLUpdate")
"""What claims and commits of several records in one request are, to IAM."""

_ANSWERED: Final = ("dynamodb:BatchWriteItem", "dynamodb:Query")
"""On the run table, for the requests that wait for the end of a run and have no room in its item."""

_COMMITTING: Final = (FunctionKind.STAGES, FunctionKind.KILLED)
_LOGS: Final = ("logs:CreateLogStream", "logs:PutLogEvents")

IN_VPC: Final = Permission(
    Target.NETWORK.value,
    "*",
    (
        "ec2:AssignPrivateIpAddresses",
        "ec2:CreateNetworkInterface",
        "ec2:DeleteNetworkInterface",
        "ec2:DescribeNetworkInterfaces",
        "ec2:DescribeSubnets",
        "ec2:UnassignPrivateIpAddresses",
    ),
)
"""What Lambda does with the role of a function in a VPC.

https://docs.aws.amazon.com/lambda/latest/dg/configuration-vpc.html
"""


TRACED: Final = Permission(Target.TRACES.value, "*", ("xray:PutTelemetryRecords", "xray:PutTraceSegments"))
"""Lambda sends the traces of a function with its role."""


@dataclass(frozen=True)
class Scope:
    """All flows that are deployed together, and the queues that requests may name as ``reply_to`` of any."""

    flows: tuple[AnyFlow, ...]
    reply_to: tuple[str, ...] = ()


def permissions_of(
    function: FoundFunction,
    reads: Mapping[str, Queue],
    *,
    name: str,
    scope: Scope,
    settings: SettingsOptions,
    streams: Iterable[StreamNeed] = (),
) -> tuple[Permission, ...]:
    """Return the permissions of a function.

    ``reads`` are the queues that it reads, by name, ``streams`` what else brings it requests. It answers the flows of
    the scope that ask its own.
    """
    allowed = _Allowed()
    _of_its_kind(allowed, function, reads, scope, settings)
    for queue in reads.values():
        allowed.on(Target.QUEUE, queue.name, *RECEIVES)
        if function.once is None or function.once.limits:
            # a record that another worker has is hidden while that has it, one that has met an outage for a while, and
            # one that has found no place under @once
            allowed.on(Target.QUEUE, queue.name, "sqs:ChangeMessageVisibility", "sqs:GetQueueUrl")
    for stream in streams:
        _stream(allowed, function, name, stream)
    if function.kind in (FunctionKind.STAGES, FunctionKind.KILLED) and any(
        flow.full_history for flow in function.flows
    ):
        allowed.on(Target.TABLE, settings.table, "dynamodb:PutItem")
    if settings.bucket is not None:
        place = f"{settings.bucket}/{settings.prefix or 'flowguard/'}*"
        allowed.on(Target.OBJECTS, place, "s3:GetObject", "s3:PutObject")
        allowed.on(Target.BUCKET, place, "s3:ListBucket")  # else S3 denies access to an object that is gone
    if settings.signing_keys is not None and function.once is None:
        allowed.keys(settings.signing_keys)
    allowed.on(Target.LOGS, name, *_LOGS)
    for permission in sql_permissions(function):
        allowed.on(permission.on, permission.name, *permission.actions)
    return tuple(sorted((*allowed.all(), *codec_permissions(function))))


def _of_its_kind(
    allowed: _Allowed,
    function: FoundFunction,
    reads: Mapping[str, Queue],
    scope: Scope,
    settings: SettingsOptions,
) -> None:
    match function.kind:
        case FunctionKind.STAGES:
            _stages(allowed, function, reads, scope, settings)
        case FunctionKind.ANSWERS:
            _answers(allowed, function, reads, settings)
        case FunctionKind.KILLED:
            _killed(allowed, function, scope, settings)
        case FunctionKind.STARTS:
            _starts(allowed, function, settings)
        case FunctionKind.ONCE | FunctionKind.CALLED:
            allowed.on(Target.TABLE, _keys(function, settings), *key_actions(function))
        case _:
            assert_never(function.kind)


def _stream(allowed: _Allowed, function: FoundFunction, name: str, stream: StreamNeed) -> None:
    """Allow what Lambda does with the function's role to read a stream. What fails goes to the stage's inbox."""
    if stream.kafka is not None:
        for target, resource, actions in kafka_access(stream.kafka, stream.kafka.group_of(name)):
            allowed.on(target, resource, *actions)
    else:
        _of_shards(allowed, stream)
    allowed.on(Target.QUEUE, stream.undelivered, "sqs:SendMessage")
    allowed.sends(flow.inbox_of(stage) for flow, stage in function.stages if stage is flow.entry())


def _of_shards(allowed: _Allowed, stream: StreamNeed) -> None:
    """Allow what reads the shards of Kinesis, or of a table's stream."""
    if stream.consumer is not None:
        allowed.on(Target.STREAM, stream.consumer, "kinesis:SubscribeToShard")
    allowed.on(Target.STREAM, stream.place, *(_READS_CHANGES if stream.of_table else _READS_KINESIS))


def _keys(function: FoundFunction, settings: SettingsOptions) -> str:
    assert function.once is not None  # noqa: S101 - its kind says so
    return keys_of(function.once, settings.table).name


class _Allowed:
    """Collects actions by resource."""

    def __init__(self) -> None:
        self._actions: dict[tuple[str, str], set[str]] = {}

    def on(self, target: Target, name: str, *actions: str) -> None:
        self._actions.setdefault((target.value, name), set()).update(actions)

    def sends(self, to: Iterable[Destination]) -> None:
        for target in to:
            match target:
                case Queue(name):
                    lookup = () if name.startswith(("https://", "http://")) else ("sqs:GetQueueUrl",)
                    self.on(Target.QUEUE, name, "sqs:SendMessage", *lookup)
                case Topic(arn):
                    self.on(Target.TOPIC, arn, "sns:Publish")
                case Bus(name):
                    self.on(Target.BUS, name, "events:PutEvents")
                case Function(name):
                    self.on(Target.FUNCTION, name, "lambda:InvokeFunction")
                case _:
                    assert_never(target)

    def schedules(self, settings: SettingsOptions) -> None:
        self.on(Target.SCHEDULES, settings.scheduler_group, "scheduler:CreateSchedule")
        self.on(Target.SCHEDULER_ROLE, settings.scheduler_role or "", "iam:PassRole")

    def keys(self, place: str) -> None:
        kind, _, name = place.partition(":")
        if kind == "ssm":
            self.on(Target.PARAMETER, name, "ssm:GetParameter")
        else:
            self.on(Target.SECRET, name, "secretsmanager:GetSecretValue")

    def all(self) -> tuple[Permission, ...]:
        return tuple(
            sorted(
                Permission(target, name, tuple(sorted(actions))) for (target, name), actions in self._actions.items()
            )
        )


def _stages(
    allowed: _Allowed,
    function: FoundFunction,
    reads: Mapping[str, Queue],
    scope: Scope,
    settings: SettingsOptions,
) -> None:
    allowed.on(Target.TABLE, settings.table, "dynamodb:UpdateItem", *(_SHARED if function.together else ()))
    inboxes = [queue for queue in reads.values() if _brings_work(function, queue)]
    allowed.sends(queue for queue in inboxes if not queue.fifo)  # a retry; a FIFO queue keeps its record
    for flow, stage in function.stages:
        uses = uses_of(stage)
        if flow.on_conflict is ATTACH:
            _callers(allowed, flow, stage, settings)
        for table, actions in tables_of_stage(flow, stage).items():
            allowed.on(Target.TABLE, table, *(f"dynamodb:{action}" for action in actions))
        allowed.on(Target.TABLE, settings.table, *_run_table_actions(uses, flow, stage, function))
        if uses.tokens and settings.token_keys is not None:
            allowed.keys(settings.token_keys)
        to = tuple(_sends_of_function(flow, stage, scope))
        allowed.sends(to)
        if stage is flow.entry():
            _cancellations(allowed, flow, scope, settings)
        if flow.long_delays:
            if isinstance(flow.answers, Queue) and flow.answers in to:  # a deadline's schedule names the queue's ARN
                allowed.on(Target.QUEUE, flow.answers.name, "sqs:GetQueueAttributes")
            allowed.schedules(settings)
    for flow in function.flows:
        _orders(allowed, flow, reads, settings)


def _orders(allowed: _Allowed, flow: AnyFlow, reads: Mapping[str, Queue], settings: SettingsOptions) -> None:
    """Allow what settles deadlines, and orders to reset: what one has reset is read."""
    is_here = isinstance(flow.answers, Queue) and flow.answers.short_name in reads
    if is_here and flow.on_conflict is ATTACH:
        allowed.on(Target.TABLE, settings.table, "dynamodb:GetItem")
    if _gets_deadlines(flow, reads):
        allowed.on(Target.TABLE, settings.table, "dynamodb:GetItem")
        allowed.sends((flow.answers, *wait_targets(flow)))
        _groups(allowed, flow, settings)


def _run_table_actions(uses: Uses, flow: AnyFlow, stage: AnyStage, function: FoundFunction) -> Iterator[str]:
    """Yield what a stage does in the run table beside its claim and commit."""
    if (uses.rows and uses.waits) or uses.groups:
        yield "dynamodb:BatchWriteItem"
    if uses.group_answers:
        yield "dynamodb:Query"
    if uses.early or uses.reads_its_run or not keeps_lease(flow, stage):
        yield "dynamodb:GetItem"
    if stage.limits:
        yield from ("dynamodb:DeleteItem", "dynamodb:GetItem", "dynamodb:PutItem")
    if function.together and not keeps_lease(flow, stage):
        yield "dynamodb:BatchGetItem"


def _brings_work(function: FoundFunction, queue: Queue) -> bool:
    """Answer whether messages of stages come through the queue, and not only answers, deadlines and orders to reset."""
    answers = {flow.answers for flow in function.flows}
    return queue not in answers or any(queue in flow.inboxes_of(stage) for flow, stage in function.stages)


def _callers(allowed: _Allowed, flow: AnyFlow, stage: AnyStage, settings: SettingsOptions) -> None:
    """Allow what takes and answers requests that wait for the end of a run. They come where the flow begins.

    A commit with recorded writes answers nothing, so the list that it closes is read.
    """
    allowed.on(Target.TABLE, settings.table, *_ANSWERED)
    if stage.name in flow.entries:
        allowed.on(Target.TABLE, settings.table, "dynamodb:PutItem")
    if tables_of_stage(flow, stage):
        allowed.on(Target.TABLE, settings.table, "dynamodb:GetItem")


def _cancellations(allowed: _Allowed, flow: AnyFlow, scope: Scope, settings: SettingsOptions) -> None:
    """Allow what cancels runs of the flow. An order to, and a request that comes again as cancelled, come as requests.

    A run that waits goes on at once.
    """
    asking = [uses_of(stage) for other in scope.flows for stage in other.stages]
    if any(flow in uses.cancels | uses.cancel_too for uses in asking):
        allowed.on(Target.TABLE, settings.table, "dynamodb:GetItem")
        allowed.sends(wait_targets(flow))


def _killed(allowed: _Allowed, function: FoundFunction, scope: Scope, settings: SettingsOptions) -> None:
    """Allow what the function of the killed queue does with its records.

    It ends runs, sends records back to their queues, and settles orders, answers and deadlines.
    """
    allowed.on(Target.TABLE, settings.table, "dynamodb:GetItem", "dynamodb:UpdateItem")
    for flow in function.flows:
        allowed.sends(flow_sends(flow, scope))
        allowed.sends(queue for stage in flow.stages for queue in _queues_before(flow, stage))
        if flow.on_conflict is ATTACH:
            allowed.on(Target.TABLE, settings.table, "dynamodb:PutItem", *_ANSWERED)
        _groups(allowed, flow, settings)


def _queues_before(flow: AnyFlow, stage: AnyStage) -> Iterator[Queue]:
    """Yield the queues from which SQS moves a stage's records. Of a topic it is the one that it feeds."""
    for inbox in flow.inboxes_of(stage):
        yield inbox if isinstance(inbox, Queue) else Queue(queue_of(flow, stage))


def _starts(allowed: _Allowed, function: FoundFunction, settings: SettingsOptions) -> None:
    """Allow a function to start runs and to watch them."""
    allowed.on(Target.TABLE, settings.table, "dynamodb:GetItem", "dynamodb:UpdateItem")
    if settings.token_keys is not None:
        allowed.keys(settings.token_keys)
    allowed.sends(_entries(function.flows))


def _groups(allowed: _Allowed, flow: AnyFlow, settings: SettingsOptions) -> None:
    """Allow what asks the requests of the flow's groups: the function that reads its answers does."""
    for stage in flow.stages:
        if uses_of(stage).groups:
            allowed.on(Target.TABLE, settings.table, "dynamodb:GetItem", "dynamodb:Query")
            allowed.sends((*stage_sends(flow, stage), flow.dead_letters))


def _gets_deadlines(flow: AnyFlow, reads: Mapping[str, Queue]) -> bool:
    """Answer whether a function that reads these queues gets the deadlines of the flow's waits."""
    return waits(flow) and isinstance(flow.answers, Queue) and flow.answers.short_name in reads


def _answers(allowed: _Allowed, function: FoundFunction, reads: Mapping[str, Queue], settings: SettingsOptions) -> None:
    """Allow what takes answers: those of queues, or over HTTP where it reads none."""
    allowed.on(Target.TABLE, settings.table, "dynamodb:GetItem", "dynamodb:Query", "dynamodb:UpdateItem")
    for flow in _answered(function, reads):
        if reads and flow.callbacks:  # the place of an answer for many, and one that comes early
            allowed.on(Target.TABLE, settings.table, "dynamodb:PutItem")
        if not reads and settings.token_keys is not None:
            allowed.keys(settings.token_keys)
        if flow.long_delays and _gets_deadlines(flow, reads):  # one that came before its moment is scheduled again
            allowed.schedules(settings)
        allowed.sends((flow.answers, flow.dead_letters, *wait_targets(flow)))
        if _gets_deadlines(flow, reads):
            _groups(allowed, flow, settings)


def _answered(function: FoundFunction, reads: Mapping[str, Queue]) -> Iterator[AnyFlow]:
    """Yield the flows whose answers come through these queues, or over HTTP where there are none."""
    for flow in function.flows:
        sources = {*callback_queues([flow]), f"{flow.name}-events"}
        if isinstance(flow.answers, Queue):
            sources.add(flow.answers.short_name)
        if sources & reads.keys() if reads else makes_tokens(flow):
            yield flow


def _sends_of_function(flow: AnyFlow, stage: AnyStage, scope: Scope) -> Iterator[Destination]:
    """Yield the destinations of a stage's function.

    The function of a first stage also sends the outbox that an older run has left, of any stage. The function at which
    a wait goes on also sends that of the waiting stage.
    """
    yield from stage_sends(flow, stage)
    yield from endings(flow, scope)
    for other in flow.stages:
        if stage.name in flow.entries or _goes_on_at(stage, uses_of(other)):
            yield from _left_sends(flow, other)


def _left_sends(flow: AnyFlow, stage: AnyStage) -> Iterator[Destination]:
    """Yield the destinations of what is still sent for a stage whose run has gone on, or was taken over.

    What ends with its run is not sent then: the message of the next hop, a deadline, and questions. The requests that
    are cancelled with a run are sent by the stage at which its wait goes on.
    """
    uses = uses_of(stage)
    yield from sorted(uses.sends, key=str)
    for waiting in map(uses_of, flow.stages):
        if _goes_on_at(stage, waiting):
            yield from _entries(waiting.cancel_too)
            if waiting.groups and waiting.cancel_too:  # what cancels the runs of a group is an order to the flow
                yield flow.answers
    yield from _entries(uses.starts | uses.cancels)
    yield from (other.answers for other in sorted(uses.resets, key=lambda reset: reset.name))
    if uses.unknown_sends:
        yield from declared_queues(stage)


def _goes_on_at(stage: AnyStage, waiting: Uses) -> bool:
    """Answer whether a wait of a stage that uses this may go on at another one."""
    return any(stage.name in wait.stages for wait in waiting.waits)


def _entries(flows: Iterable[AnyFlow]) -> Iterator[Destination]:
    """Yield where requests enter the flows."""
    for other in sorted(flows, key=lambda flow: flow.name):
        yield from other.inboxes_of(other.entry())


def _inboxes(flow: AnyFlow, stages: Iterable[str]) -> Iterator[Destination]:
    """Yield where messages for the stages of these names arrive."""
    for name in stages:
        yield from flow.inboxes_of(flow.stage(name))


def flow_sends(flow: AnyFlow, scope: Scope) -> Iterator[Destination]:
    """Yield the destinations of all stages of a flow."""
    for stage in flow.stages:
        yield from stage_sends(flow, stage)
    yield from endings(flow, scope)


def stage_sends(flow: AnyFlow, stage: AnyStage) -> Iterator[Destination]:
    """Yield the destinations of a stage, with the inboxes of the next stages."""
    uses = uses_of(stage)
    yield from _left_sends(flow, stage)
    yield from sorted(uses.asks, key=str)
    yield from _entries(uses.asks_flows)
    yield from _inboxes(flow, stage.then)
    if uses.waits:
        yield flow.answers


def endings(flow: AnyFlow, scope: Scope) -> Iterator[Destination]:
    """Yield the destinations of messages about the end of a run."""
    yield flow.dead_letters
    if flow.complete_to is not None:
        yield flow.complete_to
    if flow.on_conflict is ATTACH:  # a run that was reset begins anew where it began
        yield from _inboxes(flow, flow.entries)
    if flow.on_failed is not None:
        yield from _inboxes(flow, (flow.on_failed,))
    yield from map(Queue, scope.reply_to) if flow.reply_to is None else flow.reply_to
    for asking in scope.flows:
        if any(flow in uses_of(stage).asks_flows for stage in asking.stages):
            yield asking.answers


def wait_targets(flow: AnyFlow) -> Iterator[Destination]:
    """Yield the inboxes of the stages at which waits go on."""
    for stage in flow.stages:
        for wait in uses_of(stage).waits:
            yield from _inboxes(flow, wait.stages)


def waits(flow: AnyFlow) -> bool:
    """Answer whether any stage of the flow waits."""
    return any(uses_of(stage).waits for stage in flow.stages)


def needs_answers(flow: AnyFlow) -> bool:
    """Answer whether answers, deadlines or orders to reset arrive in the flow's queue of answers."""
    return waits(flow) or flow.on_conflict is ATTACH


def makes_tokens(flow: AnyFlow) -> bool:
    """Answer whether any stage of the flow makes links."""
    return any(uses_of(stage).tokens for stage in flow.stages)


def needs_signatures(flow: AnyFlow, flows: Iterable[AnyFlow]) -> bool:
    """Answer whether something arrives for the flow that is believed only with a signature.

    That is what it waits for, and what stages of these flows order it to reset.
    """
    if flow.trust_senders:
        return False
    return waits(flow) or any(flow in uses_of(stage).resets for other in flows for stage in other.stages)


def tables_of_stage(flow: AnyFlow, stage: AnyStage) -> Mapping[str, frozenset[str]]:
    """Return the actions on the user's tables. With an unknown table: all actions on all declared tables."""
    uses: Uses = uses_of(stage)
    if not uses.unknown_tables:
        return uses.tables
    every = frozenset(action for actions in WRITES.values() for action in actions)
    return {**uses.tables, **dict.fromkeys(declared_tables(modules_of_flows([flow])), every)}


def declared_queues(stage: AnyStage) -> Iterator[Destination]:
    """Yield the ``QUEUES`` of a stage's module."""
    module: Any = sys.modules.get(stage.__module__)
    for queue in getattr(module, "QUEUES", ()):
        if isinstance(queue, str | Queue | Topic | Function | Bus):
            yield destination(queue)
