"""Checks of who else may use queues, and of those whom the options let send to closed ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from flowguard.deploy.account import Account, known
from flowguard.deploy.accounts import account_in
from flowguard.deploy.arns import role_arn
from flowguard.deploy.closed_queues import given_senders, is_closed, senders_elsewhere
from flowguard.deploy.finding import LiveFinding, error
from flowguard.deploy.needs import Deployment, QueueNeed
from flowguard.deploy.options import DeployOptions
from flowguard.deploy.planned.policies import denied_to, role_may
from flowguard.wire.home import Home

_SEND: Final = "sqs:SendMessage"
_STRANGER: Final = "arn:aws:iam::of-nobody:role/of-nobody"
"""A role of an account that no policy names."""


def check_open_queues(needed: Deployment, options: DeployOptions, live: Account) -> Iterator[LiveFinding]:
    """Yield the findings about queues that are open to strangers. Yield those about roles that a queue refuses."""
    for queue in needed.queues:
        if queue.arn is None:
            yield from known(_of_queue(needed, queue, options, live))


def _of_queue(needed: Deployment, queue: QueueNeed, options: DeployOptions, live: Account) -> Iterator[LiveFinding]:
    attributes = live.queue(queue.name)
    documents = None if attributes is None else live.queue_policies(queue.name)
    if attributes is None or documents is None:
        return
    arn = attributes["QueueArn"]
    if actions := [each for each in (_SEND, "sqs:ReceiveMessage") if role_may(_STRANGER, each, documents, arn)]:
        yield error(
            "queue-open",
            queue.name,
            f"its policy allows {', '.join(actions)} to everybody",
            "who knows the queue begins and answers runs, or takes messages away before the flow sees them",
            "take the statement out, or name the service or account that it is for",
        )
    if not queue.made:
        return
    own = f"{arn.split(':')[4]}:role/of-nobody"
    partition = arn.split(":")[1]
    is_asked = is_closed(queue, options) and bool(queue.senders or options.operators)
    if is_asked and denied_to(f"arn:{partition}:iam::{own}", documents, _SEND, arn) is False:
        yield error(
            "queue-open",
            queue.name,
            "its policy does not keep out roles that the options do not name",
            "each role of the account whose own policies allow it begins and answers runs",
            f"deny {_SEND} to all but the roles that send there, with ArnNotEqualsIfExists of aws:PrincipalArn",
        )
    yield from _refused(needed, queue, options, documents, arn)


def _refused(
    needed: Deployment, queue: QueueNeed, options: DeployOptions, documents: list[Any], arn: str
) -> Iterator[LiveFinding]:
    """Yield the roles of the options that may not send. Senders of another account are looked at with the policy."""
    home = Home.of(arn)
    elsewhere = {role for roles in senders_elsewhere(queue, options).values() for role in roles}
    for role in given_senders(queue, options):
        if home is None or role in options.imports:
            continue
        is_here = account_in(role) in (None, needed.account, home.account)
        if is_here:
            is_refused = denied_to(role_arn(role).filled(*home), documents, _SEND, arn) is True
        else:
            is_theirs = role in elsewhere and role not in queue.senders
            is_refused = is_theirs and role_may(role, _SEND, documents, arn) is False
        if is_refused:
            yield error(
                "queue-closed",
                queue.name,
                f"its policy does not let {role} send there, which the options name",
                "what that role sends or redrives is refused, whatever its own policies allow",
                "name it in the statement that denies, and allow it to its account where that is another one",
            )
