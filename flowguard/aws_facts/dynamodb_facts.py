"""What DynamoDB does with single items, pages and tables."""

from __future__ import annotations

from typing import Final

from flowguard.aws_facts.fact import NOWHERE, Document, Fact, Seen, like

_GUIDE: Final = "https://docs.aws.amazon.com/amazondynamodb/latest/developerguide"
_API: Final = "https://docs.aws.amazon.com/amazondynamodb/latest/APIReference"
_UPDATE: Final = Document("UpdateItem", f"{_API}/API_UpdateItem.html")
_GET: Final = Document("GetItem", f"{_API}/API_GetItem.html")
_QUERY: Final = Document("Query", f"{_API}/API_Query.html")
_BATCH_GET: Final = Document("BatchGetItem", f"{_API}/API_BatchGetItem.html")
_BATCH_WRITE: Final = Document("BatchWriteItem", f"{_API}/API_BatchWriteItem.html")
_CONDITIONS: Final = Document(
    "Condition and filter expressions, operators, and functions", f"{_GUIDE}/Expressions.OperatorsAndFunctions.html"
)
_UPDATES: Final = Document("Using update expressions in DynamoDB", f"{_GUIDE}/Expressions.UpdateExpressions.html")
_CONSTRAINTS: Final = Document("Constraints in Amazon DynamoDB", f"{_GUIDE}/Constraints.html")
_SIZES: Final = Document("DynamoDB item sizes and formats", f"{_GUIDE}/CapacityUnitCalculations.html")
_READS: Final = Document("DynamoDB read consistency", f"{_GUIDE}/HowItWorks.ReadConsistency.html")
_INDEXES: Final = Document("Using global secondary indexes in DynamoDB", f"{_GUIDE}/GSI.html")
_TTL: Final = Document("Using time to live (TTL) in DynamoDB", f"{_GUIDE}/TTL.html")
_EXPIRED: Final = Document("Working with expired items and time to live (TTL)", f"{_GUIDE}/ttl-expired-items.html")
_WARM: Final = Document(
    "Understanding DynamoDB warm throughput in different scenarios", f"{_GUIDE}/warm-throughput-scenarios.html"
)
_ON_DEMAND: Final = Document("DynamoDB on-demand capacity mode", f"{_GUIDE}/on-demand-capacity-mode.html")
_RESTORE: Final = Document(
    "Restoring a DynamoDB table to a point in time", f"{_GUIDE}/PointInTimeRecovery_BeforeYouBegin.html"
)
_GLOBAL: Final = Document("Global tables: how it works", f"{_GUIDE}/V2globaltables_HowItWorks.html")
_TYPES: Final = Document(
    "Supported data types and naming rules in Amazon DynamoDB", f"{_GUIDE}/HowItWorks.NamingRulesDataTypes.html"
)

SUITE: Final = Seen("2026-09-20", "captured by paritysuite/dynamodb-conformance")
"""Recordings of real DynamoDB by a public test suite: https://github.com/paritysuite/dynamodb-conformance"""


