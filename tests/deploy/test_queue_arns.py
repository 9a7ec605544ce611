"""The ARN of a queue by its URL, for each host that SQS has had, and for none that says no region."""

from __future__ import annotations

import pytest

from flowguard.deploy.queue_arns import account_of, arn_of
from flowguard.destinations import Queue

PLACE = "/123456789012/orders.fifo"


@pytest.mark.parametrize(
    ("host", "place"),
    [
        ("sqs.eu-west-1.amazonaws.com", "aws:sqs:eu-west-1"),
        ("sqs.us-gov-west-1.amazonaws.com", "aws-us-gov:sqs:us-gov-west-1"),
        ("sqs.cn-north-1.amazonaws.com.cn", "aws-cn:sqs:cn-north-1"),
        ("sqs.eusc-de-east-1.amazonaws.eu", "aws-eusc:sqs:eusc-de-east-1"),
        ("sqs.us-iso-east-1.c2s.ic.gov", "aws-iso:sqs:us-iso-east-1"),
        ("sqs.us-isob-east-1.sc2s.sgov.gov", "aws-iso-b:sqs:us-isob-east-1"),
        ("sqs.eu-isoe-west-1.cloud.adc-e.uk", "aws-iso-e:sqs:eu-isoe-west-1"),
        ("sqs.us-isof-south-1.csp.hci.ic.gov", "aws-iso-f:sqs:us-isof-south-1"),
        ("sqs-fips.us-east-1.amazonaws.com", "aws:sqs:us-east-1"),
        ("sqs.eu-west-1.api.aws", "aws:sqs:eu-west-1"),
        ("sqs-fips.us-east-2.api.aws", "aws:sqs:us-east-2"),
        ("sqs.cn-north-1.api.amazonwebservices.com.cn", "aws-cn:sqs:cn-north-1"),
        ("eu-west-1.queue.amazonaws.com", "aws:sqs:eu-west-1"),
        ("cn-north-1.queue.amazonaws.com.cn", "aws-cn:sqs:cn-north-1"),
        ("queue.amazonaws.com", "aws:sqs:us-east-1"),
        ("vpce-0a1b2c3d-4e5f6a7b.sqs.ap-southeast-2.vpce.amazonaws.com", "aws:sqs:ap-southeast-2"),
        ("vpce-0a1b2c3d-4e5f6a7b-us-east-1a.sqs.us-east-1.vpce.amazonaws.com", "aws:sqs:us-east-1"),
        ("sqs.us-east-1.localhost.localstack.cloud:4566", "aws:sqs:us-east-1"),
    ],
)
def test_the_host_of_a_queue_says_its_region(host: str, place: str) -> None:
    assert arn_of(Queue(f"https://{host}{PLACE}")) == f"arn:{place}:123456789012:orders.fifo"


@pytest.mark.parametrize(
    "host", ["localhost:4566", "127.0.0.1:4566", "sqs.example.com", "queue.example.com", "elasticmq", "sqs.eu-west-1"]
)
def test_other_hosts_say_no_region(host: str) -> None:
    assert arn_of(Queue(f"http://{host}{PLACE}")) is None


@pytest.mark.parametrize("name", ["orders", "orders.fifo", "https://sqs.eu-west-1.amazonaws.com/orders"])
def test_what_names_no_account_has_no_arn(name: str) -> None:
    assert arn_of(Queue(name)) is None


def test_an_arn_is_its_own_and_has_an_account() -> None:
    arn = "arn:aws-cn:sqs:cn-north-1:123456789012:orders"
    assert (arn_of(Queue(arn)), account_of(arn), account_of(None)) == (arn, "123456789012", None)
