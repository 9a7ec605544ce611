"""Checks of the live queues."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from flowguard.deploy.account import Account, known
from flowguard.deploy.finding import LiveFinding, error, note, warning
from flowguard.deploy.live import redrive_of
from flowguard.deploy.needs import Deployment, QueueNeed, Role
from flowguard.deploy.other_readers import other_readers
from flowguard.deploy.queue_plan import TIMES_THE_TIMEOUT
from flowguard.deploy.queue_policy_checks import check_queue_policy
from flowguard.deploy.template import TAG
from flowguard.deploy.time_spans import spoken
from flowguard.flow import AnyFlow
from flowguard.sim.limits.queues import LARGEST as LARGEST_MESSAGE

Attributes = Mapping[str, str]

_SAID_BY: Final = (
    "inbox=, answers= or dead_letters=",
    "where the code sends to it, or by name under [queues.…] of the options",
)
"""What names a queue of the flow, and one of somebody else."""

_COUNTS: Final = (
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesDelayed",
    "ApproximateNumberOfMessagesNotVisible",
)


def check_queues(needed: Deployment, live: Account) -> Iterator[LiveFinding]:
    """Yield the findings about the queues and their subscriptions."""
    account = live.account if any(queue.arn is not None for queue in needed.queues) else None
    for queue in needed.queues:
        if account is not None and queue.arn is not None and (owner := queue.arn.split(":")[4]) != account:
            yield note(
                "queue-elsewhere",
                queue.arn,
                f"the queue is of account {owner}, and was not looked at",
                "a queue that is missing, or that takes messages of less than 1 MiB, refuses what a flow sends",
                "look at it with the credentials of its account",
            )
            continue
        yield from known(_of_queue(needed, queue, live))


def _of_queue(needed: Deployment, queue: QueueNeed, live: Account) -> Iterator[LiveFinding]:
    attributes = live.queue(queue.name, queue.arn)
    if attributes is not None:
        yield from known(
            _letters(queue, attributes),
            _size(queue, attributes),
            _kept_for(queue, attributes),
            _kind(queue, attributes),
        )
        if queue.reader is not None:
            yield from known(
                _visibility(needed, queue, attributes, live),
                _delay(queue, attributes),
                _redrive_policy(needed, queue, attributes, live),
                _readers(needed, queue, attributes, live),
            )
        yield from known(check_queue_policy(needed, queue, attributes, live))
        yield from known(*(_subscribed(queue, topic, attributes, live) for topic in queue.topics))
    elif _is_missing(queue.name, live):
        yield error(
            "queue-missing",
            queue.name,
            f"the queue does not exist ({queue.role.value})",
            "what is sent there is refused for good, and parked as a dead letter or lost with its queue",
            f"create the queue {queue.name}, or say where it is: {_SAID_BY[queue.role is Role.OUTSIDE]}",
        )


def check_left_over(needed: Deployment, live: Account) -> Iterator[LiveFinding]:
    """Yield the queues that there were in an earlier release, and that still hold messages."""
    known = {queue.name for queue in needed.queues}
    for name in live.queues_of(TAG, needed.tags) or ():
        attributes = live.queue(name) if name not in known else None
        count = 0 if attributes is None else sum(int(attributes.get(attribute, "0")) for attribute in _COUNTS)
        if count:
            yield warning(
                "queue-left-over",
                name,
                f"about {count} messages are there, and nothing of these modules reads the queue any more",
                "an inbox that is renamed, or whose stage is dropped, keeps its messages; they expire there",
                "let a function of the release that knows them read it until it is empty, or move them: name it as the "
                "dead-letter queue of a queue that has none, without which SQS refuses, and give aws sqs "
                "start-message-move-task the new queue as --destination-arn; then delete it",
            )


def check_queue_tags(needed: Deployment, live: Account) -> Iterator[LiveFinding]:
    """Yield a note that names the queues without the tag by which they are found when nothing reads them any more."""
    made = [queue.name for queue in needed.queues if queue.made]
    if lacking := live.untagged_queues(TAG, needed.tags, made):
        yield note(
            "queue-untagged",
            ", ".join(lacking),
            f"{'they have' if lacking[1:] else 'it has'} no tag {TAG} with the name of a flow or rule of @once",
            "once nothing reads such a queue any more, what is left there is found by nobody",
            ", ".join(f"tag {each} with {TAG} = {needed.queue(each).owner}" for each in lacking),
        )


def _letters(queue: QueueNeed, attributes: Attributes) -> Iterator[LiveFinding]:
    count = int(attributes.get("ApproximateNumberOfMessages", "0"))
    if queue.role is Role.DEAD_LETTERS and count:
        yield warning(
            "dead-letters",
            queue.name,
            f"about {count} dead letters wait there",
            "each is a run that failed, a message that could not be sent, or a record that SQS gave up",
            f"look at them: flowguard dlq list {queue.name}",
        )


def _size(queue: QueueNeed, attributes: Attributes) -> Iterator[LiveFinding]:
    size = int(attributes.get("MaximumMessageSize", LARGEST_MESSAGE))
    if size < LARGEST_MESSAGE:
        yield warning(
            "message-size-small",
            queue.name,
            f"it takes messages of at most {size:,} bytes",
            f"a flow may send {LARGEST_MESSAGE:,}: longer ones are refused for good, and become dead letters",
            f"set MaximumMessageSize to {LARGEST_MESSAGE}",
        )


def _kept_for(queue: QueueNeed, attributes: Attributes) -> Iterator[LiveFinding]:
    kept_for = int(attributes["MessageRetentionPeriod"])
    if queue.role is not Role.OUTSIDE and kept_for < queue.retention:
        yield warning(
            "retention-short",
            queue.name,
            f"it keeps a message for {_lasting(kept_for)}",
            "SQS deletes what nobody could take by then, without a word, as in an outage that is longer",
            f"set MessageRetentionPeriod to {queue.retention} s",
        )


def _kind(queue: QueueNeed, attributes: Attributes) -> Iterator[LiveFinding]:
    is_fifo = attributes.get("FifoQueue", "false") == "true"
    if is_fifo is not queue.fifo:
        yield error(
            "fifo-other",
            queue.name,
            f"it {'is' if is_fifo else 'is not'} a FIFO queue",
            "SQS takes the name of a FIFO queue for these alone, and they take no other: the queue is not made",
            "set FifoQueue to true" if queue.fifo else "take FifoQueue away, or let the name end with .fifo",
        )


def _delay(queue: QueueNeed, attributes: Attributes) -> Iterator[LiveFinding]:
    if delay := int(attributes.get("DelaySeconds", "0")):
        yield warning(
            "queue-delays",
            queue.name,
            f"it hides each new message for {spoken(timedelta(seconds=delay))}",
            "each request, hop and answer waits for that long before anybody works on it",
            "set DelaySeconds to 0; a stage delays a message with Retry or after=",
        )


def _readers(needed: Deployment, queue: QueueNeed, attributes: Attributes, live: Account) -> Iterator[LiveFinding]:
    """Yield what reads a queue of the flow and is none of its functions."""
    for reader in other_readers(needed, attributes["QueueArn"], live):
        yield error(
            "reader-other",
            queue.name,
            f"{reader} reads it too, which is none of the flow's",
            "each message reaches one of the two: what the other gets, the flow never sees",
            "let it read no more; subscribe both to a topic where both are to get each message",
        )


def _visibility(needed: Deployment, queue: QueueNeed, attributes: Attributes, live: Account) -> Iterator[LiveFinding]:
    function = needed.function(queue.reader or "")
    there = live.function(function.name)
    timeout = int(there["Timeout"]) if there is not None else function.timeout
    visibility = int(attributes.get("VisibilityTimeout", "30"))
    wanted = TIMES_THE_TIMEOUT * timeout + function.window
    text = f"its visibility timeout is {visibility} s, and {function.name} may run for {timeout} s"
    fix = f"set VisibilityTimeout to {wanted} s, or lower the function's time-out"
    if visibility < timeout:
        why = "SQS delivers a record again while its function is still at work"
        yield error("visibility-short", queue.name, text, why, fix)
    elif visibility < wanted:
        why = f"AWS advises {TIMES_THE_TIMEOUT} times the time-out: throttled batches are received again and given up"
        yield warning("visibility-short", queue.name, text, why, fix)
    elif queue.role in (Role.KILLED, Role.CALLBACK) and visibility < queue.visibility:
        text = f"its visibility timeout is {visibility} s, for {queue.max_receive_count} receives of a record"
        why = "throttles use them up long before it expires: what no function ever saw is a dead letter then"
        yield warning("visibility-short", queue.name, text, why, f"set VisibilityTimeout to {queue.visibility} s")
    elif visibility < (gathered := TIMES_THE_TIMEOUT * timeout + (window := _window(queue, live))):
        text = f"its visibility timeout is {visibility} s, and {function.name} gathers batches for {window} s"
        why = "what Lambda holds for a batch is received again meanwhile, and given up by and by"
        yield warning("visibility-short", queue.name, text, why, f"set VisibilityTimeout to {gathered} s")


def _window(queue: QueueNeed, live: Account) -> int:
    """Return for how many seconds the queue's mapping gathers a batch."""
    sources = live.event_sources(queue.reader or "") or ()
    windows = [
        int(source.get("MaximumBatchingWindowInSeconds") or 0)
        for source in sources
        if str(source.get("EventSourceArn", "")).rpartition(":")[2] == queue.name
    ]
    return max(windows, default=0)


