"""What DynamoDB does with statements in batches. Claims and commits of a batch of records are such statements."""

from __future__ import annotations

from typing import Final

from flowguard.aws_facts.dynamodb_facts import SUITE
from flowguard.aws_facts.fact import NOWHERE, Document, Fact, Seen, like

_GUIDE: Final = "https://docs.aws.amazon.com/amazondynamodb/latest/developerguide"
_API: Final = "https://docs.aws.amazon.com/amazondynamodb/latest/APIReference"
_BATCH: Final = Document("BatchExecuteStatement", f"{_API}/API_BatchExecuteStatement.html")
_REQUEST: Final = Document("BatchStatementRequest", f"{_API}/API_BatchStatementRequest.html")
_ERROR: Final = Document("BatchStatementError", f"{_API}/API_BatchStatementError.html")
_RUNNING: Final = Document(
    "Running batch operations with PartiQL for DynamoDB", f"{_GUIDE}/ql-reference.multiplestatements.batching.html"
)
_UPDATE: Final = Document("PartiQL update statements for DynamoDB", f"{_GUIDE}/ql-reference.update.html")
_INSERT: Final = Document("PartiQL insert statements for DynamoDB", f"{_GUIDE}/ql-reference.insert.html")
_FUNCTIONS: Final = Document("Use PartiQL functions with DynamoDB", f"{_GUIDE}/ql-functions.html")
_OPERATORS: Final = Document(
    "PartiQL arithmetic, comparison, and logical operators for DynamoDB", f"{_GUIDE}/ql-operators.html"
)


