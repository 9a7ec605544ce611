"""The alarms of a deployment, each with what it means."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from flowguard.deploy.found import FunctionKind
from flowguard.deploy.needs import Deployment, FunctionNeed, Role
from flowguard.deploy.queue_arns import account_of
from flowguard.events import EventType
from flowguard.flow import AnyFlow

NAMESPACE: Final = "flowguard"

_PERIOD: Final = 300

_LONGEST_IN_STREAM: Final = 43_200
"""Seconds: half of the day for which each stream keeps a record."""


@dataclass(frozen=True)
class MetricAlarm:
    """An alarm on a metric. ``dimension`` is its name and value."""

    name: str
    about: str
    namespace: str
    metric: str
    dimension: tuple[str, str]
    statistic: str
    threshold: int
    period: int
    periods: int


@dataclass(frozen=True)
class WatchedEvent:
    """An event that is an alarm when there are more than ``most`` of it in each of ``periods`` of five minutes."""

    type: EventType
    most: int
    about: str
    periods: int = 1

    @property
    def alarm(self) -> str:
        """Return what the name of its alarm ends with."""
        return self.type if self.periods == 1 else f"{self.type}-for-minutes"


@dataclass(frozen=True)
class LoggedMetric:
    """A metric that counts events in the log of a function, each under its name as the dimension ``event``.

    ``flow`` is the flow whose functions share it, or the rule of ``@once``.
    """

    function: str
    flow: str
    events: tuple[WatchedEvent, ...]

    @property
    def metric(self) -> str:
        """Return the name of the metric."""
        return f"events-{self.flow}"

    @property
    def pattern(self) -> str:
        """Return the pattern of the lines that are counted."""
        types = dict.fromkeys(event.type for event in self.events)
        return "{ " + " || ".join(f'($.event = "{event}")' for event in types) + " }"


DIMENSION: Final = "event"
_ALWAYS: Final = (
    WatchedEvent(
        EventType.BROKEN,
        10,
        "A service or a setting fails again and again outside the stages. The records wait in their queue.",
    ),
    WatchedEvent(
        EventType.BROKEN,
        0,
        "A service or a setting fails for a quarter of an hour outside the stages. The records wait in their queue.",
        periods=3,
    ),
    WatchedEvent(
        EventType.UNREADABLE,
        0,
        "A record cannot be read. It waits some minutes for a release that can, and becomes a dead letter then.",
    ),
    WatchedEvent(
        EventType.UNSAVED,
        0,
        "A function under @once has done its work, and its result was not stored: its next call does it again.",
    ),
)
_OF_FLOWS: Final = (
    WatchedEvent(
        EventType.UNTRUSTED,
        0,
        "A message claims what its flow does not allow. It was not worked on: who sends such messages?",
    ),
)
_OF_STAGES: Final = (
    WatchedEvent(
        EventType.FENCED,
        20,
        "Many commits are refused: do functions run longer than their leases, or do senders repeat requests?",
    ),
    WatchedEvent(
        EventType.LOST,
        0,
        "A message that a replaced run had committed could neither be sent nor parked. The log names it.",
    ),
    WatchedEvent(
        EventType.RETRIED,
        100,
        "Many attempts fail and are made again. The log has the errors.",
    ),
)

_OF_PAUSES: Final = (
    WatchedEvent(
        EventType.KEY_PAUSED,
        0,
        "A key of a limit has paused itself, for what its stage calls is away, or a trial has failed. Its runs wait.",
    ),
)


def metrics_of(needed: Deployment) -> Iterator[LoggedMetric]:
    """Yield the metrics that are counted from logs. The functions of a flow share one."""
    for function in needed.functions:
        kind = function.definition.kind
        of_flows = _OF_FLOWS if function.definition.flows and kind is not FunctionKind.STARTS else ()
        of_stages = _OF_STAGES if kind is FunctionKind.STAGES else ()
        of_pauses = _OF_PAUSES if of_stages and any(map(_pauses_itself, function.definition.flows)) else ()
        yield LoggedMetric(function.name, function.owner, (*_ALWAYS, *of_flows, *of_stages, *of_pauses))


def _pauses_itself(flow: AnyFlow) -> bool:
    """Answer whether a key of a flow's stages may pause itself."""
    return any(limit.pause_after is not None for stage in flow.stages for limit in stage.limits)


