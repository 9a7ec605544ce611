"""Checks of the policies of queues, which may deny what a role allows, and alone let services in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from flowguard.deploy.account import Account, known
from flowguard.deploy.finding import LiveFinding, error, note
from flowguard.deploy.needs import Deployment, FunctionNeed, QueueNeed
from flowguard.deploy.permissions import RECEIVES
from flowguard.deploy.planned.policies import denied_to, service_may_send
from flowguard.deploy.planned.resources import HERE
from flowguard.deploy.planned.values import UNKNOWN

_SENDS: Final = ("sqs:SendMessage",)


def check_queue_policy(
    needed: Deployment, queue: QueueNeed, attributes: Mapping[str, str], live: Account
) -> Iterator[LiveFinding]:
    """Yield what the policy of a queue denies to functions, topics and rules that send to it or read it."""
    documents = live.queue_policies(queue.name) if queue.arn is None else None
    if documents is None:
        return
    arn = attributes["QueueArn"]
    for function, actions in _users(needed, queue):
        there = live.function(function.name)
        role = "" if there is None else str(there.get("Role", ""))
        yield from _denied(queue, function, actions, documents, arn, role)
    for service, sources in (
        ("sns.amazonaws.com", _topics(queue, arn, live)),
        ("events.amazonaws.com", _rules(queue, arn, live)),
    ):
        yield from known(_kept_out(needed, queue, service, sources, documents, arn))


def _topics(queue: QueueNeed, arn: str, live: Account) -> Iterator[Any]:
    """Yield the ARNs of the topics to which a queue is subscribed, of those that feed it."""
    for topic in queue.topics:
        there = live.subscriptions(topic)
        yield from [] if there is None else [each["TopicArn"] for each in there if each.get("Endpoint") == arn]


def _rules(queue: QueueNeed, arn: str, live: Account) -> Iterator[Any]:
    """Yield the ARNs of the rules that send to a queue."""
    for bus in dict.fromkeys(rule.name for rule in queue.rules):
        there = live.rules(arn, bus)
        yield from [] if there is None else there


def _kept_out(
    needed: Deployment, queue: QueueNeed, service: str, sources: Iterator[Any], documents: list[Any], arn: str
) -> Iterator[LiveFinding]:
    for source in sources:
        answers = [service_may_send(service, each, documents, arn) for each in _places(source, needed.account)]
        if False in answers:
            yield error(
                "queue-closed",
                queue.name,
                f"its policy does not let {service} send there for {source}",
                "the service gives up what it has for the queue, and drops it where it has no dead-letter queue",
                f"allow sqs:SendMessage to {service}, with ArnEquals of aws:SourceArn",
            )
        elif answers[0] is None:
            yield note(
                "queue-policy-open",
                queue.name,
                f"its policy may not let {service} send there for {'a rule' if source is UNKNOWN else source}",
                "which topic or rule a statement is for, or one of its conditions, is not known here",
                "look whether the policy lets it in",
            )


def _places(source: Any, account: str | None) -> Iterator[Any]:
    """Yield the ARN of a source as it stands, and in the account that the options name: a file leaves it open."""
    yield source
    if source is not UNKNOWN and account is not None:
        yield source.replace(f":{HERE.account}:", f":{account}:")


def _users(needed: Deployment, queue: QueueNeed) -> Iterator[tuple[FunctionNeed, tuple[str, ...]]]:
    """Yield the functions that use a queue, each with its actions on it."""
    for function in dict.fromkeys(needed.senders(queue.name)):
        yield function, _SENDS
    if queue.reader is not None:
        yield needed.function(queue.reader), RECEIVES


def _denied(
    queue: QueueNeed, function: FunctionNeed, actions: tuple[str, ...], documents: list[Any], arn: str, role: str
) -> Iterator[LiveFinding]:
    if not role.startswith("arn:"):
        return
    answers = {action: denied_to(role, documents, action, arn) for action in actions}
    if denied := [action for action, answer in answers.items() if answer]:
        yield error(
            "queue-denied",
            queue.name,
            f"its policy denies {', '.join(denied)} to {role}, the role of {function.name}",
            "what a policy denies, no other allows: runs fail or stop there",
            "leave the role out of the statement that denies, as with ArnNotEquals of aws:PrincipalArn",
        )
    if unclear := [action for action, answer in answers.items() if answer is None]:
        yield note(
            "queue-policy-open",
            queue.name,
            f"its policy may deny {', '.join(unclear)} to {role}, the role of {function.name}",
            "a statement that denies has a condition that is not known here",
            "look whether the condition holds for the function",
        )