DYNAMODB_FACTS: Final = (
    Fact(
        name="dynamodb-conditional-write",
        sentence="A conditional write of one item is atomic: the condition is judged on the item as it is, and of two "
        "that meet one comes after the other.",
        source=_UPDATE,
        relied_on_by=("aws/expressions.py:CLAIM_FIRST_HOP", "protocol/claims.py:decide"),
        words=("UpdateItem", "PutItem", "DeleteItem", "ConditionExpression", "UpdateExpression"),
        engines=like("memory", "moto", "dynamodb-local", "ministack"),
        seen=SUITE,
    ),
    Fact(
        name="dynamodb-condition-failed-item",
        sentence="With `ReturnValuesOnConditionCheckFailure` `ALL_OLD` the error of a failed condition carries the "
        "item that stood in its way, at no cost of reading; without an item it carries none.",
        source=_UPDATE,
        read="2026-11",
        relied_on_by=("aws/claim_call.py:claim_call", "aws/refused_writes.py:item_at_fence"),
        words=("ReturnValuesOnConditionCheckFailure", "ConditionalCheckFailedException", "Item"),
        engines=like("memory", "moto", "dynamodb-local", "ministack"),
        seen=SUITE,
    ),
    Fact(
        name="dynamodb-return-values",
        sentence="`ReturnValues` `ALL_OLD` brings the item as it was before the write, `ALL_NEW` as it is after it; "
        "that is as consistent as the write.",
        source=_UPDATE,
        read="2026-11",
        relied_on_by=("aws/claim_call.py:claim_call", "aws/store.py:DynamoDBStore"),
        words=("ReturnValues", "Attributes"),
        engines=like("memory", "moto", "dynamodb-local", "ministack"),
        seen=SUITE,
    ),
    Fact(
        name="dynamodb-missing-attribute",
        sentence="A comparison with an attribute that is not there is false, `<>` is true of it, and `NOT` of a "
        "comparison with it is true.",
        source=_CONDITIONS,
        relied_on_by=("aws/expressions.py:CLAIM_FIRST_HOP", "sim/memory/conditions.py:condition"),
        engines=like("memory", "moto", "dynamodb-local", "ministack"),
        seen=SUITE,
    ),
    Fact(
        name="dynamodb-comparison-types",
        sentence="Values of two types are never equal, and an order between them is false; numbers compare by value, "
        "texts by their bytes in UTF-8.",
        source=_CONDITIONS,
        relied_on_by=("sim/memory/comparing.py:ordered", "aws/expressions.py:CLAIM_FIRST_HOP"),
        engines=like("memory", "dynamodb-local", "ministack", moto="breaks: it compares a number with a text"),
    ),
    Fact(
        name="dynamodb-update-creates",
        sentence="An update of an item that is not there makes it, unless its condition fails on the absent item.",
        source=_UPDATE,
        read="2026-11",
        relied_on_by=("aws/expressions.py:ABSENT", "aws/claim_call.py:_first_hop"),
        engines=like("memory", "moto", "dynamodb-local", "ministack"),
        seen=SUITE,
    ),
    Fact(
        name="dynamodb-update-sees-old-item",
        sentence="All parts of an update expression see the item as it was before: `SET a = b, b = a` swaps.",
        source=_UPDATES,
        relied_on_by=("aws/expressions.py:CLAIM_FIRST_HOP", "sim/memory/updates.py:UpdateExpression.applied"),
        engines=like("memory", "moto", "dynamodb-local", "ministack"),
    ),
    Fact(
        name="dynamodb-remove-absent",
        sentence="REMOVE of an attribute that is not there does nothing; SET of a path whose parent is not there is a "
        "`ValidationException`.",
        source=_UPDATES,
        relied_on_by=("aws/commit_call.py:CommitCalls.commit", "sim/memory/updates.py:UpdateExpression.applied"),
        engines=like("memory", "moto", "dynamodb-local", "ministack"),
        seen=SUITE,
    ),
    Fact(
        name="dynamodb-empty-set",
        sentence="A set is never empty: DELETE of its last element removes the attribute, and a write of an empty set "
        "is a `ValidationException`.",
        source=_TYPES,
        read="2023-06",
        relied_on_by=("aws/waits.py:DynamoDBWaits", "aws/caller_lists.py:DynamoDBCallers"),
        words=("SS",),
        engines=like("memory", "moto", "dynamodb-local", "ministack"),
        seen=SUITE,
    ),
    Fact(
        name="dynamodb-item-size",
        sentence="An item has at most 400 KB: names and values of its attributes, in UTF-8.",
        source=_CONSTRAINTS,
        read="2023-06",
        relied_on_by=(
            "sim/limits/items.py:LARGEST_ITEM",
            "aws/items.py:LARGEST_ITEM",
            "testing/hostile.py:LARGEST_ITEM",
        ),
        limit=409_600,
        engines=like("memory", "moto", "dynamodb-local", "ministack"),
        seen=SUITE,
    ),
    Fact(
        name="dynamodb-number-size",
        sentence="A number takes about a byte for each two digits and one more; the documents say so, and the service "
        "differs from them by a byte for some.",
        source=_SIZES,
        read="2023-06",
        relied_on_by=("aws/items.py:size_of_value", "sim/memory/values.py:decimal"),
        engines=like("memory", "moto"),
        by_hand="The conformance suite has measured 23 numbers; sizes here leave more room than that.",
        seen=SUITE,
    ),
    Fact(
        name="dynamodb-number-digits",
        sentence="A number has at most 38 digits, and lies between 1E-130 and 9.99…E+125.",
        source=_TYPES,
        read="2023-06",
        relied_on_by=("sim/memory/values.py:MOST_DIGITS", "aws/writes.py:_finite"),
        limit=38,
        engines=like("memory", "moto", "dynamodb-local", "ministack"),
        seen=SUITE,
    ),
    Fact(
        name="dynamodb-nesting",
        sentence="Maps and lists stand inside one another up to 32 levels, the item counted.",
        source=_CONSTRAINTS,
        relied_on_by=("sim/limits/items.py:DEEPEST",),
        limit=31,
        engines=like("memory", "moto", "dynamodb-local", "ministack"),
    ),
    Fact(
        name="dynamodb-partition-key-size",
        sentence="A partition key has 1 to 2,048 bytes.",
        source=_CONSTRAINTS,
        read="2026-11",
        relied_on_by=("sim/limits/items.py:LONGEST_KEYS",),
        limit=2_048,
        engines=like("memory", "moto", "dynamodb-local", "ministack"),
        seen=SUITE,
    ),
    Fact(
        name="dynamodb-sort-key-size",
        sentence="A sort key has 1 to 1,024 bytes.",
        source=_CONSTRAINTS,
        read="2026-11",
        relied_on_by=("sim/limits/items.py:LONGEST_KEYS", "payload/call_keys.py:LONGEST_KEY"),
        limit=1_024,
        engines=like("memory", "moto", "dynamodb-local", "ministack"),
        seen=SUITE,
    ),
    Fact(
        name="dynamodb-key-is-fixed",
        sentence="An update cannot change a key attribute; a key's value is not empty and of its table's type.",
        source=_UPDATE,
        relied_on_by=("items/writes.py:Update", "aws/writes.py:write_action"),
        words=("Key",),
        engines=like("memory", "moto", "dynamodb-local", "ministack"),
        seen=SUITE,
    ),
    Fact(
        name="dynamodb-surrogates",
        sentence="A text with half a surrogate pair cannot be sent: `SerializationException`.",
        source=_TYPES,
        relied_on_by=("sim/limits/items.py:check_text", "aws/writes.py:_HALF_A_PAIR"),
        words=("SerializationException",),
        engines=like("memory", "moto", dynamodb_local="keeps another character instead"),
    ),
    Fact(
        name="dynamodb-consistent-read",
        sentence="A read with `ConsistentRead` shows every write that was answered before it; one without may show an "
        "earlier state, and in turn one later and one earlier.",
        source=_READS,
        read="2023-06",
        relied_on_by=("aws/tables.py:read_consistently", "testing/explorer/run/earlier.py:EarlierStates"),
        words=(
            "GetItem",
            "ConsistentRead",
        ),
        engines=like("memory", "moto", "deliveries"),
        by_hand="That a read was earlier shows only under load, and seldom.",
    ),
    Fact(
        name="dynamodb-page-size",
        sentence="A page of Query or Scan ends after 1 MB of items read, before the filter; `LastEvaluatedKey` says "
        "where the next begins, and may stand after the last.",
        source=_QUERY,
        read="2026-11",
        relied_on_by=("sim/memory/querying.py:LARGEST_PAGE", "aws/run_pages.py:RunPages"),
        limit=1_048_576,
        words=("Scan", "LastEvaluatedKey", "ExclusiveStartKey", "FilterExpression", "Limit", "Items", "ScannedCount"),
        engines=like("memory", "moto", "dynamodb-local", "ministack"),
        seen=SUITE,
    ),
    Fact(
        name="dynamodb-query-order",
        sentence="A Query returns the items of a partition in the order of their sort keys: bytes of UTF-8, numbers by "
        "value.",
        source=_QUERY,
        read="2026-11",
        relied_on_by=("aws/history_rows.py:read_rows", "aws/group_items.py:DynamoDBGroups._query"),
        words=("Query", "KeyConditionExpression", "ScanIndexForward"),
        engines=like("memory", "moto", "dynamodb-local", "ministack"),
        seen=SUITE,
    ),
    Fact(
        name="dynamodb-batch-get",
        sentence="BatchGetItem reads up to 100 keys, each once, and may leave some in `UnprocessedKeys`; a page has at "
        "most 16 MB, and items come in any order.",
        source=_BATCH_GET,
        read="2026-11",
        relied_on_by=(
            "aws/batch_reads.py:KEYS_A_CALL",
            "sim/limits/items.py:MOST_READ_TOGETHER",
        ),
        limit=100,
        words=("BatchGetItem", "RequestItems", "Keys", "UnprocessedKeys", "Responses"),
        engines=like("memory", "moto", "dynamodb-local", "ministack"),
        seen=SUITE,
    ),
    Fact(
        name="dynamodb-batch-write",
        sentence="BatchWriteItem puts and deletes up to 25 items without conditions, each on its own, and may leave "
        "some in `UnprocessedItems`.",
        source=_BATCH_WRITE,
        read="2026-11",
        relied_on_by=(
            "aws/batch_writes.py:ROWS_A_CALL",
            "sim/limits/items.py:MOST_WRITTEN_TOGETHER",
            "dev/saved_state.py:_BATCH",
        ),
        limit=25,
        words=("BatchWriteItem", "PutRequest", "DeleteRequest", "UnprocessedItems"),
        engines=like("memory", "moto", "dynamodb-local", "ministack"),
        seen=SUITE,
    ),
    Fact(
        name="dynamodb-index-writes",
        sentence="A global index is eventually consistent, refuses ConsistentRead, states no order of items that have "
        "one key in it, and has entries only for items with both its keys. A write that adds an entry costs one unit "
        "more, one that changes a key of it two, and one that changes nothing that the index has costs none.",
        source=_INDEXES,
        read="2026-11",
        relied_on_by=("aws/indexed_runs.py:IndexedRuns", "docs/operate/many-runs.md"),
        words=("GlobalSecondaryIndexes", "IndexName", "IndexStatus", "Projection", "ProjectionType"),
        engines=like("memory", "moto", "dynamodb-local"),
        by_hand="tests/aws/test_run_index_costs.py counts the units on DynamoDB Local.",
    ),
    Fact(
        name="dynamodb-ttl-late",
        sentence="An expired item is deleted within a few days, not at its time; until then every read and condition "
        "meets it. A time more than five years back is no time to delete at.",
        source=_EXPIRED,
        read="2023-06",
        relied_on_by=("protocol/claims.py:begins_anew", "testing/explorer/run/expiry.py:MOST_LATE"),
        words=("TimeToLiveSpecification", "TimeToLiveDescription", "TimeToLiveStatus"),
        engines=like("memory", "moto", "deliveries"),
        by_hand="Takes days.",
    ),
    Fact(
        name="dynamodb-ttl-seconds",
        sentence="The time of the TTL attribute is a number in seconds since 1970; anything else is ignored.",
        source=_TTL,
        read="2023-06",
        relied_on_by=("worker/plan.py:Planner._until", "deploy/table_checks.py:_expiry"),
        engines=like("memory", "moto"),
        by_hand="Takes days.",
    ),
    Fact(
        name="dynamodb-partition-throughput",
        sentence="One partition, and so one item, takes 1,000 write units and 3,000 read units a second.",
        source=_WARM,
        read="2023-06",
        relied_on_by=("docs/proofs/performance.md", "sim/weather/hot_items.py:MOST_WRITES"),
        limit=1_000,
        engines=like(deliveries="as the weather `hot-items`: writes of one item"),
        by_hand="Takes a load of thousands of writes a second.",
    ),
    Fact(
        name="dynamodb-on-demand-begin",
        sentence="A new on-demand table takes 4,000 writes and 12,000 reads a second at once, and twice its earlier "
        "peak after half an hour.",
        source=_ON_DEMAND,
        read="2026-11",
        relied_on_by=(
            "deploy/options.py:FIRST_WRITES",
            "docs/proofs/performance.md",
        ),
        limit=4_000,
        words=("BillingMode", "WarmThroughput", "ReadUnitsPerSecond", "WriteUnitsPerSecond"),
        engines=NOWHERE,
        by_hand="`DescribeTable` shows the warm throughput of a table.",
    ),
    Fact(
        name="dynamodb-missing-table",
        sentence="A table that does not exist is `ResourceNotFoundException`, 400; so it is for a moment after "
        "CreateTable and while it is deleted.",
        source=_GET,
        read="2026-11",
        relied_on_by=("sim/limits/items.py:no_table", "aws/ledger.py:DynamoDBLedger"),
        words=("ResourceNotFoundException",),
        engines=like("memory", "moto", "dynamodb-local", "ministack"),
        seen=SUITE,
    ),
    Fact(
        name="dynamodb-item-collections",
        sentence="A partition has no limit of its own, unless the table has a local index: 10 GB then.",
        source=_CONSTRAINTS,
        read="2026-11",
        relied_on_by=("aws/history_rows.py:read_rows", "aws/group_items.py:DynamoDBGroups._query"),
        engines=like("memory", "moto"),
        by_hand="Takes 10 GB.",
    ),
    Fact(
        name="dynamodb-restore",
        sentence="A restored table is a new one, with the items of a moment, and without TTL, point-in-time recovery, "
        "alarms and tags.",
        source=_RESTORE,
        read="2023-06",
        relied_on_by=("docs/explain/guarantees.md",),
        words=(
            *("PointInTimeRecoverySpecification", "PointInTimeRecoveryEnabled", "ContinuousBackupsDescription"),
            *("PointInTimeRecoveryDescription", "PointInTimeRecoveryStatus"),
        ),
        engines=NOWHERE,
        by_hand="A restore takes half an hour and costs by the GB.",
    ),
    Fact(
        name="dynamodb-global-tables",
        sentence="Replicas of an eventually consistent global table judge conditions each alone, and the last writer "
        "wins; of a strongly consistent one a write that meets another is `ReplicatedWriteConflictException`, which "
        "passes.",
        source=_GLOBAL,
        relied_on_by=("docs/explain/guarantees.md", "aws/faults.py:is_final_code"),
        words=("ReplicatedWriteConflictException",),
        engines=NOWHERE,
        by_hand="Needs tables in three regions.",
    ),
)
