"""What DynamoDB does with expressions that are too large."""

from __future__ import annotations

from flowguard.probe.ask_items import put, refused
from flowguard.probe.lab import Lab
from flowguard.probe.made import table
from flowguard.probe.saw import Saw, asks


@asks("dynamodb-expression-size", "dynamodb", seconds=20)
def expression_size(lab: Lab) -> Saw:
    """Update with expressions of 4,096 and 4,097 bytes."""
    name = table(lab)

    def set_by(size: int) -> str:
        attribute = "a" * 200
        text = f"SET {attribute} = :n"
        padded = text + " " * (size - len(text))
        refusal_code: str = refused(lab, name, padded, ExpressionAttributeValues={":n": {"N": "1"}})["code"]
        return refusal_code

    fits, over = set_by(4_096), set_by(4_097)
    return Saw(not fits and over == "ValidationException", f"4,096: {fits or 'taken'}; 4,097: {over or 'taken'}")


def _under(lab: Lab, name: str, condition: str) -> str:
    values = {":n": {"N": "1"}}
    refusal = refused(lab, name, "SET x = n", ConditionExpression=condition, ExpressionAttributeValues=values)
    return refusal["code"] or "taken"


@asks("dynamodb-operators", "dynamodb", seconds=20)
def operators(lab: Lab) -> Saw:
    """Update with 300 and 301 operators, and under conditions of 299 and 301."""
    name = table(lab)
    put(lab, name, n={"N": "1"})

    def summed(count: int) -> str:
        sets = ",".join(f"x{place}=n+:n" for place in range(count))
        return refused(lab, name, f"SET {sets}", ExpressionAttributeValues={":n": {"N": "1"}})["code"] or "taken"

    sums = [summed(300), summed(301)]
    conditions = [_under(lab, name, " AND ".join(["n = :n"] * count)) for count in (150, 151)]
    return Saw(sums == conditions == ["taken", "ValidationException"], f"updates: {sums}; conditions: {conditions}")


@asks("dynamodb-operands", "dynamodb", seconds=20)
def operands(lab: Lab) -> Saw:
    """Update under conditions with 100 and 101 operands of IN."""
    name = table(lab)
    put(lab, name, n={"N": "1"})
    answers = [_under(lab, name, f"n IN ({', '.join([':n'] * count)})") for count in (100, 101)]
    return Saw(answers == ["taken", "ValidationException"], f"100, 101: {answers}")
