"""``flowguard doctor`` on what an account asks for: keys, bounded roles, kept logs, signed code, a network."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Any, Final

import pytest
from moto import mock_aws

from flowguard.cli.iac import FORMATS
from flowguard.deploy.examination import examine
from flowguard.deploy.finding import LiveFinding, Severity
from flowguard.deploy.live import LiveAccount
from flowguard.deploy.options import DeployOptions
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from tests.deploy.deployed import REGION, Stack, same_on_moto
from tests.deploy.exercised import needs
from tests.deploy.test_doctor import SESSION, Refusing
from tests.deploy.test_keys import KEY, THEIRS

MODULE: Final = "tests.deploy.securing"
BOUNDARY: Final = "arn:aws:iam::123456789012:policy/bounds"
SIGNING: Final = "arn:aws:lambda:eu-west-1:123456789012:code-signing-config:csc-0123456789abcdef0"
OTHER_SIGNING: Final = SIGNING.replace("csc-0", "csc-1")
FUNCTION: Final = "secured-answers"
GROUP: Final = f"/aws/lambda/{FUNCTION}"
ASKED: Final[dict[str, Any]] = {
    "kms_key": KEY,
    "permissions_boundary": BOUNDARY,
    "role_path": "/shop/",
    "code_signing": SIGNING,
    "log_retention": 90,
    "tags": {"team": "checkout", "cost": "c-1"},
    "tracing": True,
    "settings": {"bucket": "long-texts"},
}
OPTIONS: Final = DeployOptions.model_validate(ASKED)
PUT: Final = {"Rules": [{"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": KEY}}]}


@pytest.fixture
def stack(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stack]:
    """All that the template makes, as the options ask for it."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "moto")
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    with mock_aws(), same_on_moto():
        made = Stack(json.loads(FORMATS["cloudformation"](needs(MODULE, options=OPTIONS), OPTIONS)), SESSION)
        s3 = made.client("s3")
        s3.create_bucket(Bucket="long-texts", CreateBucketConfiguration={"LocationConstraint": REGION})
        s3.put_bucket_encryption(Bucket="long-texts", ServerSideEncryptionConfiguration=PUT)
        made.make()
        with intercept(ReadOnce(), innermost=True):
            yield made


class ReadOnce:
    """Keeps moto's answers to reads until their service is written to: most tests examine a deployment again.

    Only the tags of resources are found by another service than their own.
    """

    def __init__(self) -> None:
        self._known: defaultdict[str, dict[str, Response]] = defaultdict(dict)

    def __call__(self, call: ApiCall, proceed: Proceed) -> Response:
        known = self._known[call.service]
        if not call.operation.startswith(("Get", "List", "Describe")):
            known.clear()
        elif call.operation != "GetResources":
            asked = json.dumps((call.operation, call.params), sort_keys=True, default=str)
            if asked not in known:
                known[asked] = proceed()
            return deepcopy(known[asked])
        return proceed()


def findings(options: DeployOptions = OPTIONS) -> list[LiveFinding]:
    """What is found that only an account's own wishes make wrong."""
    needed = needs(MODULE, options=options)
    found = examine(needed, options, LiveAccount(SESSION), now=int(time.time() * 1000), most_runs=0)
    told = ("-other", "trust-open", "trust-missing")
    return [one for one in found if one.rule.endswith(told) or one.severity is Severity.NOTE]


def rules(options: DeployOptions = OPTIONS) -> set[tuple[str, str]]:
    return {(one.rule, one.resource) for one in findings(options) if one.severity is Severity.WARNING}


def asking(**changed: Any) -> DeployOptions:
    return DeployOptions.model_validate({**ASKED, **changed})


def test_nothing_is_wrong_with_what_the_template_makes(stack: Stack) -> None:
    assert rules() == set()
    unread = {one.resource for one in findings() if one.rule == "not-read"}
    assert unread == {"iam:simulate_principal_policy", "lambda:get_function_recursion_config"}


