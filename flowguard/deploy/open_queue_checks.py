"""Checks of who else may use queues, and of the roles that the options name for closed ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from flowguard.deploy.account import Account, known
from flowguard.deploy.arns import role_arn
from flowguard.deploy.closed_queues import given_senders, is_closed
from flowguard.deploy.finding import LiveFinding, error
from flowguard.deploy.needs import Deployment, QueueNeed
from flowguard.deploy.options import DeployOptions
from flowguard.deploy.planned.policies import denied_to, role_may, service_may_send
from flowguard.deploy.planned.statements import named_roles, statements_in
from flowguard.deploy.queue_arns import account_of

_SEND: Final = "sqs:SendMessage"
_NOBODY: Final = "role/of-nobody"
"""A role that no policy names: it stands for all of its account."""

_ANYWHERE: Final = f"arn:aws:iam::of-nobody:{_NOBODY}"
"""One of an account that no policy names: it stands for everybody."""

_SOURCES: Final = {
    "sns.amazonaws.com": "arn:aws:sns:us-east-1:of-nobody:of-nobody",
    "s3.amazonaws.com": "arn:aws:s3:us-east-1:of-nobody:of-nobody",
    "events.amazonaws.com": "arn:aws:events:us-east-1:of-nobody:rule/of-nobody",
}
"""What no policy names of each service that sends to queues."""


def check_open_queues(needed: Deployment, options: DeployOptions, live: Account) -> Iterator[LiveFinding]:
    """Yield the queues that strangers may use, and closed ones that refuse whom the options name."""
    for queue in needed.queues:
        if queue.arn is None:
            yield from known(_of_queue(needed, queue, options, live))


def _of_queue(needed: Deployment, queue: QueueNeed, options: DeployOptions, live: Account) -> Iterator[LiveFinding]:
    attributes, documents = live.queue(queue.name), live.queue_policies(queue.name)
    if attributes is None or documents is None:
        return
    arn = attributes["QueueArn"]
    _, partition, _, region, account, _ = arn.split(":", 5)
    homes = (account, needed.account)
    named = {role: role_arn(role).filled(partition, region, account) for role in given_senders(queue, options)}
    known_roles = (*named.values(), *_functions(needed, live))
    suspects = [role for role in _suspects(documents, account) if role not in known_roles]
    strangers = [role for role in suspects if account_of(role) not in homes]
    let_in = [*_let_in(queue, strangers if queue.made else [_ANYWHERE], documents, arn)]
    yield from let_in or _let_in_by_services(queue, documents, arn)
    if is_closed(queue, options) and named:
        of_account = [role for role in suspects if role not in strangers]
        yield from _excepted(needed, queue, of_account if queue.made else [], documents, arn)
        given = [arn for role, arn in named.items() if role not in options.imports]
        yield from _refused(queue, given, homes, documents, arn)


def _suspects(documents: list[Any], account: str) -> list[str]:
    """Return everybody, the account and all whom the policies name, each as a role."""
    roles = [role for document in documents for statement in statements_in(document) for role in named_roles(statement)]
    everyone = (_ANYWHERE, f"arn:aws:iam::{account}:{_NOBODY}")
    return list(dict.fromkeys((*everyone, *(role.replace(":root", f":{_NOBODY}") for role in roles))))


def _functions(needed: Deployment, live: Account) -> Iterator[str]:
    """Yield the roles of the functions, and the one that they name for the scheduler."""
    for function in needed.functions:
        if (there := live.function(function.name)) is not None:
            yield str(there.get("Role", ""))
            yield str(there.get("Environment", {}).get("Variables", {}).get("FLOWGUARD_SCHEDULER_ROLE", ""))


def _let_in(queue: QueueNeed, strangers: Sequence[str], documents: list[Any], arn: str) -> Iterator[LiveFinding]:
    """Yield who of other accounts may send or receive. Where everybody may, nobody else is named."""
    for role in strangers:
        if actions := [each for each in (_SEND, "sqs:ReceiveMessage") if role_may(role, each, documents, arn)]:
            who = "everybody" if role == _ANYWHERE else role.replace(f":{_NOBODY}", ":root")
            yield error(
                "queue-open",
                queue.name,
                f"its policy allows {', '.join(actions)} to {who}, whom the options do not name",
                "a stranger begins and answers runs, or takes messages away before the flow sees them",
                "take the statement out, or name the roles that it is for under senders",
            )
            if role == _ANYWHERE:
                return


def _let_in_by_services(queue: QueueNeed, documents: list[Any], arn: str) -> Iterator[LiveFinding]:
    """Yield the services that may send for whatever is of any account."""
    for service, source in _SOURCES.items():
        if service_may_send(service, source, documents, arn):
            yield error(
                "queue-open",
                queue.name,
                f"its policy allows {_SEND} to {service} for what is of any account",
                "a stranger's topic, bucket or rule begins and answers runs",
                "bound the statement by aws:SourceArn, as the template does",
            )


def _excepted(
    needed: Deployment, queue: QueueNeed, roles: Sequence[str], documents: list[Any], arn: str
) -> Iterator[LiveFinding]:
    """Yield what the statement that denies leaves out. Which role the scheduler has, only its schedules may tell."""
    for role in roles:
        is_all = role.endswith(f":{_NOBODY}")
        if needed.has_scheduler and not is_all:
            continue
        if denied_to(role, documents, _SEND, arn) is False:
            who = "roles" if is_all else role
            yield error(
                "queue-open",
                queue.name,
                f"its policy does not keep out {who}, which the options do not name",
                "what its own policies allow it, it does: it begins and answers runs",
                f"deny {_SEND} to all but the roles that send there, with ArnNotEqualsIfExists of aws:PrincipalArn",
            )
            if is_all:
                return


def _refused(
    queue: QueueNeed, named: Sequence[str], homes: Sequence[str | None], documents: list[Any], arn: str
) -> Iterator[LiveFinding]:
    """Yield the roles that may not send. Of another account, a role has to be allowed it too."""
    for role in named:
        is_here = account_of(role) in homes
        is_refused = (
            denied_to(role, documents, _SEND, arn) if is_here else role_may(role, _SEND, documents, arn) is False
        )
        if is_refused:
            yield error(
                "queue-closed",
                queue.name,
                f"its policy does not let {role} send there, which the options name",
                "what that role sends or redrives is refused, whatever its own policies allow",
                "leave it out of the statement that denies, and allow it to its account where that is another one",
            )
