"""The account that a file makes when it is deployed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NoReturn

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from flowguard.deploy.account import DEFAULT_TIMEOUT, function_name
from flowguard.deploy.finding import LiveFinding, error, note
from flowguard.deploy.kafka_need import SERVERS
from flowguard.deploy.needs import Deployment, stream_of
from flowguard.deploy.planned.policies import allowed, documents_of
from flowguard.deploy.planned.problems import NotReadable
from flowguard.deploy.planned.resources import HERE, KINDS, REDRIVE_IS_GIVEN, Resource, Resources, queue_url
from flowguard.deploy.planned.tags import lacks
from flowguard.deploy.planned.values import UNKNOWN, Answer, Unanswered, is_known
from flowguard.deploy.queue_arns import account_of

_HOUR: Final = 3_600
_QUEUE: Final = "AWS::SQS::Queue"
_TOPIC: Final = "AWS::SNS::Topic"
_TABLE: Final = "AWS::DynamoDB::Table"
_FUNCTION: Final = "AWS::Lambda::Function"
_KEY: Final = "AWS::KMS::Key"
_PIPE: Final = "AWS::Pipes::Pipe"
_OF_ACCOUNT: Final = {
    "Statement": [{"Effect": "Allow", "Principal": {"AWS": HERE.account}, "Action": "kms:*", "Resource": "*"}]
}
"""The policy of a key for which nobody wrote one: roles may use it as their own policies say."""

_OF_NOBODY: Final[Mapping[str, Any]] = {"Statement": []}
"""Stands for the trust policy of a role for which nobody wrote one: IAM makes no such role."""

_DEFAULT_BUS: Final = "default"
_DAY_HOURS: Final = 24
"""Hours for which a stream of Kinesis keeps a record by default."""

_KEPT: Final = 345_600
"""Seconds for which a queue keeps a message by default."""

_BATCH: Final = {"sqs": 10, "kinesis": 100, "dynamodb": 100, "kafka": 100}
"""Records of a batch by default."""

_ATTRIBUTES: Final[Sequence[str]] = (
    *("VisibilityTimeout", "MessageRetentionPeriod", "MaximumMessageSize", "DelaySeconds"),
    "FifoQueue",
)
"""The attributes of a queue that a file says as SQS tells of them."""

_KEY_OF_TABLE: Final = ("AttributeDefinitions", "KeySchema")


class _KeyPart(TypedDict):
    AttributeName: str
    KeyType: str


class _Index(TypedDict):
    IndexName: str
    KeySchema: list[_KeyPart]


_INDEXES: Final = TypeAdapter(list[_Index])

_NOT_IN_FILES: Final = (
    "messages in queues, queues of earlier releases, runs, clocks, and the limits and concurrency of the account"
)


class PlannedAccount:
    """Answers from the resources of a file. What others deploy is no part of it, and noted."""

    def __init__(self, resources: Resources, needed: Deployment) -> None:
        self._resources = resources
        self._unanswered = Unanswered()
        self._queues = {queue.name for queue in needed.queues}
        self._elsewhere = [topic for topic in needed.topics if needed.account not in (None, account_of(topic.arn))]
        self._made = {
            *((_QUEUE, queue.name) for queue in needed.queues if queue.made),
            *((_TOPIC, topic.name) for topic in needed.topics if not topic.existing),
            *((_TABLE, table.name) for table in needed.tables if not table.existing),
            *((_FUNCTION, function.name) for function in needed.functions),
            ("AWS::SecretsManager::Secret", needed.signing_secret),
            *(("AWS::Scheduler::Schedule", schedule.name) for schedule in needed.schedules),
            *((("AWS::Scheduler::ScheduleGroup", needed.scheduler_group),) if not needed.existing_group else ()),
        }

    def was_read(self, service: str, operation: str, resource: str) -> bool:
        """Answer whether what is missing is known to be missing, which holds for all that is answered."""
        return True

    @property
    def adds_tags(self) -> bool:
        return self._resources.get_tags

    @property
    def account(self) -> None:
        """Return None. A file does not say it."""

    def notes(self) -> Iterator[LiveFinding]:
        """Yield what the file does not say."""
        file = self._resources.file
        for alike in self._resources.of_one_name():
            yield error(
                "name-twice",
                str(alike[0].name),
                f"{', '.join(resource.label for resource in alike)} have one name",
                "AWS refuses the second, and the deployment fails",
                "rename one, or take it out",
            )
        for label, name in self._resources.dangling:
            yield error(
                "reference-dangling",
                label,
                f"it refers to {name}, and the file has no resource and no parameter of that label",
                "CloudFormation refuses the template, and makes nothing of it",
                "write the label of what is meant, or add it",
            )
        yield from self._made_again()
        for what, names in self._unanswered:
            yield note(
                "not-looked-at",
                names,
                f"{what}: the file does not say it",
                "what depends on it was not looked at",
                "say it in the file if you can, and look at what is live after the deployment",
            )
        yield note(
            "not-in-a-file",
            file,
            f"{_NOT_IN_FILES} are in no file",
            "they were not looked at",
            "look at what is live: the same command without the file",
        )

    def _made_again(self) -> Iterator[LiveFinding]:
        """Yield the topics of another account that the file makes beside the functions."""
        here = {function.place for function in self._resources.of(_FUNCTION)}
        for topic in self._elsewhere:
            if any(made.place in here for made in self._resources.all_named(_TOPIC, topic.name)):
                yield error(
                    "account-other",
                    topic.arn,
                    "the file makes a topic of that name, in the account that is deployed to",
                    "what is published to the topic of the other account does not reach it",
                    "take it out of the file, and subscribe the queue to the topic of the other account",
                )

    # -- queues and topics

    def queue(self, name: str, arn: str | None = None) -> Mapping[str, str] | None:
        if arn is not None and self._is_mistyped(arn):
            return None
        if (queue := self._one(_QUEUE, name if arn is None else arn.rpartition(":")[2])) is None:
            return None
        given = queue.properties
        attributes = {"QueueArn": queue.arn, "MessageRetentionPeriod": str(_KEPT)}
        told = {name: _text(given[name]) for name in _ATTRIBUTES if name in given}
        key = self._key(given, "KmsMasterKeyId", "KmsMasterKeyId")
        return self._answer({**attributes, **told, **_redrive(given), **key}, queue)

    def _is_mistyped(self, arn: str) -> bool:
        """Answer whether a queue of the file gives records up to one that is written there, and that nothing makes."""
        name = arn.rpartition(":")[2]
        if self._resources.named(_QUEUE, name) or name in self._queues or self._resources.maybe(_QUEUE):
            return False
        policies = [
            queue.properties["RedrivePolicy"]
            for queue in self._resources.of(_QUEUE)
            if "RedrivePolicy" in queue.properties and not queue.properties.get(REDRIVE_IS_GIVEN)
        ]
        return any(policy is not UNKNOWN and policy.get("deadLetterTargetArn") == arn for policy in policies)

    def queue_policies(self, queue: str) -> list[Any]:
        """Return the policies that name the queue. One that leaves its queues open may be that of any: UNKNOWN."""
        return [*self._policies(queue_url(queue))]

    def _policies(self, place: str) -> Iterator[Any]:
        for policy in self._resources.of("AWS::SQS::QueuePolicy"):
            queues = policy.properties.get("Queues", UNKNOWN)
            if queues is UNKNOWN or (UNKNOWN in queues and place not in queues):
                self._unanswered.add("whose policy it is", policy.label)
                yield UNKNOWN
            elif place in queues:
                yield policy.properties.get("PolicyDocument", UNKNOWN)

    def queues_of(self, tag: str, flows: list[str]) -> None:
        """Return None. Queues of earlier releases are in no file."""

    def untagged_queues(self, tag: str, flows: list[str], names: Sequence[str]) -> list[str]:
        there = ((name, self._resources.named(_QUEUE, name)) for name in names)
        return [name for name, queue in there if queue is not None and lacks(queue.properties, tag, flows)]

    def subscriptions(self, topic: str) -> list[Mapping[str, str]] | None:
        answers = [*self._subscribed(self._resources.placed(topic))]
        return answers if answers or self._one(_TOPIC, topic.rpartition(":")[2]) is not None else None

    def _subscribed(self, topic: str) -> Iterator[Mapping[str, str]]:
        for subscription in self._resources.of("AWS::SNS::Subscription"):
            answer = self._answer(_subscription(subscription.properties), subscription)
            if answer.get("TopicArn") == topic:
                yield answer
        if (here := self._resources.named(_TOPIC, topic.rpartition(":")[2])) is not None:
            inline = here.properties.get("Subscription", [])
            for given in [UNKNOWN] if inline is UNKNOWN else inline:
                yield self._answer(_subscription(given), here)

    def topic_policies(self, topic: str) -> list[Any]:
        """Return the policies that name the topic. One that leaves its topics open may be that of any."""
        self._one(_TOPIC, topic.rpartition(":")[2])
        place = self._resources.placed(topic)
        documents = []
        for policy in self._resources.of("AWS::SNS::TopicPolicy"):
            named = policy.properties.get("Topics", UNKNOWN)
            if named is UNKNOWN or (UNKNOWN in named and place not in named):
                self._unanswered.stop("whose policy it is", policy.label)
            if place in named:
                documents.append(policy.properties.get("PolicyDocument", UNKNOWN))
        return documents

    def topic_key(self, topic: str) -> str | None:
        resource = self._one(_TOPIC, topic.rpartition(":")[2])
        return self._key_of(resource, "KmsMasterKeyId")

    # -- buses and schedules

    def has_bus(self, name: str) -> bool | None:
        short = name.rpartition("/")[2]
        if short == _DEFAULT_BUS or self._resources.named("AWS::Events::EventBus", short) is not None:
            return True
        self._unanswered.add("the bus, which is none of the file's", name)
        return None

    def rules(self, queue: str, bus: str) -> list[Any]:
        return [rule.arn for rule in self._sending(queue, bus)]

    def _sending(self, queue: str, bus: str) -> Iterator[Resource]:
        """Yield the rules of a bus that send to a queue."""
        for rule in self._resources.of("AWS::Events::Rule"):
            answer = self._answer({"EventBusName": _DEFAULT_BUS, "Targets": [], **rule.properties}, rule)
            is_its = str(answer["EventBusName"]).rpartition("/")[2] == bus.rpartition("/")[2]
            if is_its and any(target.get("Arn") == queue for target in answer["Targets"]):
                yield rule

    def rule_settings(self, queue: str, bus: str) -> list[Mapping[str, Any]]:
        return [
            self._answer({"EventPattern": UNKNOWN, **_parsed(self._whole(rule), "EventPattern")}, rule)
            for rule in self._sending(queue, bus)
        ]

    def _whole(self, rule: Resource) -> Mapping[str, Any]:
        """Return what the parts of a rule say. In a plan each target is a part."""
        parts = [each for each in self._resources.of(rule.type) if each.name == rule.name]
        return {name: value for part in (*parts, rule) for name, value in part.properties.items()}

    def has_schedule_group(self, name: str) -> bool | None:
        return name == _DEFAULT_BUS or self._one("AWS::Scheduler::ScheduleGroup", name) is not None

    def schedule(self, group: str, name: str) -> Mapping[str, Any] | None:
        schedule = self._one("AWS::Scheduler::Schedule", name)
        return None if schedule is None else self._answer(schedule.properties, schedule)

    # -- tables

    def table(self, name: str) -> Mapping[str, Any] | None:
        table = self._one(_TABLE, name.rpartition("/")[2])
        if table is None:
            return None
        given = {**dict.fromkeys(_KEY_OF_TABLE, UNKNOWN), **table.properties}
        if is_known([given[part] for part in _KEY_OF_TABLE]) and not _has_key(given):
            raise NotReadable(self._resources.file, f"the key of {table.label} is not whole, or has another form")
        if is_known(indexes := given.get("GlobalSecondaryIndexes", [])):
            self._check_indexes(table, indexes)
        return self._answer(given, table)

    def _check_indexes(self, table: Resource, indexes: Any) -> None:
        """Refuse what AWS would refuse as an index of a table.

        Raises:
            NotReadable: An index is not whole, or has another form.
        """
        try:
            _INDEXES.validate_python(indexes)
        except ValidationError:
            problem = f"an index of {table.label} is not whole, or has another form"
            raise NotReadable(self._resources.file, problem) from None

    def table_key(self, name: str) -> str | None:
        table = self._one(_TABLE, name.rpartition("/")[2])
        return None if table is None else self._key_of(_within(table, "SSESpecification"), "KMSMasterKeyId")

    def time_to_live(self, name: str) -> Mapping[str, Any] | None:
        setting = self._said(_TABLE, name.rpartition("/")[2], "TimeToLiveSpecification", {})
        if setting is None:
            return None
        status = "ENABLED" if setting.get("Enabled") else "DISABLED"
        return {"TimeToLiveStatus": status, "AttributeName": setting.get("AttributeName")}

    def restorable(self, name: str) -> bool | None:
        setting = self._said(_TABLE, name.rpartition("/")[2], "PointInTimeRecoverySpecification", {})
        return None if setting is None else bool(setting.get("PointInTimeRecoveryEnabled"))

    def runs(self, table: str, most: int) -> Iterator[Mapping[str, Any]]:
        """Yield nothing. Runs are in no file."""
        return iter(())

    def stream_keeps(self, arn: str) -> int | None:
        name = stream_of(arn).rpartition("/")[2]
        if (stream := self._resources.named("AWS::Kinesis::Stream", name)) is None:
            self._unanswered.add("for how long the stream keeps a record", name)
            return None
        return (
            int(self._answer({"RetentionPeriodHours": _DAY_HOURS, **stream.properties}, stream)["RetentionPeriodHours"])
            * _HOUR
        )

    # -- functions

    def function(self, name: str) -> Mapping[str, Any] | None:
        if (function := self._one(_FUNCTION, name)) is None:
            return None
        given = function.properties
        logging = given.get("LoggingConfig", {})
        answer = {
            **given,
            "Timeout": given.get("Timeout", DEFAULT_TIMEOUT),
            "LoggingConfig": logging if logging is UNKNOWN else {"LogFormat": "Text", **logging},
            "FunctionArn": function.arn,
            **self._key(given, "KmsKeyArn", "KMSKeyArn"),
        }
        return self._answer(answer, function)

    def loops(self, function: str) -> str | None:
        loops: str | None = self._said(_FUNCTION, function, "RecursiveLoop", "Terminate")
        return loops

    def event_sources(self, function: str) -> list[Mapping[str, Any]]:
        mappings: list[Mapping[str, Any]] = []
        for mapping in self._resources.of("AWS::Lambda::EventSourceMapping"):
            answer = self._answer(_mapping(mapping.properties), mapping)
            if function_name(str(answer["FunctionArn"])) == function:
                mappings.append(answer)
        return mappings

    def reserved(self, function: str) -> int | None:
        reserved: int | None = self._said(_FUNCTION, function, "ReservedConcurrentExecutions", -1)
        return reserved

    def readers(self, queue: str) -> list[Mapping[str, Any]]:
        place = self._resources.placed(queue)
        mappings: list[Mapping[str, Any]] = []
        for mapping in self._resources.of("AWS::Lambda::EventSourceMapping"):
            answer = self._answer(_mapping(mapping.properties), mapping)
            if answer["EventSourceArn"] == place:
                mappings.append(answer)
        return mappings

    def pipes(self, source: str) -> list[str]:
        place = self._resources.placed(source)
        pipes = (
            (pipe, self._answer({"Source": UNKNOWN, **pipe.properties}, pipe)) for pipe in self._resources.of(_PIPE)
        )
        return [
            pipe.label if pipe.name is UNKNOWN else pipe.name for pipe, answer in pipes if answer["Source"] == place
        ]

    def function_url(self, name: str) -> bool:
        return self._url(name) is not None

    def url_auth(self, name: str) -> str | None:
        return None if (url := self._url(name)) is None else str(url["AuthType"])

    def _url(self, function: str) -> Mapping[str, Any] | None:
        for url in self._resources.of("AWS::Lambda::Url"):
            answer = self._answer({"AuthType": UNKNOWN, "TargetFunctionArn": UNKNOWN, **url.properties}, url)
            if function_name(str(answer["TargetFunctionArn"])) == function:
                return answer
        return None

    def log_group(self, function: str) -> Mapping[str, Any] | None:
        name = f"/aws/lambda/{function}"
        if (group := self._resources.named("AWS::Logs::LogGroup", name)) is None:
            self._unanswered.add("the log group, which is none of the file's", name)
            return None
        days = group.properties.get("RetentionInDays")
        retention = {} if days is None else {"retentionInDays": days}
        return self._answer({**retention, **self._key(group.properties, "KmsKeyId", "kmsKeyId")}, group)

    def code_signing(self, function: str) -> str | None:
        signing: str | None = self._said(_FUNCTION, function, "CodeSigningConfigArn", "")
        return signing

    def role(self, name: str) -> Mapping[str, Any] | None:
        if (role := self._resources.named("AWS::IAM::Role", name)) is None:
            self._unanswered.add("the role, which is none of the file's", name)
            return None
        boundary = role.properties.get("PermissionsBoundary")
        bounded = {} if boundary is None else {"PermissionsBoundary": {"PermissionsBoundaryArn": boundary}}
        told = {name: value for name, value in role.properties.items() if name in ("Path", "Tags")}
        return self._answer({**bounded, **told}, role)

    def trust(self, role: str) -> Any:
        if (there := self._resources.named("AWS::IAM::Role", role)) is None:
            self._unanswered.add("the role, which is none of the file's", role)
            return None
        if (document := there.properties.get("AssumeRolePolicyDocument", _OF_NOBODY)) is UNKNOWN:
            self._unanswered.stop("AssumeRolePolicyDocument", role)
        return document

    def tags_of_function(self, name: str) -> Mapping[str, str] | None:
        return self._tags_of(_FUNCTION, name)

    def tags_of_table(self, name: str) -> Mapping[str, str] | None:
        return self._tags_of(_TABLE, name.rpartition("/")[2])

    def _tags_of(self, type_: str, name: str) -> Mapping[str, str] | None:
        if (resource := self._one(type_, name)) is None:
            return None
        tags = self._answer(resource.properties, resource).get("Tags", ())
        return {each["Key"]: each["Value"] for each in tags}

    def has_role(self, name: str) -> bool | None:
        """Answer True for a role of the file. None for any other, which may be there already."""
        return True if self._resources.named("AWS::IAM::Role", name) is not None else None

    # -- the bucket and the secret

    def has_bucket(self, name: str) -> bool | None:
        """Answer True for a bucket of the file. None for any other, which may be there already."""
        return True if self._resources.named("AWS::S3::Bucket", name) is not None else None

    def has_secret(self, name: str) -> bool | None:
        """Answer whether the file has the secret that it was to have. None for any other."""
        kind = "AWS::SecretsManager::Secret"
        return self._one(kind, name) is not None if (kind, name) in self._made else None

    def bucket_key(self, bucket: str) -> str | None:
        if (resource := self._resources.named("AWS::S3::Bucket", bucket)) is None:
            self._unanswered.add("the bucket, which is none of the file's", bucket)
            return None
        encryption = self._answer({"BucketEncryption": {}, **resource.properties}, resource)["BucketEncryption"]
        rule: Mapping[str, Any] = next(iter(encryption.get("ServerSideEncryptionConfiguration", [])), {})
        return str(rule.get("ServerSideEncryptionByDefault", {}).get("KMSMasterKeyID", ""))

    def notified_queues(self, bucket: str) -> NoReturn:
        """Refuse the question: the file that makes a bucket need not name its queues."""
        self._unanswered.stop("whom the bucket tells of its objects", bucket)

    def notified_topics(self, bucket: str) -> NoReturn:
        """Refuse the question: the file that makes a bucket need not name its topics."""
        self._unanswered.stop("whom the bucket tells of its objects", bucket)

    def secret_key(self, name: str) -> str | None:
        return self._key_of(self._one("AWS::SecretsManager::Secret", name), "KmsKeyId")

    # -- what a role may do

    def denied(
        self, role: str, actions: list[str], resource: str, context: Mapping[str, str | None] | None = None
    ) -> list[str]:
        """Return the actions that no policy of the file allows. What its policies leave open is noted."""
        name = role.rpartition("/")[2]
        given = self._resources.named("AWS::IAM::Role", name)
        if given is None or given.arn not in (UNKNOWN, self._resources.placed(role)):
            self._unanswered.add("the role, which is none of the file's", name if given is None else role)
            return []
        documents = [*documents_of(given, self._resources)]
        place = self._resources.placed(resource)
        may = {action: allowed(documents, action, place, {} if context is None else context) for action in actions}
        if unclear := [action for action, answer in may.items() if answer is None]:
            self._unanswered.add(f"whether its policies allow {', '.join(unclear)}", name)
        return [action for action, answer in may.items() if answer is False]

    def key(self, name: str) -> str | None:
        return name if name.startswith("arn:") else KINDS[_KEY].arn(name)

    def key_policy(self, key: str) -> Any:
        """Return the policy of a key of the file. One that says none has that which leaves it to the account."""
        for each in self._resources.of(_KEY):
            if each.arn == self._resources.placed(key):
                return each.properties.get("KeyPolicy", _OF_ACCOUNT)
        self._unanswered.add("the policy of the key, which is none of the file's", key)
        return None

    @property
    def region(self) -> None:
        """Return None. A file is for any region."""

    def clock(self) -> None:
        """Return None. A file has no clock."""

    # -- answers

    def _one(self, type_: str, name: str) -> Resource | None:
        """Return a resource. None if the file was to have it, and has not."""
        there = self._resources.all_named(type_, name)
        if there:
            self._choose(name, there)
            return there[0]
        if (type_, name) not in self._made:
            self._unanswered.stop("whether anything has that name", name)
        if labels := self._resources.maybe(type_):
            self._unanswered.stop(f"whether {', '.join(sorted(labels))} makes it", name)
        return None

    def _said(self, type_: str, name: str, property_: str, default: Any) -> Any:
        """Return a property of a resource. None if the file was to have the resource, and has not."""
        resource = self._one(type_, name)
        return (
            None if resource is None else self._answer({property_: default, **resource.properties}, resource)[property_]
        )

    def _choose(self, name: str, there: list[Resource]) -> None:
        """Stop where several places have resources of one name."""
        labels = ", ".join(resource.label for resource in there)
        if len({resource.place for resource in there}) > 1:
            self._unanswered.stop(f"which of {labels} it is, for they are in several places", name)

    def _answer(self, values: Mapping[str, Any], resource: Resource) -> Answer:
        name = resource.name if resource.type in KINDS else UNKNOWN
        return Answer(values, resource.label if name is UNKNOWN else str(name), self._unanswered)

    def _key(self, given: Mapping[str, Any], property_: str, attribute: str) -> dict[str, Any]:
        """Return the key of a resource under its name in the API. It is empty for one of AWS."""
        key = given.get(property_)
        if key is None:
            return {}
        alias = f":{key}".partition(":alias/")[2]
        if not alias:
            return {attribute: key}
        return {attribute: "" if alias.startswith("aws/") else self._aliased(alias)}

    def _aliased(self, alias: str) -> Any:
        """Return the key that an alias of the file names. Which one another names is not known."""
        for each in self._resources.of("AWS::KMS::Alias"):
            if each.properties.get("AliasName") == f"alias/{alias}":
                return each.properties.get("TargetKeyId", UNKNOWN)
        return UNKNOWN

    def _key_of(self, resource: Resource | None, attribute: str) -> str | None:
        """Return the key of a resource. It is empty for none."""
        if resource is None:
            return None
        return str(self._answer(self._key(resource.properties, attribute, attribute), resource).get(attribute, ""))


def _has_key(table: Mapping[str, Any]) -> bool:
    """Answer whether each attribute of a key has its type, and its part in the key."""
    parts = [part for name in _KEY_OF_TABLE for part in table[name]]
    if not all(isinstance(part, dict) and isinstance(part.get("AttributeName"), str) for part in parts):
        return False
    types = {part["AttributeName"]: part.get("AttributeType") for part in table["AttributeDefinitions"]}
    return all(types.get(part["AttributeName"]) and part.get("KeyType") for part in table["KeySchema"])


def _within(resource: Resource, part: str) -> Resource:
    """Return a resource with the properties of a part of it alone."""
    given = resource.properties.get(part, {})
    return Resource(resource.label, resource.type, {"KMSMasterKeyId": UNKNOWN} if given is UNKNOWN else given)


def _redrive(given: Mapping[str, Any]) -> dict[str, Any]:
    if (policy := given.get("RedrivePolicy")) is None:
        return {}
    return {"RedrivePolicy": json.dumps(policy) if is_known(policy) else UNKNOWN}


def _subscription(given: Any) -> dict[str, Any]:
    """Return a subscription as SNS tells of it."""
    if not isinstance(given, dict):
        return {"TopicArn": UNKNOWN, "Endpoint": UNKNOWN}
    raw = _text(given.get("RawMessageDelivery", False))
    return {**_parsed(given, "FilterPolicy"), **_redrive(given), "RawMessageDelivery": raw}


def _parsed(given: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return properties of which one is a mapping. A file may have the text of that. It is not known if it is none."""
    value = given.get(name)
    if value is None:
        return given
    with suppress(ValueError):
        value = json.loads(value) if isinstance(value, str) else value
    return {**given, name: value if isinstance(value, dict) else UNKNOWN}