def test_what_is_under_another_key_is_named_each(stack: Stack) -> None:
    others = [one for one in findings(asking(kms_key=THEIRS)) if one.rule == "key-other"]
    assert {one.what for one in others} == {f"it is under the key {KEY}"}
    found = {one.resource for one in others}
    needed = needs(MODULE, options=OPTIONS)
    functions = {one.name for one in needed.functions}
    assert found == {
        *(one.name for one in needed.tables),
        *(one.name for one in needed.queues if one.made),
        *(one.arn for one in needed.topics if not one.existing),
        *functions,
        *(f"/aws/lambda/{name}" for name in functions),
        "long-texts",
        "flowguard/signing-keys",
    }
    assert "arn:aws:sns:eu-west-1:123456789012:decided" in found


def test_a_bucket_may_be_under_a_key_of_its_own(stack: Stack) -> None:
    assert ("key-other", "long-texts") in rules(asking(bucket_key=THEIRS))
    assert ("key-other", "long-texts") not in rules(asking(kms_key=THEIRS, bucket_key=KEY))


def test_what_is_under_no_key_is_said_so(stack: Stack) -> None:
    sqs = stack.client("sqs")
    sqs.set_queue_attributes(
        QueueUrl=sqs.get_queue_url(QueueName="secured-dead-letters")["QueueUrl"], Attributes={"KmsMasterKeyId": ""}
    )
    [found] = [one for one in findings() if one.rule == "key-other"]
    assert (found.resource, found.what) == ("secured-dead-letters", "it is under no key of yours")


def test_a_key_may_be_named_by_its_id_alone(stack: Stack) -> None:
    sqs = stack.client("sqs")
    url = sqs.get_queue_url(QueueName="secured-dead-letters")["QueueUrl"]
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"KmsMasterKeyId": KEY.rpartition("/")[2]})
    assert rules() == set()
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"KmsMasterKeyId": "alias/of-a-team"})
    assert rules() == {("key-other", "secured-dead-letters")}


@pytest.mark.parametrize(("names", "is_other"), [(KEY, False), (THEIRS, True)])
def test_a_key_may_be_named_by_an_alias(names: str, is_other: bool, stack: Stack) -> None:
    sqs = stack.client("sqs")
    url = sqs.get_queue_url(QueueName="secured-dead-letters")["QueueUrl"]
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"KmsMasterKeyId": "alias/of-a-team"})
    with answering("DescribeKey", lambda: {"KeyMetadata": {"KeyId": "x", "Arn": names, "KeyManager": "CUSTOMER"}}):
        looked = [each for each in findings() if each.rule == "key-other"]
    assert [each.what for each in looked] == ([f"it is under the key {THEIRS}"] if is_other else [])


def test_which_key_an_alias_names_may_not_be_read(stack: Stack) -> None:
    sqs = stack.client("sqs")
    url = sqs.get_queue_url(QueueName="secured-dead-letters")["QueueUrl"]
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"KmsMasterKeyId": "alias/of-a-team"})
    with intercept(Refusing("DescribeKey")):
        assert rules() == set()
        assert "kms:describe_key" in {each.resource for each in findings() if each.rule == "not-read"}


def test_no_key_is_asked_for_where_none_is_given(stack: Stack) -> None:
    assert rules(DeployOptions.model_validate({name: ASKED[name] for name in ASKED if name != "kms_key"})) == set()


@pytest.mark.parametrize(("days", "said"), [(30, "it is kept for 30 days"), (None, "it is kept for ever")])
def test_logs_that_are_kept_otherwise_are_named(days: int | None, said: str, stack: Stack) -> None:
    logs = stack.client("logs")
    logs.create_log_group(logGroupName=f"{GROUP}-more")  # begins alike, and is nobody's
    if days is None:
        logs.delete_retention_policy(logGroupName=GROUP)
    else:
        logs.put_retention_policy(logGroupName=GROUP, retentionInDays=days)
    [found] = [one for one in findings() if one.rule == "log-kept-other"]
    assert (found.resource, found.what) == (GROUP, said)
    logs.delete_log_group(logGroupName=GROUP)
    assert rules() == set(), "a function makes its log when it first runs"


