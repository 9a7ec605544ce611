"""What no template changes: queues of another account, between which SQS moves nothing, and a table that is there."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from flowguard import lambda_handler
from flowguard.deploy.audit import audited
from flowguard.deploy.cloudformation import cloudformation
from flowguard.deploy.existing_notes import _indexed, existing_notes, renamed_topics
from flowguard.deploy.needs import Deployment, QueueNeed, Role, TableNeed
from flowguard.deploy.options import DeployOptions
from flowguard.destinations import Destination, Queue, Topic
from flowguard.project.declared import TableIndex, TableKey
from tests.deploy.exercised import needs
from tests.deploy.test_derive import Deploy, made
from tests.deploy.test_derive import deploy as deploy  # noqa: PLC0414 - a fixture
from tests.deploy.test_queue_plan import Alone

PAYMENTS = "flows.take_payment.handlers"
HERE, THERE = "123456789012", "210987654321"


def elsewhere(queue: str, account: str | None = HERE, **more: Any) -> tuple[Deployment, DeployOptions]:
    given = {} if account is None else {"account": account}
    arn = f"arn:aws:sqs:eu-west-1:{THERE}:{queue}"
    options = DeployOptions.model_validate({**given, **more, "queues": {queue: {"name": arn}}})
    return needs(PAYMENTS, options=options), options


def given_up(needed: Deployment) -> dict[str, str | None]:
    return {queue.name: queue.give_up_to for queue in needed.queues if queue.give_up_to is not None}


NOTE = (
    f"the dead letters of take-payment go to arn:aws:sqs:eu-west-1:{THERE}:take-payment-dead-letters, and SQS moves "
    "records within an account alone: what it gives up goes to a queue of take-payment here"
)


@pytest.mark.parametrize(
    ("account", "unless"),
    [(HERE, ""), (None, "; where it is of this account, say so by account = in the options")],
)
def test_what_sqs_gives_up_stays_in_the_account_where_the_dead_letters_are_in_another(
    account: str | None, unless: str
) -> None:
    needed, options = elsewhere("take-payment-dead-letters", account)
    assert given_up(needed)["take-payment-killed"] == "take-payment-undelivered"
    assert f"{NOTE}{unless}" in needed.notes
    assert f"{THERE}:take-payment-dead-letters" not in str(redrives(needed, options))
    assert "SQS from" not in of_queue(needed, options, "take-payment-dead-letters")
    assert "SQS from take-payment-killed" in of_queue(needed, options, "take-payment-undelivered")


@pytest.mark.parametrize("account", [HERE, None])
def test_what_sqs_gives_up_goes_to_the_dead_letters_that_are_made_here(account: str | None) -> None:
    options = DeployOptions.model_validate({} if account is None else {"account": account})
    assert given_up(needs(PAYMENTS, options=options))["take-payment-killed"] == "take-payment-dead-letters"


def redrives(needed: Deployment, options: DeployOptions) -> list[Any]:
    resources = json.loads(cloudformation(needed, options))["Resources"].values()
    return [each["Properties"].get("RedrivePolicy") for each in resources if each["Type"] == "AWS::SQS::Queue"]


def of_queue(needed: Deployment, options: DeployOptions, name: str) -> str:
    """The lines of the audit about a queue."""
    queues = audited(needed, options).partition("\nqueues\n")[2]
    return queues.partition(f"  {name}, ")[2].partition("\n  t")[0]


def test_dead_letters_by_the_arn_of_a_queue_of_this_account_take_what_sqs_gives_up() -> None:
    needed, options = elsewhere("take-payment-dead-letters", THERE)
    assert given_up(needed)["take-payment-killed"] == "take-payment-dead-letters"
    assert [note for note in needed.notes if "SQS moves" in note] == []
    assert "SQS from take-payment-killed" in of_queue(needed, options, "take-payment-dead-letters")


def test_without_a_dlq_handler_a_queue_gives_up_within_its_account_too(deploy: Deploy) -> None:
    dead = Queue(f"arn:aws:sqs:eu-west-1:{THERE}:dead")
    alone = made((Alone,), dead_letters=dead)
    assert given_up(deploy(handler=lambda_handler(alone))) == {"own": "own-killed"}
    assert given_up(deploy({"account": THERE}, handler=lambda_handler(alone))) == {"own": "dead"}


def test_the_redrive_policy_of_an_inbox_of_another_account_is_its_owners() -> None:
    needed, options = elsewhere("payments")
    [note] = [note for note in needed.notes if "its owner sets" in note]
    assert note == (
        f"take-payment-charge-card reads arn:aws:sqs:eu-west-1:{THERE}:payments, of another account: its owner sets "
        "the redrive policy, to a queue of that account, which no function here reads"
    )
    killed = of_queue(needed, options, "take-payment-killed")
    assert "sent to by SQS from payments-to-book\n" in killed
    needed, options = elsewhere("payments", None)
    assert [note for note in needed.notes if "its owner sets" in note] == []
    assert "SQS from payments, SQS from payments-to-book" in of_queue(needed, options, "take-payment-killed")


def watched(needed: Deployment, options: DeployOptions) -> set[str]:
    """The queues that have an alarm."""
    resources = json.loads(cloudformation(needed, options))["Resources"].values()
    alarms = [each["Properties"] for each in resources if each["Type"] == "AWS::CloudWatch::Alarm"]
    named = [(each["Name"], each["Value"]) for alarm in alarms for each in alarm["Dimensions"]]
    return {value for name, value in named if name == "QueueName"}


@pytest.mark.parametrize("queue", ["payments", "take-payment-dead-letters"])
def test_a_queue_of_another_account_has_no_alarm_that_could_not_ring(queue: str) -> None:
    needed, options = elsewhere(queue)
    assert queue not in watched(needed, options)
    [note] = [note for note in needed.notes if "no alarm here" in note]
    assert note == (
        f"arn:aws:sqs:eu-west-1:{THERE}:{queue} has no alarm here: the metrics of a queue are in its own account, "
        "where its owner makes one"
    )


@pytest.mark.parametrize("account", [THERE, None])
def test_one_that_is_of_this_account_or_may_be_has_its_alarm(account: str | None) -> None:
    needed, options = elsewhere("take-payment-dead-letters", account)
    assert "take-payment-dead-letters" in watched(needed, options)
    assert [note for note in needed.notes if "no alarm here" in note] == []


INDEX = (
    "[tables.flowguard] run_index adds nothing to a table that is there already: add the index runs-by-status of "
    "status and pk, with its keys alone, by aws dynamodb update-table; flowguard doctor says whether it is there"
)


@pytest.mark.parametrize(
    ("chosen", "is_noted"),
    [
        ({"run_index": True, "existing": True}, True),
        ({"run_index": True, "name": f"arn:aws:dynamodb:eu-west-1:{THERE}:table/runs"}, True),
        ({"run_index": True}, False),
        ({"existing": True}, False),
    ],
)
def test_an_index_of_a_table_that_is_there_is_to_be_added_by_hand(chosen: dict[str, Any], is_noted: bool) -> None:
    options = DeployOptions.model_validate({"tables": {"flowguard": chosen}})
    told = [note for note in needs(PAYMENTS, options=options).notes if "run_index" in note]
    assert told == [INDEX] * is_noted


def test_a_topic_that_no_rule_renames_has_no_note() -> None:
    arn = f"arn:aws:sns:eu-west-1:{THERE}:orders"
    assert list(renamed_topics([arn], DeployOptions())) == []


def test_so_is_one_that_the_code_names() -> None:
    key = TableKey(("id",), ("S",), (TableIndex("by-day", ("day",), ("N",)),))
    options = DeployOptions.model_validate({"tables": {"orders": {"existing": True}}})
    there, made = (TableNeed("orders", key, None, existing=existing) for existing in (True, False))
    [note] = _indexed([there], options)
    assert note == (
        "[tables.orders] TABLES adds nothing to a table that is there already: add the index by-day of day, with all "
        "attributes, by aws dynamodb update-table; flowguard doctor says whether it is there"
    )
    assert list(_indexed([made], DeployOptions())) == []


OWN = QueueNeed("own", Role.OUTSIDE, existing=False, retention=86_400, arn=f"arn:aws:sqs:eu-west-1:{THERE}:own")
PAY = f"arn:aws:sqs:eu-west-1:{THERE}:payments"


@pytest.mark.parametrize(
    ("section", "chosen", "unheeded"),
    [
        ("queues", {"existing": True, "senders": ["shop"], "max_receive_count": 5}, "senders, max_receive_count"),
        ("queues", {"name": PAY, "senders": ["shop"]}, "senders"),
        ("queues", {"existing": True}, None),
        ("queues", {"senders": ["shop"]}, None),
        ("tables", {"existing": True, "warm_reads": 12_000}, "warm_reads"),
        ("topics", {"existing": True, "buckets": ["uploads"]}, "buckets"),
    ],
)
def test_options_that_change_nothing_of_what_is_there_are_noted(
    section: str, chosen: dict[str, Any], unheeded: str | None
) -> None:
    name = "payments"
    options = DeployOptions.model_validate({"account": HERE, section: {name: chosen}})
    noted = [note for note in needs(PAYMENTS, options=options).notes if "changes nothing" in note]
    text = f"[{section}.{name}] {unheeded} changes nothing at AWS: no template changes what is there already, "
    assert noted == ([] if unheeded is None else [f"{text}nor its policy; its owner does"])


def test_senders_of_a_queue_that_the_code_names_by_its_arn_are_noted() -> None:
    options = DeployOptions.model_validate({"queues": {"own": {"senders": ["shop"]}}})
    found = existing_notes((), [OWN, replace(OWN, arn=None, name="other")], (), options)
    assert [note.partition(" changes")[0] for note in found] == ["[queues.own] senders"]
    others = DeployOptions.model_validate({"account": HERE, "topics": {"own": {"buckets": ["uploads"]}}})
    assert [*existing_notes((), [OWN], (), others)] == [], "nor is a queue that nobody here reads"


class Letters(NamedTuple):
    """What a flow says of its dead letters."""

    dead_letters: Destination
    name: str = "letters"


@pytest.mark.parametrize(("dead", "is_noted"), [(Queue("own"), True), (Queue("there"), False), (Topic(PAY), False)])
def test_dead_letters_that_the_code_names_by_an_arn_are_noted(dead: Destination, is_noted: bool) -> None:
    flows: Any = [Letters(dead)]
    found = existing_notes(flows, [OWN, replace(OWN, arn=None, name="there")], (), DeployOptions(account=HERE))
    told = f"the dead letters of letters go to {OWN.arn}, and SQS moves"
    assert [note.startswith(told) for note in found] == [True] * is_noted


@pytest.mark.parametrize(("account", "is_noted"), [(HERE, True), (THERE, False), (None, False)])
def test_what_operators_of_another_account_cannot_do_is_noted(account: str | None, is_noted: bool) -> None:
    given = {} if account is None else {"account": account}
    roles = ["on-call", f"arn:aws:iam::{THERE}:role/on-call"]
    options = DeployOptions.model_validate({**given, "operators": roles})
    noted = [note for note in needs(PAYMENTS, options=options).notes if "SQS starts no redrive" in note]
    text = (
        f"{roles[1]} may send to the queues here, and no more: SQS starts no redrive for another account, and dead "
        f"letters and the run table are read from {HERE}; let operators take a role of {HERE}"
    )
    assert noted == [text] * is_noted


SECRET = f"arn:aws:secretsmanager:eu-west-1:{THERE}:secret:keys-1a2b3c"
UNDER = f"is under a key of its owner's own, whose policy lets {HERE} decrypt"
READ = f"is of the account {THERE}: its owner lets this account read it, as --foreign-policies prints; it {UNDER}"


@pytest.mark.parametrize(
    ("given", "note"),
    [
        (
            {"settings": {"signing_keys": f"ssm:arn:aws:ssm:eu-west-1:{THERE}:parameter/keys"}},
            f"settings.signing_keys is of the account {THERE}: its owner shares it by AWS RAM, as an advanced "
            f"parameter; a SecureString {UNDER}",
        ),
        ({"settings": {"token_keys": f"secretsmanager:{SECRET}"}}, f"settings.token_keys {READ}"),
        ({"streams": {"bank": {"secret": SECRET}}}, f"streams.bank.secret {READ}"),
        ({"settings": {"signing_keys": "ssm:/keys", "token_keys": "secretsmanager:keys"}}, None),
        ({"streams": {"bank": {"secret": SECRET.replace(THERE, HERE)}}}, None),
    ],
)
def test_secrets_and_parameters_of_another_account_need_more_than_a_policy(
    given: dict[str, Any], note: str | None
) -> None:
    found = existing_notes((), (), (), DeployOptions.model_validate({"account": HERE, **given}))
    assert [*found] == ([] if note is None else [note])
    assert [*existing_notes((), (), (), DeployOptions.model_validate(given))] == []
