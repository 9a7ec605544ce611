"""What is named by its ARN is of the deployment's region: AWS cannot do the rest, or flowguard does not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Final, cast

import pytest
from click.testing import CliRunner
from pydantic import ValidationError

from flowguard.cli import main
from flowguard.cli.iac import read_needs
from flowguard.deploy.account import Account
from flowguard.deploy.finding import Severity
from flowguard.deploy.needs import Deployment
from flowguard.deploy.options import DeployOptions
from flowguard.deploy.problems import CannotDeploy
from flowguard.deploy.regions import check_regions, in_one_region
from flowguard.destinations import Bus
from tests.deploy import everything, streaming
from tests.deploy.exercised import needs

HERE: Final = "eu-west-1"
THERE: Final = "us-east-1"
OWN: Final = f"{THERE}:123456789012"
CALLED: Final = "a function calls the services of its own region alone"
READ: Final = "Lambda reads what is in the function's own region alone"
SUBSCRIBED: Final = "its subscription, and the queue of what it cannot deliver, would have to be made in that region"
ENCRYPTS: Final = "a key encrypts in its own region alone"

TABLE: Final = f"arn:aws:dynamodb:{OWN}:table/lines"
QUEUE: Final = f"arn:aws:sqs:{OWN}:parcels"
TOPIC: Final = f"arn:aws:sns:{OWN}:news.fifo"
KEY: Final = f"arn:aws:kms:{OWN}:key/1234abcd-12ab-34cd-56ef-1234567890ab"
SIGNED: Final = f"arn:aws:lambda:{OWN}:code-signing-config:csc-0123456789abcdef0"
SECRET: Final = f"arn:aws:secretsmanager:{OWN}:secret:flowguard-1a2b3c"
ON_CALL: Final = f"arn:aws:sns:{OWN}:on-call"
OURS: Final = f"arn:aws:sns:{HERE}:123456789012:on-call"
ALARMED: Final = "CloudWatch publishes alarms to topics of its own region alone"

GIVEN: Final[Mapping[str, tuple[dict[str, Any], str, str]]] = {
    "a table": ({"tables": {"lines": {"name": TABLE}}}, TABLE, CALLED),
    "a queue that is sent to": ({"queues": {"parcels": {"name": QUEUE}}}, QUEUE, CALLED),
    "a topic that feeds a queue": ({"topics": {"news.fifo": {"name": TOPIC}}}, TOPIC, SUBSCRIBED),
    "a key": ({"kms_key": KEY}, KEY, ENCRYPTS),
    "the key of a table": ({"tables": {"lines": {"kms_key": KEY}}}, KEY, ENCRYPTS),
    "the key of a queue": ({"queues": {"parcels": {"kms_key": KEY}}}, KEY, ENCRYPTS),
    "the key of a topic": ({"topics": {"news.fifo": {"kms_key": KEY}}}, KEY, ENCRYPTS),
    "signed code": ({"code_signing": SIGNED}, SIGNED, "Lambda takes a configuration of its own region alone"),
    "the topic of the alarms": ({"alarm_topic": {"arn": ON_CALL}}, ON_CALL, ALARMED),
    "the key of that topic": ({"alarm_topic": {"arn": OURS, "kms_key": KEY}}, KEY, ENCRYPTS),
    "the secret of the keys": ({"settings": {"signing_keys": f"secretsmanager:{SECRET}"}}, SECRET, CALLED),
}


def options_of(given: Mapping[str, Any]) -> DeployOptions:
    return DeployOptions.model_validate({**everything.OPTIONS, **given})


@cache
def deployment() -> Deployment:
    return needs("tests.deploy.everything", options=options_of({}))


@pytest.mark.parametrize("what", GIVEN)
def test_what_is_of_another_region_is_refused_with_why(what: str) -> None:
    given, arn, why = GIVEN[what]
    options = options_of({**given, "region": HERE})
    with pytest.raises(CannotDeploy) as refused:
        in_one_region(needs("tests.deploy.everything", options=options), options)
    [problem] = refused.value.problems
    assert problem.startswith(f"{arn} is not of {HERE}: {why}; name one of the deployment's region")


def changed(**queue: Any) -> Deployment:
    """The deployment with one queue that is read otherwise."""
    first, *others = (one for one in deployment().queues if one.reader is not None)
    rest = [one for one in deployment().queues if one.reader is None]
    return replace(deployment(), queues=(replace(first, **queue), *others, *rest))


@pytest.mark.parametrize(
    ("queue", "arn", "why"),
    [
        ({"arn": QUEUE}, QUEUE, READ),
        (
            {"rules": (Bus(f"arn:aws:events:{OWN}:event-bus/shop", "shop", "packed"),)},
            f"arn:aws:events:{OWN}:event-bus/shop",
            "a rule, and the queue that it sends to, would have to be made in that region",
        ),
    ],
)
def test_a_queue_is_read_and_fed_in_its_own_region(queue: dict[str, Any], arn: str, why: str) -> None:
    with pytest.raises(CannotDeploy) as refused:
        in_one_region(changed(**queue), DeployOptions(region=HERE))
    assert [problem.partition(";")[0] for problem in refused.value.problems] == [f"{arn} is not of {HERE}: {why}"]


def test_a_stand_in_for_a_region_is_that_of_the_deployment() -> None:
    in_one_region(changed(arn="arn:aws:sqs:${AWS::Region}:123456789012:parcels"), DeployOptions(region=HERE))


def test_records_are_given_up_to_a_queue_of_the_same_region() -> None:
    taken = next(one.give_up_to for one in deployment().queues if one.give_up_to is not None)
    moved = [replace(one, arn=QUEUE, reader=None) if one.name == taken else one for one in deployment().queues]
    with pytest.raises(CannotDeploy) as refused:
        in_one_region(replace(deployment(), queues=tuple(moved)), DeployOptions(region=HERE))
    assert "SQS gives records up to queues of the same region alone" in str(refused.value)


def test_a_topic_that_is_published_to_alone_is_called() -> None:
    alone = [replace(one, topics=()) for one in deployment().queues]
    found = [*check_regions(replace(deployment(), queues=tuple(alone)), DeployOptions(), looked_at(THERE))]
    assert {one.why for one in found if ":sns:" in one.resource} == {CALLED}


def test_a_stream_of_another_region_is_refused() -> None:
    stream = f"arn:aws:kinesis:{OWN}:stream/clicked"
    streams = {**streaming.OPTIONS["streams"], "clicked": {"arn": stream}}
    options = DeployOptions.model_validate({**streaming.OPTIONS, "streams": streams, "region": HERE})
    with pytest.raises(CannotDeploy) as refused:
        in_one_region(needs("tests.deploy.streaming", options=options), options)
    assert [problem.partition(";")[0] for problem in refused.value.problems] == [f"{stream} is not of {HERE}: {READ}"]


def test_the_parts_of_one_deployment_are_of_one_region_where_nobody_says_which() -> None:
    given, _, _ = GIVEN["a table"]
    with pytest.raises(CannotDeploy) as refused:
        in_one_region(needs("tests.deploy.everything", options=options_of(given)), options_of(given))
    [problem] = refused.value.problems
    assert f"{TABLE}: {CALLED}" in problem
    assert "arn:aws:sns:eu-west-1:123456789012:" in problem
    assert 'region = "…" in the options says which is the deployment\'s' in problem


@pytest.mark.parametrize("region", [None, HERE])
def test_an_arn_whose_region_is_of_another_partition_is_refused(region: str | None) -> None:
    arn = f"arn:aws-cn:sqs:{HERE}:123456789012:parcels"
    with pytest.raises(CannotDeploy) as refused:
        in_one_region(changed(arn=arn), DeployOptions(region=region))
    assert refused.value.problems == (f"{arn} has the partition aws-cn, and its region {HERE} is of aws",)


def test_what_the_code_names_is_of_the_partition_of_the_options() -> None:
    role = "arn:aws-cn:iam::123456789012:role/shop"
    with pytest.raises(CannotDeploy) as refused:
        in_one_region(deployment(), DeployOptions(operators=(role, role.replace("-cn", ""), "by-name")))
    [problem] = refused.value.problems
    assert problem.startswith("operators is of the partition aws-cn, and arn:aws:")
    assert problem.endswith(" of aws: no call goes from one to another")
    nothing = replace(deployment(), queues=(), topics=(), functions=())
    in_one_region(nothing, DeployOptions(operators=(role,)))
    elsewhere = DeployOptions(operators=(role,), region=HERE)
    in_one_region(deployment(), elsewhere)


def test_what_is_of_one_region_is_deployed() -> None:
    in_one_region(deployment(), DeployOptions())
    in_one_region(deployment(), DeployOptions(region=HERE))


def test_the_key_of_a_bucket_is_of_the_buckets_region() -> None:
    options = options_of({"bucket_key": KEY, "region": HERE})
    in_one_region(needs("tests.deploy.everything", options=options), options)


def test_the_key_of_a_stream_is_of_another_region() -> None:
    streams = {**streaming.OPTIONS["streams"], "clicked": {**streaming.OPTIONS["streams"]["clicked"], "kms_key": KEY}}
    options = DeployOptions.model_validate({**streaming.OPTIONS, "streams": streams, "region": HERE})
    with pytest.raises(CannotDeploy, match=f"{KEY} is not of {HERE}: {ENCRYPTS}"):
        in_one_region(needs("tests.deploy.streaming", options=options), options)


def test_a_queue_that_a_url_names_has_the_region_of_the_url() -> None:
    needed = needs("tests.deploy.everything", options=options_of({}))
    url = f"https://sqs.{THERE}.amazonaws.com/123456789012/answers"
    function = needed.functions[0]
    sends = next(one for one in function.permissions if one.target == "queue")
    sending = replace(function, permissions=(replace(sends, name=url),))
    found = [*check_regions(replace(needed, functions=(sending,)), DeployOptions(), looked_at(HERE))]
    assert [one.resource for one in found] == [f"arn:aws:sqs:{OWN}:answers"]


def test_a_queue_whose_url_says_no_region_is_refused() -> None:
    needed = needs("tests.deploy.everything", options=options_of({}))
    url = "http://localhost:4566/123456789012/answers"
    function = needed.functions[0]
    sends = next(one for one in function.permissions if one.target == "queue")
    sending = replace(function, permissions=(replace(sends, name=url),))
    with pytest.raises(CannotDeploy, match=f"{url}: its host says no region, so no role can name the queue; give its"):
        in_one_region(replace(needed, functions=(sending,)), DeployOptions())


def test_what_stands_for_an_import_has_no_region(tmp_path: Path) -> None:
    file = tmp_path / "deploy.toml"
    file.write_text('region = "eu-west-1"\nkms_key = "import:Key"\n', encoding="utf-8")
    needs("flows.orders.handlers", options=DeployOptions.read(file))


def test_a_region_has_the_form_of_one() -> None:
    for region in ("eu-west-1", "us-gov-east-1", "eusc-de-east-1"):
        assert DeployOptions(region=region).region == region
    for wrong in ("Ireland", "eu-west", "eu-west-1a"):
        with pytest.raises(ValidationError):
            DeployOptions(region=wrong)


class LookedAt:
    def __init__(self, region: str | None) -> None:
        self.region = region


def looked_at(region: str | None) -> Account:
    return cast(Account, LookedAt(region))


def test_the_doctor_names_what_is_not_of_the_region_that_it_looks_at() -> None:
    found = [*check_regions(deployment(), DeployOptions(), looked_at(THERE))]
    assert {one.rule for one in found} == {"region-other"}
    assert {one.severity for one in found} == {Severity.ERROR}
    resources = [one.resource for one in found]
    assert "arn:aws:sns:eu-west-1:123456789012:orders-placed" in resources
    assert len(resources) == len(set(resources))
    assert [*check_regions(deployment(), DeployOptions(), looked_at(HERE))] == []
    assert [*check_regions(deployment(), DeployOptions(region=THERE), looked_at(None))] == []


def test_the_doctor_says_that_it_looks_at_another_region_than_the_options_name() -> None:
    [first, *_] = check_regions(deployment(), DeployOptions(region=HERE), looked_at(THERE))
    assert (first.rule, first.resource, first.fix) == ("region-other", "the options", f"look at {HERE}, with --region")
    assert [*check_regions(deployment(), DeployOptions(region=HERE), looked_at(HERE))] == []


def test_the_command_refuses_and_what_only_looks_does_not(tmp_path: Path) -> None:
    file = tmp_path / "deploy.toml"
    file.write_text(f'region = "{HERE}"\nkms_key = "{KEY}"\n')
    refused = CliRunner().invoke(main, ["iac", "flows.take_payment.handlers", "--options", str(file)])
    assert refused.exit_code == 2
    assert f"{KEY} is not of {HERE}: {ENCRYPTS}" in refused.stderr
    needed, options = read_needs(("flows.take_payment.handlers",), file)
    assert [one.rule for one in check_regions(needed, options, looked_at(HERE))] == ["region-other"]