def _text(value: Any) -> Any:
    """Return a number or a truth as AWS's interfaces tell it."""
    return value if value is UNKNOWN else str(value).lower()


def _mapping(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return an event source mapping as Lambda tells of it."""
    is_outside = "SelfManagedEventSource" in given
    arn = "" if is_outside else given.get("EventSourceArn", UNKNOWN)
    service = "kafka" if is_outside else f"{arn}::".split(":")[2]
    size = {} if arn is UNKNOWN else {"BatchSize": _BATCH.get(service, 1)}
    is_on = given.get("Enabled", True)
    state = is_on if is_on is UNKNOWN else "Enabled" if is_on else "Disabled"
    place = given.get("FunctionName", UNKNOWN)  # Lambda tells its ARN
    return {**size, **given, **_outside(given), "FunctionArn": place, "EventSourceArn": arn, "State": state}


def _outside(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the servers of a cluster outside AWS under their name in the API. Terraform writes them in one text."""
    outside = given.get("SelfManagedEventSource")
    if not isinstance(outside, dict):
        return {}
    endpoints = outside.get("Endpoints")
    if not isinstance(endpoints, dict):
        return {"SelfManagedEventSource": UNKNOWN}
    servers = endpoints.get("KafkaBootstrapServers", endpoints.get(SERVERS, UNKNOWN))
    listed = servers.split(",") if isinstance(servers, str) else servers
    return {"SelfManagedEventSource": {"Endpoints": {SERVERS: listed}}}
