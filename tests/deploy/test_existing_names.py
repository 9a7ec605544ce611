"""What is there already goes by its name, or by its ARN."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from flowguard.cli.iac import FORMATS
from flowguard.deploy.options import DeployOptions
from tests.deploy.exercised import needs
from tests.deploy.templates import MODULES

ACCOUNT: Final = "123456789012"
BY_NAME: Final = {
    "operators": ["on-call"],
    "settings": {"bucket": "long-texts", "scheduler_group": "shared", "scheduler_role": "clocks/sends"},
    "schedule_groups": {"shared": {"existing": True}},
    "defaults": {"role": "teams/shop"},
    "queues": {"approval-decisions": {"senders": ["api"], "buckets": ["uploads"]}},
    "tables": {"expenses": {"existing": True, "name": "all-expenses"}},
}


def in_full(name: str) -> str:
    return f"arn:aws:iam::{ACCOUNT}:role/{name}"


BY_ARN: Final = {
    **BY_NAME,
    "operators": [in_full("on-call")],
    "settings": {
        "bucket": "arn:aws:s3:::long-texts",
        "scheduler_group": f"arn:aws:scheduler:eu-west-1:{ACCOUNT}:schedule-group/shared",
        "scheduler_role": in_full("clocks/sends"),
    },
    "defaults": {"role": in_full("teams/shop")},
    "queues": {"approval-decisions": {"senders": [in_full("api")], "buckets": ["arn:aws:s3:::uploads"]}},
}
OPEN: Final = {
    "cloudformation": ("${AWS::Partition}", "${AWS::AccountId}"),
    "sam": ("${AWS::Partition}", "${AWS::AccountId}"),
    "terraform-json": (
        "${data.aws_partition.current.partition}",
        "${data.aws_caller_identity.current.account_id}",
    ),
}


def written(given: dict[str, Any], form: str) -> str:
    options = DeployOptions.model_validate({"account": ACCOUNT, **given})
    return FORMATS[form](needs(MODULES["approval"], options=options), options)


@pytest.mark.parametrize("form", [*OPEN])
def test_a_role_by_its_name_is_of_the_account_that_is_deployed_to(form: str) -> None:
    partition, account = OPEN[form]
    by_name, by_arn = written(BY_NAME, form), written(BY_ARN, form)
    for role in ("teams/shop", "clocks/sends", "on-call", "api"):
        assert f"arn:{partition}:iam::{account}:role/{role}" in by_name
        assert in_full(role) in by_arn
    for name in ("partition", "account"):
        filled = {"partition": (partition, "aws"), "account": (account, ACCOUNT)}[name]
        by_name = by_name.replace(*filled)
    assert by_name.count(in_full("")) == by_arn.count(in_full("")) > 4


@pytest.mark.parametrize("form", [*OPEN])
def test_a_bucket_or_group_by_its_arn_is_the_one_of_its_name(form: str) -> None:
    given = {
        **BY_NAME,
        "settings": {
            "bucket": "arn:aws:s3:::long-texts",
            "scheduler_group": f"arn:aws:scheduler:eu-west-1:{ACCOUNT}:schedule-group/shared",
            "scheduler_role": "clocks/sends",
        },
        "queues": {"approval-decisions": {"senders": ["api"], "buckets": ["arn:aws:s3:::uploads"]}},
    }
    assert written(given, form) == written(BY_NAME, form)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("bucket", "arn:aws:s3:eu-west-1:123456789012:accesspoint/texts"),
        ("bucket", "arn:aws:s3:::long-texts/keys"),
        ("scheduler_group", "arn:aws:scheduler:eu-west-1:123456789012:schedule/shared"),
        ("scheduler_role", "arn:aws:iam::123456789012:policy/shared"),
        ("scheduler_role", "/shop"),
    ],
)
def test_another_arn_is_refused(path: str, text: str) -> None:
    with pytest.raises(ValueError, match=path):
        DeployOptions.model_validate({"settings": {path: text}})


def test_a_role_that_is_given_is_made_by_nobody() -> None:
    resources = json.loads(written(BY_NAME, "cloudformation"))["Resources"].values()
    assert not [each for each in resources if each["Type"] == "AWS::IAM::Role"]
