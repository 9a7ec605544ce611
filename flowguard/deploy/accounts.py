"""The accounts of topics, keys and the tables of one transaction."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from flowguard.deploy.account import Account
from flowguard.deploy.finding import LiveFinding, error, note
from flowguard.deploy.imports import NOBODY
from flowguard.deploy.needs import Deployment, FunctionNeed, TopicNeed
from flowguard.deploy.options import DeployOptions
from flowguard.deploy.queue_arns import account_of

_WRITTEN: Final = frozenset(
    {"dynamodb:ConditionCheckItem", "dynamodb:DeleteItem", "dynamodb:PutItem", "dynamodb:UpdateItem"}
)
"""The actions of what a commit does with tables of a stage."""

_KEY: Final = re.compile("arn:[^:]+:kms:[^:]+:[^:]+:key/")

_SAY: Final = 'say account = "…" in the options: it is deployed to that'


def is_elsewhere(arn: str, options: DeployOptions) -> bool:
    """Answer whether an ARN is of another account or region than the options name for the deployment."""
    _, _, _, region, account, *_ = arn.split(":")
    return options.account not in (None, account) or options.region not in (None, region)


def transaction_problems(needed: Deployment) -> Iterator[str]:
    """Yield what is wrong with tables that a commit would write in one transaction, of two accounts."""
    home = account_of(needed.run_table) or needed.account
    for function in needed.functions:
        for table in _written(function):
            account = account_of(table) or needed.account
            if None not in (home, account) and home != account:
                yield (
                    f"{function.name} writes {table}, of the account {account}, and its runs are in "
                    f"{needed.run_table}, of {home}: a commit writes both in one transaction, and DynamoDB has none "
                    "across accounts; let a flow of that account write it, by step.ask or step.send to its queue"
                )


def account_notes(needed: Deployment) -> Iterator[str]:
    """Yield what depends on the account, where the options name none."""
    if needed.account is not None:
        return
    if topics := [topic.arn for topic in needed.topics if not topic.existing]:
        each = "each is" if topics[1:] else "it is"
        yield (
            f"the code names {', '.join(topics)} by ARN, and {each} made in the account that is deployed to, whichever "
            f"that is; {_SAY}, and a topic of another account is subscribed to there, and not made here"
        )
    named = {table for function in needed.functions for table in _written(function)}
    if tables := sorted(table for table in named if account_of(table) != account_of(needed.run_table)):
        yield (
            f"{', '.join(tables)} must be of the account of {needed.run_table}: a commit writes both in one "
            f"transaction; {_SAY}, and another account is refused"
        )
    if owners := sorted({str(account_of(key)) for key in _keys(needed)} - {NOBODY}):
        yield (
            f"--key-policy takes the account of a key for the one that is deployed to, here {' and '.join(owners)}; "
            f"where that is another, {_SAY}"
        )


def _keys(needed: Deployment) -> Iterator[str]:
    """Yield the ARNs of the keys whose policies are to allow something to the account of the deployment."""
    for function in needed.functions:
        for permission in function.permissions:
            if _KEY.match(permission.name):
                yield permission.name


def _written(function: FunctionNeed) -> Iterator[str]:
    """Yield the tables that commits of a function write, that of the runs too."""
    if function.definition.once is None:
        for permission in function.permissions:
            if not _WRITTEN.isdisjoint(permission.actions):
                yield permission.name


def check_accounts(needed: Deployment, live: Account) -> Iterator[LiveFinding]:
    """Yield the findings about topics that were to be of another account than the one that is looked at."""
    here = live.account
    for topic in _made(needed):
        account = account_of(topic.arn)
        if here is not None and here != account:
            what = f"the code names it in the account {account}, and {here} is looked at"
            why = "what is published to that topic does not reach a topic of the same name here"
            yield error("account-other", topic.arn, what, why, f"{_SAY}, and deploy again")
        if here is None and needed.account is None:
            what = f"whether it is made in {account}, as the code names it: the options say no account"
            why = "a topic of the same name in another account gets nothing of what is published to this one"
            yield note("account-open", topic.arn, what, why, _SAY)


def _made(needed: Deployment) -> Iterable[TopicNeed]:
    return (topic for topic in needed.topics if not topic.existing)
