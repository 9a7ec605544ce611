"""The templates: what is in them, that they are repeatable, and that those who read them accept them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from flowguard.cli import main
from flowguard.cli.iac import FORMATS
from flowguard.deploy.arns import LARGEST_POLICY, Arn, statements_of
from flowguard.deploy.cloudformation import cloudformation
from flowguard.deploy.found import FunctionKind
from flowguard.deploy.logical_ids import LogicalIds
from flowguard.deploy.needs import Role
from flowguard.deploy.options import DeployOptions
from flowguard.deploy.terraform import with_removed
from tests.deploy import charging
from tests.deploy.exercised import needs
from tests.deploy.templates import MODULES, of_type, options_of, template, text_of
from tests.deploy.terraform_schema import problems_of_configuration

ALL = pytest.mark.parametrize("name", MODULES)
ROOT = Path(__file__).parents[2]


def is_open(value: Any) -> bool:
    return value == "*" or (isinstance(value, list) and any(is_open(one) for one in value))


# -- what a template has


@ALL
def test_tables_are_on_demand_kept_and_restorable(name: str) -> None:
    ttl = {table.name: table.ttl for table in needs(MODULES[name], options=options_of(name)).tables}
    for key, table in of_type(name, "AWS::DynamoDB::Table"):
        whole = template(name)["Resources"][key]
        assert (whole["DeletionPolicy"], whole["UpdateReplacePolicy"]) == ("RetainExceptOnCreate", "Retain")
        assert table["BillingMode"] == "PAY_PER_REQUEST"
        assert table["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}
        expires, attribute = table.get("TimeToLiveSpecification"), ttl[table["TableName"]]
        assert expires == ({"AttributeName": attribute, "Enabled": True} if attribute is not None else None)
        assert table["TableName"] != "flowguard" or attribute == "ttl"


@ALL
def test_a_queue_that_is_read_outlasts_its_function_and_gives_up_after_a_while(name: str) -> None:
    timeouts = {key: one["Timeout"] for key, one in of_type(name, "AWS::Lambda::Function")}
    windows = {}
    for _, source in of_type(name, "AWS::Lambda::EventSourceMapping"):
        assert source["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
        arn = source.get("EventSourceArn", "")
        if "Fn::GetAtt" in arn and "StartingPosition" not in source:
            window = source.get("MaximumBatchingWindowInSeconds", 0)
            windows[arn["Fn::GetAtt"][0]] = (source["FunctionName"]["Ref"], window)
    queues = dict(of_type(name, "AWS::SQS::Queue"))
    assert windows
    for key, (function, window) in windows.items():
        assert queues[key]["VisibilityTimeout"] >= 6 * timeouts[function] + window
        redrive = queues[key]["RedrivePolicy"]
        given_up = queues[redrive["deadLetterTargetArn"]["Fn::GetAtt"][0]]
        assert redrive["maxReceiveCount"] > 1
        assert given_up["MessageRetentionPeriod"] > queues[key]["MessageRetentionPeriod"]
        assert given_up.get("FifoQueue") == queues[key].get("FifoQueue")


@ALL
def test_no_role_may_do_everything(name: str) -> None:
    for _, role in of_type(name, "AWS::IAM::Role"):
        for policy in role["Policies"]:
            for statement in policy["PolicyDocument"]["Statement"]:
                assert not is_open(statement["Action"])
                is_network = all(action.startswith("ec2:") for action in statement["Action"])
                assert is_network or not is_open(statement["Resource"]), "network interfaces have no ARN before that"


@ALL
def test_dead_letters_old_messages_and_throttles_are_watched(name: str) -> None:
    needed = needs(MODULES[name], options=options_of(name))
    alarms = {alarm["AlarmName"]: alarm for _, alarm in of_type(name, "AWS::CloudWatch::Alarm")}
    for queue in needed.queues:
        if queue.role is Role.DEAD_LETTERS:
            assert alarms[f"{queue.name}-not-empty"]["Threshold"] == 0
        elif queue.reader is not None:
            assert alarms[f"{queue.name}-oldest-message"]["MetricName"] == "ApproximateAgeOfOldestMessage"
    for function in needed.functions:
        assert f"{function.name}-throttled" in alarms
        assert function.definition.kind is not FunctionKind.STAGES or f"{function.owner}-fenced" in alarms


def test_logs_are_json_and_kept_for_a_while() -> None:
    groups = dict(of_type("orders", "AWS::Logs::LogGroup"))
    for _, function in of_type("orders", "AWS::Lambda::Function"):
        assert function["LoggingConfig"]["LogFormat"] == "JSON"
        assert groups[function["LoggingConfig"]["LogGroup"]["Ref"]]["RetentionInDays"] == 30


@pytest.mark.parametrize("name", MODULES)
def test_each_topic_of_a_queue_is_subscribed_to_and_each_rule_is_made(name: str) -> None:
    needed = needs(MODULES[name], options=options_of(name))
    topics = sum(len(queue.topics) for queue in needed.queues)
    rules = sum(len(queue.rules) for queue in needed.queues)
    made = [len([*of_type(name, kind)]) for kind in ("AWS::SNS::Subscription", "AWS::Events::Rule")]
    assert made == [topics, rules]


def test_the_one_that_needs_everything_has_it() -> None:
    resources = template("everything")["Resources"]
    kinds = {one["Type"] for one in resources.values()}
    assert {
        "AWS::Events::Rule",
        "AWS::Lambda::Url",
        "AWS::Scheduler::ScheduleGroup",
        "AWS::SNS::Subscription",
        "AWS::SNS::Topic",
        "AWS::SQS::QueuePolicy",
    } <= kinds
    named = {one["Properties"].get("QueueName") for one in resources.values()}
    assert not {"parcels", "theirs", "answers-here"} & named, "those are there already"
    assert "orders-a" not in {one["Properties"].get("TableName") for one in resources.values()}
    assert {"ShipRole", "EverythingShipRole"}.isdisjoint(resources)
    ship = next(one for _, one in of_type("everything", "AWS::Lambda::Function") if one["Handler"].endswith(".ship"))
    assert ship["Role"] == "arn:aws:iam::123456789012:role/shipping"


def test_a_function_under_once_that_others_call_gets_its_table_and_no_parameters_of_code() -> None:
    for form, parameters in (("cloudformation", "Parameters"), ("sam", "Parameters"), ("terraform-json", "variable")):
        written = json.loads(iac("tests.deploy.charging:refund", "--format", form).stdout)
        assert len(written[parameters]) == 1, "the topic of alarms"
        assert "refunds" in json.dumps(written)
    kinds = {one["Type"] for one in template("charging")["Resources"].values()}
    assert {"AWS::DynamoDB::Table", "AWS::Lambda::EventSourceMapping", "AWS::SQS::Queue"} <= kinds
    [table] = [one for _, one in of_type("charging", "AWS::DynamoDB::Table") if one["TableName"] == "refunds"]
    assert [one["AttributeName"] for one in table["KeySchema"]] == ["tenant", "order"]
    assert template("charging")["Description"] == "refund, charge, parcels/ship: made by flowguard iac"


def test_a_url_may_be_called_by_all_and_the_function_only_through_it() -> None:
    permissions = [one for _, one in of_type("everything", "AWS::Lambda::Permission")]
    assert [one["Action"] for one in permissions] == ["lambda:InvokeFunctionUrl", "lambda:InvokeFunction"]
    assert permissions[1]["InvokedViaFunctionUrl"] is True
    [ours] = template("everything", "terraform-json")["resource"]["aws_lambda_permission"].values()
    assert (ours["action"], ours["invoked_via_function_url"]) == ("lambda:InvokeFunction", True)


# -- who accepts them


@pytest.mark.proof("cfn-lint takes a second for each template")
@pytest.mark.parametrize(
    ("form", "names"),
    [
        ("cloudformation", [*MODULES]),
        pytest.param("sam", ["everything", "charging"], marks=pytest.mark.long("the same flows in another form")),
    ],
)
def test_cfn_lint_has_nothing_to_say(form: str, names: list[str], tmp_path: Path) -> None:
    files = []
    for name in names:
        files.append(tmp_path / f"{name}.json")
        files[-1].write_text(text_of(name, form), encoding="utf-8")
    command = [str(Path(sys.executable).with_name("cfn-lint")), *map(str, files)]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (found.stdout, found.stderr, found.returncode) == ("", "", 0)


@ALL
def test_terraform_knows_every_argument(name: str) -> None:
    assert problems_of_configuration(template(name, "terraform-json")) == []


def test_what_terraform_does_not_know_is_seen() -> None:
    queue = {"name": "q", "visibility_timeout": 3, "arn": "x", "delay_seconds": []}
    table = {"name": "t", "attribute": [{"name": "a"}], "ttl": [{"enabled": True}, {"enabled": True}]}
    lonely = {"topic_arn": "${aws_sns_topic.gone.arn}", "protocol": "sqs"}
    found = {
        "aws_sqs_queue": {"q": queue},
        "aws_dynamodb_table": {"t": table},
        "aws_sns_topic_subscription": {"s": lonely},
        "aws_sqs_pond": {"p": {}},
        "aws_sns_topic": {"1bad name": {}},
    }
    told = "\n".join(problems_of_configuration({"resource": found}))
    for problem in (
        "aws_sqs_queue.q: visibility_timeout is no argument",
        "aws_sqs_queue.q: arn is no argument",
        "aws_sqs_queue.q: delay_seconds is no number",
        "aws_dynamodb_table.t.attribute: type is missing",
        "aws_dynamodb_table.t: ttl is there 2 times of 1",
        "aws_sns_topic_subscription.s: endpoint is missing",
        "aws_sns_topic_subscription.s: aws_sns_topic.gone is not there",
        "aws_sqs_pond is no resource",
        "'1bad name' is no name",
    ):
        assert problem in told


@pytest.mark.slow("starts two processes, whose sets are in another order each")
def test_equal_modules_give_equal_bytes() -> None:
    code = (
        "from tests.deploy.templates import FORMATS, MODULES, text_of; import hashlib; "
        "print(hashlib.sha256(''.join(text_of(n, f) for n in MODULES for f in FORMATS).encode()).hexdigest())"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(digests) == 1


# -- names


def test_names_that_differ_in_signs_alone_differ_in_a_template() -> None:
    ids = LogicalIds()
    names = [ids.camel("Table", one) for one in ("orders-a", "orders.a", "ordersA", "1st", "x" * 300, "y" * 300)]
    assert len(set(names)) == len(names)
    assert all(name.isalnum() and name[0].isalpha() and len(name) <= 255 for name in names)
    assert names[0] == "OrdersATable"
    assert ids.camel("Table", "orders.a") == names[1]
    snakes = [ids.snake("aws_sqs_queue", one) for one in ("a-b", "a.b", "a_b", "1st", "x" * 300)]
    assert len(set(snakes)) == len(snakes)
    assert all(name.replace("_", "").isalnum() and name[0].isalpha() for name in snakes)
    assert ids.snake("aws_dynamodb_table", "a-b") == "a_b"


def test_a_text_like_a_reference_stays_a_text() -> None:
    [pack] = [one for _, one in of_type("everything", "AWS::Lambda::Function") if one["Handler"].endswith(".pack")]
    assert pack["Environment"]["Variables"]["SHOP"] == "${not} a %{template}"
    functions = template("everything", "terraform-json")["resource"]["aws_lambda_function"]
    assert functions["everything_pack"]["environment"]["variables"]["SHOP"] == "$${not} a %%{template}"
    [rule] = template("everything", "terraform-json")["resource"]["aws_cloudwatch_event_rule"].values()
    assert json.loads(rule["event_pattern"])["detail-type"] == ['Paid "in" $${full}']


@pytest.mark.parametrize("owner", [None, "210987654321"])
def test_only_a_bucket_of_the_account_itself_is_read_written_and_listed_under_its_prefix(owner: str | None) -> None:
    options = {"reply_to": ["r"], "settings": {"bucket": "texts", "prefix": "here/", "bucket_owner": owner}}
    settings = DeployOptions.model_validate(options)
    needed = needs("flows.orders.handlers", options=settings)
    account: Any = owner or {"Ref": "AWS::AccountId"}
    resources = json.loads(cloudformation(needed, settings))["Resources"].values()
    [function, *_] = [one["Properties"] for one in resources if one["Type"] == "AWS::Lambda::Function"]
    assert function["Environment"]["Variables"]["FLOWGUARD_BUCKET_OWNER"] == account
    [role, *_] = [one["Properties"] for one in resources if "Policies" in one["Properties"]]
    allowed = role["Policies"][0]["PolicyDocument"]["Statement"]
    of_bucket = {one["Action"][0]: one for one in allowed if one["Action"][0].startswith("s3:")}
    assert {name: one["Condition"] for name, one in of_bucket.items()} == {
        "s3:GetObject": {"StringEquals": {"aws:ResourceAccount": account}},
        "s3:ListBucket": {"StringEquals": {"aws:ResourceAccount": account}, "StringLike": {"s3:prefix": "here/*"}},
    }
    assert of_bucket["s3:ListBucket"]["Resource"] == [{"Fn::Sub": "arn:${AWS::Partition}:s3:::texts"}]
    assert all("Condition" not in one for one in allowed if one not in of_bucket.values())


def test_an_arn_is_filled_in() -> None:
    assert Arn("s3", "b/*", region=False, account=False).filled("aws-cn", "r", "1") == "arn:aws-cn:s3:::b/*"
    assert Arn("sqs", "q").filled("aws", "r", "1") == "arn:aws:sqs:r:1:q"
    assert Arn(whole="arn:mine").filled("aws", "r", "1") == "arn:mine"


def test_a_policy_that_is_too_large_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    needed = needs("flows.validate_cart.handlers")
    monkeypatch.setattr("flowguard.deploy.arns.LARGEST_POLICY", 500)
    with pytest.raises(Exception, match=r"validate-cart-add-found: its policy may take .* serve its stages by several"):
        statements_of(needed, needed.functions[0])
    assert LARGEST_POLICY == 10_240


# -- the command


def iac(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["iac", *arguments])


@pytest.mark.parametrize("form", FORMATS)
def test_the_command_writes_the_template(form: str, tmp_path: Path) -> None:
    shown = iac("flows.orders.handlers", "--format", form)
    assert (shown.exit_code, shown.stdout) == (0, text_of("orders", form))
    assert "has no dlq_handler" in shown.stderr
    file = tmp_path / "template.json"
    assert iac("flows.orders.handlers", "--format", form, "-o", str(file)).stdout == ""
    assert file.read_text(encoding="utf-8") == text_of("orders", form)


def removed_from(file: Path) -> list[str]:
    configuration = json.loads(file.read_text(encoding="utf-8"))
    assert all(block["lifecycle"] == {"destroy": False} for block in configuration.get("removed", ()))
    return [block["from"] for block in configuration.get("removed", ())]


def test_what_terraform_would_destroy_with_its_messages_or_items_is_left_and_named(tmp_path: Path) -> None:
    file = tmp_path / "shop.tf.json"
    arguments = ("--format", "terraform-json", "-o", str(file))
    assert "removed block" not in iac("flows.orders.handlers", "flows.take_payment.handlers", *arguments).stderr
    assert "required_version" not in file.read_text(encoding="utf-8")
    shown = iac("flows.orders.handlers", *arguments).stderr
    named = [line.partition(" ")[0] for line in shown.splitlines() if f"is not in {file} any more" in line]
    assert {"aws_sqs_queue.payments_to_book", "aws_dynamodb_table.payments"} <= {*named}
    assert sorted(named) == removed_from(file)
    assert not any("lambda" in address for address in named)
    assert json.loads(file.read_text(encoding="utf-8"))["terraform"]["required_version"] == ">= 1.7"
    assert problems_of_configuration(json.loads(file.read_text(encoding="utf-8"))) == []

    assert "removed block" not in iac("flows.orders.handlers", *arguments).stderr, "it is named once"
    assert removed_from(file) == sorted(named), "a release that was never applied may be skipped"
    iac("flows.orders.handlers", "flows.take_payment.handlers", *arguments)
    assert removed_from(file) == [], "Terraform refuses a removed block for what is there"

    iac("flows.approval.handlers", *arguments)  # the secret of its keys is written once
    assert json.loads(file.read_text(encoding="utf-8"))["terraform"]["required_version"] == ">= 1.11"


@pytest.mark.parametrize("name", MODULES)
def test_whatever_terraform_keeps_from_destruction_is_left_when_it_is_dropped(name: str) -> None:
    resources = template(name, "terraform-json")["resource"]
    kept = {
        f"{kind}.{own}"
        for kind, named in resources.items()
        for own, block in named.items()
        if block.get("lifecycle") == {"prevent_destroy": True}
    }
    after: dict[str, dict[str, str]] = {"terraform": {}, "resource": {}}
    text, dropped = with_removed(text_of(name, "terraform-json"), json.dumps(after))
    assert kept
    assert kept == {address for address in dropped if "secret_version" not in address}
    assert [block["from"] for block in json.loads(text)["removed"]] == sorted(dropped)
    if any("aws_secretsmanager_secret." in address for address in kept):
        assert any("secret_version" in address for address in dropped), "without its version a secret has no text"


@pytest.mark.parametrize(
    "before",
    [
        "",
        "[]",
        "\xff",
        '{"resource": []}',
        '{"resource": {"aws_sqs_queue": 1}}',
        '{"removed": 1}',
        '{"removed": [1, {}]}',
    ],
)
def test_a_file_that_held_something_else_is_written_over(before: str, tmp_path: Path) -> None:
    file = tmp_path / "shop.tf.json"
    file.write_bytes(before.encode("latin-1"))
    shown = iac("flows.orders.handlers", "--format", "terraform-json", "-o", str(file))
    assert (shown.exit_code, "any more" in shown.stderr) == (0, False)
    assert file.read_text(encoding="utf-8") == text_of("orders", "terraform-json")


def test_json_says_what_is_done_once_and_notes_what_its_callers_need(tmp_path: Path) -> None:
    (tmp_path / "deploy.toml").write_text(charging.OPTIONS)
    result = iac("tests.deploy.charging", "--json", "--options", str(tmp_path / "deploy.toml"))
    needed = json.loads(result.stdout)
    assert (needed["flows"], [one["once"] for one in needed["functions"]]) == ([], ["charge", "parcels/ship"])
    assert {one["kind"] for one in needed["functions"]} == {"once"}
    assert "refund is under @once('refund'), and what calls it is your own" in result.stderr


def test_json_says_what_is_needed() -> None:
    [line] = iac("flows.orders.handlers:PlaceOrder", "--json").stdout.splitlines()
    said = json.loads(line)
    assert [one["name"] for one in said["functions"]] == ["place-order"]
    assert {one["name"] for one in said["tables"]} == {"flowguard", "orders", "stock"}


def test_options_are_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "deploy.toml"
    file.write_text('[functions.place_order]\ntimeout = 120\n[settings]\ntable = "runs"\n', encoding="utf-8")
    said = json.loads(iac("flows.orders.handlers", "--options", str(file), "--json").stdout)
    assert {one["name"]: one["timeout"] for one in said["functions"]}["place-order"] == 120
    assert said["functions"][0]["environment"] == {"FLOWGUARD_TABLE": "runs"}


def test_what_watches_and_who_calls_are_options_of_all_functions(tmp_path: Path) -> None:
    file = tmp_path / "deploy.toml"
    file.write_text(
        '[settings]\nobservers = "logs,metrics"\nclient = "boto3"\ndebug_sampled = true\n', encoding="utf-8"
    )
    said = json.loads(iac("flows.orders.handlers", "--options", str(file), "--json").stdout)
    wanted = {
        "FLOWGUARD_OBSERVERS": "logs,metrics",
        "FLOWGUARD_CLIENT": "boto3",
        "FLOWGUARD_DEBUG_SAMPLED": "True",
        "FLOWGUARD_TABLE": "flowguard",
    }
    assert [one["environment"] for one in said["functions"]] == [wanted] * 3


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("timeout = 3\n", "timeout is no option"),
        ("[defaults]\ntimeout = 901\n", "defaults.timeout is more than 900"),
        ("[queues.a]\nmax_receive_count = 1\n", "queues.a.max_receive_count is less than"),
        (
            '[settings]\nsigning_keys = "k1:a-secret-of-mine"\n',
            "settings.signing_keys does not say where the keys are: ssm:<parameter> or secretsmanager:<secret>",
        ),
        (
            '[topics."arn:aws:sns:eu-west-1:123456789012:a"]\nname = "b"\n',
            'topics takes name in a block of the topic\'s name alone, and not of its ARN: write [topics."a"]',
        ),
        ('[functions.a.environment]\nFLOWGUARD_TABLE = "t"\n', "has FLOWGUARD_TABLE, which belongs under [settings]"),
        (
            '[defaults]\nrole = "me:too"\n',
            "defaults.role is no role: neither its path and name, such as teams/shop, nor",
        ),
        ('[settings]\nbucket = "A B"\n', "settings.bucket is no name of a bucket"),
        ('[settings]\nbucket = "a..b"\n', "settings.bucket is no name of a bucket"),
        ('[settings]\nbucket = "ab"\n', "settings.bucket has fewer than 3 characters"),
        (f'[settings]\nbucket = "{"a" * 64}"\n', "settings.bucket has more than 63 characters"),
        ('[settings]\nbucket = "192.168.5.4"\n', "settings.bucket is an IP address, which no bucket has for a name"),
        ('[settings]\nbucket_owner = "123456789012"\n', "settings.bucket_owner has no effect without bucket"),
        (
            'bucket_key = "arn:aws:kms:eu-west-1:123456789012:key/1234abcd"\n',
            "settings has no bucket, and bucket_key is the key of one",
        ),
        (
            '[settings]\nobservers = "logs, metric"\n',
            "settings.observers names 'metric', which is no observer: there are logs, timings, metrics, xray, ",
        ),
        ('[settings]\nobservers = "shop.audit:"\n', "settings.observers names 'shop.audit:', which is no observer"),
        ('[settings]\nobservers = "a b:c"\n', "settings.observers names 'a b:c', which is no observer"),
        ('[settings]\nobservers = "a:b.1"\n', "settings.observers names 'a:b.1', which is no observer"),
        ('[settings]\nprefix = ""\n', "settings.prefix is no beginning of keys"),
        ('[settings]\nprefix = "/"\n', "settings.prefix is no beginning of keys"),
        ('[settings]\nprefix = "a*"\n', "settings.prefix is no beginning of keys"),
        (f'[settings]\nprefix = "{"a" * 256}"\n', "settings.prefix is no beginning of keys"),
        (
            '[defaults.environment]\nA = "t"\n',
            "defaults.environment.A is no name of a variable: a letter, then one or more",
        ),
        ("[", "cannot be read: "),
    ],
)
def test_options_that_are_wrong_are_named_and_no_secret_is_shown(text: str, told: str, tmp_path: Path) -> None:
    file = tmp_path / "deploy.toml"
    file.write_text(text, encoding="utf-8")
    shown = iac("flows.orders.handlers", "--options", str(file))
    assert (shown.exit_code, shown.stdout) == (2, "")
    assert told in shown.stderr
    assert "a-secret-of-mine" not in shown.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("nowhere",), "there is no module 'nowhere' here"),
        (("flows.orders.flow",), "name the module that has them, such as flows.orders.handlers"),
        (("flows.orders.handlers:Nobody",), "no handler of flows.orders.handlers serves 'Nobody'"),
        (("no\x1b module",), "is the name of no module"),
        (("flows.orders.handlers", "-o", "/proc/nowhere/x"), "cannot be written"),
        (("flows.orders.handlers", "--options", "/nowhere.toml"), "cannot be read"),
    ],
)
def test_what_cannot_be_deployed_is_exit_code_2(arguments: tuple[str, ...], told: str) -> None:
    shown = iac(*arguments)
    assert (shown.exit_code, shown.stdout) == (2, "")
    assert told in shown.stderr
    assert "\x1b" not in shown.stderr