@pytest.mark.parametrize(
    ("found", "said"),
    [(None, "its role has no permissions boundary"), ("other", f"its role is bounded by {BOUNDARY}-of-others")],
)
def test_a_role_with_another_boundary_is_named(found: str | None, said: str, stack: Stack) -> None:
    iam = stack.client("iam")
    role = stack.client("lambda").get_function_configuration(FunctionName=FUNCTION)["Role"].rpartition("/")[2]
    if found is None:
        iam.delete_role_permissions_boundary(RoleName=role)
    else:
        iam.put_role_permissions_boundary(RoleName=role, PermissionsBoundary=f"{BOUNDARY}-of-others")
    [one] = [one for one in findings() if one.rule == "boundary-other"]
    assert (one.resource, one.what) == (FUNCTION, said)
    without = {name: ASKED[name] for name in ASKED if name != "permissions_boundary"}
    assert rules(DeployOptions.model_validate(without)) == set()


def test_the_boundary_of_a_role_that_is_there_is_not_the_templates(stack: Stack) -> None:
    options = asking(
        permissions_boundary=f"{BOUNDARY}-2", functions={"answers": {"role": "arn:aws:iam::123456789012:role/own"}}
    )
    named = {resource for rule, resource in rules(options) if rule == "boundary-other"}
    assert named
    assert FUNCTION not in named


def answering(operation: str, answer: Callable[[], dict[str, Any]]) -> Any:
    def ask(call: ApiCall, proceed: Proceed) -> Response:
        return answer() if call.operation == operation else proceed()

    return intercept(ask)


@pytest.mark.parametrize(
    ("config", "said"),
    [("", "it takes code that nobody has signed"), (OTHER_SIGNING, f"it takes code as {OTHER_SIGNING} says")],
)
def test_a_function_that_takes_other_code_is_named(config: str, said: str, stack: Stack) -> None:
    with answering("GetFunctionCodeSigningConfig", lambda: {"CodeSigningConfigArn": config}):
        found = [one for one in findings() if one.rule == "code-signing-other"]
        assert {one.what for one in found} == {said}
        assert {one.resource for one in found} == {one.name for one in needs(MODULE, options=OPTIONS).functions}
        unasked = {name: ASKED[name] for name in ASKED if name != "code_signing"}
        assert rules(DeployOptions.model_validate(unasked)) == set()


def test_what_may_not_be_read_or_is_not_there_is_not_judged(stack: Stack) -> None:
    sqs = stack.client("sqs")
    sqs.delete_queue(QueueUrl=sqs.get_queue_url(QueueName="secured-dead-letters")["QueueUrl"])
    with intercept(Refusing("GetFunctionCodeSigningConfig")):
        assert rules() == set()
    stack.client("lambda").delete_function(FunctionName=FUNCTION)
    options = asking(vpc={"subnets": ["subnet-1"], "security_groups": ["sg-1"]})
    assert FUNCTION not in {resource for _, resource in rules(options)}


@pytest.mark.slow("asks about each part of a deployment")
def test_a_function_in_another_network_is_named(stack: Stack) -> None:
    options = asking(vpc={"subnets": ["subnet-1", "subnet-2"], "security_groups": ["sg-1"]})
    found = [one for one in findings(options) if one.rule == "network-other"]
    assert {one.what for one in found} == {"it runs in no network of yours"}
    live = {"VpcConfig": {"SubnetIds": ["subnet-2", "subnet-1"], "SecurityGroupIds": ["sg-1"]}}
    open_ = {"VpcConfig": {**live["VpcConfig"], "SecurityGroupIds": []}}
    read = stack.client("lambda").get_function_configuration(FunctionName=FUNCTION)
    moved = {"VpcConfig": {**live["VpcConfig"], "SubnetIds": ["subnet-3"]}}
    none: dict[str, Any] = {"VpcConfig": None}
    for given, wanted in ((live, []), *((other, ["network-other"]) for other in (open_, moved, none))):
        with answering("GetFunctionConfiguration", partial(dict, read, **given)):
            assert sorted({one.rule for one in findings(options) if one.rule == "network-other"}) == wanted, given


