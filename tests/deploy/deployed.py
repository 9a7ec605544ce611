"""Makes the resources of a CloudFormation template on an engine: those that ``flowguard doctor`` looks at.

What CloudFormation would do with the rest is not needed here, and what this does not know of is an error.
"""

from __future__ import annotations

import io
import itertools
import json
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import pytest
from boto3.session import Session
from moto import mock_aws

from flowguard.sim.reused_clients import SameClients
from tests.quick_moto import find_names_once

REGION: Final = "eu-west-1"
ACCOUNT: Final = "123456789012"
PARAMETERS: Final = {"CodeBucket": "code", "CodeKey": "code.zip", "AlarmTopic": ""}
NOT_LOOKED_AT: Final = {
    "AWS::CloudWatch::Alarm",
    "AWS::Lambda::Permission",
    "AWS::Logs::MetricFilter",
}
same_on_moto: Final = SameClients().kept
"""Reuses the clients of an earlier test that had the same account and region."""

_ROLES: Final = itertools.count()
"""Numbers of roles, for one account may have those of two templates."""

_OPEN: Final = {"${AWS::Partition}": "aws", "${AWS::Region}": REGION, "${AWS::AccountId}": ACCOUNT}


def code() -> bytes:
    """A function that nobody calls."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        file.writestr("nothing.py", "")
    return packed.getvalue()


class Stack:
    """The resources of a template, as they are made."""

    def __init__(self, template: Mapping[str, Any], session: Session) -> None:
        find_names_once()
        self.resources: Mapping[str, Any] = template["Resources"]
        self._session = session
        self._clients: dict[str, Any] = {}
        self._arns: dict[str, str] = {}
        self.sources: dict[str, str] = {}
        """The ids of event source mappings, by the names of their queues."""

    def client(self, service: str) -> Any:
        if service not in self._clients:
            make: Any = self._session.client
            self._clients[service] = make(service)
        return self._clients[service]

    def make(self) -> None:
        for name in self.resources:
            self.arn(name)

    def arn(self, name: str) -> str:
        """The ARN, or the name, of a resource. It is made when it is first asked for."""
        if name not in self._arns:
            resource = self.resources[name]
            if resource["Type"] in NOT_LOOKED_AT:
                self._arns[name] = name
            else:
                self._arns[name] = self._makers()[resource["Type"]](self._filled(resource["Properties"]))
        return self._arns[name]

    def _makers(self) -> Mapping[str, Callable[[Any], str]]:
        return {
            "AWS::DynamoDB::Table": self._table,
            "AWS::Events::Rule": self._rule,
            "AWS::IAM::Role": self._role,
            "AWS::Lambda::EventSourceMapping": self._source,
            "AWS::Lambda::Function": self._function,
            "AWS::Lambda::Url": self._url,
            "AWS::Logs::LogGroup": self._logs,
            "AWS::SecretsManager::Secret": self._secret,
            "AWS::SNS::Subscription": self._subscription,
            "AWS::SNS::Topic": self._topic,
            "AWS::SQS::Queue": self._queue,
            "AWS::Scheduler::Schedule": self._schedule,
            "AWS::SQS::QueuePolicy": self._policy,
            "AWS::Scheduler::ScheduleGroup": self._group,
        }

    def _filled(self, value: Any) -> Any:
        match value:
            case {"Fn::GetAtt": [name, _]}:
                return self.arn(name)
            case {"Fn::Sub": text}:
                return re.sub(r"\$\{AWS::\w+\}", lambda found: _OPEN[found[0]], text)
            case {"Ref": str(name)} if name.startswith("AWS::"):
                return _OPEN[f"${{{name}}}"]
            case {"Ref": name}:
                if name in PARAMETERS:
                    return PARAMETERS[name]
                made = self.arn(name)
                return made.rpartition(":")[2] if self.resources[name]["Type"] == "AWS::Lambda::Function" else made
            case dict():
                return {key: self._filled(one) for key, one in value.items()}
            case list():
                return [self._filled(one) for one in value]
            case _:
                return value

    def _table(self, own: Any) -> str:
        dynamodb = self.client("dynamodb")
        given = ("TableName", "BillingMode", "AttributeDefinitions", "KeySchema", "Tags")
        key = {"SSESpecification": _encrypted(own["SSESpecification"])} if "SSESpecification" in own else {}
        indexes = {name: own[name] for name in ("GlobalSecondaryIndexes",) if name in own}
        dynamodb.create_table(**{name: own[name] for name in given}, **indexes, **key)
        if "TimeToLiveSpecification" in own:
            dynamodb.update_time_to_live(
                TableName=own["TableName"], TimeToLiveSpecification=own["TimeToLiveSpecification"]
            )
        dynamodb.update_continuous_backups(
            TableName=own["TableName"],
            PointInTimeRecoverySpecification=own["PointInTimeRecoverySpecification"],
        )
        return str(own["TableName"])

    def _queue(self, own: Any) -> str:
        attributes = {
            name: json.dumps(value) if isinstance(value, dict) else str(value).lower()
            for name, value in own.items()
            if name not in ("QueueName", "SqsManagedSseEnabled", "RedrivePolicy", "Tags")
        }
        if "RedrivePolicy" in own:
            attributes["RedrivePolicy"] = json.dumps(own["RedrivePolicy"])
        tags = {each["Key"]: each["Value"] for each in own["Tags"]}
        self.client("sqs").create_queue(QueueName=own["QueueName"], Attributes=attributes, tags=tags)
        return f"arn:aws:sqs:{REGION}:{ACCOUNT}:{own['QueueName']}"

    def _policy(self, own: Any) -> str:
        sqs, [queue] = self.client("sqs"), own["Queues"]
        url = sqs.get_queue_url(QueueName=queue.rpartition(":")[2])["QueueUrl"]
        sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": json.dumps(own["PolicyDocument"])})
        return f"{queue}'s policy"

    def _topic(self, own: Any) -> str:
        attributes = {"FifoTopic": "true"} if own.get("FifoTopic") else {}
        attributes |= {"KmsMasterKeyId": own["KmsMasterKeyId"]} if "KmsMasterKeyId" in own else {}
        return str(self.client("sns").create_topic(Name=own["TopicName"], Attributes=attributes)["TopicArn"])

    def _subscription(self, own: Any) -> str:
        given = {"TopicArn": own["TopicArn"], "Protocol": own["Protocol"], "Endpoint": own["Endpoint"]}
        attributes = {"RedrivePolicy": json.dumps(own["RedrivePolicy"])}
        return str(self.client("sns").subscribe(**given, Attributes=attributes)["SubscriptionArn"])

    def _rule(self, own: Any) -> str:
        events, bus = self.client("events"), own["EventBusName"]
        pattern = json.dumps(own["EventPattern"])
        made = events.put_rule(Name=own["Name"], EventBusName=bus, EventPattern=pattern)
        events.put_targets(Rule=own["Name"], EventBusName=bus, Targets=own["Targets"])
        return str(made["RuleArn"])

    def _group(self, own: Any) -> str:
        return str(self.client("scheduler").create_schedule_group(Name=own["Name"])["ScheduleGroupArn"])

    def _schedule(self, own: Any) -> str:
        given = {**own, "GroupName": own["GroupName"].rpartition("/")[2]}
        return str(self.client("scheduler").create_schedule(**given)["ScheduleArn"])

    def _role(self, own: Any) -> str:
        iam, name = self.client("iam"), f"role-{next(_ROLES)}"
        given = {one: own[one] for one in ("Path", "PermissionsBoundary", "Tags") if one in own}
        trust = json.dumps(own["AssumeRolePolicyDocument"])
        made = iam.create_role(RoleName=name, AssumeRolePolicyDocument=trust, **given)
        for policy in own["Policies"]:
            document = json.dumps(policy["PolicyDocument"])
            iam.put_role_policy(RoleName=name, PolicyName=policy["PolicyName"], PolicyDocument=document)
        return str(made["Role"]["Arn"])

    def _function(self, own: Any) -> str:
        given = ("FunctionName", "Handler", "Runtime", "MemorySize", "Timeout", "Role", "Environment")
        settings = {name: own[name] for name in given}
        named = {"KmsKeyArn": "KMSKeyArn", "CodeSigningConfigArn": "CodeSigningConfigArn", "VpcConfig": "VpcConfig"}
        named["TracingConfig"] = "TracingConfig"
        settings["Tags"] = {tag["Key"]: tag["Value"] for tag in own["Tags"]}
        settings |= {name: own[one] for one, name in named.items() if one in own}
        return str(self.client("lambda").create_function(**settings, Code={"ZipFile": code()})["FunctionArn"])

    def _logs(self, own: Any) -> str:
        logs, name = self.client("logs"), own["LogGroupName"]
        logs.create_log_group(logGroupName=name, **({"kmsKeyId": own["KmsKeyId"]} if "KmsKeyId" in own else {}))
        logs.put_retention_policy(logGroupName=name, retentionInDays=own["RetentionInDays"])
        return str(name)

    def _secret(self, own: Any) -> str:
        key = {"KmsKeyId": own["KmsKeyId"]} if "KmsKeyId" in own else {}
        return str(self.client("secretsmanager").create_secret(Name=own["Name"], SecretString="x", **key)["ARN"])

    def _source(self, own: Any) -> str:
        given = ("EventSourceArn", "FunctionName", "BatchSize", "FunctionResponseTypes", "ScalingConfig")
        made = self.client("lambda").create_event_source_mapping(**{name: own[name] for name in given if name in own})
        self.sources[own["EventSourceArn"].rpartition(":")[2]] = made["UUID"]
        return str(made["UUID"])

    def _url(self, own: Any) -> str:
        given = {"FunctionName": own["TargetFunctionArn"], "AuthType": own["AuthType"]}
        return str(self.client("lambda").create_function_url_config(**given)["FunctionUrl"])


def _encrypted(own: Mapping[str, Any]) -> dict[str, Any]:
    """The call's form of the template's property."""
    return {"Enabled": own["SSEEnabled"], "SSEType": own["SSEType"], "KMSMasterKeyId": own["KMSMasterKeyId"]}


@contextmanager
def made_on_moto(monkeypatch: pytest.MonkeyPatch, template: Any, session: Any) -> Iterator[Stack]:
    """What a template makes, on an empty moto, with the account of which the environment tells."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "moto")
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    with mock_aws(), same_on_moto():
        made = Stack(template, session)
        made.make()
        yield made
