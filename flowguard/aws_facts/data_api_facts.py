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
        relied_on_by=("sql/fence.py:MOST_RESULTS",),
        engines=NOWHERE,
        by_hand=_NEEDS_A_CLUSTER,
    ),
    Fact(
        name="data-api-transaction-idle",
        sentence="A transaction that gets no call for three minutes is rolled back, and so is one after 24 hours.",
        source=Document("BeginTransaction", f"{_API}/API_BeginTransaction.html"),
        read="2026-11",
        relied_on_by=("sql/data_api.py:DataApi.transaction",),
        engines=NOWHERE,
        by_hand=_NEEDS_A_CLUSTER,
    ),
    Fact(
        name="data-api-type-hints",
        sentence="A parameter with `typeHint` `DECIMAL`, `UUID`, `DATE`, `TIMESTAMP` or `JSON` is sent as one of that "
        "type; a text without one is text, which PostgreSQL does not take for another type.",
        source=Document("SqlParameter", f"{_API}/API_SqlParameter.html"),
        read="2026-11",
        relied_on_by=("sql/data_api.py:_FIELDS",),
        words=("typeHint", "stringValue", "longValue", "isNull"),
        engines=NOWHERE,
        by_hand=_NEEDS_A_CLUSTER,
    ),
)
