"""What DynamoDB does with transactions."""

from __future__ import annotations

from typing import Final

from flowguard.aws_facts.dynamodb_facts import SUITE
from flowguard.aws_facts.fact import NOWHERE, Document, Fact, like

_WRITE: Final = Document(
    "TransactWriteItems", "https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_TransactWriteItems.html"
)
_HOW: Final = Document(
    "Amazon DynamoDB Transactions: How it works",
    "https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/transaction-apis.html",
)

TRANSACTION_FACTS: Final = (
    Fact(
        name="transaction-atomic",
        sentence="The actions of a transaction happen all at once or not at all, across tables of one account and "
        "region.",
        source=_WRITE,
        read="2026-11",
        relied_on_by=("aws/commit_call.py:CommitCalls", "docs/explain/guarantees.md"),
        words=("TransactWriteItems", "TransactItems", "Put", "Update", "Delete", "ConditionCheck"),
        engines=like("memory", "moto", "dynamodb-local", "ministack"),
        seen=SUITE,
    ),
    Fact(
        name="transaction-one-account",
        sentence="No transaction has actions on tables of two accounts or regions.",
        source=_WRITE,
        read="2026-11",
        relied_on_by=("deploy/accounts.py:transaction_problems", "docs/operate/security.md"),
        engines=NOWHERE,
        by_hand="It needs two accounts.",
    ),
    Fact(
        name="transaction-actions",
        sentence="A transaction has 1 to 100 actions.",
        source=_WRITE,
        read="2026-11",
        relied_on_by=("sim/limits/items.py:MOST_ACTIONS", "items/writes.py:_MOST_ACTIONS"),
        limit=100,
        engines=like("memory", "moto", "dynamodb-local", "ministack"),
        seen=SUITE,
    ),
    Fact(
        name="transaction-size",
        sentence="The items of a transaction have at most 4 MB together.",
        source=_WRITE,
        read="2026-11",
        relied_on_by=("sim/limits/items.py:LARGEST_TRANSACTION",),
        limit=4_194_304,
        engines=like("memory", "moto", "dynamodb-local", "ministack"),
    ),
    Fact(
        name="transaction-one-action-an-item",
        sentence="Two actions of a transaction on one item are a `ValidationException`, and nothing is written.",
        source=_WRITE,
        read="2026-11",
        relied_on_by=("aws/refused_writes.py:refusal_of", "items/writes.py:same_item"),
        engines=like("memory", "moto", "dynamodb-local", "ministack"),
        seen=SUITE,
    ),
    Fact(
        name="transaction-reasons",
        sentence="A cancelled transaction has a reason for each action in their order: `None`, "
        "`ConditionalCheckFailed` with the item where it was asked for, `TransactionConflict`, `ThrottlingError`, "
        "`ProvisionedThroughputExceeded`, `ItemCollectionSizeLimitExceeded` or `ValidationError`. An update that makes "
        "its item too large or too deep is such a reason, or since October 2026, in some regions, a "
        "`ValidationException` of the whole request, conditions unseen.",
        source=_WRITE,
        relied_on_by=(
            "aws/refused_writes.py:is_at_fence",
            "aws/faults.py:PASSING_REASONS",
            "aws/faults.py:FINAL_REASONS",
        ),
        words=(
            "TransactionCanceledException",
            "CancellationReasons",
            "ConditionalCheckFailed",
            "TransactionConflict",
            "ThrottlingError",
            "ProvisionedThroughputExceeded",
            "ItemCollectionSizeLimitExceeded",
            "None",
        ),
        engines=like("memory", "moto", "dynamodb-local", "ministack"),
        seen=SUITE,
    ),
    Fact(
        name="transaction-conflict",
        sentence="A transaction that meets another transaction or a write on one of its items is cancelled with "
        "`TransactionConflict`; a single write that meets one is `TransactionConflictException`. Both pass.",
        source=_HOW,
        read="2023-06",
        relied_on_by=("aws/faults.py:patiently", "aws/faults.py:_CONFLICTS"),
        words=("TransactionConflictException",),
        engines=like(
            memory="makes one transaction after the other",
            moto="makes one transaction after the other",
            dynamodb_local="makes one transaction after the other",
            ministack="makes one transaction after the other",
        ),
    ),
    Fact(
        name="transaction-token",
        sentence="A transaction that is repeated with its `ClientRequestToken` within 10 minutes is answered as the "
        "first, and writes nothing; with other parameters it is `IdempotentParameterMismatchException`.",
        source=_WRITE,
        read="2026-11",
        relied_on_by=("sim/memory/transactions.py:REMEMBERED", "aws/commit_call.py:CommitCalls"),
        limit=600,
        words=("ClientRequestToken", "IdempotentParameterMismatchException"),
        engines=like("memory", "dynamodb-local", "ministack", moto="makes it again"),
        seen=SUITE,
    ),
    Fact(
        name="transaction-in-progress",
        sentence="A repeated call that meets its first, still at work, is `TransactionInProgressException`, and "
        "passes.",
        source=_WRITE,
        read="2026-11",
        relied_on_by=("aws/faults.py:_CONFLICTS",),
        words=("TransactionInProgressException",),
        engines=NOWHERE,
        by_hand="Two calls have to meet within milliseconds.",
    ),
    Fact(
        name="transaction-token-by-sdk",
        sentence="boto3 gives a transaction without a token one of its own, so that its own retries are one "
        "transaction.",
        source=_HOW,
        relied_on_by=("aws/store.py:DynamoDBStore", "sim/memory/aws.py:MemoryAWS"),
        engines=like("memory", "moto"),
        by_hand="The model of boto3 says it: the parameter is an idempotency token.",
    ),
    Fact(
        name="transaction-unconditional-cost",
        sentence="A transaction costs two write units for each KB of an item; a cancelled one too.",
        source=_HOW,
        read="2023-06",
        relied_on_by=("deploy/meter.py:Meter",),
        engines=like("deliveries"),
        by_hand="`ConsumedCapacity` of a transaction shows it.",
        seen=SUITE,
    ),
    Fact(
        name="transaction-isolation",
        sentence="A Query, Scan or BatchGetItem may see some items of a transaction before and some after it; a "
        "GetItem of one item never sees half.",
        source=_HOW,
        read="2023-06",
        relied_on_by=("docs/explain/guarantees.md", "aws/run_reader.py:RunReader"),
        engines=NOWHERE,
        by_hand="It shows seldom.",
    ),
)
