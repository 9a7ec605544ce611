"""The ARNs in a file of options: some are of the deployment's own account alone."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from flowguard.deploy.imports import NOBODY
from flowguard.deploy.options import DeployOptions
from flowguard.deploy.problems import CannotDeploy
from tests.deploy import everything
from tests.deploy.exercised import needs

HERE: Final = "123456789012"
THERE: Final = "210987654321"
GROUP: Final = "arn:aws:scheduler:eu-west-1:{0}:schedule-group/own"
SIGNING: Final = "arn:aws:lambda:eu-west-1:{0}:code-signing-config:csc-0123456789abcdef0"
ROLE: Final = "arn:aws:iam::{0}:role/shop"
POLICY: Final = "arn:aws:iam::{0}:policy/shop"
KEY: Final = "arn:aws:kms:eu-west-1:{0}:key/1234abcd-12ab-34cd-56ef-1234567890ab"

PARAMETER: Final = "arn:aws:ssm:eu-west-1:{0}:parameter/keys"

OF_LAMBDA: Final = "Lambda takes a role of its own account alone"
OF_IAM: Final = "IAM attaches policies of the role's own account, and those of AWS"


def problems(file: Path, text: str) -> tuple[str, ...]:
    """Return what is refused of options in a file."""
    file.write_text(text, encoding="utf-8")
    try:
        DeployOptions.read(file)
    except CannotDeploy as error:
        return error.problems
    return ()


OWN: Final = [
    ('[functions.place]\nrole = "{0}"', ROLE, "functions.place.role", OF_LAMBDA),
    ('[defaults]\nrole = "{0}"', ROLE, "defaults.role", OF_LAMBDA),
    ('[settings]\nscheduler_role = "{0}"', ROLE, "settings.scheduler_role", "EventBridge Scheduler takes a role"),
    ('[settings]\nscheduler_group = "{0}"', GROUP, "settings.scheduler_group", "functions make schedules in their own"),
    ('permissions_boundary = "{0}"', POLICY, "permissions_boundary", OF_IAM),
    ('[functions.place]\npolicies = ["arn:aws:iam::aws:policy/X", "{0}"]', POLICY, "functions.place.policies", OF_IAM),
    ('code_signing = "{0}"', SIGNING, "code_signing", "Lambda takes a configuration of its own account alone"),
]


@pytest.mark.parametrize(("form", "arn", "place", "why"), OWN)
def test_what_must_be_of_the_account_is_refused_of_another(
    tmp_path: Path, form: str, arn: str, place: str, why: str
) -> None:
    file, text = tmp_path / "options.toml", f'account = "{HERE}"\n{form.format(arn)}\n'
    [refused] = problems(file, text.format(THERE))
    assert refused.startswith(f"{place} is of the account {THERE}, and it is deployed to {HERE}: {why}")
    for account in (HERE, NOBODY):  # the second stands for an import
        assert problems(file, text.format(account)) == ()


def test_where_no_account_is_said_all_must_be_of_that_of_the_first(tmp_path: Path) -> None:
    roles = f'[functions.a]\nrole = "{ROLE.format(HERE)}"\n[functions.b]\nrole = "{ROLE.format(THERE)}"\n'
    refused = f"functions.b.role is of the account {THERE}, and functions.a.role of {HERE}: {OF_LAMBDA}"
    assert problems(tmp_path / "options.toml", roles) == (refused,)
    assert problems(tmp_path / "options.toml", roles.replace(THERE, HERE)) == ()


def test_what_may_be_of_another_account_is_taken(tmp_path: Path) -> None:
    text = (
        f'account = "{HERE}"\nkms_key = "{KEY}"\noperators = ["{ROLE}"]\n'
        f'[queues.orders]\nsenders = ["{ROLE}"]\n[functions.a.environment]\nrole = "{ROLE}"\n'
    )
    assert problems(tmp_path / "options.toml", text.replace("{0}", THERE)) == ()


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        (f'permissions_boundary = "{POLICY}"', "permissions_boundary is of the partition aws, and region of aws-cn"),
        (
            '[defaults]\npolicies = ["arn:aws:iam::aws:policy/X"]',
            "defaults.policies is of the partition aws, and region",
        ),
        (f'operators = ["{ROLE}"]', "operators is of the partition aws, and region of aws-cn: no call goes"),
        ('[queues.a]\nbuckets = ["arn:aws:s3:::uploads"]', "queues.a.buckets is of the partition aws, and region"),
        (
            f'[settings]\nsigning_keys = "ssm:{PARAMETER}"',
            "settings.signing_keys has the partition aws-cn, and its region",
        ),
        (f'kms_key = "{KEY}"', "kms_key has the partition aws-cn, and its region eu-west-1 is of aws"),
    ],
)
def test_what_is_of_another_partition_is_refused(tmp_path: Path, text: str, refused: str) -> None:
    file, in_china = tmp_path / "options.toml", f'region = "cn-north-1"\n{text.replace("{0}", HERE)}\n'
    if "has the partition" in refused:
        in_china = in_china.replace("arn:aws:", "arn:aws-cn:")
    [problem] = problems(file, in_china)
    assert problem.startswith(refused)
    good = in_china.replace("arn:aws:", "arn:aws-cn:").replace("eu-west-1", "cn-north-1")
    assert problems(file, good) == ()


def test_where_no_region_is_said_all_must_be_of_the_partition_of_the_first(tmp_path: Path) -> None:
    policies = '[defaults]\npolicies = ["arn:aws-cn:iam::aws:policy/X"]\n[functions.a]\nrole = "{0}"\n'
    refused = (
        "functions.a.role is of the partition aws, and defaults.policies of aws-cn: no call goes from one to another"
    )
    assert problems(tmp_path / "options.toml", policies.replace("{0}", ROLE.format(HERE))) == (refused,)


def test_a_group_of_schedules_is_of_the_region_that_is_deployed_to(tmp_path: Path) -> None:
    group = f'[settings]\nscheduler_group = "{GROUP.format(HERE)}"\n'
    refused = "settings.scheduler_group is of eu-west-1, and it is deployed to eu-north-1: functions make schedules in "
    assert problems(tmp_path / "options.toml", f'region = "eu-north-1"\n{group}') == (f"{refused}their region",)
    for region in ("", 'region = "eu-west-1"\n'):
        assert problems(tmp_path / "options.toml", f"{region}{group}") == ()


MANY: Final = ", ".join(f'"subnet-{number:x}"' for number in range(17))
GROUPS: Final = ", ".join(f'"sg-{number:x}"' for number in range(6))
POLICIES: Final = ", ".join(f'"{POLICY.format(HERE)}{number}"' for number in range(26))


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        (f'[vpc]\nsubnets = [{MANY}]\nsecurity_groups = ["sg-0"]', "vpc.subnets has more than 16 parts"),
        (f'[vpc]\nsubnets = ["subnet-0"]\nsecurity_groups = [{GROUPS}]', "vpc.security_groups has more than 5 parts"),
        (f"[streams.a]\nsubnets = [{MANY}]", "streams.a.subnets has more than 16 parts"),
        (f"[streams.a]\nsecurity_groups = [{GROUPS}]", "streams.a.security_groups has more than 5 parts"),
        (f"[functions.a]\npolicies = [{POLICIES}]", "functions.a.policies has more than 25 parts"),
        ('runtime = "python3.10"', "runtime is no runtime of Python 3.11 or later, such as python3.13"),
        (
            '[defaults.environment]\nAWS_REGION = "x"\nLAMBDA_TASK_ROOT = "x"',
            "defaults.environment has AWS_REGION, LAMBDA_TASK_ROOT, which Lambda itself sets",
        ),
        ('[defaults.environment]\n_HANDLER = "x"', "defaults.environment._HANDLER is no name of a variable"),
        ('reply_to = ["a b"]', "reply_to.0 is no name, ARN or URL of a queue"),
        ('[settings]\ntable = "a b"', "settings.table is no name of a table: 3 to 255"),
        (f'[settings]\ntable = "arn:aws:dynamodb:eu-west-1:{HERE}:table/runs"', "settings.table is no name of a table"),
        ('[settings]\nsigning_keys = "ssm: "', "settings.signing_keys does not say where the keys are"),
        (f'[settings]\nsigning_keys = "ssm:arn:aws:sqs:eu-west-1:{HERE}:x"', "settings.signing_keys does not say"),
        ('[settings]\nanswers_url = "https://"', "settings.answers_url is no URL of https without ? and #"),
        ('[settings]\nanswers_url = "https://x/?a"', "settings.answers_url is no URL of https"),
        (f'[defaults]\nrole = "shop/{"r" * 65}"', "defaults.role is no role"),
        (
            f'[defaults]\nrole = "shop"\npolicies = ["{POLICY.format(HERE)}"]',
            "defaults.policies has no effect beside role",
        ),
        ('reply_to = ["a", "b", "b", "a"]', "reply_to has a, b twice"),
        ('[vpc]\nsubnets = ["subnet-0", "subnet-0"]\nsecurity_groups = ["sg-0"]', "vpc.subnets has subnet-0 twice"),
    ],
)
def test_what_aws_does_not_take_is_refused_by_its_name(tmp_path: Path, text: str, refused: str) -> None:
    [problem] = problems(tmp_path / "options.toml", text)
    assert problem.startswith(refused)


def test_the_most_of_everything_is_taken(tmp_path: Path) -> None:
    text = (
        f'runtime = "python3.11"\nreply_to = ["a.fifo", "https://sqs.eu-west-1.amazonaws.com/{HERE}/b"]\n'
        f"[vpc]\nsubnets = [{MANY.rpartition(',')[0]}]\n"
        f"security_groups = [{GROUPS.rpartition(',')[0]}]\n"
        f'[functions.a]\npolicies = [{POLICIES.rpartition(",")[0]}]\nenvironment = {{ TZ = "UTC" }}\n'
        f'[functions.b]\nrole = "teams/shop/{"r" * 64}"\n[settings]\nsigning_keys = "ssm:/keys:3"\n'
        f'token_keys = "secretsmanager:arn:aws:secretsmanager:eu-west-1:{HERE}:secret:flowguard/keys-1a2b3c"\n'
    )
    assert problems(tmp_path / "options.toml", text) == ()


def test_more_policies_than_a_role_has_without_a_quota_are_noted() -> None:
    def notes(number: int) -> list[str]:
        policies = [f"arn:aws:iam::aws:policy/P{each}" for each in range(number)]
        options = DeployOptions.model_validate({**everything.OPTIONS, "functions": {"pack": {"policies": policies}}})
        return [note for note in needs("tests.deploy.everything", options=options).notes if "quota" in note]

    wanted = "everything-pack has 11 policies, and a role has 10 unless the account's quota is raised"
    assert (notes(10), notes(11)) == ([], [wanted])