PARTIQL_FACTS: Final = (
    Fact(
        name="partiql-batch-size",
        sentence="A batch has 1 to 25 statements.",
        source=_BATCH,
        read="2026-11",
        relied_on_by=("aws/batch_calls.py:STATEMENTS_A_CALL", "sim/memory/statements.py:MOST_STATEMENTS"),
        limit=25,
        words=("Statements", "Statement", "Parameters"),
        engines=like("memory", "dynamodb-local", "ministack", moto="breaks: its parser does not know the statement"),
        seen=SUITE,
    ),
    Fact(
        name="partiql-statement-size",
        sentence="The text of a statement has at most 8,192 characters, its parameters apart.",
        source=_REQUEST,
        read="2026-11",
        relied_on_by=("aws/partiql.py:LONGEST_STATEMENT", "sim/memory/statements.py:LONGEST_STATEMENT"),
        limit=8_192,
        engines=like(
            "memory", "dynamodb-local", ministack="takes more", moto="breaks: its parser does not know the statement"
        ),
    ),
    Fact(
        name="partiql-members-on-their-own",
        sentence="Each statement of a batch succeeds or fails on its own, in an answer of 200 whose `Responses` have "
        "the order of the statements.",
        source=_BATCH,
        read="2026-11",
        relied_on_by=("aws/batch_calls.py:DynamoDBBatches",),
        words=("BatchExecuteStatement", "Responses", "Error"),
        engines=like("memory", "dynamodb-local", "ministack", moto="breaks: its parser does not know the statement"),
        seen=SUITE,
    ),
    Fact(
        name="partiql-reads-or-writes",
        sentence="A batch has reads or writes, not both.",
        source=_BATCH,
        read="2026-11",
        relied_on_by=("aws/batch_calls.py:DynamoDBBatches",),
        engines=like("dynamodb-local", ministack="takes both", moto="breaks: its parser does not know the statement"),
    ),
    Fact(
        name="partiql-failed-item",
        sentence="A member with `ReturnValuesOnConditionCheckFailure` `ALL_OLD` whose condition fails has in its "
        "`Error` the item that stood in its way. Two captures disagree: in August 2026 no item came, in October it "
        "did. Without it each refused claim of a batch is asked for once more, alone.",
        source=_ERROR,
        read="2026-11",
        relied_on_by=("aws/batch_calls.py:DynamoDBBatches",),
        engines=like("memory", "dynamodb-local", "ministack", moto="breaks: its parser does not know the statement"),
        seen=Seen("2026-10-10", "captured for dynoxide 3.2.0, against paritysuite's capture of 2026-08-15"),
    ),
    Fact(
        name="partiql-condition-failed",
        sentence="An update whose WHERE has the key and more is refused with `ConditionalCheckFailed` where the rest "
        "does not hold, as an item that is absent does not.",
        source=_UPDATE,
        read="2023-06",
        relied_on_by=("aws/partiql.py:update_statement", "aws/batch_calls.py:_is_absent"),
        engines=like("memory", "dynamodb-local", "ministack", moto="breaks: its parser does not know the statement"),
    ),
    Fact(
        name="partiql-update-creates-none",
        sentence="An update of an item that is not there makes none, whatever its WHERE says.",
        source=_UPDATE,
        read="2023-06",
        relied_on_by=("aws/batch_calls.py:DynamoDBBatches",),
        engines=like("memory", "dynamodb-local", "ministack", moto="answers without an error"),
    ),
    Fact(
        name="partiql-duplicate-item",
        sentence="An insert of an item that is there changes nothing, and fails with `DuplicateItem`.",
        source=_INSERT,
        read="2026-11",
        relied_on_by=("aws/partiql.py:insert_statement", "aws/batch_calls.py:DynamoDBBatches"),
        words=("DuplicateItem",),
        engines=like("memory", "dynamodb-local", "ministack", moto="breaks: its parser does not know the statement"),
        seen=SUITE,
    ),
    Fact(
        name="partiql-returning",
        sentence="`RETURNING ALL OLD *` of an update brings the item as it was, in the member's `Item`; "
        "`ALL NEW *` as it is.",
        source=_UPDATE,
        read="2026-11",
        relied_on_by=("aws/partiql.py:update_statement",),
        engines=like("memory", "dynamodb-local", "ministack", moto="breaks: its parser does not know the statement"),
        seen=SUITE,
    ),
    Fact(
        name="partiql-short-codes",
        sentence="The codes in members are shorter than those of single calls: `ValidationError`, `ResourceNotFound`, "
        "`ThrottlingError`, `ProvisionedThroughputExceeded`, `TransactionConflict`, `InternalServerError`, "
        "`AccessDenied`.",
        source=_ERROR,
        read="2026-11",
        relied_on_by=("aws/batch_calls.py:_NOT_HERE",),
        words=("ValidationError", "ResourceNotFound", "InternalServerError", "RequestLimitExceeded"),
        engines=like("memory", "dynamodb-local", "ministack", moto="breaks: its parser does not know the statement"),
        seen=SUITE,
    ),
    Fact(
        name="partiql-malformed-member",
        sentence="A member that cannot be parsed fails alone, with `ValidationError`; the others are executed.",
        source=_BATCH,
        relied_on_by=("aws/batch_calls.py:DynamoDBBatches._judge",),
        engines=like("dynamodb-local", "ministack", moto="breaks: its parser does not know the statement"),
        seen=SUITE,
    ),
    Fact(
        name="partiql-one-item-once",
        sentence="Two writes of one batch to one item are refused, `ValidationException` of the whole batch: no page "
        "says so, DynamoDB Local does it.",
        source=_RUNNING,
        relied_on_by=("aws/batch_calls.py:DynamoDBBatches", "worker/together.py:waves"),
        engines=like(
            "memory", "dynamodb-local", ministack="takes it", moto="breaks: its parser does not know the statement"
        ),
    ),
    Fact(
        name="partiql-missing",
        sentence="`x IS MISSING` and `attribute_exists` see whether an attribute is there; a comparison with a missing "
        "one does not hold.",
        source=_OPERATORS,
        read="2026-11",
        relied_on_by=("aws/partiql.py:_MISSING",),
        engines=like("memory", "dynamodb-local", "ministack", moto="breaks: its parser does not know the statement"),
    ),
    Fact(
        name="partiql-functions",
        sentence="`begins_with`, `contains`, `size`, `attribute_type` and `EXISTS` mean what they do in conditions; "
        "`set_add` and `set_delete` are ADD and DELETE on sets.",
        source=_FUNCTIONS,
        read="2023-06",
        relied_on_by=("aws/partiql.py:_FUNCTIONS",),
        engines=like("dynamodb-local", "ministack", moto="breaks: its parser does not know the statement"),
    ),
    Fact(
        name="partiql-permissions",
        sentence="A statement needs `dynamodb:PartiQLUpdate`, `PartiQLInsert` or `PartiQLSelect` on the table; a "
        "member without it fails with `AccessDenied`.",
        source=Document("IAM security policies with PartiQL for DynamoDB", f"{_GUIDE}/ql-iam.html"),
        read="2026-11",
        relied_on_by=("deploy/permissions.py:_SHARED", "aws/batch_calls.py:_NOT_HERE"),
        words=("BatchExecuteStatement",),
        engines=NOWHERE,
    ),
)
