"""What EventBridge Scheduler does with one-time schedules."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

from flowguard.probe.lab import Lab
from flowguard.probe.made import allowed, queue, queue_arn, received, role, tags
from flowguard.probe.saw import Saw, asks


def _group(lab: Lab) -> str:
    name = lab.name()
    lab.undo(f"schedule group {name}", lambda: _delete_group(lab, name))
    lab.ask("scheduler", "create_schedule_group", Name=name, Tags=tags(lab))
    return name


def _delete_group(lab: Lab, name: str) -> None:
    """Delete a group. One that is gone is looked for only: moto has no answer to a second deletion."""
    lab.clean("scheduler", "get_schedule_group", Name=name)
    lab.clean("scheduler", "delete_schedule_group", Name=name)


class _Scheduled:
    """A group of schedules with the queue that they send to."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.group = _group(lab)
        self.queue = queue(lab)
        self.arn = queue_arn(lab, self.queue)
        self.role = role(lab, "scheduler.amazonaws.com", [allowed("sqs:SendMessage", on=self.arn)])

    def create(self, due: float, text: str = "x", name: str | None = None, **changed: Any) -> str:
        """Create a schedule and return the code of the error. It is tried again while its role is new."""

        def made() -> str:
            return self.lab.code_of(
                "scheduler",
                "create_schedule",
                **{
                    "Name": name or self.lab.name(),
                    "GroupName": self.group,
                    "ScheduleExpression": f"at({datetime.fromtimestamp(due, UTC):%Y-%m-%dT%H:%M:%S})",
                    "FlexibleTimeWindow": {"Mode": "OFF"},
                    "ActionAfterCompletion": "DELETE",
                    "Target": {"Arn": self.arn, "RoleArn": self.role, "Input": text},
                    **changed,
                },
            )

        code = made()
        for _ in range(10):
            if code != "ValidationException" or len(text) > 200_000:
                break
            self.lab.pause(3)  # the role is not known everywhere yet
            code = made()
        return code


@asks("scheduler-precision", "scheduler", "sqs", "iam", cents=0.01, seconds=200)
def precision(lab: Lab) -> Saw:
    """Schedule three messages for 45 seconds from now and later, and see by how much they are late."""
    given = _Scheduled(lab)
    begun = int(time.time())
    due = [begun + 45, begun + 60, begun + 75]
    for moment in due:
        given.create(moment, str(moment))
    late: list[float] = []

    def all_there() -> bool:
        for message in received(lab, given.queue, seconds=0):
            late.append(int(message["Attributes"]["SentTimestamp"]) / 1000 - int(message["Body"]))
            lab.ask("sqs", "delete_message", QueueUrl=given.queue, ReceiptHandle=message["ReceiptHandle"])
        return len(late) >= len(due)

    lab.until(all_there, 180, every=2)
    shown = f"{len(late)} of 3 arrived, late by {', '.join(f'{seconds:.1f} s' for seconds in late)}"
    return Saw(len(late) == len(due) and all(-1 <= seconds <= 61 for seconds in late), shown)


@asks("scheduler-undelivered", "scheduler", "sqs", "iam", seconds=150)
def undelivered(lab: Lab) -> Saw:
    """Send to a queue that does not exist, with no retries, and look into the dead-letter queue of the schedule."""
    given, kept = _Scheduled(lab), queue(lab)
    letters = queue_arn(lab, kept)
    both = [allowed("sqs:SendMessage", on=arn) for arn in (f"{given.arn}-gone", letters)]
    target = {
        "Arn": f"{given.arn}-gone",
        "RoleArn": role(lab, "scheduler.amazonaws.com", both),
        "Input": "for nobody",
        "RetryPolicy": {"MaximumRetryAttempts": 0},
        "DeadLetterConfig": {"Arn": letters},
    }
    code = given.create(int(time.time()) + 20, Target=target)
    bodies = [(letter["Body"], _code_in(letter)) for letter in received(lab, kept, seconds=120)]
    return Saw(not code and [body for body, _ in bodies] == ["for nobody"], f"{code or 'taken'}; kept: {bodies}")


def _code_in(letter: Any) -> str:
    """Return the code of the error that a dead letter of the scheduler names."""
    return str(letter.get("MessageAttributes", {}).get("ERROR_CODE", {}).get("StringValue", "none"))


