"""What the Data API of RDS does with the statements of ``step.sql``."""

from __future__ import annotations

from typing import Final

from flowguard.aws_facts.fact import NOWHERE, Document, Fact

_GUIDE: Final = "https://docs.aws.amazon.com/AmazonRDS/latest/AuroraUserGuide"
_API: Final = "https://docs.aws.amazon.com/rdsdataservice/latest/APIReference"
_NEEDS_A_CLUSTER: Final = "Needs a cluster of Aurora. The tests play the Data API over PostgreSQL."

DATA_API_FACTS: Final = (
    Fact(
        name="data-api-row-size",
        sentence="A row of a result has at most 64 KB, and an answer 1 MiB; a call that would return more ends with an "
        "error.",
        source=Document("Limitations for the Amazon RDS Data API", f"{_GUIDE}/data-api.limitations.html"),
        read="2026-11",
        relied_on_by=(
            "sql/fence.py:MOST_RESULTS",
            "testing/explorer/run/outside_data_api.py:_LARGEST_ANSWER",
            "testing/explorer/run/outside_data_api.py:_LARGEST_ROW",
        ),
        engines=NOWHERE,
        by_hand=_NEEDS_A_CLUSTER,
    ),
    Fact(
        name="data-api-transaction-idle",
        sentence="A transaction that gets no call for three minutes is rolled back, and so is one after 24 hours.",
        source=Document("BeginTransaction", f"{_API}/API_BeginTransaction.html"),
        read="2026-11",
        relied_on_by=(
            "sql/data_api.py:DataApi.transaction",
            "testing/explorer/run/outside_data_api.py:DataApiCalls._end_idle",
        ),
        engines=NOWHERE,
        by_hand=_NEEDS_A_CLUSTER,
    ),
    Fact(
        name="data-api-statement-timeout",
        sentence="A statement that takes too long ends with `StatementTimeoutException`. It is stopped then, unless "
        "`continueAfterTimeout` says otherwise. An error of the database is a `DatabaseErrorException`, an unknown "
        "transaction a `TransactionNotFoundException`, and another error in the call a `BadRequestException`.",
        source=Document("ExecuteStatement", f"{_API}/API_ExecuteStatement.html"),
        read="2026-11",
        relied_on_by=("testing/explorer/run/outside_data_api.py:DataApiCalls",),
        words=(
            "StatementTimeoutException",
            "DatabaseErrorException",
            "TransactionNotFoundException",
            "BadRequestException",
        ),
        engines=NOWHERE,
        by_hand=_NEEDS_A_CLUSTER,
    ),
    Fact(
        name="database-user-by-iam",
        sentence="A role connects to a database with a token of IAM if it may `rds-db:connect` on the user's ARN, "
        "`arn:…:rds-db:REGION:ACCOUNT:dbuser:RESOURCE-ID/NAME`, of its own account. The resource id begins with "
        "`cluster-`, `db-` or, of RDS Proxy, `prx-`.",
        source=Document(
            "Creating and using an IAM policy for IAM database access",
            f"{_GUIDE}/UsingWithRDS.IAMDBAuth.IAMPolicy.html",
        ),
        read="2026-11",
        relied_on_by=("deploy/sql_uses.py:CONNECTS", "text/setting_problems.py:DATABASE_USER"),
        engines=NOWHERE,
        by_hand=_NEEDS_A_CLUSTER,
    ),
    Fact(
        name="data-api-type-hints",
        sentence="A parameter with `typeHint` `DECIMAL`, `UUID`, `DATE`, `TIME`, `TIMESTAMP` or `JSON` is sent as one "
        "of that type; a text without one is text, which PostgreSQL does not take for another type.",
        source=Document("SqlParameter", f"{_API}/API_SqlParameter.html"),
        read="2026-11",
        relied_on_by=("sql/data_api.py:_FIELDS", "testing/explorer/run/outside_data_api.py:_HINTED"),
        words=("typeHint", "stringValue", "longValue", "isNull"),
        engines=NOWHERE,
        by_hand=_NEEDS_A_CLUSTER,
    ),
)
