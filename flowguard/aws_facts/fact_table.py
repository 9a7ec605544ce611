"""The whole table, by service."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from flowguard.aws_facts.alarm_facts import ALARM_FACTS
from flowguard.aws_facts.bus_facts import BUS_FACTS
from flowguard.aws_facts.data_api_facts import DATA_API_FACTS
from flowguard.aws_facts.deployment_facts import DEPLOYMENT_FACTS
from flowguard.aws_facts.dynamodb_facts import DYNAMODB_FACTS
from flowguard.aws_facts.error_facts import ERROR_FACTS
from flowguard.aws_facts.expression_facts import EXPRESSION_FACTS
from flowguard.aws_facts.fact import Fact
from flowguard.aws_facts.http_facts import HTTP_FACTS
from flowguard.aws_facts.kafka_facts import KAFKA_FACTS
from flowguard.aws_facts.key_facts import KEY_FACTS
from flowguard.aws_facts.lambda_facts import LAMBDA_FACTS
from flowguard.aws_facts.mapping_facts import MAPPING_FACTS
from flowguard.aws_facts.notice_facts import NOTICE_FACTS
from flowguard.aws_facts.partiql_facts import PARTIQL_FACTS
from flowguard.aws_facts.policy_facts import POLICY_FACTS
from flowguard.aws_facts.s3_facts import S3_FACTS
from flowguard.aws_facts.scheduler_facts import SCHEDULER_FACTS
from flowguard.aws_facts.sns_facts import SNS_FACTS
from flowguard.aws_facts.sqs_facts import SQS_FACTS
from flowguard.aws_facts.stream_facts import STREAM_FACTS
from flowguard.aws_facts.transaction_facts import TRANSACTION_FACTS

TABLE: Final[Mapping[str, tuple[Fact, ...]]] = {
    "Event source mappings": MAPPING_FACTS,
    "Streams": (*STREAM_FACTS, *KAFKA_FACTS),
    "Lambda": LAMBDA_FACTS,
    "SQS": SQS_FACTS,
    "SNS": SNS_FACTS,
    "EventBridge": BUS_FACTS,
    "EventBridge Scheduler": SCHEDULER_FACTS,
    "API Gateway, function URLs, load balancers": HTTP_FACTS,
    "Logs, metrics and alarms": ALARM_FACTS,
    "DynamoDB": (*DYNAMODB_FACTS, *EXPRESSION_FACTS),
    "DynamoDB's transactions": TRANSACTION_FACTS,
    "DynamoDB's statements (PartiQL)": PARTIQL_FACTS,
    "S3": (*S3_FACTS, *NOTICE_FACTS),
    "The Data API of RDS": DATA_API_FACTS,
    "Keys: KMS, SSM, Secrets Manager": KEY_FACTS,
    "Deployments: IAM, CloudFormation": DEPLOYMENT_FACTS,
    "Policies of AWS": POLICY_FACTS,
    "Errors": ERROR_FACTS,
}
"""The rows by the heading that they stand under."""

FACTS: Final[Mapping[str, Fact]] = {fact.name: fact for facts in TABLE.values() for fact in facts}
"""The rows by name."""