def _redrive_policy(
    needed: Deployment, queue: QueueNeed, attributes: Attributes, live: Account
) -> Iterator[LiveFinding]:
    if queue.give_up_to is None:
        return
    policy = redrive_of(attributes)
    arn = str(policy.get("deadLetterTargetArn", ""))
    if not arn:
        yield error(
            "redrive-missing",
            queue.name,
            "it has no redrive policy",
            "a record that kills its function each time is delivered until it expires, and is lost then",
            f"set RedrivePolicy to {queue.give_up_to}, with maxReceiveCount {queue.max_receive_count}",
        )
        return
    receives = int(policy.get("maxReceiveCount", 0))
    if receives < queue.max_receive_count:
        problem = f"SQS gives a record up after {receives} receives"
        why = "throttles, busy objects and each minute of an outage use receives up, and the record has not failed"
        fix = f"set maxReceiveCount to {queue.max_receive_count}, or say max_receive_count = {receives} in the options"
        yield (error if receives <= 1 else warning)("receives-few", queue.name, problem, why, fix)
    yield from _target(needed, queue, attributes, arn, live)


def _target(
    needed: Deployment, queue: QueueNeed, attributes: Attributes, arn: str, live: Account
) -> Iterator[LiveFinding]:
    name = arn.rpartition(":")[2]
    target = live.queue(name, arn)
    if target is None:
        if _is_missing(name, live) and name != queue.give_up_to:
            why = "SQS cannot move a record there: it is delivered until it expires, and is lost then"
            fix = f"create {name}, or set RedrivePolicy to {queue.give_up_to}"
            is_here = arn.rpartition(":")[0] == attributes["QueueArn"].rpartition(":")[0]
            yield (error if is_here else warning)(
                "redrive-target-missing", queue.name, f"its redrive policy names {arn}, which is not there", why, fix
            )
        return
    if name != queue.give_up_to:
        yield warning(
            "redrive-target-other",
            queue.name,
            f"it gives records up to {name}",
            "no function of the flow reads that queue: what was killed each time is ended by nobody, and its run stays "
            "RUNNING",
            f"set RedrivePolicy to {queue.give_up_to}",
        )
    ours, theirs = int(attributes["MessageRetentionPeriod"]), int(target["MessageRetentionPeriod"])
    if theirs <= ours:
        yield error(
            "dead-letters-expire-first",
            queue.name,
            f"it keeps messages for {_lasting(ours)}, and {name}, to which it gives them up, for {_lasting(theirs)}",
            "SQS counts the age of a dead letter from its first sending, and may delete it as it arrives",
            f"set MessageRetentionPeriod of {name} to more than {ours} s",
        )
        return
    shortest = min((flow.retention for flow in _flows(needed, queue)), default=None)
    longest = ours + theirs if queue.fifo else theirs  # a standard queue counts from the first sending
    if shortest is not None and timedelta(seconds=longest) > shortest:
        yield warning(
            "retention-long",
            queue.name,
            f"it and {name} keep a message for {_lasting(ours)} and {_lasting(theirs)}, longer than its flow's "
            f"retention of {spoken(shortest)}",
            "a copy that arrives after its run item has expired is run as a new request",
            "lower the MessageRetentionPeriod of either, raise the flow's retention=, or give the flow dead letters of "
            "its own where it shares those of another",
        )


