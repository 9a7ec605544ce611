"""What the page on your own infrastructure shows of other tools: run by these tools, and looked at by the doctor.

The CDK, SAM's transform and osls have a place of their own: ``make .engines/toolkits/ready``.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner

from flowguard.cli import main
from flowguard.deploy.as_json import described
from flowguard.deploy.finding import Severity
from tests.deploy.exercised import needs
from tests.deploy.planned.looked import findings, read
from tests.deploy.templates import MODULES, options_of, template
from tests.engines.process import ENGINES

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "guides" / "your-own-infrastructure.md"
TOOLKITS: Final = ENGINES / "toolkits"
FLOWS: Final = "flows.orders.handlers"


def blocks(heading: str) -> dict[str, str]:
    """The code under a heading of the page, by its language."""
    text = PAGE.read_text(encoding="utf-8").partition(f"# {heading}\n")[2]
    section = re.split(r"^##+ ", text, flags=re.MULTILINE)[0]
    return dict(re.findall(r"^```(\w+)[^\n]*\n(.*?)^```", section, re.MULTILINE | re.DOTALL))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with the flows, for tools that have to be there."""
    if not (TOOLKITS / "ready").exists():
        pytest.skip("the toolkits have not been fetched; run `make .engines/toolkits/ready`")
    if not all(map(shutil.which, ("node", "jq"))):
        pytest.skip("needs node and jq on the PATH")
    shutil.copytree(ROOT / "flows", tmp_path / "flows")
    (tmp_path / "build").mkdir()
    return tmp_path


def run(place: Path, commands: str) -> str:
    """Run the commands of a block, which have to succeed, and return what they print."""
    tools = [TOOLKITS / "bin", TOOLKITS / "node_modules" / ".bin", Path(sys.executable).parent]
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([*map(str, tools), os.environ["PATH"]]),
        "PYTHONPATH": "",
        "AWS_ACCESS_KEY_ID": "x",
        "AWS_SECRET_ACCESS_KEY": "x",
        "SLS_NOTIFICATIONS_MODE": "off",
        "SLS_TELEMETRY_DISABLED": "1",
        "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "1",
    }
    command = ["bash", "-e", "-c", commands]
    ran = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.mark.long("packages once more what cfn-lint and MiniStack take", first=True)
@pytest.mark.parametrize("heading", ["The template in a stack", "Constructs of your own"])
def test_the_doctor_finds_nothing_in_what_the_cdk_makes(heading: str, place: Path) -> None:
    there = blocks(heading)
    (place / "app.py").write_text(there["python"], encoding="utf-8")
    assert "0 errors, 0 warnings" in run(place, there["sh"])


NAMES: Final = ("TableName", "QueueName", "TopicName", "FunctionName", "LogGroupName", "AlarmName", "RoleName", "Name")


def called(resource: Any) -> tuple[str, str]:
    """The type of a resource and its name. Many have none, and a mapping refers to a function."""
    texts = [resource["Properties"].get(name) for name in NAMES]
    return resource["Type"], next((text for text in texts if isinstance(text, str)), "")


def kept(resources: Any) -> Counter[Any]:
    """What becomes of resources when their stack goes, and when they are replaced."""
    policies = ("DeletionPolicy", "UpdateReplacePolicy")
    told = [(*called(each), *(each.get(policy, "Delete") for policy in policies)) for each in resources]
    return Counter(each for each in told if each[2:] != ("Delete", "Delete"))


def tagged(resources: Any) -> Counter[Any]:
    """The tags of resources."""
    named = ((called(each), each["Properties"].get("Tags", ())) for each in resources)
    return Counter((name, tuple(sorted((tag["Key"], tag["Value"]) for tag in tags))) for name, tags in named if tags)


SECURED: Final = """
kms_key = "arn:aws:kms:eu-west-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"
account = "123456789012"
role_path = "/shop/"
permissions_boundary = "arn:aws:iam::123456789012:policy/bounds"
log_retention = 365
tracing = true
code_signing = "arn:aws:lambda:eu-west-1:123456789012:code-signing-config:csc-0123456789abcdef0"
tags = { team = "checkout" }
[vpc]
subnets = ["subnet-0a1b2c3d", "subnet-0a1b2c3e"]
security_groups = ["sg-0a1b2c3d"]
[settings]
bucket = "long-texts"
[defaults]
max_concurrency = 3
reserved = 10
"""


@pytest.mark.long("packages once more what cfn-lint and MiniStack take")
@pytest.mark.parametrize("flow", ["orders", "answer_ticket"])
def test_the_constructs_of_the_page_have_what_a_security_team_asks(flow: str, place: Path) -> None:
    there = blocks("Constructs of your own")
    (place / "app.py").write_text(there["python"], encoding="utf-8")
    (place / "deploy.toml").write_text(SECURED, encoding="utf-8")
    module = f"flows.{flow}.handlers --options deploy.toml"
    write = f"flowguard iac {module}"
    run(place, f"{write} --json -o build/needs.json\n{write} -o build/template.json\npython app.py")
    told = run(place, f"flowguard doctor {module} --template cdk.out/OrdersByNeeds.template.json --json || true")
    found = [json.loads(line) for line in told.splitlines()]
    assert [each for each in found if each["severity"] != "note"] == []
    made, generated = (
        json.loads((place / file).read_text(encoding="utf-8"))["Resources"].values()
        for file in ("cdk.out/OrdersByNeeds.template.json", "build/template.json")
    )
    assert {each["DeletionPolicy"] for each in made if each["Type"] == "AWS::Logs::LogGroup"} == {
        "RetainExceptOnCreate"
    }
    assert kept(made) == kept(generated)
    assert all(dict(tags)["team"] == "checkout" for _, tags in tagged(made))
    assert tagged(made) == tagged(generated)


