"""Queues of files that take messages of strangers, and those that refuse whom the options name."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

import pytest

from flowguard.deploy.options import DeployOptions
from tests.deploy.planned.looked import findings, made, read

MODULE: Final = "flows.take_payment.handlers"
FORMS: Final = ("cloudformation", "terraform-json")
HERE, THERE = "arn:aws:iam::123456789012:role/", "arn:aws:iam::999999999999:role/"
OPTIONS: Final = DeployOptions.model_validate(
    {
        "account": "123456789012",
        "operators": [f"{HERE}on-call", "by-name", f"{THERE}their-on-call"],
        "queues": {"payments-to-book": {"senders": [f"{HERE}own-api", f"{THERE}their-api"]}},
    }
)
QUEUE: Final = "payments-to-book"
Statements = list[dict[str, Any]]


def found(
    form: str, change: Callable[[Statements], object], *, options: DeployOptions = OPTIONS
) -> list[tuple[str, str]]:
    """What is found of the queue when ``change`` was at the statements of its policy."""
    text, needed = made(MODULE, options, form)
    file = json.loads(text)
    if form == "cloudformation":
        resources = file["Resources"]
        [policy] = [
            each["Properties"]
            for each in resources.values()
            if each["Type"] == "AWS::SQS::QueuePolicy"
            and resources[each["Properties"]["Queues"][0]["Ref"]]["Properties"]["QueueName"] == QUEUE
        ]
        change(policy["PolicyDocument"]["Statement"])
    else:
        [policy] = [
            each
            for each in file["resource"]["aws_sqs_queue_policy"].values()
            if "payments_to_book" in each["queue_url"]
        ]
        document = json.loads(policy["policy"])
        change(document["Statement"])
        policy["policy"] = json.dumps(document)
    looked = findings(read(json.dumps(file), form), needed, options)
    return [(each.rule, each.what) for each in looked if each.resource == QUEUE]


def allows(action: str, **rest: Any) -> dict[str, Any]:
    return {"Effect": "Allow", "Principal": "*", "Action": action, "Resource": "*", **rest}


def listed(statements: Statements) -> list[Any]:
    """The roles that the statement that denies leaves out."""
    roles: list[Any] = statements[-1]["Condition"]["ArnNotEqualsIfExists"]["aws:PrincipalArn"]
    return roles


def unlist(end: str) -> Callable[[Statements], object]:
    def change(statements: Statements) -> None:
        roles = listed(statements)
        [role] = [each for each in roles if str(each).endswith(end)]
        roles.remove(role)

    return change


def unallow(account: str) -> Callable[[Statements], object]:
    def change(statements: Statements) -> None:
        kept = [each for each in statements if account not in str(each["Principal"])]
        assert len(kept) < len(statements)
        statements[:] = kept

    return change


def to_all(action: str, *, without_deny: bool = False) -> Callable[[Statements], object]:
    def change(statements: Statements) -> None:
        if without_deny:
            statements.pop()
        statements.insert(0, allows(action))

    return change


OPENED: Final = "its policy does not keep out roles that the options do not name"


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("change", "problems"),
    [
        (lambda _: None, []),
        (lambda given: given.pop(), [("queue-open", OPENED)]),
        (to_all("sqs:SendMessage"), []),  # the statement that denies keeps strangers out
        (to_all("sqs:ReceiveMessage"), [("queue-open", "its policy allows sqs:ReceiveMessage to everybody")]),
        (
            to_all("sqs:*", without_deny=True),
            [
                ("queue-open", "its policy allows sqs:SendMessage, sqs:ReceiveMessage to everybody"),
                ("queue-open", OPENED),
            ],
        ),
        (
            lambda given: given.insert(0, allows("sqs:*", Condition={"StringEquals": {"aws:PrincipalOrgID": "o-1"}})),
            [],
        ),
        *(
            (unlist(role), [("queue-closed", f"its policy does not let {name} send there, which the options name")])
            for role, name in (
                ("/on-call", f"{HERE}on-call"),
                ("/own-api", f"{HERE}own-api"),
                ("/their-on-call", f"{THERE}their-on-call"),
            )
        ),
        (
            unlist("/their-api"),
            [("queue-closed", f"its policy does not let {THERE}their-api send there, of another account")],
        ),
        (
            unallow("999999999999"),
            [
                ("queue-closed", f"its policy does not let {THERE}their-api send there, of another account"),
                ("queue-closed", f"its policy does not let {THERE}their-on-call send there, which the options name"),
            ],
        ),
    ],
)
def test_who_may_use_a_queue_is_found_in_files(
    form: str, change: Callable[[Statements], object], problems: list[tuple[str, str]]
) -> None:
    assert found(form, change) == problems
