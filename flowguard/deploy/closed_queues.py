"""The queues to which named roles alone may send, and the roles of other accounts among them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from flowguard.deploy.needs import QueueNeed, Role
from flowguard.deploy.options import DeployOptions
from flowguard.deploy.queue_arns import account_of

SENDING: Final = ("sqs:GetQueueUrl", "sqs:SendMessage")
"""What a role of another account does with a queue, which it knows by its ARN."""


def is_closed(queue: QueueNeed, options: DeployOptions) -> bool:
    """Answer whether only named roles may send to a queue.

    Those who redrive letters send to inboxes and to queues of killed records: these wait for the options to name them.
    """
    if queue.role in (Role.ANSWERS, Role.DEAD_LETTERS) or queue.lists_senders:
        return True
    return bool(options.operators) and (queue.role is Role.KILLED or queue.hops_only)


def operators_of(queue: QueueNeed, options: DeployOptions) -> Sequence[str]:
    """Return the operators' roles that may send to a closed queue. Nobody redrives into the dead letters."""
    return () if queue.role is Role.DEAD_LETTERS else options.operators


def given_senders(queue: QueueNeed, options: DeployOptions) -> Sequence[str]:
    """Return the roles that the options name for a queue, beside those of its functions.

    Of one that is named by its name and by its ARN, the ARN.
    """
    named = dict.fromkeys((*queue.senders, *operators_of(queue, options)))
    by_arn = {role.partition(":role/")[2] for role in named if account_of(role) == options.account}
    return [role for role in named if role not in by_arn]


def senders_elsewhere(queue: QueueNeed, options: DeployOptions) -> Sequence[str]:
    """Return the named roles of other accounts.

    Where the options do not name the deployment's account, each role with an ARN may be of another one, and is returned
    for closed queues alone. A statement for an account gives a role no more than its own policies do.
    """
    if options.account is None and not is_closed(queue, options):
        return ()
    named = [role for role in given_senders(queue, options) if role not in options.imports]
    return [role for role in named if account_of(role) not in (None, options.account)]


def accounts_of(roles: Sequence[str]) -> Sequence[str]:
    """Return the principals that stand for the accounts of roles, each once.

    A principal that is a role would be refused as long as that role is not there.
    """
    return list(dict.fromkeys(role.partition(":role/")[0] + ":root" for role in roles))
