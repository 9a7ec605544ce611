"""Checks of the policies of queues, which may deny what a role allows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from flowguard.deploy.account import Account
from flowguard.deploy.finding import LiveFinding, error, note
from flowguard.deploy.needs import Deployment, FunctionNeed, QueueNeed
from flowguard.deploy.permissions import RECEIVES
from flowguard.deploy.planned.policies import denied_to

_SENDS: Final = ("sqs:SendMessage",)


def check_queue_policy(
    needed: Deployment, queue: QueueNeed, attributes: Mapping[str, str], live: Account
) -> Iterator[LiveFinding]:
    """Yield what the policy of a queue denies to the functions that send to it or read it."""
    documents = live.queue_policies(queue.name) if queue.arn is None else None
    if not documents:
        return
    for function, actions in _users(needed, queue):
        role = live.function(function.name) or {}
        yield from _denied(queue, function, actions, documents, attributes["QueueArn"], str(role.get("Role", "")))


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
