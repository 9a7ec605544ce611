"""A customer's key: what is under it, who may use it through which service, and what its own policy needs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner

from flowguard.cli import main
from flowguard.cli.iac import FORMATS
from flowguard.deploy.arns import statements_of
from flowguard.deploy.audit import audited
from flowguard.deploy.codec_uses import FLOW, OF_ENVIRONMENT
from flowguard.deploy.key_policy import key_policies, key_policy
from flowguard.deploy.key_uses import under_keys
from flowguard.deploy.needs import Deployment, Permission, Role, ScheduleNeed, Target
from flowguard.deploy.options import DeployOptions
from flowguard.deploy.problems import CannotDeploy
from tests.deploy import everything
from tests.deploy.exercised import needs
from tests.deploy.stated import Facts, stated
from tests.deploy.test_formats_agree import FORMS

KEY: Final = "arn:aws:kms:eu-west-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"
THEIRS: Final = "arn:aws:kms:eu-west-1:210987654321:key/mrk-0123456789abcdef0123456789abcdef"
VIA: Final = "kms:ViaService"
PLAIN: Final = DeployOptions.model_validate(everything.OPTIONS)
OPTIONS: Final = PLAIN.model_copy(update={"kms_key": KEY})

ITEMS: Final = [
    *("kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey", "kms:GenerateDataKeyWithoutPlaintext"),
    *("kms:ReEncryptFrom", "kms:ReEncryptTo"),
]


def deployment() -> Deployment:
    return needs("tests.deploy.everything", options=OPTIONS)


def facts_of(form: str) -> Facts:
    return stated(json.loads(FORMATS[form](deployment(), OPTIONS)))


@pytest.fixture(params=FORMS)
def said(request: pytest.FixtureRequest) -> Facts:
    return facts_of(request.param)


def with_options(**given: Any) -> tuple[Deployment, DeployOptions]:
    options = DeployOptions.model_validate({**everything.OPTIONS, **given})
    return needs("tests.deploy.everything", options=options), options


# -- what is under it


def test_everything_that_is_made_and_holds_data_is_under_it(said: Facts) -> None:
    under = {"queue": "KmsMasterKeyId", "topic": "KmsMasterKeyId", "logs": "KmsKeyId", "function": "KmsKeyArn"}
    tables = [fact["SSESpecification"] for (kind, _), fact in said.items() if kind == "table"]
    of_table = {"SSEEnabled": True, "SSEType": "KMS", "KMSMasterKeyId": KEY}
    assert tables == [of_table] * 3
    for kind, name in under.items():
        found = [fact[name] for (one, _), fact in said.items() if one == kind]
        assert found
        assert set(found) == {KEY}
    assert not any("SqsManagedSseEnabled" in fact for (kind, _), fact in said.items() if kind == "queue")


@pytest.mark.parametrize("form", FORMS)
def test_the_secret_that_is_made_is_under_it(form: str) -> None:
    options = DeployOptions(kms_key=KEY)
    facts = stated(json.loads(FORMATS[form](needs("flows.approval.handlers", options=options), options)))
    [secret] = [fact for (kind, _), fact in facts.items() if kind == "secret"]
    assert secret["KmsKeyId"] == KEY


@pytest.mark.parametrize("form", FORMS)
def test_nothing_names_a_key_where_none_is_given(form: str) -> None:
    needed = needs("tests.deploy.everything", options=PLAIN)
    text = FORMATS[form](needed, PLAIN)
    assert "kms" not in text.lower()
    assert '"SqsManagedSseEnabled": true' in text or '"sqs_managed_sse_enabled": true' in text


def test_what_is_there_already_is_under_a_key_of_its_own_or_under_none() -> None:
    own = {"existing": True, "kms_key": THEIRS}
    needed, _ = with_options(
        kms_key=KEY,
        tables={"orders-a": own, "lines": {"kms_key": THEIRS}},
        queues={"parcels": own, "replies": {"existing": True}},
        topics={"orders-placed": own, "news.fifo": {"name": "arn:aws:sns:eu-west-1:210987654321:news.fifo"}},
    )
    assert {one.name: one.kms_key for one in needed.tables if one.kms_key != KEY} == {
        "orders-a": THEIRS,
        "lines": THEIRS,
    }
    queues = {one.name: one.kms_key for one in needed.queues if one.kms_key != KEY}
    assert queues == {"parcels": THEIRS, "replies": None, "theirs": None, "answers-here": None}
    assert {one.name: one.kms_key for one in needed.topics} == {"orders-placed": THEIRS, "news.fifo": None}


def test_what_is_there_already_has_no_key_that_is_not_named() -> None:
    needed = deployment()
    assert {one.name for one in needed.tables if one.kms_key is None} == {"orders-a"}
    assert {one.name for one in needed.topics if one.kms_key is None} == {"orders-placed"}
    assert "parcels" in {one.name for one in needed.queues if one.kms_key is None}


def test_other_options_of_a_table_and_a_name_here_leave_it_under_the_deployments_key() -> None:
    needed, _ = with_options(kms_key=KEY, tables={"lines": {"warm_writes": 5_000}, "orders.a": {"name": "orders-2"}})
    keys = {one.name: one.kms_key for one in needed.tables}
    assert (keys["lines"], keys["orders-2"]) == (KEY, KEY)


# -- who may use it


def of_keys(needed: Deployment, function: str) -> dict[tuple[str, str], list[str]]:
    """What a function may do with each key, through each service."""
    found: dict[tuple[str, str], list[str]] = {}
    for one in needed.function(function).permissions:
        if one.on is Target.KEY:
            found |= {(one.name, service): [*one.actions] for service in one.via}
    return found


SENDS: Final = ["kms:Decrypt", "kms:GenerateDataKey"]


def test_a_function_may_use_it_through_the_services_that_it_calls() -> None:
    assert of_keys(deployment(), "everything-pack") == {
        (KEY, "dynamodb"): ITEMS,
        (KEY, "lambda"): ["kms:Decrypt"],
        (KEY, "s3"): SENDS,
        (KEY, "scheduler"): ["kms:Decrypt", "kms:DescribeKey", "kms:GenerateDataKey"],
        (KEY, "secretsmanager"): ["kms:Decrypt"],
        (KEY, "sns"): SENDS,
        (KEY, "sqs"): SENDS,
        (KEY, "ssm"): ["kms:Decrypt"],
    }


def test_a_queue_that_nobody_has_planned_has_no_key() -> None:
    needed = under_keys(replace(deployment(), queues=(), functions=deployment().functions), OPTIONS)
    assert [one.name for one in needed.functions] == [one.name for one in deployment().functions]


def test_who_only_receives_may_not_make_data_keys() -> None:
    needed = needs("tests.deploy.charging", options=DeployOptions(kms_key=KEY))
    assert of_keys(needed, needed.functions[0].name) == {
        (KEY, "dynamodb"): ITEMS,
        (KEY, "lambda"): ["kms:Decrypt"],
        (KEY, "sqs"): ["kms:Decrypt"],
    }


def test_each_key_of_what_is_there_may_be_used_as_its_own() -> None:
    needed, _ = with_options(tables={"orders-a": {"existing": True, "kms_key": THEIRS}}, bucket_key=KEY)
    assert of_keys(needed, "everything-ship")[THEIRS, "dynamodb"] == ITEMS
    assert of_keys(needed, "everything-ship")[KEY, "s3"] == SENDS
    assert (KEY, "sqs") not in of_keys(needed, "everything-ship")


def test_who_reads_what_sqs_gives_up_may_use_the_key_of_where_it_was() -> None:
    needed, _ = with_options(queues={"everything-events": {"kms_key": THEIRS}})
    assert of_keys(needed, "everything-killed") == {(THEIRS, "sqs"): ["kms:Decrypt"]}
    needed, _ = with_options(queues={"everything-pack": {"kms_key": THEIRS}})
    assert of_keys(needed, "everything-killed") == {(THEIRS, "sqs"): ["kms:Decrypt", "kms:GenerateDataKey"]}, (
        "a record goes back there"
    )


def test_a_key_of_one_queue_is_nothing_to_who_reads_others() -> None:
    needed, _ = with_options(kms_key=KEY, queues={"everything-pack": {"kms_key": THEIRS}})
    readers = {one.name for one in needed.functions if (THEIRS, "sqs") in of_keys(needed, one.name)}
    assert readers == {"everything-pack", "everything-killed"}


def test_who_only_sends_may_not_open_what_sqs_moves_there() -> None:
    needed, options = with_options(queues={"everything-pack": {"kms_key": THEIRS}})
    sends = Permission(Target.QUEUE.value, "everything-killed", ("sqs:SendMessage",))
    sender = replace(needed.function("everything-killed"), permissions=(sends,))
    placed = under_keys(replace(needed, functions=(sender,)), options)
    assert of_keys(placed, "everything-killed") == {}


def test_a_statement_names_one_key_and_the_services_in_its_region() -> None:
    needed, _ = with_options(kms_key=KEY, bucket_key=THEIRS.replace("eu-west-1", "eu-north-1"))
    statements = [
        one for one in statements_of(needed, needed.function("everything-pack")) if one.actions[0].startswith("kms:")
    ]
    assert all(len(one.arns) == 1 for one in statements)
    for one in statements:
        [services] = one.condition("1" * 12)["Condition"]["StringEquals"].values()
        region = str(one.arns[0].whole).split(":")[3]
        assert services == [f"{service}.{region}.amazonaws.com" for service in one.via]
        assert [*one.contexts("1" * 12)] == [
            {"kms:ViaService": service, FLOW: None, OF_ENVIRONMENT: None} for service in services
        ]


def test_the_scheduler_may_send_to_queues_under_it_and_open_what_it_has_kept(said: Facts) -> None:
    statements = said["role", "scheduler"]["Policy"]["Statement"]
    [send, queues, kept] = statements
    assert send["Action"] == "sqs:SendMessage"
    assert (queues["Action"], queues["Resource"]) == (SENDS, KEY)
    assert queues["Condition"] == {"StringEquals": {"kms:ViaService": ["sqs.eu-west-1.amazonaws.com"]}}
    assert (kept["Action"], kept["Resource"]) == (["kms:Decrypt"], KEY)
    schedules = "arn:{partition}:scheduler:{region}:{account}:schedule/flowguard/*"
    assert kept["Condition"] == {"ArnLike": {"kms:EncryptionContext:aws:scheduler:schedule:arn": schedules}}


def test_functions_that_make_schedules_say_the_key_and_no_others() -> None:
    for function in deployment().functions:
        variables = dict(function.environment)
        expected = KEY if "FLOWGUARD_SCHEDULER_GROUP" in variables else None
        assert variables.get("FLOWGUARD_SCHEDULER_KEY") == expected
    assert any("FLOWGUARD_SCHEDULER_KEY" in dict(one.environment) for one in deployment().functions)


# -- whom roles trust, and where they are passed


def test_schedules_of_this_accounts_group_alone_take_the_schedulers_role(said: Facts) -> None:
    [statement] = said["role", "scheduler"]["AssumeRolePolicyDocument"]["Statement"]
    group = "arn:{partition}:scheduler:{region}:{account}:schedule-group/flowguard"
    assert statement["Principal"] == {"Service": "scheduler.amazonaws.com"}
    assert statement["Condition"] == {"StringEquals": {"aws:SourceAccount": "{account}", "aws:SourceArn": group}}


def test_a_role_is_passed_to_the_scheduler_alone(said: Facts) -> None:
    passing = [
        one
        for (kind, _), fact in said.items()
        if kind == "role"
        for one in fact["Policy"]["Statement"]
        if "iam:PassRole" in one["Action"]
    ]
    assert passing
    for one in passing:
        assert one["Condition"] == {"StringEquals": {"iam:PassedToService": "scheduler.amazonaws.com"}}


# -- what the key's own policy needs


def policy(needed: Deployment, options: DeployOptions, key: str = KEY) -> dict[str, Any]:
    document = json.loads(key_policies(needed, options))[key]
    assert document["Version"] == "2012-10-17"
    assert {(one["Effect"], one["Resource"]) for one in document["Statement"]} == {("Allow", "*")}
    return {one["Sid"]: one for one in document["Statement"]}


def test_the_policy_lets_the_services_that_send_and_log_use_the_key() -> None:
    found = policy(deployment(), OPTIONS)
    queues = ["everything-news.fifo", "everything-undelivered.fifo", "everything-pack", "everything-dead-letters"]
    sqs, logs = "arn:aws:sqs:eu-west-1:123456789012", "arn:aws:logs:eu-west-1:123456789012:log-group"
    context = "kms:EncryptionContext:aws:sqs:arn"
    assert found["Topics"]["Principal"] == {"Service": "sns.amazonaws.com"}
    assert found["Topics"]["Condition"] == {"ArnEquals": {context: [f"{sqs}:{name}" for name in queues]}}
    assert found["Rules"]["Principal"] == {"Service": "events.amazonaws.com"}
    fed = ["everything-events", "everything-dead-letters"]
    assert found["Rules"]["Condition"] == {"ArnEquals": {context: [f"{sqs}:{name}" for name in fed]}}
    assert found["Topics"]["Action"] == found["Rules"]["Action"] == SENDS
    assert found["Logs"]["Principal"] == {"Service": "logs.eu-west-1.amazonaws.com"}
    groups = [f"{logs}:/aws/lambda/{one.name}" for one in deployment().functions]
    assert found["Logs"]["Condition"] == {"ArnEquals": {"kms:EncryptionContext:aws:logs:arn": groups}}


def test_the_policy_lets_the_accounts_own_policies_allow_what_roles_need_through_each_service() -> None:
    found = policy(deployment(), OPTIONS)
    root = {"AWS": "arn:aws:iam::123456789012:root"}
    needed = [one for function in deployment().functions for one in function.permissions if one.on is Target.KEY]
    by_service: dict[str, set[str]] = {}
    for one in needed:
        for service in one.via:
            by_service.setdefault(f"{service}.eu-west-1.amazonaws.com", set()).update(one.actions)
    of_functions = [one for name, one in found.items() if name.startswith("Functions")]
    allowed = {service: set(one["Action"]) for one in of_functions for service in one["Condition"]["StringEquals"][VIA]}
    assert allowed == by_service
    assert "FunctionsSnsSqs" in found or "FunctionsS3SnsSqs" in found
    assert found["WhoDeploysGrants"]["Condition"] == {"Bool": {"kms:GrantIsForAWSResource": "true"}}
    assert found["SchedulesAreSent"]["Action"] == ["kms:Decrypt"]
    schedules = "arn:aws:scheduler:eu-west-1:123456789012:schedule/flowguard/*"
    context = {"kms:EncryptionContext:aws:scheduler:schedule:arn": schedules}
    assert found["SchedulesAreSent"]["Condition"] == {"ArnLike": context}
    making = ["kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey*", "kms:ReEncrypt*"]
    assert found["WhoDeploys"]["Action"] == making
    assert found["WhoDeploysGrants"]["Action"] == ["kms:CreateGrant"]
    for name in ("WhoDeploys", "WhoDeploysGrants", "SchedulesAreSent", "Senders"):
        assert found[name]["Principal"] == root
    assert all(one["Principal"] == root for one in of_functions)


@pytest.mark.parametrize(
    ("partition", "region", "principal"),
    [
        ("aws", "eu-west-1", "logs.eu-west-1.amazonaws.com"),
        ("aws-cn", "cn-north-1", "logs.cn-north-1.amazonaws.com.cn"),
        ("aws-us-gov", "us-gov-west-1", "logs.us-gov-west-1.amazonaws.com"),
        ("aws-iso", "us-iso-east-1", "logs.us-iso-east-1.c2s.ic.gov"),
        ("aws-iso-b", "us-isob-east-1", "logs.us-isob-east-1.sc2s.sgov.gov"),
    ],
)
def test_logs_are_a_principal_in_the_domain_of_their_partition(partition: str, region: str, principal: str) -> None:
    key = KEY.replace("arn:aws:kms:eu-west-1", f"arn:{partition}:kms:{region}")
    needed = replace(deployment(), kms_key=key)
    [logs] = [one for one in key_policy(needed, key, OPTIONS)["Statement"] if one["Sid"] == "Logs"]
    assert logs["Principal"] == {"Service": principal}


@pytest.mark.parametrize(("rule", "before", "after"), [("*", "", ""), ("staging-*", "Staging", ""), ("*-qa", "", "Qa")])
def test_the_statements_of_two_environments_stand_in_the_policy_of_one_key(rule: str, before: str, after: str) -> None:
    settings = OPTIONS.settings.model_copy(update={"names": rule})
    options = OPTIONS.model_copy(update={"settings": settings})
    named = {
        one["Sid"] for one in key_policy(needs("tests.deploy.everything", options=options), KEY, options)["Statement"]
    }
    assert named == {f"{before}{name}{after}" for name in policy(deployment(), OPTIONS)}


def made_through(needed: Deployment, key: str = KEY) -> list[str]:
    found = {one["Sid"]: one for one in key_policy(needed, key, OPTIONS)["Statement"]}
    if "WhoDeploys" not in found:
        assert "WhoDeploysGrants" not in found
        return []
    services = [place.split(".")[0] for place in found["WhoDeploys"]["Condition"]["StringEquals"][VIA]]
    assert ("WhoDeploysGrants" in found) == bool({"dynamodb", "lambda"} & set(services))
    if "WhoDeploysGrants" in found:
        through = {} if "lambda" in services else {"StringEquals": {VIA: ["dynamodb.eu-west-1.amazonaws.com"]}}
        assert found["WhoDeploysGrants"]["Condition"] == {"Bool": {"kms:GrantIsForAWSResource": "true"}, **through}
    return services


def test_who_deploys_may_use_it_through_the_services_alone_in_which_something_is_made_under_it() -> None:
    needed = deployment()
    assert made_through(needed) == ["dynamodb", "lambda", "sns", "sqs"], "its signing keys are there already"
    assert made_through(replace(needed, signing_secret="keys")) == [
        *("dynamodb", "lambda", "secretsmanager", "sns", "sqs")
    ]
    assert made_through(replace(needed, signing_secret="keys"), THEIRS) == []
    assert made_through(replace(needed, topics=())) == ["dynamodb", "lambda", "sqs"]
    assert made_through(replace(needed, topics=tuple(replace(one, existing=True) for one in needed.topics))) == [
        *("dynamodb", "lambda", "sqs")
    ]
    there = tuple(replace(one, existing=True, kms_key=KEY) for one in needed.tables)
    assert made_through(replace(needed, tables=there)) == ["lambda", "sns", "sqs"]
    queues = tuple(replace(one, existing=True) for one in needed.queues)
    assert made_through(replace(needed, tables=there, queues=queues, topics=(), functions=())) == []


def test_who_deploys_may_use_it_through_the_scheduler_where_schedules_are_made_under_it() -> None:
    tick = ScheduleNeed("tick", "everything", "everything-pack", "rate(1 day)", "UTC", "{}", "everything-dead-letters")
    needed = replace(deployment(), schedules=(tick,))
    assert made_through(needed)[-1] == "scheduler"
    assert made_through(needed, THEIRS) == []


def test_who_deploys_needs_the_key_of_a_single_table_too() -> None:
    needed, _ = with_options(tables={"lines": {"kms_key": THEIRS}})
    assert made_through(needed, THEIRS) == ["dynamodb"]


def senders(needed: Deployment, options: DeployOptions = OPTIONS) -> dict[str, list[str]]:
    """The queues for which a policy lets others use the key, by the statement."""
    found = policy(needed, options)
    each = {name: one for name, one in found.items() if name.startswith("Senders")}
    assert all(one["Action"] == SENDS for one in each.values())
    assert all(one["Condition"]["StringEquals"] == {VIA: ["sqs.eu-west-1.amazonaws.com"]} for one in each.values())
    context = "kms:EncryptionContext:aws:sqs:arn"
    return {
        name: [arn.rpartition(":")[2] for arn in one["Condition"]["ArnEquals"][context]] for name, one in each.items()
    }


def test_others_of_the_account_may_use_it_for_queues_alone_to_which_they_send() -> None:
    options = DeployOptions(kms_key=KEY)
    needed = needs("flows.take_payment.handlers", options=options)
    closed = {"take-payment-dead-letters"}
    assert set(senders(needed, options)["Senders"]) == {one.name for one in needed.queues if one.made} - closed
    operated = options.model_copy(update={"operators": ("on-call",)})
    assert "payments-to-book" in senders(needed, operated)["Senders"], "operators redrive there"
    named = DeployOptions.model_validate({"kms_key": KEY, "queues": {"take-payment-dead-letters": {"senders": ["x"]}}})
    assert closed <= set(senders(needs("flows.take_payment.handlers", options=named), named)["Senders"])


def test_the_scheduler_may_use_it_for_the_queues_to_which_it_sends() -> None:
    needed = deployment()
    targets = {one.name for one in needed.schedule_targets()} | set(needed.undelivered_by_scheduler)
    assert targets
    assert targets <= set(senders(needed)["Senders"])
    without = replace(needed, flows=(), undelivered_schedules=None)
    closed = {one.name for one in needed.queues if one.role in (Role.ANSWERS, Role.DEAD_LETTERS)}
    assert not closed & set(senders(without)["Senders"])


def test_a_queue_that_is_there_already_has_senders_whom_its_owner_knows() -> None:
    needed, options = with_options(kms_key=KEY, queues={"parcels": {"existing": True, "kms_key": KEY}})
    assert "parcels" not in senders(needed, options)["Senders"]


def test_named_roles_of_another_account_may_use_it_for_their_queues() -> None:
    role = "arn:aws:iam::210987654321:role/asked-elsewhere"
    given = {"kms_key": KEY, "account": "123456789012", "queues": {"validate-cart": {"senders": [role]}}}
    options = DeployOptions.model_validate(given)
    needed = needs("flows.validate_cart.handlers", options=options)
    assert senders(needed, options)["SendersElsewhere"] == ["validate-cart"]
    statement = policy(needed, options)["SendersElsewhere"]
    assert statement["Principal"] == {"AWS": "arn:aws:iam::210987654321:root"}
    assert statement["Condition"]["ArnEquals"]["aws:PrincipalArn"] == [role]
    plain = DeployOptions(kms_key=KEY)
    assert senders(needs("flows.validate_cart.handlers", options=plain), plain).keys() == {"Senders"}


def test_named_roles_of_several_accounts_share_a_statement_which_is_as_large_as_kms_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    roles = [f"arn:aws:iam::{200000000000 + number}:role/asked" for number in range(50)]
    queues = {"validate-cart": {"senders": roles}}
    given = {"kms_key": KEY, "account": "123456789012", "operators": [roles[0]], "queues": queues}
    options = DeployOptions.model_validate(given)
    needed = needs("flows.validate_cart.handlers", options=options)
    statement = policy(needed, options)["SendersElsewhere"]
    assert statement["Principal"] == {"AWS": [role.replace("role/asked", "root") for role in roles]}
    assert statement["Condition"]["ArnEquals"]["aws:PrincipalArn"] == roles
    assert "validate-cart" in senders(needed, options)["SendersElsewhere"]
    size = len(json.dumps(key_policy(needed, KEY, options), separators=(",", ":")))
    monkeypatch.setattr("flowguard.deploy.key_policy.LARGEST_KEY_POLICY", size)
    assert policy(needed, options)
    monkeypatch.setattr("flowguard.deploy.key_policy.LARGEST_KEY_POLICY", size - 1)
    with pytest.raises(CannotDeploy, match=rf"the statements for {KEY} take {size:,} bytes, and KMS .*; give some"):
        key_policies(needed, options)


# -- the topic of the alarms

ON_CALL: Final = "arn:aws:sns:eu-west-1:123456789012:on-call"


def test_cloudwatch_may_use_the_key_of_the_topic_of_the_alarms() -> None:
    options = DeployOptions.model_validate({"alarm_topic": {"arn": ON_CALL, "kms_key": KEY}})
    found = policy(needs("flows.take_payment.handlers", options=options), options)
    assert found.keys() == {"AlarmsAreSent"}
    assert found["AlarmsAreSent"]["Principal"] == {"Service": "cloudwatch.amazonaws.com"}
    assert found["AlarmsAreSent"]["Action"] == SENDS
    assert found["AlarmsAreSent"]["Condition"] == {"ArnEquals": {"kms:EncryptionContext:aws:sns:topicArn": [ON_CALL]}}
    other = OPTIONS.model_copy(update={"alarm_topic": options.alarm_topic})
    assert "AlarmsAreSent" in policy(deployment(), other)
    assert "AlarmsAreSent" not in policy(deployment(), other.model_copy(update={"alarm_topic": None}))
    assert "AlarmsAreSent" not in {one["Sid"] for one in key_policy(deployment(), THEIRS, other)["Statement"]}


@pytest.mark.parametrize("form", FORMS)
def test_the_topic_of_the_alarms_is_the_parameters_default(form: str) -> None:
    options = DeployOptions.model_validate({"alarm_topic": {"arn": ON_CALL}})
    for chosen, default in ((options, ON_CALL), (DeployOptions(), "")):
        found = json.loads(FORMATS[form](needs("flows.take_payment.handlers", options=chosen), chosen))
        given = found["Parameters"]["AlarmTopic"]["Default"] if "Parameters" in found else None
        assert (found["variable"]["alarm_topic"]["default"] if given is None else given) == default


@pytest.mark.parametrize("arn", ["on-call", "arn:aws:sns:eu-west-1:123456789012:on-call.fifo", "arn:aws:sns:x"])
def test_alarms_go_to_a_standard_topic_by_its_arn(arn: str, tmp_path: Path) -> None:
    file = tmp_path / "deploy.toml"
    file.write_text(f'[alarm_topic]\narn = "{arn}"')
    with pytest.raises(CannotDeploy, match="is no ARN of a standard topic"):
        DeployOptions.read(file)


def test_a_key_of_another_account_names_the_account_that_is_deployed_to() -> None:
    options = PLAIN.model_copy(update={"kms_key": THEIRS, "account": "123456789012"})
    found = policy(needs("tests.deploy.everything", options=options), options, THEIRS)
    assert {one["Principal"].get("AWS", "") for one in found.values()} == {"", "arn:aws:iam::123456789012:root"}
    assert "210987654321" not in json.dumps(found)


def test_the_policy_of_a_key_that_is_one_queues_alone_says_no_more() -> None:
    needed, options = with_options(kms_key=THEIRS, queues={"parcels": {"existing": True, "kms_key": KEY}})
    found = policy(needed, options)
    assert found.keys() == {"FunctionsSqs"}
    assert found["FunctionsSqs"]["Action"] == SENDS
    assert found["FunctionsSqs"]["Condition"] == {"StringEquals": {VIA: ["sqs.eu-west-1.amazonaws.com"]}}


def test_the_policy_says_nothing_of_schedules_topics_and_rules_that_are_not_there() -> None:
    options = DeployOptions(kms_key=KEY)
    found = policy(needs("flows.take_payment.handlers", options=options), options)
    of_functions = {name for name in found if name.startswith("Functions")}
    assert of_functions == {"FunctionsDynamodb", "FunctionsLambda", "FunctionsSqs"}
    assert found.keys() - of_functions == {"Senders", "WhoDeploys", "WhoDeploysGrants", "Logs"}


def test_where_no_function_is_deployed_there_are_no_logs() -> None:
    found = key_policy(replace(deployment(), functions=(), queues=()), KEY, OPTIONS)
    assert "Logs" not in {one["Sid"] for one in found["Statement"]}


def test_the_command_prints_the_policy_of_each_key(tmp_path: Path) -> None:
    file = tmp_path / "deploy.toml"
    file.write_text(f'kms_key = "{KEY}"')
    ran = CliRunner().invoke(main, ["iac", "flows.take_payment.handlers", "--options", str(file), "--key-policy"])
    assert ran.exit_code == 0, ran.stderr
    assert list(json.loads(ran.stdout)) == [KEY]
    refused = CliRunner().invoke(main, ["iac", "flows.take_payment.handlers", "--key-policy"])
    assert refused.exit_code == 2
    assert "no key is used; say kms_key" in refused.stderr
    with pytest.raises(CannotDeploy):
        key_policies(needs("flows.take_payment.handlers"), DeployOptions())


def test_the_audit_says_through_what_a_key_is_used_and_what_is_under_it() -> None:
    text = audited(deployment(), OPTIONS)
    assert f"    key {KEY}: kms:Decrypt through lambda, secretsmanager, ssm" in text.splitlines()
    assert f"    under the key {KEY}" in text.splitlines()
