"""Deploying modules on MiniStack: the template of ``flowguard iac`` and the zip of ``flowguard package``."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from boto3.session import Session
from botocore.exceptions import ClientError

from tests.deploy.packaging.wheels import RUNTIME
from tests.engines.ministack import ministack
from tests.engines.polling import comes_true
from tests.proofs.e2e.actions import for_ministack
from tests.proofs.e2e.cloud import REGION, SIGNING_KEYS, STACKS, TEXTS, Cloud
from tests.proofs.e2e.code import boto3_of_lambda, packed
from tests.proofs.e2e.command import PROJECT, flowguard

BUCKET: Final = "functions"
OPTIONS: Final = """
runtime = "{runtime}"
architecture = "x86_64"
kms_key = "{key}"
[settings]
observers = "logs,switches:Switches"
bucket = "{texts}"
signing_keys = "{signing_keys}"
token_keys = "ssm:/flowguard/token-keys"
[defaults]
max_concurrency = 2
environment = {{ PYTHONPATH = "{boto3}", E2E_SWITCHES = "{switches}" }}
# what is killed is delivered again after six times its time-out; each payment dies alone
[functions.charge_card]
timeout = 4
batch_size = 1
[functions.book_payment]
timeout = 4
batch_size = 1
[functions.book]
timeout = 4
[functions.unload]
timeout = 3
batch_size = 1
# a slow machine may need more deliveries than five
[queues.payments]
max_receive_count = 20
[queues.payments-to-book]
max_receive_count = 20
[queues.depot-unload]
max_receive_count = 3
"""
SHARED: Final = """
[tables.flowguard]
existing = true
[schedule_groups.flowguard]
existing = true
"""
"""The second stack shares the run table and the group of schedules of the first."""

_SECONDS_TO_DEPLOY: Final = 120
_MOST_FLOWS: Final = 8
"""Of the shipped flows in one template: nine have more than 500 resources."""


@contextmanager
def deployed(modules: Sequence[str], renamed: Mapping[str, Sequence[str]]) -> Iterator[Cloud]:
    """Everything that the handlers of modules need, as long as the block.

    ``renamed`` has further modules, by the rule of the names under which they are deployed.
    """
    with tempfile.TemporaryDirectory(prefix="e2e-") as scratch, ministack(enforced=True) as endpoint_url:
        directory = Path(scratch)
        cloud = Cloud(endpoint_url, directory / "switches")
        cloud.switches.mkdir()
        first, second = directory / "deploy.toml", directory / "second.toml"
        runtime = boto3_of_lambda(directory)
        given = {"texts": TEXTS, "signing_keys": SIGNING_KEYS, "switches": cloud.switches, "key": _key(cloud)}
        first.write_text(OPTIONS.format(runtime=RUNTIME, boto3=runtime, **given))
        second.write_text(first.read_text() + SHARED)
        code = packed(
            [*dict.fromkeys((*modules, *(one for some in renamed.values() for one in some)))],
            first,
            directory,
            include=PROJECT / "switches.py",
        )
        assert _denies(cloud), "MiniStack lets anybody do anything"
        _prepare(cloud, code)
        for stack, (some, options) in zip(STACKS, _stacks(modules, first, second), strict=False):
            _create(cloud, stack, for_ministack(flowguard("iac", *some, "--options", str(options))), code)
        for names, further in renamed.items():
            env = {"FLOWGUARD_NAMES": names}
            template = for_ministack(flowguard("iac", *further, "--options", str(first), env=env))
            _create(cloud, names.replace("*", "renamed"), template, code)
        yield cloud


def _stacks(modules: Sequence[str], first: Path, second: Path) -> Iterator[tuple[list[str], Path]]:
    """Yield the modules of each stack with its options: all are too many for one template."""
    ours = [one for one in modules if one.startswith("flows.")][:_MOST_FLOWS]
    others = [one for one in modules if one not in ours]
    yield from zip([some for some in (ours, others) if some], (first, second), strict=False)


def _key(cloud: Cloud) -> str:
    """Return the ARN of a new key, under which everything is made."""
    return str(cloud.client("kms").create_key()["KeyMetadata"]["Arn"])


def _prepare(cloud: Cloud, code: Path) -> None:
    s3 = cloud.client("s3")
    for name in ("token-keys", "signing-keys"):
        keys = f"k1:an-invented-secret-for-{name}-of-32-characters"
        cloud.client("ssm").put_parameter(Name=f"/flowguard/{name}", Value=keys, Type="SecureString")
    s3.create_bucket(Bucket=BUCKET)
    s3.create_bucket(Bucket=TEXTS)
    s3.put_object(Bucket=BUCKET, Key=code.name, Body=code.read_bytes())


def _create(cloud: Cloud, stack: str, template: str, code: Path) -> None:
    s3, stacks = cloud.client("s3"), cloud.client("cloudformation")
    s3.put_object(Bucket=BUCKET, Key=f"{stack}.json", Body=template.encode())
    given = {"CodeBucket": BUCKET, "CodeKey": code.name}
    stacks.create_stack(
        StackName=stack,
        TemplateURL=f"{cloud.endpoint_url}/{BUCKET}/{stack}.json",  # it is too long to be sent along
        Parameters=[{"ParameterKey": key, "ParameterValue": value} for key, value in given.items()],
        Capabilities=["CAPABILITY_NAMED_IAM"],
    )
    made = comes_true(lambda: _status(cloud, stack) != "CREATE_IN_PROGRESS", _SECONDS_TO_DEPLOY, every=0.2)
    assert made, _status(cloud, stack)
    assert _status(cloud, stack) == "CREATE_COMPLETE", json.dumps(_events(cloud, stack), default=str)


def _denies(cloud: Cloud) -> bool:
    """Answer whether a user without any permission may do nothing."""
    iam = cloud.client("iam")
    iam.create_user(UserName="nobody")
    key = iam.create_access_key(UserName="nobody")["AccessKey"]
    make: Any = Session(key["AccessKeyId"], key["SecretAccessKey"], region_name=REGION).client
    try:
        make("sqs", endpoint_url=cloud.endpoint_url).create_queue(QueueName="of-nobody")
    except ClientError as error:
        return "AccessDenied" in error.response["Error"]["Code"]
    return False


def _status(cloud: Cloud, stack: str) -> str:
    return str(cloud.client("cloudformation").describe_stacks(StackName=stack)["Stacks"][0]["StackStatus"])


def _events(cloud: Cloud, stack: str) -> list[str]:
    found = cloud.client("cloudformation").describe_stack_events(StackName=stack)["StackEvents"]
    return [str(one.get("ResourceStatusReason")) for one in found if "FAILED" in one["ResourceStatus"]]
