"""Checks of who else may use queues, and of the roles that the options name for closed ones."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final

from flowguard.deploy.account import Account, known
from flowguard.deploy.arns import role_arn
from flowguard.deploy.closed_queues import given_senders, is_closed
from flowguard.deploy.finding import LiveFinding, error, note
from flowguard.deploy.needs import Deployment, QueueNeed
from flowguard.deploy.options import DeployOptions
from flowguard.deploy.planned.parties import (
    NOBODY,
    SOURCES,
    Party,
    everybody,
    is_account,
    is_one_of,
    organisations,
    principal,
    principals,
    sources,
)
from flowguard.deploy.planned.policies import denied_to, doubts, may
from flowguard.deploy.planned.resources import HERE
from flowguard.deploy.queue_arns import account_of

_SEND: Final = "sqs:SendMessage"
_ACTIONS: Final = (
    _SEND,
    *("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:PurgeQueue", "sqs:SetQueueAttributes", "sqs:AddPermission"),
)
"""What no stranger is allowed."""


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
    suspects = [each for each in principals(documents, account) if not is_one_of(each, known_roles)]
    strangers = [each for each in suspects if account_of(each) not in homes]
    is_known = homes != (HERE.account, None)
    parties = _parties(needed, queue, strangers, homes, documents, arn)
    yield from _let_in(queue, parties, documents, arn, knows_account=is_known)
    if is_closed(queue, options) and (named or queue.lists_senders):
        of_account = [each for each in suspects if each not in strangers]
        yield from _excepted(needed, queue, of_account if queue.made else [], documents, arn)
        given = [arn for role, arn in named.items() if role not in options.imports]
        yield from _refused(queue, given, homes, documents, arn)


def _functions(needed: Deployment, live: Account) -> Iterator[str]:
    """Yield the roles of the functions, and the one that they name for the scheduler."""
    for function in needed.functions:
        if (there := live.function(function.name)) is not None:
            yield str(there.get("Role", ""))
            yield str(there.get("Environment", {}).get("Variables", {}).get("FLOWGUARD_SCHEDULER_ROLE", ""))


def _parties(
    needed: Deployment,
    queue: QueueNeed,
    strangers: Sequence[str],
    homes: Sequence[str | None],
    documents: list[Any],
    arn: str,
) -> Iterator[list[Party]]:
    """Yield the parties that no option names. The first of each list stands for the others.

    Of an existing queue these are everybody and any account: its owner lets others in.
    """
    named = [*organisations(documents), *map(principal, strangers)]
    yield [everybody(), *(named if queue.made else [])]
    topics = {topic.arn for topic in needed.topics}
    for service in SOURCES if not may(everybody(), _SEND, documents, arn) else ():
        yield [
            party
            for account, source, party in sources(service, documents)
            if account not in homes and source not in topics and (queue.made or account == NOBODY)
        ]


def _let_in(
    queue: QueueNeed, parties: Iterator[list[Party]], documents: list[Any], arn: str, *, knows_account: bool
) -> Iterator[LiveFinding]:
    """Yield the parties that may use the queue, and the first of each condition that is not judged.

    Where everybody may, nobody else is named. A service sends, and does nothing else.
    """
    told = set[str]()
    for alike in parties:
        for party in {each.who: each for each in alike}.values():
            wanted = (_SEND,) if party.is_service else _ACTIONS
            actions = [each for each in wanted if may(party, each, documents, arn)]
            keys = {key for each in wanted for key in doubts(party, each, documents, arn)} - told
            if actions:
                is_stranger = knows_account or not party.has_account
                yield _open(queue, actions, party) if is_stranger else _of_some_account(queue, actions, party)
                if party is alike[0]:
                    break
            elif keys:
                yield _not_judged(queue, party, keys)
                told |= keys


def _open(queue: QueueNeed, actions: Sequence[str], party: Party) -> LiveFinding:
    return error(
        "queue-open",
        queue.name,
        f"its policy allows {', '.join(actions)} to {party.who}: no option says so",
        "a stranger begins and answers runs, or takes messages away before the flow sees them",
        "take the statement out, name the roles that it is for under senders, or bound it by aws:SourceArn as the "
        "template does",
    )


def _of_some_account(queue: QueueNeed, actions: Sequence[str], party: Party) -> LiveFinding:
    return note(
        "queue-policy-open",
        queue.name,
        f"its policy allows {', '.join(actions)} to {party.who}, and it is not known which account is deployed to",
        "of another account that is a stranger, who begins and answers runs, or takes messages away",
        'say account = "…" in the options',
    )


def _not_judged(queue: QueueNeed, party: Party, keys: Collection[str]) -> LiveFinding:
    return note(
        "queue-policy-open",
        queue.name,
        f"its policy may let {party.who} in, by a condition of {', '.join(sorted(keys))}",
        "what requests say of that is not known here",
        "read the statement: whom it allows something, the options should name",
    )


def _excepted(
    needed: Deployment, queue: QueueNeed, roles: Sequence[str], documents: list[Any], arn: str
) -> Iterator[LiveFinding]:
    """Yield what the statement that denies leaves out. Which role the scheduler has, only its schedules may tell."""
    for role in roles:
        is_all = is_account(role)
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
            denied_to(role, documents, _SEND, arn) if is_here else may(principal(role), _SEND, documents, arn) is False
        )
        if is_refused:
            yield error(
                "queue-closed",
                queue.name,
                f"its policy does not let {role} send there, which the options name",
                "what that role sends or redrives is refused, whatever its own policies allow",
                "leave it out of the statement that denies, and allow it to its account where that is another one",
            )