@asks("scheduler-input-size", "scheduler", "sqs", seconds=30)
def input_size(lab: Lab) -> Saw:
    """Create schedules with inputs of 256 KB, and a byte more."""
    given, due = _Scheduled(lab), time.time() + 3_600
    given.create(due)  # from here on the role is known
    fits, over = given.create(due, "x" * 262_144), given.create(due, "x" * 262_145)
    return Saw(not fits and bool(over), f"256 KB: {fits or 'taken'}; a byte more: {over or 'taken'}")


@asks("scheduler-no-attributes", "scheduler", "sqs", "iam", seconds=150)
def no_attributes(lab: Lab) -> Saw:
    """Read what a schedule has sent to a queue."""
    given = _Scheduled(lab)
    given.create(int(time.time()) + 20, "body")
    arrived = [
        (message["Body"], message.get("MessageAttributes", {})) for message in received(lab, given.queue, seconds=120)
    ]
    return Saw(arrived == [("body", {})], f"arrived: {arrived}")


@asks("scheduler-context-attributes", "scheduler", "sqs", "iam", seconds=150)
def context_attributes(lab: Lab) -> Saw:
    """Schedule a text that has one of the scheduler's own words in it."""
    given = _Scheduled(lab)
    given.create(int(time.time()) + 20, "at <aws.scheduler.scheduled-time>, by a user")
    arrived = [message["Body"] for message in received(lab, given.queue, seconds=120)]
    return Saw(bool(arrived) and "<aws.scheduler" not in arrived[0], f"arrived: {arrived}")


@asks("scheduler-deletes-itself", "scheduler", "sqs", "iam", seconds=240)
def deletes_itself(lab: Lab) -> Saw:
    """See how long a schedule is there after it has run."""
    given, name = _Scheduled(lab), lab.name()
    given.create(int(time.time()) + 20, "x", name)
    received(lab, given.queue, seconds=120)

    def gone() -> bool:
        code = lab.code_of("scheduler", "get_schedule", Name=name, GroupName=given.group)
        return code == "ResourceNotFoundException"

    return Saw(bool(lab.until(gone, 120, every=5)), "after it ran")


@asks("scheduler-same-name", "scheduler", "sqs", seconds=30)
def same_name(lab: Lab) -> Saw:
    """Create a schedule twice, with one token and with another."""
    given, name, due = _Scheduled(lab), lab.name(), time.time() + 3_600
    first = given.create(due, "x", name, ClientToken="one")
    other = given.create(due, "y", name, ClientToken="two")
    return Saw(not first and other == "ConflictException", f"first: {first or 'taken'}; second: {other or 'taken'}")


@asks("scheduler-past", "scheduler", "sqs", "iam", seconds=150)
def past(lab: Lab) -> Saw:
    """Create schedules whose time was 5 seconds, 2 minutes and an hour ago."""
    given, now = _Scheduled(lab), int(time.time())
    given.create(now + 3_600, "later")  # from here on the role is known
    answers = {ago: given.create(now - ago, str(ago)) or "taken" for ago in (5, 120, 3_600)}
    arrived = sorted(message["Body"] for message in received(lab, given.queue, seconds=90))
    return Saw(answers[5] == "taken" and "5" in arrived, f"answers: {answers}; arrived: {arrived}")


@asks("scheduler-missing-group", "scheduler", "sqs", seconds=30)
def missing_group(lab: Lab) -> Saw:
    """Create a schedule in a group that does not exist."""
    code = _Scheduled(lab).create(time.time() + 3_600, GroupName=lab.name())
    return Saw(code == "ResourceNotFoundException", code or "taken")


@asks("scheduler-group-deletion", "scheduler", "sqs", "iam", seconds=90)
def group_deletion(lab: Lab) -> Saw:
    """Delete a group that has a schedule."""
    given, name = _Scheduled(lab), lab.name()
    given.create(time.time() + 3_600, "x", name)
    lab.ask("scheduler", "delete_schedule_group", Name=given.group)

    def gone() -> bool:
        code = lab.code_of("scheduler", "get_schedule", Name=name, GroupName=given.group)
        return code == "ResourceNotFoundException"

    return Saw(bool(lab.until(gone, 60, every=3)), "a minute after the group was deleted")
