"""Notes on what no template changes, since it is there already or belongs to another account."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from typing import Final

from flowguard.deploy.at_aws import names_of
from flowguard.deploy.needs import QueueNeed, Role, TableNeed
from flowguard.deploy.options import DeployOptions
from flowguard.deploy.queue_arns import account_of, arn_of
from flowguard.destinations import Queue
from flowguard.flow import AnyFlow
from flowguard.names.at_aws import NameKind

_OF_MADE: Final = {
    "queues": ("senders", "buckets", "max_receive_count"),
    "tables": ("warm_writes", "warm_reads"),
    "topics": ("buckets",),
}
"""The options that say how a resource is made, or what its policy has."""

_FOREIGN: Final = {
    "ssm": "its owner shares it by AWS RAM, as an advanced parameter; a SecureString",
    "secretsmanager": "its owner lets this account read it, as --foreign-policies prints; it",
}


def existing_notes(
    flows: Iterable[AnyFlow], queues: Sequence[QueueNeed], tables: Iterable[TableNeed], options: DeployOptions
) -> Iterator[str]:
    """Yield what is to be done by hand, or goes another way, as no template changes those resources."""
    yield from _moved(flows, queues, options)
    yield from _indexed(tables, options)
    yield from _unheeded({queue.name for queue in queues if not queue.made}, options)
    if options.account is not None:
        yield from _of_foreign_operators(options, options.account)
        yield from _shared(options, options.account)


def _moved(flows: Iterable[AnyFlow], queues: Sequence[QueueNeed], options: DeployOptions) -> Iterator[str]:
    """Yield a note for each queue between which and those made here SQS moves nothing."""
    arns = {queue.name: queue.arn or arn_of(Queue(str(options.of_queue(queue.name).name))) for queue in queues}
    others = {name: arn for name, arn in arns.items() if arn is not None and account_of(arn) != options.account}
    unless = "" if options.account else "; where it is of this account, say so by account = in the options"
    for flow in flows:
        dead = flow.dead_letters
        if isinstance(dead, Queue) and dead.short_name in others:
            yield (
                f"the dead letters of {flow.name} go to {others[dead.short_name]}, and SQS moves records within an "
                f"account alone: what it gives up goes to a queue of {flow.name} here{unless}"
            )
    for queue in queues:
        if options.account is not None and queue.reader is not None and queue.name in others:
            yield (
                f"{queue.reader} reads {others[queue.name]}, of another account: its owner sets the redrive policy, to "
                f"a queue of that account, which no function here reads"
            )
    watched = [each.name for each in queues if each.reader is not None or each.role is Role.DEAD_LETTERS]
    if options.account is not None and (unwatched := [others[name] for name in watched if name in others]):
        yield (
            f"{', '.join(unwatched)} {'has' if len(unwatched) == 1 else 'have'} no alarm here: the metrics of a queue "
            f"are in its own account, where its owner makes one"
        )


def _indexed(tables: Iterable[TableNeed], options: DeployOptions) -> Iterator[str]:
    """Yield a note for each index of a table that no template makes."""
    for table in tables:
        name = str(options.tables[table.name].name) if table.name in options.tables else ""
        if not table.existing and not name.startswith("arn:"):
            continue
        for index in table.indexes:
            who = "TABLES" if index in table.key.indexes else "run_index"
            holds = "its keys alone" if index.keys_only else "all attributes"
            yield (
                f"[tables.{table.name}] {who} adds nothing to a table that is there already: add the index "
                f"{index.name} of {' and '.join(index.names)}, with {holds}, by aws dynamodb update-table; "
                f"flowguard doctor says whether it is there"
            )


def renamed_topics(not_made: Iterable[str], options: DeployOptions) -> Iterator[str]:
    """Yield a note for each topic that is not made here, and that the rule of the names calls something else."""
    names = names_of(options)
    for arn in sorted(set(not_made)):
        name, at_aws = arn.rpartition(":")[2], names.topic(arn)
        if at_aws != arn and f"{NameKind.TOPICS}.{name}" not in names.given:
            yield (
                f"{arn} is {at_aws} by the rule {names.rule}, and no template here makes that; where its owner has "
                f'no such topic, say [topics."{name}"] name = "{name}"'
            )


def _unheeded(there: Container[str], options: DeployOptions) -> Iterator[str]:
    """Yield a note for options of a resource that is there already, which change it only as it is made."""
    for section, of_made in _OF_MADE.items():
        for name, given in getattr(options, section).items():
            is_there = given.existing or str(given.name).startswith("arn:") or (section == "queues" and name in there)
            if is_there and (unheeded := [each for each in of_made if each in given.model_fields_set]):
                yield (
                    f"[{section}.{name}] {', '.join(unheeded)} changes nothing at AWS: no template changes what is "
                    f"there already, nor its policy; its owner does"
                )


def _of_foreign_operators(options: DeployOptions, account: str) -> Iterator[str]:
    """Yield a note that says what operators of other accounts cannot do."""
    if others := [role for role in options.operators if account_of(role) not in (None, account)]:
        yield (
            f"{', '.join(others)} may send to the queues here, and no more: SQS starts no redrive for another account, "
            f"and dead letters and the run table are read from {account}; let operators take a role of {account}"
        )


def _shared(options: DeployOptions, account: str) -> Iterator[str]:
    """Yield a note for each secret and parameter of another account, of which AWS asks more than a policy."""
    named = {f"settings.{name}": str(getattr(options.settings, name)) for name in ("signing_keys", "token_keys")}
    named |= {f"streams.{name}.secret": f"secretsmanager:{stream.secret}" for name, stream in options.streams.items()}
    for option, place in named.items():
        kind, _, arn = place.partition(":")
        if account_of(arn) not in (None, account):
            yield (
                f"{option} is of the account {account_of(arn)}: {_FOREIGN[kind]} is under a key of its owner's own, "
                f"whose policy lets {account} decrypt"
            )