@pytest.mark.long("packages once more what cfn-lint and MiniStack take")
@pytest.mark.parametrize("name", ["everything", "orders", "starting", "streaming", "ticking", "topics", "uploading"])
def test_the_constructs_of_the_page_make_what_the_template_has(name: str, place: Path) -> None:
    options = options_of(name)
    needed = needs(MODULES[name], options=options)
    (place / "app.py").write_text(blocks("Constructs of your own")["python"], encoding="utf-8")
    (place / "build" / "needs.json").write_text(described(needed, options), encoding="utf-8")
    run(place, "python app.py")
    file = place / "cdk.out" / "OrdersByNeeds.template.json"
    found = findings(read(file.read_text(encoding="utf-8"), "cloudformation"), needed, options)
    assert [each for each in found if each.severity is not Severity.NOTE] == []
    made = json.loads(file.read_text(encoding="utf-8"))["Resources"].values()
    kinds = Counter(each["Type"] for each in made if each["Type"] not in ("AWS::IAM::Policy", "AWS::CDK::Metadata"))
    assert kinds == Counter(each["Type"] for each in template(name)["Resources"].values())
    assert kept(made) == kept(template(name)["Resources"].values())
    assert tagged(made) == tagged(template(name)["Resources"].values())


@pytest.mark.long("packages once more what cfn-lint and MiniStack take")
def test_the_doctor_finds_nothing_in_what_the_serverless_framework_packages(place: Path) -> None:
    there = blocks("The Serverless Framework")
    (place / "serverless.yml").write_text(there["yaml"], encoding="utf-8")
    assert "0 errors, 0 warnings" in run(place, there["sh"])


# -- SAM

TRANSFORM: Final = """
import json, sys
from types import SimpleNamespace
from samtranslator.translator.transform import transform

template = json.load(sys.stdin)
for resource in template["Resources"].values():
    if resource["Type"] == "AWS::Serverless::Function":
        resource["Properties"]["CodeUri"] = "s3://my-code/orders.zip"  # as `sam package` does
policies = SimpleNamespace(load=dict)  # these templates name no policy of AWS
json.dump(transform(template, {}, policies), sys.stdout)
"""


def transformed(template: Any) -> Any:
    """What SAM's own transform makes of a template."""
    ran = subprocess.run(
        [str(TOOLKITS / "bin" / "python"), "-c", TRANSFORM],
        input=json.dumps(template),
        env={**os.environ, "AWS_DEFAULT_REGION": "eu-west-1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def written(directory: Path, module: str) -> Any:
    """The template that flowguard writes for SAM."""
    file = directory / "written.json"
    ran = CliRunner().invoke(main, ["iac", module, "--format", "sam", "-o", str(file)])
    assert ran.exit_code == 0, ran.output
    return json.loads(file.read_text(encoding="utf-8"))


def of_the_page(template: Any) -> Any:
    """That template with the function of the page in place of its own."""
    shown = import_module("cfnlint.decode.cfn_yaml").loads(blocks("SAM")["yaml"])
    kept = {label: each for label, each in template["Resources"].items() if label != "PlaceOrderFunction"}
    return {**template, "Globals": shown["Globals"], "Resources": {**kept, **shown["Resources"]}}


def told(directory: Path, module: str, template: Any) -> list[str]:
    """What the doctor says of a template, but for notes about files as such."""
    file = directory / "looked.json"
    file.write_text(json.dumps(template), encoding="utf-8")
    ran = CliRunner().invoke(main, ["doctor", module, "--json", "--template", str(file)])
    assert ran.exit_code == 0, ran.output
    return ran.stdout.splitlines()


@pytest.mark.long("asks once more of what cfn-lint and the doctor take")
@pytest.mark.parametrize(
    ("module", "change"),
    [(FLOWS, dict), (FLOWS, of_the_page), ("flows.approval.handlers", dict)],
    ids=["written", "of the page", "with a link"],
)
def test_sams_own_transform_leads_to_what_the_doctor_saw_before_it(
    module: str, change: Callable[[Any], Any], place: Path
) -> None:
    template = change(written(place, module))
    before = told(place, module, template)
    made = transformed(template)
    kinds = {each["Type"] for each in made["Resources"].values()}
    assert "AWS::Serverless::Function" not in kinds
    assert {"AWS::Lambda::Function", "AWS::Lambda::EventSourceMapping"} <= kinds
    assert told(place, module, made) == before
