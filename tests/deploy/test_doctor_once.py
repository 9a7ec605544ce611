"""``flowguard doctor`` on functions under ``@once``: nothing is wrong with the template's, and each mishap is found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

from flowguard.deploy.needs import Deployment
from flowguard.sim.calls import intercept
from tests.deploy.deployed import Stack, made_on_moto
from tests.deploy.exercised import needs
from tests.deploy.templates import MODULES, options_of, template
from tests.deploy.test_doctor import SESSION, Refusing, attribute, configure, findings, redrive, url

NEEDED: Final[Deployment] = needs(MODULES["charging"], options=options_of("charging"))
CHARGING: Final = "charge-charging"


@pytest.fixture
def stack(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stack]:
    with made_on_moto(monkeypatch, template("charging"), SESSION) as made:
        yield made


def rules(stack: Stack) -> list[tuple[str, str, str]]:
    return [(one.rule, one.severity.value, one.resource) for one in findings(stack, needed=NEEDED)]


def expire_by(stack: Stack, table: str, attribute: str | None) -> None:
    client, old = stack.client("dynamodb"), {"idempotency": "expiration", "refunds": "expires_at"}[table]
    client.update_time_to_live(TableName=table, TimeToLiveSpecification={"AttributeName": old, "Enabled": False})
    if attribute is not None:
        new = {"AttributeName": attribute, "Enabled": True}
        client.update_time_to_live(TableName=table, TimeToLiveSpecification=new)


def test_nothing_is_wrong_with_what_the_template_makes(stack: Stack) -> None:
    assert rules(stack) == []


WRONG: Final[dict[str, tuple[Callable[[Stack], object], list[tuple[str, str, str]]]]] = {
    "a function is gone": (
        lambda stack: stack.client("lambda").delete_function(FunctionName=CHARGING),
        [("function-missing", "error", CHARGING)],
    ),
    "it points elsewhere": (
        lambda stack: configure(stack, CHARGING, Handler="tests.deploy.charging.charge"),
        [("handler-other", "error", CHARGING)],
    ),
    "it may run for longer than records are hidden": (
        lambda stack: configure(stack, CHARGING, Timeout=300),
        [("visibility-short", "error", "charge")],
    ),
    "records are hidden for less than six times as long": (
        lambda stack: attribute(stack, "parcels.fifo", VisibilityTimeout="60"),
        [("visibility-short", "warning", "parcels.fifo")],
    ),
    "its queue gives nothing up": (
        lambda stack: attribute(stack, "charge", RedrivePolicy=""),
        [("redrive-missing", "error", "charge")],
    ),
    "its queue gives up early": (
        lambda stack: redrive(stack, "charge", maxReceiveCount=5),
        [("receives-few", "warning", "charge")],
    ),
    "no mapping brings its records": (
        lambda stack: stack.client("lambda").delete_event_source_mapping(UUID=stack.sources["charge"]),
        [("source-missing", "error", CHARGING)],
    ),
    "its failed records are deleted": (
        lambda stack: stack.client("lambda").update_event_source_mapping(
            UUID=stack.sources["charge"], FunctionResponseTypes=[]
        ),
        [("report-failures-missing", "error", CHARGING)],
    ),
    "the keys of a batch never expire": (
        lambda stack: expire_by(stack, "idempotency", None),
        [("ttl-off", "warning", "idempotency")],
    ),
    "the keys that others write expire by another attribute": (
        lambda stack: expire_by(stack, "refunds", "ttl"),
        [("ttl-other", "error", "refunds")],
    ),
    "a table is gone": (
        lambda stack: stack.client("dynamodb").delete_table(TableName="idempotency"),
        [("table-missing", "error", "idempotency")],
    ),
    "a letter waits": (
        lambda stack: stack.client("sqs").send_message(QueueUrl=url(stack, "charge-dead-letters"), MessageBody="x"),
        [("dead-letters", "warning", "charge-dead-letters")],
    ),
}


@pytest.mark.slow("asks about each part of a deployment")
@pytest.mark.parametrize("what", WRONG)
def test_each_setting_that_is_broken_is_found_and_nothing_else(what: str, stack: Stack) -> None:
    break_it, found = WRONG[what]
    break_it(stack)
    assert rules(stack) == found


def test_a_role_that_may_not_write_the_keys_is_found(stack: Stack) -> None:
    def answer(params: Any) -> Any:
        denied = params["ResourceArns"][0].endswith("table/idempotency")
        decision = "implicitDeny" if denied else "allowed"
        return {
            "EvaluationResults": [
                {"EvalActionName": action, "EvalDecision": decision} for action in params["ActionNames"]
            ]
        }

    with intercept(Refusing("SimulatePrincipalPolicy", answer=answer)):
        [found] = findings(stack, needed=NEEDED)
    assert (found.rule, found.resource) == ("permission-missing", "parcels-ship-ship-parcel")
    assert "its role may not dynamodb:UpdateItem on arn:aws:dynamodb:" in found.what


def test_no_runs_are_looked_for_without_a_flow(stack: Stack) -> None:
    with intercept(Refusing("Scan", "AccessDeniedException")):
        assert rules(stack) == []