def test_what_a_deployment_has_none_of_is_not_looked_for(stack: Stack) -> None:
    without = {**ASKED, "settings": {}}
    options = DeployOptions.model_validate(without)
    needed = replace(needs(MODULE, options=options), signing_secret=None)
    found = examine(needed, options, LiveAccount(SESSION), now=int(time.time() * 1000), most_runs=0)
    assert {one.resource for one in found if one.rule.endswith("-other")} == set()


def test_a_role_that_may_not_be_read_is_not_judged(stack: Stack) -> None:
    with intercept(Refusing("GetRole")):
        assert rules() == set()


# -- what the template says of roles and functions


def role_of(stack: Stack, function: str = FUNCTION) -> str:
    role = stack.client("lambda").get_function_configuration(FunctionName=function)["Role"]
    return str(role.rpartition("/")[2])


def named(rule: str, options: DeployOptions = OPTIONS) -> list[tuple[str, str]]:
    return [(one.resource, one.what) for one in findings(options) if one.rule == rule]


def test_a_function_and_a_role_without_the_tags_are_named(stack: Stack) -> None:
    stack.client("iam").untag_role(RoleName=role_of(stack), TagKeys=["cost"])
    assert named("tags-other") == [(FUNCTION, "its role has other tags: no cost")]
    lambdas = stack.client("lambda")
    arn = lambdas.get_function_configuration(FunctionName=FUNCTION)["FunctionArn"]
    lambdas.tag_resource(Resource=arn, Tags={"team": "shop"})
    [of_function] = [told for told in findings() if told.what.startswith("it has")]
    assert (of_function.resource, of_function.what) == (FUNCTION, "it has other tags: team is 'shop'")
    assert of_function.fix == "tag it: team = checkout"
    assert named("tags-other", asking(tags={})) == []


def test_a_table_without_the_tags_is_named_unless_it_is_not_the_templates(stack: Stack) -> None:
    dynamodb = stack.client("dynamodb")
    arn = dynamodb.describe_table(TableName="flowguard")["Table"]["TableArn"]
    dynamodb.untag_resource(ResourceArn=arn, TagKeys=["cost"])
    assert named("tags-other") == [("flowguard", "it has other tags: no cost")]
    assert named("tags-other", asking(tables={"flowguard": {"existing": True}})) == []
    assert named("tags-other", asking(tags={})) == []
    dynamodb.delete_table(TableName="flowguard")
    assert named("tags-other") == []


