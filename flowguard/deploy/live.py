"""A reader of the live resources at AWS. Nothing is changed."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from email.utils import parsedate_to_datetime
from typing import Any, Final

from boto3.session import Session
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, NoRegionError

from flowguard.aws.faults import STRANGERS, error_code
from flowguard.deploy.arns import Arn, rule_place
from flowguard.deploy.finding import LiveFinding, note
from flowguard.deploy.needs import stream_of
from flowguard.errors import FlowguardError

_MISSING: Final = frozenset(
    {
        "AWS.SimpleQueueService.NonExistentQueue",
        "NoSuchBucket",
        "NoSuchEntity",
        "NotFound",
        "NotFoundException",
        "QueueDoesNotExist",
        "ResourceNotFoundException",
    }
)
_NO_BUCKET: Final = ("head_bucket", "404")
"""The answer to a HEAD has no body, and so no other code."""

_DENIED: Final = frozenset({"AccessDenied", "AccessDeniedException", "AuthorizationError", "UnauthorizedOperation"})
_HOUR: Final = 3_600
_MOST_NAMED: Final = 10
"""How many resources a note names."""

_CONFIG: Final = Config(retries={"mode": "standard", "max_attempts": 3}, connect_timeout=5, read_timeout=20)


class NotLive(FlowguardError):
    """AWS cannot be asked. There are no credentials, no region or no connection; nothing was changed."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem

    def __str__(self) -> str:
        return self.problem


def _problem(error: BotoCoreError) -> str:
    """Say why nothing was asked, and what to do."""
    if isinstance(error, NoRegionError):
        return "no region is known; give --region, or set AWS_DEFAULT_REGION"
    if isinstance(error, NoCredentialsError):
        return "there are no credentials; sign in, or choose a profile with AWS_PROFILE"
    return f"{str(error).rstrip('.')}; is --endpoint-url right, and are there credentials?"


