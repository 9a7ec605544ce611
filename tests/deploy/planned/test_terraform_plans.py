"""What a plan of Terraform says of each resource, and what it leaves open. What is no plan is refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import pytest

from flowguard.deploy.planned.problems import NotReadable
from flowguard.deploy.planned.resources import HERE, KINDS, REDRIVE_IS_GIVEN, STREAM_HERE, queue_url
from flowguard.deploy.planned.terraform_plan import read_plan
from flowguard.deploy.planned.terraform_plan import resources_of as resources_of_plan
from flowguard.deploy.planned.values import UNKNOWN

HCL: Final = Path(__file__).parent / "hcl" / "plan.json"
QUEUE: Final = "AWS::SQS::Queue"


def test_references_of_hcl_are_followed_through_modules_and_counts() -> None:
    resources = read_plan(HCL)
    orders, killed = resources.named(QUEUE, "orders"), resources.named(QUEUE, "orders-killed")
    assert orders is not None
    assert killed is not None
    assert orders.properties["VisibilityTimeout"] == 210
    assert orders.properties["RedrivePolicy"] is UNKNOWN  # jsonencode(…), of which a plan names the references alone
    assert killed.properties["RedrivePolicy"] is UNKNOWN  # a conditional, whose null the provider fills in
    [source] = resources.of("AWS::Lambda::EventSourceMapping")
    assert source.properties["EventSourceArn"] == orders.arn
    [function] = resources.of("AWS::Lambda::Function")
    assert source.properties["FunctionName"] == function.arn
    assert function.properties["RecursiveLoop"] == "Allow"
    assert function.properties["Environment"]["Variables"] == {"FLOWGUARD_TABLE": "flowguard"}
    [role] = resources.of("AWS::IAM::Role")
    assert function.properties["Role"] == role.arn
    [policy] = resources.of("AWS::IAM::RolePolicy")
    assert policy.properties["RoleName"] == role.name
    assert policy.properties["PolicyDocument"] is UNKNOWN
    [subscription] = resources.of("AWS::SNS::Subscription")
    assert subscription.properties["Endpoint"] == orders.arn
    [topic] = resources.of("AWS::SNS::Topic")
    assert subscription.properties["TopicArn"] == topic.arn
    [table] = resources.of("AWS::DynamoDB::Table")
    assert table.properties["TimeToLiveSpecification"] == {"Enabled": True, "AttributeName": "ttl"}
    assert table.properties["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}


@pytest.mark.parametrize(
    ("plan", "problem"),
    [
        ([], "it is no plan"),
        ({}, "it is no plan"),
        ({"planned_values": {}}, "it is no plan"),
        ({"configuration": {}}, "it is no plan"),
        ("planned_values configuration", "it is no plan"),
        ({"planned_values": {}, "configuration": {}}, "something in it has no 'root_module'"),
        ({"planned_values": 3, "configuration": 3}, "something in it has another type"),
    ],
)
def test_what_is_no_plan_is_refused(plan: Any, problem: str) -> None:
    with pytest.raises(NotReadable, match=problem):
        resources_of_plan("f.json", plan)


# -- what is known of a plan

Block = dict[str, Any]


def resource(address: str, values: Any = None, unknown: Any = None, expressions: Any = None, **more: Any) -> Block:
    return {"address": address, "values": values, "unknown": unknown or {}, "expressions": expressions or {}, **more}


def part(address: str, **more: Any) -> Block:
    """What a plan calls a resource."""
    bare = re.sub(r"\[[^]]*\]", "", address)
    mode = "data" if ".data." in f".{bare}" else "managed"
    type_, name = bare.split(".")[-2:]
    return {"address": address, "mode": mode, "type": type_, "name": name, **more}


def plan(*resources: Block, variables: Any = None, **root: Any) -> Any:
    """A plan whose root module has these resources. ``root`` is more of its configuration."""
    return {
        "variables": {name: {"value": value} for name, value in (variables or {}).items()},
        "planned_values": {"root_module": {"resources": [*map(planned, resources)]}},
        "resource_changes": [*map(change, resources)],
        "configuration": {"root_module": {"resources": [*map(configured, resources)], **root}},
    }


def planned(given: Block) -> Block:
    values = {} if given["values"] is None else {"values": given["values"]}
    return part(given["address"], **values)


def change(given: Block) -> Block:
    return part(given["address"], change={"after_unknown": given["unknown"]})


def configured(given: Block) -> Block:
    provider = {"provider_config_key": given["provider"]} if "provider" in given else {}
    return part(given["address"], expressions=given["expressions"], **provider)


def mapping(values: Any = None, unknown: Any = None, expressions: Any = None) -> Block:
    return resource("aws_lambda_event_source_mapping.it", values or {}, unknown, expressions)


def source(*others: Block, reference: Any, variables: Any = None, **root: Any) -> Any:
    """The source of a mapping whose argument is an expression that is known after apply."""
    it = mapping({}, {"event_source_arn": True}, {"event_source_arn": reference})
    return arn_of(resources_of_plan("p", plan(it, *others, variables=variables, **root)))


def arn_of(resources: Any) -> Any:
    [only] = resources.of("AWS::Lambda::EventSourceMapping")
    return only.properties.get("EventSourceArn")


def text(value: Any) -> Any:
    return {"constant_value": value, "references": ["x.y.z", "x.y"]}


def hcl(*references: str) -> Any:
    return {"references": [*references]}


Q: Final = resource("aws_sqs_queue.q", {"name": "q"})
ARN: Final = KINDS[QUEUE].arn("q")


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        (text("${aws_sqs_queue.q.arn}"), ARN),
        (text("a ${aws_sqs_queue.q.name} ${aws_sqs_queue.q.id}"), f"a q {queue_url('q')}"),
        (text("${aws_sqs_queue.q.url}"), queue_url("q")),
        (text("${aws_sqs_queue.q.nothing}"), UNKNOWN),
        (text("${aws_sqs_queue.none.arn}"), UNKNOWN),
        (text("${aws_other_thing.q.arn}"), UNKNOWN),
        (text("${aws_sqs_queue.q}"), UNKNOWN),
        (text("${aws_instance.i.arn}"), UNKNOWN),
        (text("${var.place}"), "given"),
        (text("${var.nothing}"), UNKNOWN),
        (text("${var.several}"), UNKNOWN),
        (text("${var.count}"), "5"),
        (text("${local.place}"), UNKNOWN),
        (text("$${var.place}"), "${var.place}"),
        (text("%%{if}"), "%{if}"),
        (text("%{if var.place}"), UNKNOWN),
        (text('${upper("x")}'), UNKNOWN),
        (text("${a{b}}"), UNKNOWN),
        (text("plain"), "plain"),
        (text(["${var.place}", 7]), ["given", 7]),
        (text({"a": "${var.place}"}), {"a": "given"}),
        (text(7), 7),
        (text("${data.aws_region.here.name}"), HERE.region),
        (text("${data.aws_caller_identity.me.account_id}"), HERE.account),
        (text("${data.aws_sqs_queue.theirs.arn}"), "arn:aws:sqs:eu-west-1:123456789012:theirs"),
        (text("${data.aws_sqs_queue.theirs.url}"), UNKNOWN),
        (text("${data.aws_sqs_queue.nobodys.arn}"), UNKNOWN),
        (text("${module.none.arn}"), UNKNOWN),
        (hcl("aws_sqs_queue.q.arn", "aws_sqs_queue.q"), ARN),
        (hcl("aws_sqs_queue.q[0].arn", "aws_sqs_queue.q[0]", "aws_sqs_queue.q"), UNKNOWN),
        (hcl("aws_sqs_queue.q.arn", "aws_sqs_queue.q", "var.place"), UNKNOWN),
        (hcl("var.place"), "given"),
        (hcl(), UNKNOWN),
        ({}, UNKNOWN),
        ("x", UNKNOWN),
        (None, None),
    ],
)
def test_what_is_known_after_apply_is_followed(reference: Any, expected: Any) -> None:
    variables = {"place": "given", "several": ["a"], "count": 5}
    theirs = part("data.aws_sqs_queue.theirs", values={"arn": "arn:aws:sqs:eu-west-1:123456789012:theirs"})
    it = mapping({}, {"event_source_arn": True}, {} if reference is None else {"event_source_arn": reference})
    made = plan(it, Q, resource("aws_instance.i", {}), variables=variables)
    made["prior_state"] = {"values": {"root_module": {"resources": [theirs]}}}
    assert arn_of(resources_of_plan("p", made)) == expected


def test_an_argument_of_another_kind_is_not_what_its_reference_is() -> None:
    it = mapping({}, {"batch_size": True}, {"batch_size": hcl("var.size")})
    [only] = resources_of_plan("p", plan(it, variables={"size": 5})).of("AWS::Lambda::EventSourceMapping")
    assert only.properties["BatchSize"] is UNKNOWN


@pytest.mark.parametrize(
    ("address", "values", "attribute", "expected"),
    [
        ("aws_sns_topic.t", {"name": "t"}, "id", KINDS["AWS::SNS::Topic"].arn("t")),
        ("aws_secretsmanager_secret.s", {"name": "s"}, "id", KINDS["AWS::SecretsManager::Secret"].arn("s")),
        ("aws_sns_topic.t", {"name": "t"}, "name", "t"),
        ("aws_sns_topic.t", {"name": "t"}, "display_name", UNKNOWN),
        ("aws_lambda_function.f", {"function_name": "f"}, "function_name", "f"),
        ("aws_lambda_function.f", {"function_name": "f"}, "id", "f"),
        ("aws_lambda_function.f", {"function_name": "f"}, "qualified_arn", UNKNOWN),
        ("aws_lambda_function.f", {"function_name": "f"}, "url", UNKNOWN),
        ("aws_s3_bucket.b", {"bucket": "b"}, "bucket", "b"),
        ("aws_iam_role.r", {}, "name", "aws_iam_role.r"),
        ("aws_iam_role.r", {}, "arn", KINDS["AWS::IAM::Role"].arn("aws_iam_role.r")),
        ("aws_kms_key.k", {}, "key_id", "aws_kms_key.k"),
        ("aws_sqs_queue.u", {}, "arn", UNKNOWN),
        ("aws_sqs_queue.u", {}, "id", UNKNOWN),
        ("aws_sqs_queue.u", {}, "name", UNKNOWN),
        ("aws_sqs_queue.u", {"arn": "arn:known"}, "arn", "arn:known"),
        ("aws_sqs_queue_policy.p", {}, "id", UNKNOWN),
        (
            "aws_dynamodb_table.t",
            {"name": "t"},
            "stream_arn",
            f"{KINDS['AWS::DynamoDB::Table'].arn('t')}/stream/{STREAM_HERE}",
        ),
        ("aws_dynamodb_table.t", {}, "stream_arn", UNKNOWN),
        ("aws_cloudwatch_event_rule.r", {"name": "r"}, "arn", KINDS["AWS::Events::Rule"].arn("r")),
        (
            "aws_cloudwatch_event_rule.r",
            {"name": "r", "event_bus_name": "shop"},
            "arn",
            KINDS["AWS::Events::Rule"].arn("shop/r"),
        ),
        ('aws_sqs_queue.q["a"]', {"name": "q"}, "arn", ARN),
        ("aws_sqs_queue.q[0]", {"name": "q"}, "arn", ARN),
    ],
)
def test_an_attribute_is_what_it_will_be_here(address: str, values: Any, attribute: str, expected: Any) -> None:
    bare = address.partition("[")[0]
    reference = text(f"${{{bare}.{attribute}}}")
    assert source(resource(address, values), reference=reference) == expected


def test_one_of_several_instances_is_not_known() -> None:
    several = [resource(f"aws_sqs_queue.q[{number}]", {"name": f"q{number}"}) for number in range(2)]
    other = resource("aws_sqs_queue.qq", {"name": "other"})
    assert source(*several, other, reference=text("${aws_sqs_queue.q.arn}")) is UNKNOWN
    assert source(several[0], other, reference=text("${aws_sqs_queue.q.arn}")) == KINDS[QUEUE].arn("q0")


def test_a_resource_of_which_nothing_is_known_is_there() -> None:
    made = resources_of_plan("p", plan(resource("aws_sqs_queue.q", None, {"name": True})))
    assert [each.name for each in made.of(QUEUE)] == [UNKNOWN]


@pytest.mark.parametrize("address", ["aws_instance.i", "data.aws_sqs_queue.q"])
def test_what_is_not_looked_at_is_no_resource(address: str) -> None:
    made = resources_of_plan("p", plan(resource(address, {"name": "q"}), Q))
    assert [each.label for each in made.of(QUEUE)] == ["aws_sqs_queue.q"]


def test_what_was_there_before_is_no_resource_and_data_of_then_is_known() -> None:
    made = plan(Q)
    made["prior_state"] = {
        "values": {"root_module": {"resources": [part("aws_sqs_queue.gone", values={"name": "gone"})]}}
    }
    assert [each.name for each in resources_of_plan("p", made).of(QUEUE)] == ["q"]


@pytest.mark.parametrize(
    ("values", "more", "place"),
    [({}, {}, " "), ({"region": "eu-west-1"}, {}, " eu-west-1"), ({}, {"provider": "aws.x"}, "aws.x ")],
)
def test_a_resource_has_the_place_of_its_provider_and_region(values: Any, more: Any, place: str) -> None:
    made = resources_of_plan("p", plan(resource("aws_sqs_queue.q", {"name": "q", **values}, **more)))
    assert [each.place for each in made.of(QUEUE)] == [place]


@pytest.mark.parametrize(
    ("values", "unknown", "expressions", "expected"),
    [
        ({"variables": {"A": "1"}}, {}, {}, {"A": "1"}),
        ({"variables": {"A": "1"}}, {"variables": {"B": True}}, {}, {"A": "1", "B": UNKNOWN}),
        ({"variables": {"A": "1"}}, {"variables": {"B": False}}, {}, {"A": "1"}),
        (
            {"variables": {"A": "1"}},
            {"variables": {"B": True, "C": True}},
            {"variables": text({"A": "1", "B": "${var.b}"})},
            {"A": "1", "B": "given", "C": UNKNOWN},
        ),
        ({"variables": {"A": "1"}}, {"variables": {"B": True}}, {"variables": text("x")}, {"A": "1", "B": UNKNOWN}),
        ({"variables": {"A": "1"}}, {"variables": {"B": True}}, {"variables": "x"}, {"A": "1", "B": UNKNOWN}),
        ({"variables": {"A": "1"}}, {"variables": True}, {}, {"A": "1"}),
        ({"variables": {"A": "1"}}, {"variables": {}}, {}, {"A": "1"}),
        ({}, {"variables": True}, {"variables": text({"B": "${var.b}"})}, {"B": "given"}),
        ({"variables": None}, {"variables": True}, {"variables": hcl("var.b")}, UNKNOWN),
        ({}, {"variables": True}, {}, None),
    ],
)
def test_the_parts_of_a_block_may_be_open(values: Any, unknown: Any, expressions: Any, expected: Any) -> None:
    function = resource(
        "aws_lambda_function.f",
        {"function_name": "f", "environment": [values]},
        {"environment": [unknown]},
        {"environment": [expressions]},
    )
    [only] = resources_of_plan("p", plan(function, variables={"b": "given"})).of("AWS::Lambda::Function")
    assert only.properties.get("Environment", {}).get("Variables") == expected


@pytest.mark.parametrize(
    ("unknown", "expressions"),
    [
        (True, {}),
        ([], []),
        ("x", "x"),
        ([{}, {}], [{}, {}]),
        ([{"variables": True}], [{"variables": text({"A": "2"})}]),
    ],
)
def test_what_a_plan_says_of_a_block_counts_whatever_its_configuration_is(unknown: Any, expressions: Any) -> None:
    function = resource(
        "aws_lambda_function.f",
        {"function_name": "f", "environment": [{"variables": {"A": "1"}}]},
        {"environment": unknown},
        {"environment": expressions},
    )
    [only] = resources_of_plan("p", plan(function)).of("AWS::Lambda::Function")
    assert only.properties["Environment"]["Variables"] == {"A": "1"}


@pytest.mark.parametrize(
    ("values", "unknown", "expressions", "is_open"),
    [
        ({}, {"environment": True}, {}, True),
        ({}, {"environment": True}, {"environment": [{}]}, True),
        ({}, {"environment": False}, {}, False),
        ({}, {}, {"environment": [{}]}, False),
        ({}, {"kms_key_arn": True}, {}, False),
        ({"kms_key_arn": None}, {"kms_key_arn": True}, {}, False),
        ({}, True, {}, False),
    ],
)
def test_a_block_that_only_the_configuration_adds_is_open(
    values: Any, unknown: Any, expressions: Any, is_open: bool
) -> None:
    function = resource("aws_lambda_function.f", values, unknown, expressions)
    [only] = resources_of_plan("p", plan(function)).of("AWS::Lambda::Function")
    assert only.properties == ({"Environment": {"Variables": UNKNOWN}} if is_open else {})


@pytest.mark.parametrize("given", [[], ["a", "b"]])
def test_a_list_of_texts_stays(given: list[str]) -> None:
    made = resources_of_plan(
        "p", plan(mapping({"function_response_types": given}, {"function_response_types": [False]}))
    )
    [only] = made.of("AWS::Lambda::EventSourceMapping")
    assert only.properties["FunctionResponseTypes"] == given


# -- modules


def nested(reference: Any, *, call: str = "module.m", given: Any = None, output: Any = None, name: Any = "q") -> Any:
    """A plan with a module that has a queue ``q`` and a mapping with that source; and a mapping in the root."""
    inner = [
        resource(f"{call}.aws_sqs_queue.q", {"name": name}),
        resource(
            f"{call}.aws_lambda_event_source_mapping.in",
            {},
            {"event_source_arn": True},
            {"event_source_arn": reference},
        ),
    ]
    made = plan(
        mapping({}, {"event_source_arn": True}, {"event_source_arn": hcl("module.m.arn", "module.m")}),
        variables={"root": "of-the-root"},
    )
    made["planned_values"]["root_module"]["child_modules"] = [{"address": call, "resources": [*map(planned, inner)]}]
    made["resource_changes"] += [*map(change, inner)]
    blocks = [{**configured(each), "address": each["address"].removeprefix(f"{call}.")} for each in inner]
    outputs = {} if output is None else {"arn": {"expression": output}}
    module = {"resources": blocks, "outputs": outputs}
    expressions = {} if given is None else {"place": given}
    made["configuration"]["root_module"]["module_calls"] = {"m": {"expressions": expressions, "module": module}}
    return made


def arns(made: Any) -> dict[str, Any]:
    there = resources_of_plan("p", made).of("AWS::Lambda::EventSourceMapping")
    return {each.label: each.properties.get("EventSourceArn") for each in there}


@pytest.mark.parametrize(
    ("reference", "given", "expected"),
    [
        (text("${aws_sqs_queue.q.arn}"), None, ARN),
        (hcl("aws_sqs_queue.q.arn", "aws_sqs_queue.q"), None, ARN),
        (text("${var.place}"), text("x"), "x"),
        (text("${var.place}"), hcl("var.root"), "of-the-root"),
        (text("${var.place}"), None, UNKNOWN),
        (text("${var.root}"), None, UNKNOWN),
    ],
)
def test_what_a_module_refers_to_is_followed_there(reference: Any, given: Any, expected: Any) -> None:
    for call in ("module.m", "module.m[0]", 'module.m["a"]'):
        made = arns(nested(reference, call=call, given=given))
        assert made[f"{call}.aws_lambda_event_source_mapping.in"] == expected


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (hcl("aws_sqs_queue.q.arn", "aws_sqs_queue.q"), ARN),
        (text("${aws_sqs_queue.q.arn}"), ARN),
        (None, UNKNOWN),
        (hcl("aws_sqs_queue.none.arn", "aws_sqs_queue.none"), UNKNOWN),
    ],
)
def test_what_a_module_tells_is_followed_into_it(output: Any, expected: Any) -> None:
    assert arns(nested(text("x"), output=output))["aws_lambda_event_source_mapping.it"] == expected


def test_what_one_of_several_instances_of_a_module_tells_is_not_known() -> None:
    made = nested(text("x"), call="module.m[0]", output=text("plain"))
    assert arns(made)["aws_lambda_event_source_mapping.it"] is UNKNOWN


# -- what comes from outside


@pytest.mark.parametrize(
    ("expression", "is_given"),
    [
        (hcl("var.dead", "var"), True),
        (hcl("local.dead"), True),
        (hcl("module.m.dead", "module.m"), True),
        (hcl("data.aws_sqs_queue.dead.arn"), True),
        (hcl("each.value"), True),
        (hcl("count.index"), True),
        (hcl("aws_sqs_queue.q.arn", "aws_sqs_queue.q"), False),
        ({"constant_value": '{"deadLetterTargetArn": "${var.dead}"}'}, True),
        ({"constant_value": '{"deadLetterTargetArn": "${aws_sqs_queue.q.arn}"}'}, False),
        ({"constant_value": "x"}, False),
        ("x", False),
        ([{"x": hcl("var.dead")}], False),
    ],
)
def test_a_redrive_policy_that_something_outside_the_plan_gives_is_marked(expression: Any, is_given: bool) -> None:
    it = resource("aws_sqs_queue.q", {"name": "q", "redrive_policy": "{}"}, {}, {"redrive_policy": expression})
    [queue] = resources_of_plan("p", plan(it)).of(QUEUE)
    assert bool(queue.properties.get(REDRIVE_IS_GIVEN, False)) is is_given


# -- what is no plan of a file


@pytest.mark.parametrize("written", [b"\xff\xfe", b"{", b"[" * 50_000])
def test_a_file_without_json_is_refused(written: bytes, tmp_path: Path) -> None:
    (tmp_path / "p").write_bytes(written)
    with pytest.raises(NotReadable, match="it is no JSON of terraform show -json"):
        read_plan(tmp_path / "p")


def broken(*_: Any, **__: Any) -> Any:
    raise ZeroDivisionError


@pytest.mark.parametrize("place", ["json.loads", "made_of"])
def test_a_mistake_of_flowguards_own_is_not_told_as_one_of_the_plan(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"flowguard.deploy.planned.terraform_plan.{place}", broken)
    with pytest.raises(ZeroDivisionError):
        read_plan(HCL)


@pytest.mark.parametrize("is_first", [True, False])
def test_data_of_the_name_of_a_resource_is_another(is_first: bool) -> None:
    made = plan(
        resource("aws_sqs_queue.q", {"name": "q"}, {"kms_master_key_id": True}, {"kms_master_key_id": text("k")})
    )
    blocks = made["configuration"]["root_module"]["resources"]
    blocks.insert(0 if is_first else 1, part("data.aws_sqs_queue.q", expressions={}))
    [queue] = resources_of_plan("p", made).of(QUEUE)
    assert queue.properties["KmsMasterKeyId"] == "k"


def test_a_plan_that_is_nested_too_deeply_is_refused() -> None:
    value: Any = "x"
    for _ in range(2_000):
        value = [value]
    it = mapping({}, {"event_source_arn": True}, {"event_source_arn": {"constant_value": value}})
    with pytest.raises(NotReadable, match="something in it has another type"):
        resources_of_plan("p", plan(it))