def alarms_of(needed: Deployment, oldest_message: int) -> Iterator[MetricAlarm]:
    """Yield the alarms of queues, functions and tables. Metrics of another account's queue are in that account.

    ``oldest_message`` is in seconds, of a queue and of a stream.
    """
    for queue in needed.queues:
        if needed.account is not None and account_of(queue.arn) not in (None, needed.account):
            continue
        dimension = ("QueueName", queue.name)
        if queue.role is Role.DEAD_LETTERS or (queue.role is Role.KILLED and queue.reader is None):
            yield MetricAlarm(
                f"{queue.name}-not-empty",
                "Dead letters wait for somebody to look at them: flowguard dlq list.",
                "AWS/SQS",
                "ApproximateNumberOfMessagesVisible",
                dimension,
                "Maximum",
                0,
                300,
                1,
            )
        elif queue.reader is not None:
            yield MetricAlarm(
                f"{queue.name}-oldest-message",
                f"Messages wait for longer than {oldest_message} s: the function fails, is throttled or is too slow. "
                f"SQS deletes them after {_lasting(queue.retention)}.",
                "AWS/SQS",
                "ApproximateAgeOfOldestMessage",
                dimension,
                "Maximum",
                oldest_message,
                60,
                5,
            )
    for function in needed.functions:
        yield _of_function(
            function.name,
            "throttled",
            "Lambda refuses to start the function: raise the account's or the function's concurrency.",
            "Throttles",
            period=60,
            periods=5,
        )
        yield _of_function(
            function.name,
            "chain-stopped",
            "Lambda takes a chain of requests for an endless loop and stops it: set RecursiveLoop to Allow.",
            "RecursiveInvocationsDropped",
        )
        yield _failing(needed, function)
        yield from _of_streams(function, oldest_message)
    for table in needed.tables:
        if not table.existing:
            yield MetricAlarm(
                f"{table.name}-writes-throttled",
                "DynamoDB refuses writes for a while: the table is not warm enough, or one object gets too many.",
                "AWS/DynamoDB",
                "WriteThrottleEvents",
                ("TableName", table.name),
                "Sum",
                0,
                60,
                5,
            )
    watched = {(metric.metric, metric.flow, event): None for metric in metrics_of(needed) for event in metric.events}
    for metric, flow, event in watched:
        dimension = (DIMENSION, event.type.value)
        yield MetricAlarm(
            f"{flow}-{event.alarm}",
            event.about,
            NAMESPACE,
            metric,
            dimension,
            "Sum",
            event.most,
            300,
            event.periods,
        )


def _failing(needed: Deployment, function: FunctionNeed) -> MetricAlarm:
    """Return the alarm of a function that fails where flowguard cannot say so.

    One with a URL rings at once. Another one rings when it goes on failing, in each of three periods. A period is
    longer than a queue hides a message, so that a single message that comes again and again falls into each.
    """
    if function.has_url:
        why = "The function fails before it can answer, and nobody sends its requests again: see its log."
        return _of_function(function.name, "failing", why, "Errors")
    hidden = max((needed.queue(name).visibility for name in function.reads), default=0)
    return _of_function(
        function.name,
        "failing-for-minutes",
        "The function goes on failing outside flowguard: at its import, or it is stopped. Its records come again and "
        "again: see its log.",
        "Errors",
        period=(hidden // _PERIOD + 1) * _PERIOD,
        periods=3,
    )


def _of_streams(function: FunctionNeed, oldest: int) -> Iterator[MetricAlarm]:
    """Yield the alarms of what waits in the streams of a function: of shards by its age, of topics by its number.

    Its topics have one metric together, so the least lag of them counts. A stream keeps records for a day or longer.
    """
    oldest = min(oldest, _LONGEST_IN_STREAM)
    lags = [stream.kafka.largest_lag for stream in function.streams if stream.kafka is not None]
    if len(lags) < len(function.streams):
        yield _of_function(
            function.name,
            "stream-old",
            f"Records of a stream are older than {oldest} s when they come: the function fails, is throttled or is too "
            "slow. The stream deletes them when their time is over.",
            "IteratorAge",
            statistic="Maximum",
            threshold=oldest * 1000,
        )
    if lags:
        yield _of_function(
            function.name,
            "topic-behind",
            f"More than {min(lags):,} records of a topic of Kafka wait for a quarter of an hour: the function fails, "
            "is throttled or is too slow. The topic deletes them when their time is over.",
            "OffsetLag",
            periods=3,
            statistic="Maximum",
            threshold=min(lags),
        )


def _of_function(
    name: str,
    problem: str,
    about: str,
    metric: str,
    *,
    period: int = _PERIOD,
    periods: int = 1,
    statistic: str = "Sum",
    threshold: int = 0,
) -> MetricAlarm:
    """Return an alarm of one of Lambda's metrics of a function. It rings for each count if nothing else is said."""
    dimension = ("FunctionName", name)
    full = f"{name}-{problem}"
    return MetricAlarm(full, about, "AWS/Lambda", metric, dimension, statistic, threshold, period, periods)


def _lasting(seconds: int) -> str:
    days = timedelta(seconds=seconds) / timedelta(days=1)
    return f"{days:.3g} days" if days >= 1 else f"{seconds} s"