class LiveAccount:
    """Reads the resources of one account and region once. Its answers are kept.

    ``unread`` are the operations that were denied, or that an emulator does not serve, each with what it was asked for
    and the error's code. Raises :class:`NotLive` where nothing can be asked at all.
    """

    def __init__(self, session: Session, endpoint_url: str | None = None) -> None:
        self._session = session
        self._endpoint_url = endpoint_url
        self._clients: dict[str, Any] = {}
        self._answers: dict[str, Any] = {}
        self.unread: dict[tuple[str, str], str] = {}

    def _client(self, service: str, region: str | None = None) -> Any:
        key = service if region is None else f"{service} {region}"
        if key not in self._clients:
            try:
                make: Any = self._session.client
                place = {} if region is None else {"region_name": region}
                self._clients[key] = make(service, endpoint_url=self._endpoint_url, config=_CONFIG, **place)
            except BotoCoreError as error:
                raise NotLive(_problem(error)) from None
        return self._clients[key]

    def _ask(self, service: str, operation: str, *, at_region: str | None = None, **params: Any) -> Any:
        """Return an answer of AWS, which is asked once. None if the resource does not exist or may not be read.

        The first parameter names the resource, by which a refusal is remembered.
        """
        key = json.dumps((service, operation, at_region, params), sort_keys=True)
        if key not in self._answers:
            self._answers[key] = self._asked_anew(service, operation, at_region=at_region, **params)
        return self._answers[key]

    def _asked_anew(self, service: str, operation: str, *, at_region: str | None = None, **params: Any) -> Any:
        first = next(iter(params.values()), None)
        refused = (f"{service}:{operation}", _short(first) if isinstance(first, str) else "")
        try:
            return getattr(self._client(service, at_region), operation)(**params)
        except ClientError as error:
            code = error_code(error)
            if code in STRANGERS:
                fix = "sign in again, and check this machine's clock"
                raise NotLive(f"the credentials are not accepted ({code}); {fix}") from None
            if code not in _MISSING and (operation, code) != _NO_BUCKET:
                self.unread.setdefault(refused, code)
            return None
        except NotImplementedError:  # an emulator does not serve it
            self.unread.setdefault(refused, "NotImplemented")
            return None
        except BotoCoreError as error:
            raise NotLive(_problem(error)) from None

    def was_read(self, service: str, operation: str, resource: str) -> bool:
        """Answer whether the operation has not been refused for a resource, by its name or ARN."""
        return (f"{service}:{operation}", _short(resource)) not in self.unread

    # -- queues and topics

    def queue_url(self, name: str, arn: str | None) -> str | None:
        params = {"QueueName": name}
        region = self._region_elsewhere(arn)
        if arn is not None and region is not None:
            params["QueueOwnerAWSAccountId"] = arn.split(":")[4]
        answer = self._ask("sqs", "get_queue_url", at_region=region, **params)
        return None if answer is None else str(answer["QueueUrl"])

    def _region_elsewhere(self, arn: str | None) -> str | None:
        """Return the region of a queue's ARN. None for a queue of this account and region, which its name tells."""
        if arn is None or arn.split(":")[3:5] == [self.region, self.account]:
            return None
        return _region_of(arn)

    def queue(self, name: str, arn: str | None = None) -> Mapping[str, str] | None:
        """Return the attributes of a queue."""
        if (url := self.queue_url(name, arn)) is None:
            return None
        params: dict[str, Any] = {"QueueUrl": url, "AttributeNames": ["All"]}
        answer = self._ask("sqs", "get_queue_attributes", at_region=self._region_elsewhere(arn), **params)
        attributes: Mapping[str, str] | None = None if answer is None else answer["Attributes"]
        return attributes

    def queue_policies(self, queue: str) -> list[Any] | None:
        """Return the policy of a queue, in a list."""
        if (attributes := self.queue(queue)) is None:
            return None
        return [json.loads(attributes["Policy"])] if "Policy" in attributes else []

    def queues_of(self, tag: str, flows: list[str]) -> list[str] | None:
        """Return the names of the queues with that tag of one of these flows. None if that may not be read."""
        params: dict[str, Any] = {
            "TagFilters": [{"Key": tag, "Values": flows}],
            "ResourceTypeFilters": ["sqs"],
        }
        names: list[str] = []
        while True:
            page = self._ask("resourcegroupstaggingapi", "get_resources", **params)
            if page is None:
                return None
            names += [resource["ResourceARN"].rpartition(":")[2] for resource in page["ResourceTagMappingList"]]
            if not page.get("PaginationToken"):
                return sorted(names)
            params["PaginationToken"] = page["PaginationToken"]

    def untagged_queues(self, tag: str, flows: list[str], names: Sequence[str]) -> list[str]:
        """Return those of the queues that are there without the tag. None of them if tags may not be read."""
        tagged = self.queues_of(tag, flows)
        return [] if tagged is None else [each for each in names if each not in tagged and self.queue(each) is not None]

    def subscriptions(self, topic: str) -> list[Mapping[str, str]] | None:
        """Return the attributes of each confirmed subscription of a topic. Of one that may not be read it has fewer."""
        listed: list[Mapping[str, str]] = []
        place: dict[str, str] = {}
        while (page := self._ask("sns", "list_subscriptions_by_topic", TopicArn=topic, **place)) is not None:
            listed += page["Subscriptions"]
            if not page.get("NextToken"):
                confirmed = [each for each in listed if each["SubscriptionArn"].startswith("arn:")]
                return [{**each, **self._subscription(each["SubscriptionArn"])} for each in confirmed]
            place = {"NextToken": page["NextToken"]}
        return None

    def _subscription(self, arn: str) -> Mapping[str, str]:
        """Return the attributes of a subscription. They are empty where they may not be read."""
        answer = self._ask("sns", "get_subscription_attributes", SubscriptionArn=arn)
        attributes: Mapping[str, str] = {} if answer is None else answer["Attributes"]
        return attributes

    def topic_policies(self, topic: str) -> list[Any] | None:
        """Return the policy of a topic, in a list. None if it may not be read."""
        answer = self._ask("sns", "get_topic_attributes", TopicArn=topic)
        if answer is None:
            return None
        return [json.loads(answer["Attributes"]["Policy"])] if "Policy" in answer["Attributes"] else []

    def topic_key(self, topic: str) -> str | None:
        """Return the key of a topic. It is empty for none. None if it may not be read."""
        answer = self._ask("sns", "get_topic_attributes", TopicArn=topic)
        return None if answer is None else str(answer["Attributes"].get("KmsMasterKeyId", ""))

    # -- buses and schedules

    def has_bus(self, name: str) -> bool | None:
        """Answer whether a bus exists. None if that may not be read."""
        return self._exists("events", "describe_event_bus", Name=name)

    def rules(self, queue: str, bus: str) -> list[str] | None:
        """Return the ARNs of the rules of a bus that send to the queue of that ARN."""
        answer = self._ask("events", "list_rule_names_by_target", TargetArn=queue, EventBusName=bus)
        if answer is None:
            return None
        _, partition, _, region, account, _ = (bus if bus.startswith("arn:") else queue).split(":")
        return [Arn("events", rule_place(name, bus)).filled(partition, region, account) for name in answer["RuleNames"]]

    def rule_settings(self, queue: str, bus: str) -> list[Mapping[str, Any]] | None:
        """Return the state and the pattern of the rules of a bus that send to the queue of that ARN."""
        answer = self._ask("events", "list_rule_names_by_target", TargetArn=queue, EventBusName=bus)
        if answer is None:
            return None
        rules = [self._ask("events", "describe_rule", Name=name, EventBusName=bus) for name in answer["RuleNames"]]
        return None if None in rules else [{**each, "EventPattern": _read(each.get("EventPattern"))} for each in rules]

    def pipes(self, source: str) -> list[str] | None:
        """Return the names of the pipes that read a queue or stream. None if they may not be listed."""
        answer = self._ask("pipes", "list_pipes", SourcePrefix=source)
        return None if answer is None else [pipe["Name"] for pipe in answer["Pipes"] if pipe["Source"] == source]

    def has_schedule_group(self, name: str) -> bool | None:
        """Answer whether a group of schedules exists. None if that may not be read."""
        return self._exists("scheduler", "get_schedule_group", Name=name)

    def schedule(self, group: str, name: str) -> Mapping[str, Any] | None:
        """Return a schedule of a group."""
        schedule: Mapping[str, Any] | None = self._ask("scheduler", "get_schedule", Name=name, GroupName=group)
        return schedule

    def _exists(self, service: str, operation: str, **name: str) -> bool | None:
        [resource] = name.values()
        answer = self._ask(service, operation, **name)
        return answer is not None if self.was_read(service, operation, resource) else None

    # -- tables

    def table(self, name: str) -> Mapping[str, Any] | None:
        """Return the description of a table."""
        answer = self._ask("dynamodb", "describe_table", TableName=name)
        table: Mapping[str, Any] | None = None if answer is None else answer["Table"]
        return table

    def table_key(self, name: str) -> str | None:
        """Return the key of a table. It is empty for none. None if it may not be read."""
        table = self.table(name)
        return None if table is None else str(table.get("SSEDescription", {}).get("KMSMasterKeyArn", ""))

    def tags_of_table(self, name: str) -> Mapping[str, str] | None:
        """Return the tags of a table. None if they may not be read."""
        if (table := self.table(name)) is None:
            return None
        params, tags = {"ResourceArn": table["TableArn"]}, dict[str, str]()
        while True:
            page = self._ask("dynamodb", "list_tags_of_resource", **params)
            if page is None:
                return None
            tags |= {each["Key"]: each["Value"] for each in page.get("Tags", ())}
            if not page.get("NextToken"):
                return tags
            params["NextToken"] = page["NextToken"]

    def time_to_live(self, name: str) -> Mapping[str, Any] | None:
        """Return the time-to-live setting of a table."""
        answer = self._ask("dynamodb", "describe_time_to_live", TableName=name)
        ttl: Mapping[str, Any] | None = None if answer is None else answer["TimeToLiveDescription"]
        return ttl

    def restorable(self, name: str) -> bool | None:
        """Answer whether a table has point-in-time recovery."""
        answer = self._ask("dynamodb", "describe_continuous_backups", TableName=name)
        if answer is None:
            return None
        recovery = answer["ContinuousBackupsDescription"].get("PointInTimeRecoveryDescription", {})
        return bool(recovery.get("PointInTimeRecoveryStatus") == "ENABLED")

    def runs(self, table: str, most: int) -> Iterator[Mapping[str, Any]]:
        """Yield the run items of a table that are not over. At most ``most`` items are read."""
        params: dict[str, Any] = {
            "TableName": table,
            "FilterExpression": "#status IN (:running, :waiting)",
            "ExpressionAttributeNames": {"#status": "status"},
            "ExpressionAttributeValues": {":running": {"S": "RUNNING"}, ":waiting": {"S": "WAITING"}},
        }
        looked = 0
        while looked < most:
            page = self._asked_anew("dynamodb", "scan", **params, Limit=min(1_000, most - looked))
            if page is None:
                return
            yield from page["Items"]
            looked += page["ScannedCount"]
            if "LastEvaluatedKey" not in page:
                return
            params["ExclusiveStartKey"] = page["LastEvaluatedKey"]

    def stream_keeps(self, arn: str) -> int | None:
        """Return for how many seconds a stream of Kinesis keeps a record. None if it may not be read."""
        answer = self._ask("kinesis", "describe_stream_summary", at_region=_region_of(arn), StreamARN=stream_of(arn))
        return None if answer is None else int(answer["StreamDescriptionSummary"]["RetentionPeriodHours"]) * _HOUR

    # -- functions

    def function(self, name: str) -> Mapping[str, Any] | None:
        """Return the configuration of a function."""
        configuration: Mapping[str, Any] | None = self._ask("lambda", "get_function_configuration", FunctionName=name)
        return configuration

    def loops(self, function: str) -> str | None:
        """Return what Lambda does with a function in a loop: ``Allow`` or ``Terminate``."""
        answer = self._ask("lambda", "get_function_recursion_config", FunctionName=function)
        return None if answer is None else str(answer["RecursiveLoop"])

    def reserved(self, function: str) -> int | None:
        """Return the reserved concurrency of a function. None if it has none, or that may not be read."""
        answer = self._ask("lambda", "get_function_concurrency", FunctionName=function)
        return None if answer is None else answer.get("ReservedConcurrentExecutions")

    def event_sources(self, function: str) -> list[Mapping[str, Any]] | None:
        """Return the event source mappings of a function."""
        return self._mappings(FunctionName=function)

    def readers(self, queue: str) -> list[Mapping[str, Any]] | None:
        """Return the event source mappings of a queue."""
        return self._mappings(EventSourceArn=queue)

    def _mappings(self, **of: str) -> list[Mapping[str, Any]] | None:
        """Return all event source mappings, of which a page has 100. None if one of the pages may not be read."""
        mappings: list[Mapping[str, Any]] = []
        place: dict[str, str] = {}
        while (page := self._ask("lambda", "list_event_source_mappings", **of, **place)) is not None:
            mappings += page["EventSourceMappings"]
            if not page.get("NextMarker"):
                return mappings
            place = {"Marker": page["NextMarker"]}
        return None

    def function_url(self, name: str) -> bool | None:
        """Answer whether a function has a URL. None if that may not be read."""
        return self._exists("lambda", "get_function_url_config", FunctionName=name)

    def url_auth(self, name: str) -> str | None:
        """Return who may call the URL of a function: ``AWS_IAM`` or ``NONE``. None if that may not be read."""
        answer = self._ask("lambda", "get_function_url_config", FunctionName=name)
        return None if answer is None else str(answer["AuthType"])

    def log_group(self, function: str) -> Mapping[str, Any] | None:
        """Return the log group of a function."""
        name = f"/aws/lambda/{function}"
        answer = self._ask("logs", "describe_log_groups", logGroupNamePrefix=name)
        groups: list[Mapping[str, Any]] = [] if answer is None else answer["logGroups"]
        return next((group for group in groups if group["logGroupName"] == name), None)

    def code_signing(self, function: str) -> str | None:
        """Return the code signing configuration of a function. It is empty for none. None if it may not be read."""
        answer = self._ask("lambda", "get_function_code_signing_config", FunctionName=function)
        return None if answer is None else str(answer.get("CodeSigningConfigArn", ""))

    def tags_of_function(self, name: str) -> Mapping[str, str] | None:
        """Return the tags of a function. None if they may not be read."""
        if (function := self.function(name)) is None:
            return None
        answer = self._ask("lambda", "list_tags", Resource=function["FunctionArn"])
        tags: Mapping[str, str] | None = None if answer is None else answer.get("Tags", {})
        return tags

    def trust(self, role: str) -> Any:
        """Return the trust policy of a role. None if it may not be read."""
        answer = self.role(role)
        return None if answer is None else answer["AssumeRolePolicyDocument"]

    def role(self, name: str) -> Mapping[str, Any] | None:
        """Return a role."""
        answer = self._ask("iam", "get_role", RoleName=name)
        role: Mapping[str, Any] | None = None if answer is None else answer["Role"]
        return role

    def has_role(self, name: str) -> bool | None:
        """Answer whether a role exists. None if that may not be read."""
        return self._exists("iam", "get_role", RoleName=name)

    # -- the bucket and the secret

    def has_bucket(self, name: str) -> bool | None:
        """Answer whether a bucket exists, whosever it is. None if that may not be read."""
        return self._exists("s3", "head_bucket", Bucket=name)

    def has_secret(self, name: str) -> bool | None:
        """Answer whether a secret exists, and is not to be deleted. None if that may not be read."""
        exists = self._exists("secretsmanager", "describe_secret", SecretId=name)
        return exists and "DeletedDate" not in self._ask("secretsmanager", "describe_secret", SecretId=name)

    def bucket_key(self, bucket: str) -> str | None:
        """Return the default key of a bucket. It is empty for none. None if it may not be read."""
        answer = self._ask("s3", "get_bucket_encryption", Bucket=bucket)
        if answer is None:
            return None
        [rule, *_] = answer["ServerSideEncryptionConfiguration"]["Rules"]
        return str(rule.get("ApplyServerSideEncryptionByDefault", {}).get("KMSMasterKeyID", ""))

    def notified_queues(self, bucket: str) -> list[str] | None:
        """Return the ARNs of the queues that a bucket tells of its objects. None if that may not be read."""
        answer = self._ask("s3", "get_bucket_notification_configuration", Bucket=bucket)
        return None if answer is None else [told["QueueArn"] for told in answer.get("QueueConfigurations", ())]

    def notified_topics(self, bucket: str) -> list[str] | None:
        """Return the ARNs of the topics that a bucket tells of its objects. None if that may not be read."""
        answer = self._ask("s3", "get_bucket_notification_configuration", Bucket=bucket)
        return None if answer is None else [told["TopicArn"] for told in answer.get("TopicConfigurations", ())]

    def secret_key(self, name: str) -> str | None:
        """Return the key of a secret. It is empty for none. None if it may not be read."""
        answer = self._ask("secretsmanager", "describe_secret", SecretId=name)
        return None if answer is None else str(answer.get("KmsKeyId", ""))

    def key(self, name: str) -> str | None:
        """Return the ARN of a customer's key. None for a key of AWS, or if it may not be read."""
        answer = self._ask("kms", "describe_key", KeyId=name)
        if answer is None or answer["KeyMetadata"].get("KeyManager") == "AWS":
            return None
        return str(answer["KeyMetadata"]["Arn"])

    def key_policy(self, key: str) -> Any:
        """Return the policy of a key. None if it may not be read."""
        answer = self._ask("kms", "get_key_policy", KeyId=key, PolicyName="default")
        return None if answer is None else json.loads(answer["Policy"])

    def export(self, name: str) -> str:
        """Return the value of an export. Raises :class:`NotLive` if no stack exports it, or exports may not be read."""
        token: dict[str, Any] = {}
        while (page := self._ask("cloudformation", "list_exports", **token)) is not None:
            if (value := next((each["Value"] for each in page["Exports"] if each["Name"] == name), None)) is not None:
                return str(value)
            if not page.get("NextToken"):
                raise NotLive(f"no stack here exports {name}, which the options import")
            token = {"NextToken": page["NextToken"]}
        raise NotLive(f"the options import {name}, and cloudformation:ListExports may not be asked")

    # -- what a role may do

    def denied(
        self, role: str, actions: list[str], resource: str, context: Mapping[str, str | None] | None = None
    ) -> list[str] | None:
        """Return the actions that a role is denied on the resource. None if AWS does not say.

        ``context`` has the condition keys of the request, which the simulation does not know by itself. It does
        not have those that are None.
        """
        entries: list[Any] = [
            {"ContextKeyName": key, "ContextKeyValues": [value], "ContextKeyType": "string"}
            for key, value in (context or {}).items()
            if value is not None
        ]
        answer = self._ask(
            "iam",
            "simulate_principal_policy",
            PolicySourceArn=role,
            ActionNames=actions,
            ResourceArns=[resource],
            **_given(ContextEntries=entries),
        )
        if answer is None:
            return None
        return [
            result["EvalActionName"] for result in answer["EvaluationResults"] if result["EvalDecision"] != "allowed"
        ]

    # -- who asks, and clocks

    @property
    def adds_tags(self) -> bool:
        return False

    @property
    def account(self) -> str | None:
        """Return the account that is looked at. None if nobody says it."""
        answer = self._ask("sts", "get_caller_identity")
        account: str | None = None if answer is None else answer.get("Account")
        return account

    @property
    def region(self) -> str:
        """Return the region that is looked at."""
        return str(self._client("sqs").meta.region_name)

    def clock(self) -> float | None:
        """Return AWS's time in seconds since 1970. None if no answer has one."""
        answer = self._ask("sts", "get_caller_identity")
        date = None if answer is None else answer["ResponseMetadata"].get("HTTPHeaders", {}).get("date")
        if date is not None:
            with suppress(ValueError):
                return parsedate_to_datetime(date).timestamp()
        return None

    def notes(self) -> Iterator[LiveFinding]:
        """Yield what may not be read."""
        alike: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        for (operation, resource), code in sorted(self.unread.items()):
            alike[operation, code].append(resource)
        for (operation, code), resources in alike.items():
            service, _, name = operation.partition(":")
            yield note(
                "not-read",
                operation,
                f"{name} of {service} is refused ({code}){_named(resources)}",
                "what depends on it was not looked at",
                "allow it to whoever runs this, and ask again later where it was throttled; an emulator may not "
                "serve it",
            )


def _named(resources: Sequence[str]) -> str:
    """Return for which resources something was refused. An operation on the whole account names none."""
    names = [each for each in resources if each]
    more = f" and {len(names) - _MOST_NAMED} others" if names[_MOST_NAMED:] else ""
    return f" for {', '.join(names[:_MOST_NAMED])}{more}" if names else ""


def _short(resource: str) -> str:
    """Return the name of a queue from its URL, and any other name or ARN as it is."""
    return resource.rpartition("/")[2] if resource.startswith("http") else resource


def _read(pattern: str | None) -> Any:
    """Return the pattern of a rule. A rule that has a schedule has none."""
    return json.loads(pattern) if pattern else None


def _given(**params: Any) -> dict[str, Any]:
    """Return the parameters that say something."""
    return {name: value for name, value in params.items() if value}


def _region_of(arn: str | None) -> str | None:
    return None if arn is None else arn.split(":")[3]


def redrive_of(attributes: Mapping[str, str]) -> Mapping[str, Any]:
    """Return a queue's redrive policy. It is empty where the queue has none."""
    try:
        data = json.loads(attributes.get("RedrivePolicy") or "{}")
    except ValueError:
        return {}
    return data if isinstance(data, dict) else {}
