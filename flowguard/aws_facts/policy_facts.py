"""What the policies of AWS allow that roles of functions often have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from flowguard.aws_facts.fact import Document, Fact, like

_PAGES: Final = "https://docs.aws.amazon.com/aws-managed-policy/latest/reference"
_LOGS: Final = "`logs:CreateLogGroup`, `logs:CreateLogStream` and `logs:PutLogEvents`"
_CHANGES: Final = (
    "`dynamodb:DescribeStream`, `dynamodb:GetRecords`, `dynamodb:GetShardIterator` and `dynamodb:ListStreams`"
)
_TRACES: Final = (
    "`xray:PutTraceSegments`, `xray:PutTelemetryRecords`, `xray:GetSamplingRules`, `xray:GetSamplingTargets` and "
    "`xray:GetSamplingStatisticSummaries`, and nothing else."
)
_TABLES: Final = (
    "`dynamodb:*`, `ec2:DescribeSecurityGroups`, `ec2:DescribeSubnets`, `ec2:DescribeVpcs`, `kinesis:DescribeStream`, "
    "`kinesis:DescribeStreamSummary`, and what people do beside tables: alarms, topics, caches."
)

_ALLOWED: Final[Mapping[str, str]] = {
    "AdministratorAccess": "everything.",
    "AmazonDynamoDBFullAccess": _TABLES,
    "AmazonDynamoDBFullAccess_v2": _TABLES,
    "AmazonEventBridgeFullAccess": "`events:*`, `scheduler:*`, and `iam:PassRole` to `scheduler.amazonaws.com`, beside "
    "what people do with schemas and pipes.",
    "AmazonEventBridgeSchedulerFullAccess": "`scheduler:*`, and `iam:PassRole` to `scheduler.amazonaws.com`.",
    "AmazonKinesisFullAccess": "`kinesis:*`.",
    "AmazonS3FullAccess": "`s3:*`.",
    "AmazonSNSFullAccess": "`sns:*`, and texts to telephones through SNS.",
    "AmazonSQSFullAccess": "`sqs:*`.",
    "AmazonSQSReadOnlyAccess": "`sqs:GetQueueAttributes` and `sqs:GetQueueUrl`, and lists of queues and moves.",
    "AWSLambdaBasicExecutionRole": f"{_LOGS}, and nothing else.",
    "AWSLambdaDynamoDBExecutionRole": f"{_CHANGES}, {_LOGS}, and nothing else.",
    "AWSLambdaENIManagementAccess": "`ec2:AssignPrivateIpAddresses`, `ec2:CreateNetworkInterface`, "
    "`ec2:DeleteNetworkInterface`, `ec2:DescribeNetworkInterfaces` and `ec2:UnassignPrivateIpAddresses`, and nothing "
    "else.",
    "AWSLambdaExecute": "`logs:*`, `s3:GetObject` and `s3:PutObject`, and nothing else.",
    "AWSLambdaInvocation-DynamoDB": f"`lambda:InvokeFunction`, {_CHANGES}, and nothing else.",
    "AWSLambdaKinesisExecutionRole": "`kinesis:DescribeStream`, `kinesis:DescribeStreamSummary`, `kinesis:GetRecords`, "
    "`kinesis:GetShardIterator`, `kinesis:ListShards`, `kinesis:ListStreams` and `kinesis:SubscribeToShard`, "
    f"{_LOGS}, and nothing else.",
    "AWSLambdaMSKExecutionRole": "`kafka:DescribeCluster`, `kafka:DescribeClusterV2`, `kafka:GetBootstrapBrokers`, "
    "`ec2:CreateNetworkInterface`, `ec2:DeleteNetworkInterface`, `ec2:DescribeNetworkInterfaces`, "
    "`ec2:DescribeSecurityGroups`, `ec2:DescribeSubnets` and `ec2:DescribeVpcs`, "
    f"{_LOGS}, and nothing else.",
    "AWSLambdaRole": "`lambda:InvokeFunction`, and nothing else.",
    "AWSLambdaSQSQueueExecutionRole": "`sqs:ReceiveMessage`, `sqs:DeleteMessage` and `sqs:GetQueueAttributes`, "
    f"{_LOGS}, and nothing else.",
    "AWSLambdaVPCAccessExecutionRole": "`ec2:AssignPrivateIpAddresses`, `ec2:CreateNetworkInterface`, "
    "`ec2:DeleteNetworkInterface`, `ec2:DescribeNetworkInterfaces`, `ec2:DescribeSubnets` and "
    f"`ec2:UnassignPrivateIpAddresses`, {_LOGS}, and nothing else.",
    "AWSXRayDaemonWriteAccess": _TRACES,
    "AWSXrayWriteOnlyAccess": _TRACES,
    "CloudWatchLambdaInsightsExecutionRolePolicy": "`logs:CreateLogGroup`, and of log groups below "
    "`/aws/lambda-insights` `logs:CreateLogStream` and `logs:PutLogEvents`, and nothing else.",
    "CloudWatchLogsFullAccess": "`logs:*`, and queries of logs.",
    "PowerUserAccess": "everything but `iam:*`, `organizations:*` and `account:*`, of which it allows a few that read.",
}
"""What each allows on all resources, as far as functions of flows ask for it."""

POLICY_FACTS: Final = tuple(
    Fact(
        name=f"policy-{name.lower().replace('_', '-')}",
        sentence=f"`{name}` allows {allows}",
        source=Document(name, f"{_PAGES}/{name}.html"),
        read="2026-11",
        relied_on_by=("deploy/planned/managed_policies.py:POLICIES",),
        engines=like(moto="has its document"),
        by_hand="`aws iam get-policy-version` shows it. AWS may change a policy.",
    )
    for name, allows in _ALLOWED.items()
)
