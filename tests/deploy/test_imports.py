"""Options that name what other stacks export, and what a template exports itself."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner, Result

from flowguard.cli import main
from flowguard.deploy.exports import exported
from flowguard.deploy.imports import Import, importing, shown, with_values
from flowguard.deploy.live import LiveAccount, NotLive
from flowguard.deploy.planned.imported import stand_ins
from flowguard.deploy.problems import CannotDeploy
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from flowguard.text.setting_problems import CODE_SIGNING, KMS_KEY, SECURITY_GROUP, SUBNET
from tests.deploy.test_doctor import SESSION

ROLE: Final = "arn:aws:iam::123456789012:role/orders"
PARCELS: Final = "arn:aws:sqs:eu-west-1:123456789012:parcels-here"


def unknown(_: str) -> None:
    """Whoever knows no export."""


def placed(text: Any, *path: str) -> dict[str, Any]:
    """Options that say a text at a place."""
    options: Any = text
    for part in reversed(path):
        options = {part: options}
    return dict(options)


def at(options: Any, *path: str) -> Any:
    for part in path:
        options = options[part]
    return options


NAMED: Final = [
    (("tables", "stock", "name"), "table/stock-here"),
    (("queues", "parcels", "name"), "stock-here"),
    (("topics", "placed", "name"), "stock-here"),
    (("settings", "bucket"), "stock-here"),
    (("settings", "scheduler_group"), "schedule-group/stock-here"),
]


@pytest.mark.parametrize(("path", "end"), NAMED)
def test_an_option_takes_a_name_that_another_stack_exports(path: tuple[str, ...], end: str) -> None:
    options, [(stand_in, name)] = read(placed("import:stock", *path))
    assert (at(options, *path), name.as_json()) == (stand_in, {"Fn::ImportValue": "stock"})
    options, _ = with_values(placed("import:stock", *path), {"stock": "stock-here"}.get)
    assert at(options, *path) == "stock-here"


@pytest.mark.parametrize(("path", "end"), NAMED)
def test_an_option_takes_the_name_in_an_arn_that_another_stack_exports(path: tuple[str, ...], end: str) -> None:
    options, [(stand_in, name)] = read(placed("import-arn:stock", *path))
    assert at(options, *path) == stand_in
    place, between = (1, "/") if "/" in end else (5, ":")
    assert name.as_json() == {"Fn::Select": [place, {"Fn::Split": [between, {"Fn::ImportValue": "stock"}]}]}
    arn = f"arn:aws:x:eu-west-1:123456789012:{end}"
    assert arn.split(between)[place] == "stock-here"
    options, _ = with_values(placed("import-arn:stock", *path), {"stock": arn}.get)
    assert at(options, *path) == "stock-here"


def read(options: dict[str, Any]) -> tuple[dict[str, Any], list[tuple[str, Import]]]:
    given, imports = with_values(options, unknown)
    return given, [*imports.items()]


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        (("functions", "place_order", "role"), "role"),
        (("defaults", "role"), "role"),
        (("settings", "scheduler_role"), "role"),
        (("permissions_boundary",), "policy"),
    ],
)
def test_an_option_takes_an_arn_that_another_stack_exports(path: tuple[str, ...], kind: str) -> None:
    options, [(stand_in, arn)] = read(placed("import:role", *path))
    assert at(options, *path) == stand_in
    assert stand_in.startswith(f"arn:aws:iam::000000000000:{kind}/imported-")
    assert arn.as_json() == {"Fn::ImportValue": "role"}


KEY: Final = "arn:aws:kms:eu-west-1:123456789012:key/1234abcd"
SIGNED: Final = "arn:aws:lambda:eu-west-1:123456789012:code-signing-config:csc-0123456789abcdef0"


@pytest.mark.parametrize(
    ("path", "value", "pattern"),
    [
        (("kms_key",), KEY, KMS_KEY),
        (("bucket_key",), KEY, KMS_KEY),
        (("tables", "stock", "kms_key"), KEY, KMS_KEY),
        (("queues", "parcels", "kms_key"), KEY, KMS_KEY),
        (("topics", "placed", "kms_key"), KEY, KMS_KEY),
        (("streams", "views", "kms_key"), KEY, KMS_KEY),
        (("code_signing",), SIGNED, CODE_SIGNING),
        (("vpc", "subnets"), "subnet-0a1b2c3d", SUBNET),
        (("vpc", "security_groups"), "sg-0a1b2c3d", SECURITY_GROUP),
        (("streams", "views", "subnets"), "subnet-0a1b2c3d", SUBNET),
        (("streams", "views", "security_groups"), "sg-0a1b2c3d", SECURITY_GROUP),
    ],
)
def test_what_has_an_arn_or_an_id_and_no_name_may_be_imported(path: tuple[str, ...], value: str, pattern: str) -> None:
    options, [(stand_in, each)] = read(placed("import:shared", *path))
    assert (at(options, *path), each.as_json()) == (stand_in, {"Fn::ImportValue": "shared"})
    assert re.fullmatch(pattern, stand_in) is not None
    assert shown(f"[{stand_in}]", {stand_in: each}) == "[import:shared]"
    assert with_values(placed("import:shared", *path), {"shared": value}.get)[0] == placed(value, *path)


def test_the_region_of_an_imported_key_is_in_its_arn() -> None:
    _, [(stand_in, each)] = read({"kms_key": "import:key"})
    region = stand_in.split(":")[3]
    [text, variables] = importing(f"sqs.{region}.amazonaws.com", {stand_in: each})["Fn::Sub"]
    [name] = variables
    assert text == f"sqs.${{{name}}}.amazonaws.com"
    assert variables[name] == {"Fn::Select": [3, {"Fn::Split": [":", {"Fn::ImportValue": "key"}]}]}
    assert shown(f"sqs.{region}.amazonaws.com", {stand_in: each}) == "sqs.REGION.amazonaws.com"
    both = importing(f"{stand_in} {region}", {stand_in: each})["Fn::Sub"]
    assert sorted(both[1].values(), key=str) == [{"Fn::ImportValue": "key"}, variables[name]]


@pytest.mark.parametrize("path", [("operators",), ("queues", "q", "senders"), ("defaults", "policies")])
def test_each_of_a_list_may_be_imported(path: tuple[str, ...]) -> None:
    options, imports = read(placed(["import:a", ROLE, "import:b"], *path))
    [first, second, third] = at(options, *path)
    assert (second, [*dict(imports)]) == (ROLE, [first, third])
    options, _ = with_values(placed(["import:a"], *path), {"a": ROLE}.get)
    assert at(options, *path) == [ROLE]


@pytest.mark.parametrize("section", ["queues", "topics"])
def test_buckets_of_a_queue_or_topic_may_be_imported(section: str) -> None:
    options, [(stand_in, bucket)] = read(placed(["import-arn:files"], section, "q", "buckets"))
    assert at(options, section, "q", "buckets") == [stand_in]
    assert stand_ins({stand_in: bucket}) == {"import:files": f"arn:aws:s3:::{stand_in}"}
    [(stand_in, bucket)] = read(placed("import:files", "settings", "bucket"))[1]
    assert stand_ins({stand_in: bucket}) == {"import:files": stand_in}


def test_a_variable_of_your_own_code_may_be_imported() -> None:
    options, [(stand_in, _)] = read(placed("import:shop", "defaults", "environment", "SHOP"))
    assert at(options, "defaults", "environment", "SHOP") == stand_in


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (("runtime",), "import:x"),
        (("functions", "f", "name"), "import:x"),
        (("streams", "s", "arn"), "import:x"),
        (("kms_key",), "import-arn:x"),
        (("settings", "table"), "import:x"),
        (("functions", "f", "role"), "import-arn:x"),
        (("operators",), "import-arn:x"),
        (("defaults", "environment", "SHOP"), "import-arn:x"),
    ],
)
def test_other_options_take_no_import(path: tuple[str, ...], text: str) -> None:
    with pytest.raises(CannotDeploy, match=f"{'.'.join(path)} takes no {text}"):
        read(placed(text, *path))


def test_all_that_take_no_import_are_named() -> None:
    with pytest.raises(CannotDeploy, match=r"(?s)runtime takes no .*account takes no .*exports is "):
        read({"runtime": "import:x", "account": "import:y", "exports": "import:"})


@pytest.mark.parametrize("text", ["import:", "import-arn:", "import:a b", "import:long_texts", "import-arn:a.b"])
@pytest.mark.parametrize("path", [("settings", "bucket"), ("tables", "stock", "name"), ("operators",), ("runtime",)])
def test_an_import_of_a_name_that_no_export_has_is_refused(path: tuple[str, ...], text: str) -> None:
    for given in (text, [text]):
        with pytest.raises(
            CannotDeploy, match=rf"{'.'.join(path)} is {text}; another stack's export is written import:"
        ):
            read(placed(given, *path))


def test_the_command_says_how_an_import_is_written(tmp_path: Path) -> None:
    result = run(tmp_path, "iac", options='[settings]\nbucket = "import:Long_Texts"')
    assert result.exit_code == 2
    assert "settings.bucket is import:Long_Texts; another stack's export is written import:NAME" in result.stderr


@pytest.mark.parametrize("text", ["imports:a", "an import:a", "Import:a", 7])
def test_what_is_no_import_stays(text: Any) -> None:
    assert read({"runtime": text}) == ({"runtime": text}, [])


def test_a_tag_is_none() -> None:
    assert read({"tags": {"from": "import:x"}}) == ({"tags": {"from": "import:x"}}, [])
    assert read({"tags": {"from": "import:"}}) == ({"tags": {"from": "import:"}}, [])


@pytest.mark.parametrize("section", ["tables", "queues", "topics"])
def test_what_is_imported_is_there_already(section: str) -> None:
    options, _ = read({section: {"a": {"name": "import:a", "existing": False}, "b": {"name": "b"}, "c": 7}})
    assert at(options, section, "a", "existing") is True
    assert at(options, section, "b") == {"name": "b"}
    assert at(options, section, "c") == 7
    assert read({section: 7}) == ({section: 7}, [])


def test_a_group_that_is_imported_is_there_already() -> None:
    options, [(stand_in, _)] = read(placed("import:group", "settings", "scheduler_group"))
    assert options["schedule_groups"] == {stand_in: {"existing": True}}
    assert "schedule_groups" not in read(placed("import:b", "settings", "bucket"))[0]


def test_an_imported_group_leaves_the_other_groups_as_they_are() -> None:
    groups = {"before": {"former": True}}
    given = {**placed("import:group", "settings", "scheduler_group"), "schedule_groups": groups}
    options, [(stand_in, _)] = read(given)
    assert options["schedule_groups"] == {**groups, stand_in: {"existing": True}}


NAME: Final = Import("shop:stock", of_arn=False, option="tables")
OF_ARN: Final = Import("shop:stock", of_arn=True, option="tables")
BOTH: Final = {each.stand_in: each for each in (NAME, OF_ARN)}


@pytest.mark.parametrize(
    "value", ["text", 7, True, None, [], {}, {"Ref": "A"}, {"Fn::Sub": "${A}"}, "imported-0123456789abcdef"]
)
def test_a_value_without_an_import_stays(value: Any) -> None:
    assert importing(value, BOTH) == value
    assert importing({"Fn::Sub": "imported-0123456789abcdef"}, BOTH) == {"Fn::Sub": "imported-0123456789abcdef"}


def test_an_import_is_a_function_of_cloudformation_wherever_it_stands() -> None:
    assert importing([{"TableName": NAME.stand_in}], BOTH) == [{"TableName": {"Fn::ImportValue": "shop:stock"}}]
    first, second = (f"Imported{each.stand_in.rpartition('-')[2]}" for each in (NAME, OF_ARN))
    text = f"${{x}} {NAME.stand_in} {OF_ARN.stand_in} imported-0123456789abcdef"
    variables = {first: NAME.as_json(), second: OF_ARN.as_json()}
    parts = f"${{{first}}} ${{{second}}} imported-0123456789abcdef"
    assert importing(text, BOTH) == {"Fn::Sub": [f"${{!x}} {parts}", variables]}
    assert importing({"Fn::Sub": text}, BOTH) == {"Fn::Sub": [f"${{x}} {parts}", variables]}


def test_people_read_what_the_options_say() -> None:
    role = Import("role", of_arn=False, option="role")
    imports = {**BOTH, role.stand_in: role}
    bare = role.stand_in.rpartition("/")[2]
    text = f"{NAME.stand_in}, {OF_ARN.stand_in}, {role.stand_in}, {bare}, imported-0123456789abcdef"
    assert (
        shown(text, imports)
        == "import:shop:stock, import-arn:shop:stock, import:role, import:role, imported-0123456789abcdef"
    )


# -- the commands

OPTIONS: Final = """
[tables.stock]
name = "import-arn:warehouse:stock"
[queues.stock-counted]
name = "import:counted"
[settings]
names = "staging-*"
scheduler_group = "import:group"
[functions.place_order]
role = "import:role"
"""


def run(directory: Path, command: str, *arguments: str, options: str = OPTIONS) -> Result:
    (directory / "deploy.toml").write_text(options, encoding="utf-8")
    given = [command, "flows.orders.handlers", "--options", str(directory / "deploy.toml"), *arguments]
    return CliRunner().invoke(main, given)


@pytest.mark.parametrize("form", ["cloudformation", "sam"])
def test_a_template_imports_what_the_options_name(form: str, tmp_path: Path) -> None:
    result = run(tmp_path, "iac", "--format", form, options=OPTIONS.replace("stock-counted", "orders-settled"))
    template = json.loads(result.stdout)
    functions = {
        each["Properties"]["Handler"].rpartition(".")[2]: each["Properties"]
        for each in template["Resources"].values()
        if "Handler" in each["Properties"]
    }
    assert functions["place_order"]["Role"] == {"Fn::ImportValue": "role"}
    subs = [each["Environment"]["Variables"]["FLOWGUARD_NAMES"]["Fn::Sub"] for each in functions.values()]
    arn = {"Fn::Select": [1, {"Fn::Split": ["/", {"Fn::ImportValue": "warehouse:stock"}]}]}
    named = [sub for sub in subs if "queues.orders-settled" in sub[0]]
    assert [[*variables.values()] for _, variables in named] == [[{"Fn::ImportValue": "counted"}, arn]] * len(named)
    assert named
    assert all(text.startswith("staging-*,queues.orders-settled=${Imported") for text, _ in named)
    assert "imported-" not in result.stdout + result.stderr
    assert "staging-stock" not in {each["Properties"].get("TableName") for each in template["Resources"].values()}


@pytest.mark.parametrize("form", ["cloudformation", "sam"])
def test_a_role_that_is_imported_is_of_the_account_itself(form: str, tmp_path: Path) -> None:
    given = 'account = "123456789012"\n[queues.orders-placed]\nsenders = ["import:on-call"]\n'
    result = run(tmp_path, "iac", "--format", form, options=given)
    assert '"Fn::ImportValue": "on-call"' in result.stdout
    assert "000000000000" not in result.stdout
    principals = [
        statement["Principal"]
        for each in json.loads(result.stdout)["Resources"].values()
        if each["Type"] == "AWS::SQS::QueuePolicy"
        for statement in each["Properties"]["PolicyDocument"]["Statement"]
    ]
    assert set(map(str, principals)) == {"*"}, "only what keeps others out"


SECURED: Final = """
kms_key = "import:key"
bucket_key = "import:key-of-bucket"
code_signing = "import:signed"
permissions_boundary = "import:bounds"
[vpc]
subnets = ["import:subnet-a", "import:subnet-b"]
security_groups = ["import:group"]
[settings]
bucket = "import:texts"
"""


@pytest.mark.parametrize("form", ["cloudformation", "sam"])
def test_what_security_asks_for_may_be_another_stacks(form: str, tmp_path: Path) -> None:
    file = tmp_path / "t.json"
    assert run(tmp_path, "iac", "--format", form, "-o", str(file), options=SECURED).exit_code == 0
    text = file.read_text(encoding="utf-8")
    assert {f'"Fn::ImportValue": "{name}"' in text for name in re.findall('import:([a-z-]+)"', SECURED)} == {True}
    assert re.search(r"imported-|region-[0-9a-f]{16}|(subnet|sg)-[0-9a-f]{16}|csc-0|000000000000", text) is None
    looked = run(tmp_path, "doctor", "--template", str(file), options=SECURED)
    assert "0 errors, 0 warnings" in looked.output


def test_the_policy_of_an_imported_key_needs_its_arn(tmp_path: Path) -> None:
    result = run(tmp_path, "iac", "--key-policy", options='kms_key = "import:key"')
    assert result.exit_code == 2
    assert "which key import:key is, the deployment tells; here say the ARN" in result.stderr
    assert run(tmp_path, "iac", "--key-policy", options=f'kms_key = "{KEY}"').exit_code == 0


def test_what_is_needed_is_not_said_with_values_that_cloudformation_alone_knows(tmp_path: Path) -> None:
    result = run(tmp_path, "iac", "--json")
    assert (result.exit_code, result.stdout) == (2, "")
    named = "import-arn:warehouse:stock, import:counted, import:group, import:role"
    assert f"the JSON: {named} has its value where CloudFormation deploys it, and nowhere else; give" in result.stderr


@pytest.mark.parametrize("arguments", [("--audit",), ("--audit", "--json")])
def test_what_people_read_names_the_import(arguments: tuple[str, ...], tmp_path: Path) -> None:
    result = run(tmp_path, "iac", *arguments)
    assert "import-arn:warehouse:stock" in result.stdout
    assert "imported-" not in result.stdout + result.stderr


def test_nested_stacks_import_too(tmp_path: Path) -> None:
    assert run(tmp_path, "iac", "--split", str(tmp_path / "stacks")).exit_code == 0
    texts = [file.read_text(encoding="utf-8") for file in (tmp_path / "stacks").iterdir()]
    assert any('"Fn::ImportValue": "warehouse:stock"' in text for text in texts)
    assert not any("imported-" in text for text in texts)
    looked = run(tmp_path, "doctor", "--template", str(tmp_path / "stacks" / "template.json"))
    assert "0 errors, 0 warnings" in looked.output


@pytest.mark.parametrize("options", [OPTIONS, 'exports = "shop"'])
def test_terraform_has_no_exports_of_cloudformation(options: str, tmp_path: Path) -> None:
    result = run(tmp_path, "iac", "--format", "terraform-json", options=options)
    assert result.exit_code == 2
    named = (
        "exports" if "exports" in options else "import-arn:warehouse:stock, import:counted, import:group, import:role"
    )
    assert f"the module: {named} is of CloudFormation, not of Terraform" in result.stderr


def looked_at(directory: Path, *parameters: str) -> tuple[int, dict[str, set[str]]]:
    """The exit code of the doctor on the template, and what it says, by the rule."""
    file = directory / "t.json"
    run(directory, "iac", "-o", str(file))
    given = [part for parameter in parameters for part in ("--parameter", parameter)]
    result = run(directory, "doctor", "--json", "--template", str(file), *given)
    told: dict[str, set[str]] = {}
    for text in result.stdout.splitlines():
        each = json.loads(text)
        told.setdefault(each["rule"], set()).update(each["resource"].split(", "))
    return result.exit_code, told


def test_the_doctor_takes_an_import_as_a_note_with_its_name(tmp_path: Path) -> None:
    code, told = looked_at(tmp_path)
    assert code == 0
    assert (
        told["not-looked-at"] == {"import-arn:warehouse:stock", "import:counted", "import:role"} & told["not-looked-at"]
    )
    assert told.keys() == {"not-looked-at", "not-in-a-file", "concurrency-open"}


def test_the_doctor_takes_the_value_of_an_import_from_a_parameter(tmp_path: Path) -> None:
    arn = "arn:aws:dynamodb:eu-west-1:123456789012:table/stock-here"
    code, told = looked_at(tmp_path, f"import:warehouse:stock={arn}", f"import:role={ROLE}")
    assert code == 0
    assert "stock-here" in told["not-looked-at"]
    assert "orders" in told["not-looked-at"]


def exports(*pages: dict[str, str]) -> Any:
    def answer(call: ApiCall, proceed: Proceed, /) -> Response:
        assert call.operation == "ListExports", call.operation
        page = int(call.params.get("NextToken", "0"))
        more = {"NextToken": str(page + 1)} if page + 1 < len(pages) else {}
        return {"Exports": [{"Name": name, "Value": value} for name, value in pages[page].items()], **more}

    return intercept(answer)


def test_the_live_value_of_an_import_is_asked_for() -> None:
    with exports({"a": "1"}, {"b": "2"}):
        assert [LiveAccount(SESSION).export(name) for name in ("a", "b")] == ["1", "2"]
        with pytest.raises(NotLive, match="no stack here exports c, which the options import"):
            LiveAccount(SESSION).export("c")


def test_without_the_permission_nothing_that_imports_is_looked_at() -> None:
    def denied(call: ApiCall, proceed: Proceed, /) -> Response:
        raise call.client.exceptions.ClientError({"Error": {"Code": "AccessDenied"}}, call.operation)

    with intercept(denied), pytest.raises(NotLive, match="cloudformation:ListExports may not be asked"):
        LiveAccount(SESSION).export("a")


def test_the_doctor_says_which_import_is_of_no_stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "x")
    with exports({}):
        result = run(tmp_path, "doctor", "--region", "eu-west-1")
    assert result.exit_code == 2
    assert "no stack here exports warehouse:stock" in result.stderr


# -- what a template exports


def test_a_template_exports_the_arns_of_what_it_makes(tmp_path: Path) -> None:
    template = json.loads(run(tmp_path, "iac", options='exports = "shop"').stdout)
    exports = {each["Export"]["Name"]: each["Value"] for each in template["Outputs"].values() if "Export" in each}
    assert exports["shop:queue:orders-placed"] == {"Fn::GetAtt": ["OrdersPlacedQueue", "Arn"]}
    assert exports["shop:table:flowguard"] == {"Fn::GetAtt": ["FlowguardTable", "Arn"]}
    assert exports["shop:function:place-order"] == {"Fn::GetAtt": ["PlaceOrderFunction", "Arn"]}
    assert {name.split(":")[1] for name in exports} >= {"queue", "table", "function"}
    without = json.loads(run(tmp_path, "iac", options="").stdout)
    assert "Outputs" not in without


def test_each_kind_has_its_own_name_and_reference() -> None:
    resources = {
        "T": {"Type": "AWS::SNS::Topic", "Properties": {"TopicName": "a_b.fifo"}},
        "G": {"Type": "AWS::Scheduler::ScheduleGroup", "Properties": {"Name": "g"}},
        "F": {"Type": "AWS::Serverless::Function", "Properties": {"FunctionName": "f"}},
        "R": {"Type": "AWS::IAM::Role", "Properties": {}},
        "SchedulerRole": {"Type": "AWS::IAM::Role", "Properties": {}},
    }
    assert exported(resources, "x") == {
        "ExportT": {"Value": {"Ref": "T"}, "Export": {"Name": "x:topic:a-b-fifo"}},
        "ExportG": {"Value": {"Fn::GetAtt": ["G", "Arn"]}, "Export": {"Name": "x:group:g"}},
        "ExportSchedulerRole": {
            "Value": {"Fn::GetAtt": ["SchedulerRole", "Arn"]},
            "Export": {"Name": "x:role:scheduler"},
        },
        "ExportF": {"Value": {"Fn::GetAtt": ["F", "Arn"]}, "Export": {"Name": "x:function:f"}},
    }


def test_two_exports_of_one_name_are_refused() -> None:
    queues = {name: {"Type": "AWS::SQS::Queue", "Properties": {"QueueName": name}} for name in ("a_b", "a-b")}
    with pytest.raises(CannotDeploy, match="queue:a_b and queue:a-b would both be exported as x:queue:a-b"):
        exported(queues, "x")


def test_the_stack_that_makes_something_exports_it(tmp_path: Path) -> None:
    run(tmp_path, "iac", "--split", str(tmp_path / "s"), options='exports = "shop"')
    told = {file.name: json.loads(file.read_text(encoding="utf-8")) for file in (tmp_path / "s").iterdir()}
    assert "Outputs" not in told["template.json"]
    single = json.loads(run(tmp_path, "iac", options='exports = "shop"').stdout)
    exports = [
        output["Export"]["Name"]
        for template in told.values()
        for output in template.get("Outputs", {}).values()
        if "Export" in output
    ]
    assert sorted(exports) == sorted(output["Export"]["Name"] for output in single["Outputs"].values())


def test_more_outputs_than_cloudformation_takes_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flowguard.deploy.cloudformation.MOST_PARAMETERS", 3)
    result = run(tmp_path, "iac", options='exports = "shop"')
    assert result.exit_code == 2
    assert "outputs, and CloudFormation takes 3; write a nested stack for each flow" in result.stderr


@pytest.mark.proof("cfn-lint takes a second for each template")
def test_cfn_lint_has_nothing_to_say_of_imports_and_exports(tmp_path: Path) -> None:
    options = f'exports = "shop"\n{OPTIONS}'
    run(tmp_path, "iac", "-o", str(tmp_path / "one.json"), options=options)
    run(tmp_path, "iac", "--split", str(tmp_path / "several"), options=options)
    files = [tmp_path / "one.json", *sorted((tmp_path / "several").iterdir())]
    command = [str(Path(sys.executable).with_name("cfn-lint")), *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)