def _subscribed(queue: QueueNeed, topic: str, attributes: Attributes, live: Account) -> Iterator[LiveFinding]:
    there = live.subscriptions(topic)
    if there is None:
        if live.was_read("sns", "list_subscriptions_by_topic", topic):
            why = "requests and answers that are published there do not arrive"
            yield error(
                "topic-missing", topic, "the topic does not exist", why, f"create it, and subscribe {queue.name}"
            )
        return
    subscriptions = [subscription for subscription in there if subscription.get("Endpoint") == attributes["QueueArn"]]
    if not subscriptions:
        yield error(
            "subscription-missing",
            queue.name,
            f"it is not subscribed to {topic}",
            "what is published there does not reach its function",
            f"subscribe {attributes['QueueArn']} to it with the protocol sqs",
        )
    if _are_read(subscriptions, live) and not any(redrive_of(subscription) for subscription in subscriptions):
        yield warning(
            "undelivered-dropped",
            queue.name,
            f"its subscription to {topic} has no dead-letter queue",
            "SNS drops what it cannot deliver, at once where the queue's policy or the queue itself is missing",
            "set RedrivePolicy of the subscription to a queue that the topic may send to",
        )
    if subscriptions and all(_filter(subscription) for subscription in subscriptions):
        is_for_answers = queue.role in (Role.CALLBACK, Role.ANSWERS)
        yield (warning if is_for_answers else note)(
            "subscription-filtered",
            queue.name,
            f"its subscription to {topic} has a filter policy",
            "an answer that it leaves out reaches no run" if is_for_answers else "what it leaves out begins no run",
            "take FilterPolicy away, or make sure that it lets through all that is meant for the flow",
        )
    to_queues = [subscription for subscription in there if subscription.get("Protocol") == "sqs"]
    if _are_read(to_queues, live) and len({subscription.get("RawMessageDelivery") for subscription in to_queues}) > 1:
        yield warning(
            "raw-delivery-mixed",
            topic,
            "some of its queues get raw messages, and others do not",
            "raw messages lose SNS's id and time, by which copies and older requests are recognised",
            "set RawMessageDelivery of all its subscriptions alike, best to false",
        )


def _filter(subscription: Mapping[str, Any]) -> Any:
    """Return the filter policy of a subscription. It is empty for none. SNS tells a text, and a file may have JSON."""
    policy = subscription.get("FilterPolicy")
    return json.loads(policy) if isinstance(policy, str) and policy else policy


def _are_read(subscriptions: Sequence[Mapping[str, str]], live: Account) -> bool:
    """Answer whether there are subscriptions, with the attributes of each."""
    arns = [str(subscription.get("SubscriptionArn")) for subscription in subscriptions]
    return bool(arns) and all(live.was_read("sns", "get_subscription_attributes", arn) for arn in arns)


def _is_missing(queue: str, live: Account) -> bool:
    """Answer whether a queue that was not found is missing, and not only unread."""
    return all(live.was_read("sqs", operation, queue) for operation in ("get_queue_url", "get_queue_attributes"))


def _flows(needed: Deployment, queue: QueueNeed) -> Iterator[AnyFlow]:
    yield from needed.function(queue.reader or "").definition.flows


def _lasting(seconds: int) -> str:
    return spoken(timedelta(seconds=seconds))
