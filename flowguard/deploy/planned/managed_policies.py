"""AWS managed policies that roles of functions often have, and which actions of a flow each allows.

What they allow beside that, such as alarms and dashboards for people, is left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from flowguard.deploy.planned.values import UNKNOWN

_ARN: Final = re.compile(r"arn:[^:]+:iam::aws:policy/(?:[^:]+/)?([^:/]+)")
_WRITES_LOGS: Final = ("logs:CreateLogGroup", "logs:CreateLogStream", "logs:PutLogEvents")
_TRACES: Final = (
    "xray:PutTraceSegments",
    "xray:PutTelemetryRecords",
    "xray:GetSamplingRules",
    "xray:GetSamplingTargets",
    "xray:GetSamplingStatisticSummaries",
)
_READS_CHANGES: Final = (
    "dynamodb:DescribeStream",
    "dynamodb:GetRecords",
    "dynamodb:GetShardIterator",
    "dynamodb:ListStreams",
)
_INTERFACES: Final = (
    "ec2:AssignPrivateIpAddresses",
    "ec2:CreateNetworkInterface",
    "ec2:DeleteNetworkInterface",
    "ec2:DescribeNetworkInterfaces",
    "ec2:UnassignPrivateIpAddresses",
)


def _allows(*actions: str, on: str = "*") -> dict[str, Any]:
    return {"Effect": "Allow", "Action": [*actions], "Resource": on}


def _passes(service: str) -> dict[str, Any]:
    passed = {"StringLike": {"iam:PassedToService": service}}
    return {**_allows("iam:PassRole", on="arn:aws:iam::*:role/*"), "Condition": passed}


_ALL_OF_TABLES: Final = _allows(
    "dynamodb:*",
    "ec2:DescribeSecurityGroups",
    "ec2:DescribeSubnets",
    "ec2:DescribeVpcs",
    "kinesis:DescribeStream",
    "kinesis:DescribeStreamSummary",
)
POLICIES: Final[Mapping[str, Sequence[Mapping[str, Any]]]] = {
    "AdministratorAccess": [_allows("*")],
    "AmazonDynamoDBFullAccess": [_ALL_OF_TABLES],
    "AmazonDynamoDBFullAccess_v2": [_ALL_OF_TABLES],
    "AmazonEventBridgeFullAccess": [_allows("events:*", "scheduler:*"), _passes("scheduler.amazonaws.com")],
    "AmazonEventBridgeSchedulerFullAccess": [_allows("scheduler:*"), _passes("scheduler.amazonaws.com")],
    "AmazonKinesisFullAccess": [_allows("kinesis:*")],
    "AmazonS3FullAccess": [_allows("s3:*")],
    "AmazonSNSFullAccess": [_allows("sns:*")],
    "AmazonSQSFullAccess": [_allows("sqs:*")],
    "AmazonSQSReadOnlyAccess": [_allows("sqs:GetQueueAttributes", "sqs:GetQueueUrl")],
    "AWSLambdaBasicExecutionRole": [_allows(*_WRITES_LOGS)],
    "AWSLambdaDynamoDBExecutionRole": [_allows(*_READS_CHANGES, *_WRITES_LOGS)],
    "AWSLambdaENIManagementAccess": [_allows(*_INTERFACES)],
    "AWSLambdaExecute": [
        _allows("logs:*", on="arn:aws:logs:*:*:*"),
        _allows("s3:GetObject", "s3:PutObject", on="arn:aws:s3:::*"),
    ],
    "AWSLambdaInvocation-DynamoDB": [_allows("lambda:InvokeFunction", *_READS_CHANGES)],
    "AWSLambdaKinesisExecutionRole": [
        _allows(
            "kinesis:DescribeStream",
            "kinesis:DescribeStreamSummary",
            "kinesis:GetRecords",
            "kinesis:GetShardIterator",
            "kinesis:ListShards",
            "kinesis:SubscribeToShard",
            *_WRITES_LOGS,
        )
    ],
    "AWSLambdaMSKExecutionRole": [
        _allows(
            "kafka:DescribeCluster",
            "kafka:DescribeClusterV2",
            "kafka:GetBootstrapBrokers",
            "ec2:CreateNetworkInterface",
            "ec2:DeleteNetworkInterface",
            "ec2:DescribeNetworkInterfaces",
            "ec2:DescribeSecurityGroups",
            "ec2:DescribeSubnets",
            "ec2:DescribeVpcs",
            *_WRITES_LOGS,
        )
    ],
    "AWSLambdaRole": [_allows("lambda:InvokeFunction")],
    "AWSLambdaSQSQueueExecutionRole": [
        _allows("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes", *_WRITES_LOGS)
    ],
    "AWSLambdaVPCAccessExecutionRole": [_allows(*_INTERFACES, "ec2:DescribeSubnets", *_WRITES_LOGS)],
    "AWSXRayDaemonWriteAccess": [_allows(*_TRACES)],
    "AWSXrayWriteOnlyAccess": [_allows(*_TRACES)],
    "CloudWatchLambdaInsightsExecutionRolePolicy": [
        _allows("logs:CreateLogGroup"),
        _allows("logs:CreateLogStream", "logs:PutLogEvents", on="arn:aws:logs:*:*:log-group:/aws/lambda-insights:*"),
    ],
    "CloudWatchLogsFullAccess": [_allows("logs:*")],
    "PowerUserAccess": [{"Effect": "Allow", "NotAction": ["iam:*", "organizations:*", "account:*"], "Resource": "*"}],
}
"""What each allows, by its name. No two policies of AWS have one name."""


def of_aws(arn: Any) -> Any:
    """Return the document of a policy of AWS. It is ``UNKNOWN`` for other policies."""
    match = _ARN.fullmatch(arn) if isinstance(arn, str) else None
    statements = None if match is None else POLICIES.get(match[1])
    return UNKNOWN if statements is None else {"Statement": [*statements]}


def arn_of_aws(name: str) -> str:
    """Return an ARN by which a policy of AWS is known here. Some have a path in their own."""
    return f"arn:aws:iam::aws:policy/{name}"
