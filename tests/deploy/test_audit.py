"""Who may do what to what: the same as the template says, in words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner

from flowguard.cli import main
from flowguard.deploy.audit import audited, audited_json
from flowguard.deploy.cloudformation import cloudformation
from flowguard.deploy.key_policy import key_policies
from flowguard.deploy.needs import Deployment, Target
from flowguard.deploy.options import DeployOptions
from tests.deploy import everything
from tests.deploy.exercised import needs
from tests.deploy.templates import MODULES, options_of, template

ALL_NETWORKS: Final = "all network interfaces of the account"


def audit_of(name: str) -> str:
    return audited(needs(MODULES[name], options=options_of(name)), options_of(name))


def part(text: str, head: str) -> list[str]:
    """The lines under the one that begins so."""
    lines = text.splitlines()
    start = next(place for place, line in enumerate(lines) if line.startswith(f"  {head},"))
    rest = lines[start + 1 :]
    end = next((place for place, line in enumerate(rest) if not line.startswith("    ")), len(rest))
    return [line.strip() for line in rest[:end]]


def of_queue(text: str, name: str) -> list[str]:
    """A function may have the same name."""
    return part(text.partition("\nqueues\n")[2], name)


@pytest.mark.parametrize("name", MODULES)
def test_each_permission_of_a_role_is_named_with_its_resource(name: str) -> None:
    text = audit_of(name)
    for function in needs(MODULES[name], options=options_of(name)).functions:
        named = part(text, function.name)
        for permission in function.permissions if function.role is None else ():
            through = f" through {', '.join(permission.via)}" if permission.via else ""
            allowed = f": {', '.join(permission.actions)}{through}"
            is_network = permission.on is Target.NETWORK
            if permission.on is Target.BUCKET:
                bucket, _, keys = permission.name.partition("/")
                assert f"bucket {bucket}: s3:ListBucket of {keys}" in named
                continue
            resource = ALL_NETWORKS if is_network else f"{permission.target} {permission.name}".rstrip()
            assert resource + allowed in named


@pytest.mark.parametrize("name", MODULES)
def test_a_queue_is_said_to_be_closed_where_its_policy_denies_others(name: str) -> None:
    text, resources = audit_of(name), template(name)["Resources"]
    denied = {
        resources[one["Properties"]["Queues"][0]["Ref"]]["Properties"]["QueueName"]
        for one in resources.values()
        if one["Type"] == "AWS::SQS::QueuePolicy" and "Deny" in json.dumps(one)
    }
    made = {one["Properties"]["QueueName"] for one in resources.values() if one["Type"] == "AWS::SQS::Queue"}
    closed = {queue for queue in made if "its policy denies all others to send" in of_queue(text, queue)}
    assert closed == denied


def test_who_else_sends_and_reads_is_named() -> None:
    text = audit_of("everything")
    [_, news, *_] = [line for line in of_queue(text, "everything-news.fifo") if line.startswith(("read", "sent"))]
    assert news == "sent to by the topic arn:aws:sns:eu-west-1:123456789012:news.fifo"
    [events] = [line for line in of_queue(text, "everything-events") if line.startswith("sent")]
    assert events == "sent to by the bus default"
    [waiting] = [line for line in of_queue(text, "everything") if line.startswith("sent")]
    assert "EventBridge Scheduler" in waiting
    [killed] = [line for line in of_queue(text, "everything-killed") if line.startswith("sent")]
    assert "SQS from everything-pack" in killed
    assert "  parcels, outside, not made here" in text
    assert "  everything-ship, by arn:aws:iam::123456789012:role/shipping, which is not looked at here" in text
    assert "and what arn:aws:iam::aws:policy/AWSXRayDaemonWriteAccess allows" in part(text, "everything-pack")
    assert "anybody may call its URL; it answers those who have a token" in part(text, "everything-answers-url")


def test_who_may_start_runs_by_a_url_is_named() -> None:
    text = audit_of("starting")
    assert "who may by IAM calls its URL, and starts runs" in part(text, "shipping-start")
    assert "anybody may call its URL, and starts runs" in part(text, "shipping-start-public")


def test_operators_and_senders_of_the_options_are_named() -> None:
    on_call, shop = "arn:aws:iam::123456789012:role/on-call", "arn:aws:iam::123456789012:role/shop"
    given: dict[str, Any] = {"operators": [on_call], "queues": {"payments": {"senders": [shop]}}}
    options = DeployOptions.model_validate(given)
    text = audited(needs("flows.take_payment.handlers", options=options), options)
    [payments] = [line for line in of_queue(text, "payments") if line.startswith("sent")]
    assert payments.endswith(f"{shop}, {on_call}")
    for queue in ("payments", "payments-to-book", "take-payment-killed"):
        assert of_queue(text, queue)[-1] == "its policy denies all others to send"
    assert on_call not in "".join(of_queue(text, "take-payment-dead-letters")), "nobody sends letters to letters"


def test_in_a_vpc_a_role_may_use_network_interfaces() -> None:
    network = {"subnets": ["subnet-1"], "security_groups": ["sg-1"]}
    options = DeployOptions.model_validate({**everything.OPTIONS, "vpc": network, "tracing": True})
    text = audited(needs("tests.deploy.everything", options=options), options)
    [line] = [line for line in part(text, "everything-pack") if "ec2:" in line]
    assert line.startswith("all network interfaces of the account: ec2:AssignPrivateIpAddresses, ")
    traces = "all traces of the account: xray:PutTelemetryRecords, xray:PutTraceSegments"
    assert traces in part(text, "everything-pack")


KEY: Final = "arn:aws:kms:eu-west-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"
BOUNDS: Final = "arn:aws:iam::123456789012:policy/bounds"


def secured(name: str, **more: Any) -> tuple[str, Deployment, DeployOptions]:
    given = {**everything.OPTIONS, "kms_key": KEY, "permissions_boundary": BOUNDS, **more}
    options = DeployOptions.model_validate(given if name == "everything" else {"kms_key": KEY, **more})
    needed = needs(MODULES[name], options=options)
    return audited(needed, options), needed, options


def test_the_scheduler_is_an_actor_as_the_template_has_its_role() -> None:
    text, needed, options = secured("everything")
    role = json.loads(cloudformation(needed, options))["Resources"]["SchedulerRole"]["Properties"]
    lines = part(text.partition("\nscheduler\n")[2], "EventBridge Scheduler")
    assumed, boundary, *allowed = lines
    group = "for the group of schedules flowguard of this account"
    assert (assumed, boundary) == (
        f"assumed by scheduler.amazonaws.com alone, {group}",
        f"within the boundary {BOUNDS}",
    )
    [policy] = role["Policies"]
    said = [line.rpartition(": ")[2].partition(" ")[0].removesuffix(",") for line in allowed]
    made = [
        action
        for statement in policy["PolicyDocument"]["Statement"]
        for resource in ([0] if isinstance(statement["Resource"], str) else statement["Resource"])
        for action in [statement["Action"] if isinstance(statement["Action"], str) else statement["Action"][0]]
    ]
    assert said == made
    assert {statement["Effect"] for statement in policy["PolicyDocument"]["Statement"]} == {"Allow"}
    assert f"key {KEY}: kms:Decrypt, kms:GenerateDataKey through sqs" in allowed
    assert f"key {KEY}: kms:Decrypt through scheduler" in allowed
    waiting = {queue.name for queue in needed.queues if "EventBridge Scheduler" in "".join(of_queue(text, queue.name))}
    assert {line.partition(":")[0] for line in allowed if line.startswith("queue ")} == {
        f"queue {name}" for name in waiting
    }


def test_a_scheduler_with_a_role_that_is_there_is_not_looked_at() -> None:
    settings = {**everything.OPTIONS["settings"], "scheduler_role": "sends-later"}
    text, *_ = secured("everything", settings=settings)
    assert "  EventBridge Scheduler, by sends-later, which is not looked at here\n\nqueues" in text
    assert "\nscheduler\n" not in audit_of("take_payment"), "no flow there has schedules"


def test_who_assumes_a_role_and_what_bounds_it_is_named() -> None:
    text, needed, _ = secured("everything")
    for function in needed.functions:
        own = ["assumed by lambda.amazonaws.com alone", f"within the boundary {BOUNDS}"]
        assert (
            part(text, function.name)[:2] == own if function.role is None else own[0] not in part(text, function.name)
        )
    assert "boundary" not in audit_of("take_payment")


def test_who_uses_a_key_is_what_its_policy_has() -> None:
    text, needed, options = secured("take_payment")
    [policy] = json.loads(key_policies(needed, options)).values()
    lines = [line.strip() for line in text.partition(f"keys\n  {KEY}, whose policy needs\n")[2].splitlines()]
    assert [line.partition(",")[0] for line in lines] == [one["Sid"] for one in policy["Statement"]]
    root = "arn:aws:iam::123456789012:root"
    assert f"FunctionsLambda, for {root}: kms:Decrypt where kms:ViaService is lambda.eu-west-1.amazonaws.com" in lines
    [logs] = [line for line in lines if line.startswith("Logs, for logs.eu-west-1.amazonaws.com: kms:Decrypt, ")]
    assert " where kms:EncryptionContext:aws:logs:arn is arn:aws:logs:eu-west-1:123456789012:log-group:" in logs
    assert " or arn:aws:logs:" in logs
    assert "keys" not in audit_of("take_payment").splitlines()


def test_a_key_that_another_stack_exports_has_no_statements_yet(tmp_path: Path) -> None:
    (tmp_path / "options.toml").write_text('kms_key = "import:Key"\n')
    command = ["iac", "flows.take_payment.handlers", "--options", str(tmp_path / "options.toml"), "--audit"]
    ran = CliRunner().invoke(main, command)
    assert ran.stdout.endswith("keys\n  import:Key, whose policy needs what the deployment tells\n")


def test_a_role_that_sends_and_operates_is_named_once() -> None:
    both = "arn:aws:iam::123456789012:role/on-call"
    options = DeployOptions.model_validate({"operators": [both], "queues": {"payments": {"senders": [both]}}})
    text = audited(needs("flows.take_payment.handlers", options=options), options)
    assert "".join(of_queue(text, "payments")).count(both) == 1


def test_the_command_prints_it_and_no_template() -> None:
    ran = CliRunner().invoke(main, ["iac", "flows.take_payment.handlers", "--audit"])
    assert (ran.exit_code, ran.stdout) == (0, audit_of("take_payment") + "\n")
    refused = CliRunner().invoke(main, ["iac", "flows.take_payment.handlers", "--audit", "--key-policy"])
    assert refused.exit_code == 2
    assert "--audit and --key-policy are two formats" in refused.stderr


def test_the_command_prints_the_same_as_json() -> None:
    ran = CliRunner().invoke(main, ["iac", "flows.take_payment.handlers", "--audit", "--json"])
    facts, text = json.loads(ran.stdout), audit_of("take_payment")
    for function in facts["functions"]:
        named = part(text, function["name"])
        assert named
        assert (function["assumed_by"], function["boundary"]) == ("lambda.amazonaws.com", None)
        for one in function["permissions"]:
            assert f"{one['on']} {one['name']}: {', '.join(one['actions'])}" in named
    for queue in facts["queues"]:
        assert f"read by {queue['reader'] or 'nobody here'}" in of_queue(text, queue["name"])
        assert f"sent to by {', '.join(queue['senders']) or 'nobody here'}" in of_queue(text, queue["name"])
        closed = "its policy denies all others to send" in of_queue(text, queue["name"])
        assert queue["denies_others"] is closed


READ: Final = Path(__file__).with_name("audited.txt")
"""What was read through once, of a deployment that has everything: ``python -m tests.deploy.test_audit`` writes it."""


def all_of_it() -> str:
    elsewhere = "arn:aws:iam::210987654321:role/shop"
    queues = {**everything.OPTIONS["queues"], "everything-pack": {"senders": [elsewhere]}}
    return secured("everything", account="123456789012", operators=["on-call"], queues=queues)[0]


def test_a_reviewer_reads_what_was_read_before() -> None:
    assert f"{all_of_it()}\n" == READ.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("account", "elsewhere", "moved"),
    [
        ("210987654321", "payments-to-book", ["SQS from payments"]),
        (None, "payments-to-book", ["SQS from book", "SQS from payments"]),
        ("210987654321", "take-payment-killed", []),
        ("111111111111", "take-payment-killed", ["SQS from payments", "SQS from payments-to-book"]),
    ],
)
def test_sqs_moves_nothing_to_another_account(account: str | None, elsewhere: str, moved: list[str]) -> None:
    options = DeployOptions.model_validate(
        {"account": account, "queues": {elsewhere: {"name": "arn:aws:sqs:eu-west-1:111111111111:book"}}}
    )
    text = audited(needs("flows.take_payment.handlers", options=options), options)
    killed = "book" if elsewhere == "take-payment-killed" else "take-payment-killed"
    [sent] = [line for line in of_queue(text, killed) if line.startswith("sent")]
    assert [who for who in sorted(sent.removeprefix("sent to by ").split(", ")) if who.startswith("SQS")] == moved


def test_a_bucket_that_tells_a_queue_sends_to_it() -> None:
    [sent] = [line for line in of_queue(audit_of("uploading"), "files") if line.startswith("sent")]
    assert "the bucket uploads" in sent


def test_of_a_queue_that_is_there_nothing_is_said_of_who_is_denied() -> None:
    for existing in (True, False):
        given: dict[str, Any] = {"operators": ["on-call"], "queues": {"take-payment-killed": {"existing": existing}}}
        options = DeployOptions.model_validate(given)
        facts = json.loads(audited_json(needs("flows.take_payment.handlers", options=options), options))
        [killed] = [queue for queue in facts["queues"] if queue["name"] == "take-payment-killed"]
        assert (killed["made"], killed["denies_others"]) == (not existing, not existing)


def test_senders_of_two_other_accounts_use_a_key_too() -> None:
    roles = [f"arn:aws:iam::{account}:role/shop" for account in ("210987654321", "321098765432")]
    text, *_ = secured("take_payment", account="123456789012", queues={"payments": {"senders": roles}})
    assert ", for arn:aws:iam::210987654321:root, arn:aws:iam::321098765432:root: kms:" in text


if __name__ == "__main__":
    READ.write_text(f"{all_of_it()}\n", encoding="utf-8")
