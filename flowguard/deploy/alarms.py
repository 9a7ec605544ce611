"""The alarms of a deployment, each with what it means."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from flowguard.deploy.found import FunctionKind
from flowguard.deploy.needs import Deployment, Role

MOST_FENCED: Final = 20
"""Refused commits in five minutes that are no alarm: takeovers and copies make some."""

NAMESPACE: Final = "flowguard"


@dataclass(frozen=True)
class MetricAlarm:
    """An alarm on a metric. ``dimension`` is its name and value."""

    name: str
    about: str
    namespace: str
    metric: str
    dimension: tuple[str, str] | None
    statistic: str
    threshold: int
    period: int
    periods: int


@dataclass(frozen=True)
class LoggedMetric:
    """A metric that counts an event in the log of a function."""

    function: str
    event: str
    metric: str


def metrics_of(needed: Deployment) -> Iterator[LoggedMetric]:
    """Yield the metrics that are counted from logs."""
    for function in needed.functions:
        if function.found.kind is FunctionKind.STAGES:
            yield LoggedMetric(function.name, "fenced", f"fenced-{function.name}")


def alarms_of(needed: Deployment, oldest_message: int) -> Iterator[MetricAlarm]:
    """Yield the alarms of queues and functions."""
    for queue in needed.queues:
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
                f"Messages wait for longer than {oldest_message} s: the function fails, is throttled or is too slow.",
                "AWS/SQS",
                "ApproximateAgeOfOldestMessage",
                dimension,
                "Maximum",
                oldest_message,
                60,
                5,
            )
    for function in needed.functions:
        yield MetricAlarm(
            f"{function.name}-throttled",
            "Lambda refuses to start the function: raise the account's or the function's concurrency.",
            "AWS/Lambda",
            "Throttles",
            ("FunctionName", function.name),
            "Sum",
            0,
            60,
            5,
        )
    for metric in metrics_of(needed):
        yield MetricAlarm(
            f"{metric.function}-fenced",
            "Many commits are refused: do functions run longer than their leases, or do senders repeat requests?",
            NAMESPACE,
            metric.metric,
            None,
            "Sum",
            MOST_FENCED,
            300,
            1,
        )
