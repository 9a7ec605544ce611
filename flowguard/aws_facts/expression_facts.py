"""What an expression of DynamoDB may have."""

from __future__ import annotations

from typing import Final

from flowguard.aws_facts.dynamodb_facts import SUITE
from flowguard.aws_facts.fact import Document, Fact, like

_GUIDE: Final = "https://docs.aws.amazon.com/amazondynamodb/latest/developerguide"
_CONSTRAINTS: Final = Document("Constraints in Amazon DynamoDB", f"{_GUIDE}/Constraints.html")

EXPRESSION_FACTS: Final = (
    Fact(
        name="dynamodb-unused-names",
        sentence="A name or value that is given and not used in an expression is a `ValidationException`, and so is "
        "one that is used and not given.",
        source=Document(
            "Expression attribute names (aliases) in DynamoDB", f"{_GUIDE}/Expressions.ExpressionAttributeNames.html"
        ),
        relied_on_by=("aws/commit_call.py:_Update", "sim/memory/updates.py:update"),
        words=("ExpressionAttributeNames", "ExpressionAttributeValues", "ValidationException"),
        engines=like("memory", "moto", "dynamodb-local", "ministack"),
        seen=SUITE,
    ),
    Fact(
        name="dynamodb-reserved-words",
        sentence="573 words, such as `status`, `owner` and `ttl`, may not stand in an expression by themselves; a "
        "placeholder stands for them.",
        source=Document("Reserved words in DynamoDB", f"{_GUIDE}/ReservedWords.html"),
        read="2023-06",
        relied_on_by=("aws/expressions.py:CLAIM_NAMES", "sim/memory/reserved.py:RESERVED"),
        limit=573,
        engines=like("memory", "moto", "dynamodb-local", "ministack"),
        seen=SUITE,
    ),
    Fact(
        name="dynamodb-expression-size",
        sentence="An expression has at most 4 KB.",
        source=_CONSTRAINTS,
        read="2023-06",
        relied_on_by=("sim/limits/items.py:LONGEST_EXPRESSION", "items/modified.py:_LONGEST_EXPRESSION"),
        limit=4_096,
        engines=like("memory", "moto", "dynamodb-local", "ministack"),
    ),
    Fact(
        name="dynamodb-operators",
        sentence="An expression has at most 300 operators and functions. The page says so of update "
        "expressions, and DynamoDB Local counts so in conditions, too: `=` and `AND`, each.",
        source=_CONSTRAINTS,
        read="2023-06",
        relied_on_by=("sim/limits/items.py:MOST_OPERATORS", "items/modified.py:_MOST_OPERATORS"),
        limit=300,
        engines=like("memory", "dynamodb-local", ministack="takes more", moto="breaks: it calls itself without end"),
    ),
    Fact(
        name="dynamodb-operands",
        sentence="`IN` has at most 100 operands.",
        source=_CONSTRAINTS,
        read="2023-06",
        relied_on_by=("sim/limits/items.py:MOST_OPERANDS",),
        limit=100,
        engines=like("memory", "moto", "dynamodb-local", ministack="takes more"),
    ),
)