def test_the_tags_of_a_table_come_in_pages(stack: Stack) -> None:
    asked = []

    def page(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation != "ListTagsOfResource":
            return proceed()
        asked.append(call.params.get("NextToken"))
        if call.params.get("NextToken") is None:
            return {"Tags": [{"Key": "team", "Value": "checkout"}], "NextToken": "2"}
        return {"Tags": [{"Key": "cost", "Value": "c-1"}]}

    with intercept(page):
        assert named("tags-other") == []
    assert asked[:2] == [None, "2"]


@pytest.mark.parametrize(
    ("operation", "resource"),
    [("ListTags", "lambda:list_tags"), ("ListTagsOfResource", "dynamodb:list_tags_of_resource")],
)
def test_tags_that_may_not_be_read_are_not_judged_and_unasked_are_not_read(
    operation: str, resource: str, stack: Stack
) -> None:
    with intercept(Refusing(operation)):
        assert rules() == set()
        assert resource in {each.resource for each in findings() if each.rule == "not-read"}
        assert resource not in {each.resource for each in findings(asking(tags={})) if each.rule == "not-read"}


def test_queues_without_the_tag_by_which_they_are_found_are_noted_together(stack: Stack) -> None:
    assert named("queue-untagged") == []
    sqs = stack.client("sqs")
    for queue in ("secured", "secured-dead-letters"):
        sqs.untag_queue(QueueUrl=sqs.get_queue_url(QueueName=queue)["QueueUrl"], TagKeys=["flowguard"])
    [noted] = [each for each in findings() if each.rule == "queue-untagged"]
    assert sorted(noted.resource.split(", ")) == ["secured", "secured-dead-letters"]
    assert noted.severity is Severity.NOTE
    assert noted.what == "they have no tag flowguard with the name of a flow or rule of @once"
    assert "tag secured with flowguard = secured" in noted.fix
    assert named("queue-untagged", asking(queues={"secured": {"existing": True}})) == [
        ("secured-dead-letters", "it has no tag flowguard with the name of a flow or rule of @once")
    ]
    sqs.delete_queue(QueueUrl=sqs.get_queue_url(QueueName="secured-dead-letters")["QueueUrl"])
    assert [resource for resource, _ in named("queue-untagged")] == ["secured"]
    with intercept(Refusing("GetResources")):
        assert named("queue-untagged") == []


def test_a_role_of_another_path_is_named(stack: Stack) -> None:
    paths = named("role-path-other", asking(role_path="/store/"))
    assert (FUNCTION, "its role has the path /shop/") in paths
    assert len(paths) == len(needs(MODULE, options=OPTIONS).functions)
    assert named("role-path-other", asking(role_path="/")) == []


@pytest.mark.parametrize("tracing", [{"Mode": "PassThrough"}, {}])
def test_a_function_that_is_not_traced_is_named(tracing: dict[str, str], stack: Stack) -> None:
    read = stack.client("lambda").get_function_configuration(FunctionName=FUNCTION)
    with answering("GetFunctionConfiguration", partial(dict, read, TracingConfig=tracing)):
        assert (FUNCTION, "its tracing is PassThrough") in {
            (one.fix and FUNCTION, one.what) for one in findings() if one.rule == "tracing-other"
        }
        assert named("tracing-other", asking(tracing=False)) == []


def trusting(stack: Stack, *statements: dict[str, Any], role: str | None = None) -> None:
    document = json.dumps({"Version": "2012-10-17", "Statement": statements})
    stack.client("iam").update_assume_role_policy(RoleName=role or role_of(stack), PolicyDocument=document)


def assumed_by(principal: Any, **more: Any) -> dict[str, Any]:
    return {"Effect": "Allow", "Principal": principal, "Action": "sts:AssumeRole", **more}


OF_LAMBDA: Final = assumed_by({"Service": "lambda.amazonaws.com"})


def test_a_role_that_its_function_may_not_assume_is_named(stack: Stack) -> None:
    trusting(stack, {**assumed_by({"Service": "ec2.amazonaws.com"})})
    assert named("trust-missing") == [(FUNCTION, "its role does not let lambda.amazonaws.com assume it")]
    assert named("trust-other") == [(FUNCTION, "its role may be assumed by ec2.amazonaws.com too")]
    trusting(stack, {**OF_LAMBDA, "Action": "sts:TagSession"})
    assert [resource for resource, _ in named("trust-missing")] == [FUNCTION]


@pytest.mark.parametrize(
    "principal", [{"AWS": "arn:aws:iam::210987654321:root"}, {"Service": "ec2.amazonaws.com"}, {"AWS": "*"}]
)
def test_whoever_may_assume_a_role_beside_its_function_is_named(principal: dict[str, str], stack: Stack) -> None:
    trusting(stack, OF_LAMBDA, assumed_by(principal))
    assert named("trust-other") == [(FUNCTION, f"its role may be assumed by {next(iter(principal.values()))} too")]
    trusting(stack, OF_LAMBDA, {**assumed_by(principal), "Effect": "Deny"})
    assert named("trust-other") == []


def test_the_trust_of_a_role_that_is_there_is_not_the_templates(stack: Stack) -> None:
    trusting(stack, assumed_by({"Service": "ec2.amazonaws.com"}))
    given = asking(functions={"answers": {"role": "arn:aws:iam::123456789012:role/own"}})
    assert FUNCTION not in {resource for resource, _ in named("trust-missing", given)}
