"""The resources of a file, with the properties that CloudFormation gives them, whatever the file's language."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from flowguard.deploy.planned.dangling import Dangling
from flowguard.deploy.planned.problems import NotReadable
from flowguard.deploy.planned.values import UNKNOWN
from flowguard.wire.home import Home

HERE: Final = Home("aws", "the-region-here", "000000000000")
"""Stands for where the file is deployed. Names that have some of it are not known."""

STREAM_HERE: Final = "the-stream-here"
"""Stands for the time in the ARN of a table's stream."""

Properties = dict[str, Any]


@dataclass(frozen=True)
class Kind:
    """A type of resource: the property with its name, and its ARN after the account.

    ``within`` is the property that names what the resource is in, ``path`` that with its path, if its ARN has that too.
    """

    name: str
    service: str = ""
    resource: str = "{}"
    is_regional: bool = True
    within: str = ""
    path: str = ""

    @property
    def named_by(self) -> tuple[str, ...]:
        """Return the properties of which its ARN is made."""
        return tuple(filter(None, (self.name, self.within, self.path)))

    def arn(self, name: str) -> str:
        """Return the ARN of a resource of that name, as deployed here."""
        region, account = (HERE.region, HERE.account) if self.service != "s3" else ("", "")
        place = region if self.is_regional else ""
        return f"arn:{HERE.partition}:{self.service}:{place}:{account}:{self.resource.format(name)}"


def queue_url(name: str) -> str:
    """Return the URL of a queue of that name, as deployed here."""
    return f"https://sqs.{HERE.region}.amazonaws.com/{HERE.account}/{name}"


KINDS: Final[Mapping[str, Kind]] = {
    "AWS::DynamoDB::Table": Kind("TableName", "dynamodb", "table/{}"),
    "AWS::Events::EventBus": Kind("Name", "events", "event-bus/{}"),
    "AWS::Events::Rule": Kind("Name", "events", "rule/{}", within="EventBusName"),
    "AWS::IAM::ManagedPolicy": Kind("ManagedPolicyName", "iam", "policy/{}", is_regional=False, path="Path"),
    "AWS::IAM::Role": Kind("RoleName", "iam", "role/{}", is_regional=False, path="Path"),
    "AWS::KMS::Key": Kind("KeyId", "kms", "key/{}"),
    "AWS::Kinesis::Stream": Kind("Name", "kinesis", "stream/{}"),
    "AWS::Lambda::Function": Kind("FunctionName", "lambda", "function:{}"),
    "AWS::Logs::LogGroup": Kind("LogGroupName", "logs", "log-group:{}"),
    "AWS::Pipes::Pipe": Kind("Name", "pipes", "pipe/{}"),
    "AWS::S3::Bucket": Kind("BucketName", "s3", is_regional=False),
    "AWS::SNS::Topic": Kind("TopicName", "sns"),
    "AWS::SQS::Queue": Kind("QueueName", "sqs"),
    "AWS::Scheduler::Schedule": Kind("Name", "scheduler", "schedule/{}"),
    "AWS::Scheduler::ScheduleGroup": Kind("Name", "scheduler", "schedule-group/{}"),
    "AWS::SecretsManager::Secret": Kind("Name", "secretsmanager", "secret:{}"),
}
"""The types of resources that others refer to."""

REDRIVE_IS_GIVEN: Final = "RedriveIsGiven"
"""Marks a queue whose redrive policy names what a parameter or another stack gives."""

_DEFAULT: Final = "default"
"""The bus of a rule that names none."""

_ANY_NAME: Final = ("AWS::IAM::Role", "AWS::IAM::ManagedPolicy", "AWS::KMS::Key")
"""Nobody needs the names of these: the file's own label stands for one that is not given."""

_IN_PARTS: Final = ("AWS::Events::Rule",)
"""A rule of Terraform and each of its targets are resources of one name."""

_WITHOUT_CASE: Final = "AWS::IAM::"
"""IAM does not tell names apart by case."""

_SHAPES: Final[Mapping[str, type]] = {
    **dict.fromkeys(
        ("VisibilityTimeout", "MessageRetentionPeriod", "MaximumMessageSize", "maxReceiveCount", "Timeout"), int
    ),
    **dict.fromkeys(("BatchSize", "MaximumRecordAgeInSeconds", "MaximumRetryAttempts", "MaximumConcurrency"), int),
    **dict.fromkeys(("MaximumBatchingWindowInSeconds", "MaximumPollers", "DelaySeconds"), int),
    **dict.fromkeys(("ReservedConcurrentExecutions",), int),
    **dict.fromkeys(("TumblingWindowInSeconds", "RetentionPeriodHours", "RetentionInDays"), int),
    **dict.fromkeys(("Enabled", "PointInTimeRecoveryEnabled", "BisectBatchOnFunctionError", "FifoQueue"), bool),
    **dict.fromkeys(("StreamSpecification", "ProvisionedPollerConfig", "SelfManagedEventSource"), dict),
    **dict.fromkeys(("AmazonManagedKafkaEventSourceConfig", "SelfManagedKafkaEventSourceConfig"), dict),
    **dict.fromkeys(("Topics", "KafkaBootstrapServers"), list),
    **dict.fromkeys(
        ("AttributeDefinitions", "KeySchema", "GlobalSecondaryIndexes", "FunctionResponseTypes", "Targets", "Policies"),
        list,
    ),
    **dict.fromkeys(("ManagedPolicyArns", "Roles", "Subscription", "SubnetIds", "SecurityGroupIds"), list),
    **dict.fromkeys(("ServerSideEncryptionConfiguration", "Filters", "Queues"), list),
    **dict.fromkeys(("Environment", "Variables", "LoggingConfig", "RedrivePolicy", "ScalingConfig", "VpcConfig"), dict),
    **dict.fromkeys(("DestinationConfig", "OnFailure", "TimeToLiveSpecification", "SSESpecification"), dict),
    **dict.fromkeys(
        ("FilterCriteria", "PointInTimeRecoverySpecification", "PolicyDocument", "BucketEncryption", "Events"), dict
    ),
}
"""The types of the properties that are looked at."""

_FUNCTION: Final = "AWS::Lambda::Function"
_ROLE: Final = "AWS::IAM::Role"
_OF_TYPES: Final[Mapping[str, Mapping[str, type]]] = {
    _FUNCTION: {
        "TracingConfig": dict,
        "Tags": list,
        **dict.fromkeys(("FunctionName", "Handler", "KmsKeyArn", "Role", "Runtime", "CodeSigningConfigArn"), str),
    },
    _ROLE: {
        "AssumeRolePolicyDocument": dict,
        "Tags": list,
        **dict.fromkeys(("Path", "PermissionsBoundary", "RoleName"), str),
    },
    "AWS::DynamoDB::Table": {"Tags": list},
    "AWS::IAM::ManagedPolicy": {"Path": str},
    "AWS::SQS::Queue": {"Tags": list},
    "AWS::Scheduler::Schedule": {"Target": dict},
}
"""Those that other types of resources have in another form. They are of the resource itself, of no part of it."""

_PARTS: Final[Mapping[str, Mapping[str, type]]] = {
    "LoggingConfig": {"ApplicationLogLevel": str},
    "OnFailure": {"Destination": str},
}
"""Those that are in one property, of whatever resource."""

_BLOCKS: Final = ("Policies", "ServerSideEncryptionConfiguration", "Subscription", "Targets")
"""The lists of mappings among them."""

_WHOLE_TAG: Final = ("Key", "Value")

_OPAQUE: Final = re.compile(r"AWS::CloudFormation::Stack|AWS::Serverless::Application|.+::MODULE|terraform::.+")


@dataclass(frozen=True)
class Resource:
    """A resource of a file. ``label`` is what the file calls it."""

    label: str
    type: str
    properties: Properties
    place: str = ""
    """What tells its region and account from those of others. It is empty where a file has one place alone."""

    @property
    def name(self) -> Any:
        """Return its name at AWS. It is ``UNKNOWN`` where the deployment gives it one."""
        name = self.properties.get(KINDS[self.type].name, UNKNOWN)
        if self.type in _ANY_NAME and not isinstance(name, str):
            return self.label
        is_given = isinstance(name, str) and HERE.region not in name and HERE.account not in name
        return name if is_given else UNKNOWN

    @property
    def arn(self) -> Any:
        """Return its ARN. It is ``UNKNOWN`` where the name is."""
        kind, name = KINDS[self.type], self.name
        within, path = self.properties.get(kind.within, _DEFAULT), self.properties.get(kind.path, "/")
        if UNKNOWN in (name, within, path):
            return UNKNOWN
        outer = str(within).rpartition("/")[2]
        place = str(path)[1:] if outer == _DEFAULT else f"{outer}/"
        return kind.arn(f"{place}{name}")


class Resources:
    """All resources of a file. ``file`` is its name, ``dangling`` are its references to nothing.

    ``get_tags`` is whether who deploys may put further tags on all of them.
    """

    def __init__(
        self, file: str, resources: list[Resource], dangling: Sequence[Dangling] = (), *, get_tags: bool = False
    ) -> None:
        self.file = file
        self.dangling = dangling
        self.get_tags = get_tags
        self._all = [replace(each, properties=self._shaped_whole(each)) for each in resources]
        arns = (each.arn for each in self._all if each.type in KINDS)
        self._here = {_end(arn): arn for arn in arns if arn is not UNKNOWN}
        self._all = [replace(each, properties=self.placed(each.properties)) for each in self._all]

    def of(self, type_: str) -> Iterator[Resource]:
        """Yield the resources of a type."""
        return (resource for resource in self._all if resource.type == type_)

    def named(self, type_: str, name: str) -> Resource | None:
        """Return the resource of a type and name, if the file has it."""
        return next(iter(self.all_named(type_, name)), None)

    def all_named(self, type_: str, name: str) -> list[Resource]:
        """Return the resources of a type and name. A file with several places may have several."""
        return [resource for resource in self.of(type_) if resource.name == name]

    def of_one_name(self) -> list[list[Resource]]:
        """Return the resources of one type, name and place, those of each together. AWS refuses the second."""
        alike: dict[tuple[Any, ...], list[Resource]] = {}
        for resource in self._all:
            if resource.type in KINDS and resource.type not in _IN_PARTS and resource.name is not UNKNOWN:
                name = resource.name.lower() if resource.type.startswith(_WITHOUT_CASE) else resource.name
                place = (name, resource.type, resource.place, resource.properties.get("GroupName"))
                alike.setdefault(place, []).append(resource)
        return sorted((each for each in alike.values() if len(each) > 1), key=lambda each: str(each[0].name))

    def maybe(self, type_: str) -> list[str]:
        """Return the labels of what may turn out to be a resource of that type, of whatever name."""
        unnamed = [resource.label for resource in self.of(type_) if resource.name is UNKNOWN]
        return unnamed + [resource.label for resource in self._all if _OPAQUE.fullmatch(resource.type)]

    def placed(self, value: Any) -> Any:
        """Return a value in which the ARNs of the file's own resources are those of here, whatever it calls here."""
        if isinstance(value, dict):
            return {key: self.placed(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.placed(item) for item in value]
        return self._here.get(_end(value), value) if isinstance(value, str) else value

    def _shaped_whole(self, resource: Resource) -> Properties:
        """Return the properties of a resource with their types. Raises :class:`NotReadable` for other types."""
        label, wanted = resource.label, _OF_TYPES.get(resource.type, {})
        given = self._all_typed(label, resource.properties, wanted)
        if "Tags" in wanted:
            self._check_tags(label, given.get("Tags", UNKNOWN))
        if "Path" in wanted and not _is_path(given.get("Path", "/")):
            problem = f"Path of {label} is {given['Path']!r:.60}, which does not begin and end with /"
            raise NotReadable(self.file, problem)
        shaped: Properties = self._shaped(label, given)
        return shaped

    def _check_tags(self, label: str, tags: Any) -> None:
        for tag in [] if tags is UNKNOWN else tags:
            if tag is UNKNOWN:
                continue
            if not isinstance(tag, dict) or not tag.keys() >= {*_WHOLE_TAG}:
                raise NotReadable(self.file, f"a tag of {label} is {tag!r:.60}, and no mapping with Key and Value")
            self._all_typed(label, tag, dict.fromkeys(_WHOLE_TAG, str))

    def _check_variables(self, label: str, variables: Mapping[str, Any]) -> None:
        for name, value in variables.items():
            if value is None or isinstance(value, list | dict):
                raise NotReadable(self.file, f"the variable {name} of {label} is {value!r:.60}, and no text")

    def _shaped(self, label: str, value: Any) -> Any:
        """Return properties with numbers and truths of their types. Raises :class:`NotReadable` for other types."""
        if isinstance(value, list):
            return [self._shaped(label, item) for item in value]
        if not isinstance(value, dict):
            return value
        if isinstance(variables := value.get("Variables"), dict):
            self._check_variables(label, variables)
        return {
            key: item if key == "Variables" and isinstance(item, dict) else self._fitting(label, key, item)
            for key, item in value.items()
        }

    def _fitting(self, label: str, key: str, value: Any) -> Any:
        wanted = _SHAPES.get(key)
        if (
            key in _BLOCKS
            and isinstance(value, list)
            and not all(isinstance(it, dict) or it is UNKNOWN for it in value)
        ):
            raise NotReadable(self.file, f"{key} of {label} has other items than mappings")
        typed = value if wanted is None else self._typed(label, key, value, wanted)
        parts = _PARTS.get(key, {}) if isinstance(typed, dict) else {}
        return self._shaped(label, self._all_typed(label, typed, parts) if parts else typed)

    def _all_typed(self, label: str, values: Properties, wanted: Mapping[str, type]) -> Properties:
        return {
            key: self._typed(label, key, value, wanted[key]) if key in wanted else value
            for key, value in values.items()
        }

    def _typed(self, label: str, key: str, value: Any, wanted: type) -> Any:
        """Return a value with its type. CloudFormation takes the text of a number for one, and the other way round."""
        if value is UNKNOWN or (isinstance(value, wanted) and not (wanted is int and value is True)):
            return value
        if wanted is int and isinstance(value, str) and re.fullmatch("-?[0-9]{1,9}", value):
            return int(value)
        if wanted is bool and value in ("true", "false"):
            return value == "true"
        if wanted is str and isinstance(value, int | float):
            return str(value).lower()
        raise NotReadable(self.file, f"{key} of {label} is {value!r:.60}, and not of the type {wanted.__name__}")


def _is_path(path: Any) -> bool:
    return path is UNKNOWN or (path.startswith("/") and path.endswith("/"))


def _end(arn: str) -> str:
    """Return what tells an ARN from others of one account and region. It is empty for other texts."""
    parts = arn.split(":", 5)
    return f"{parts[2]}:{parts[5]}" if len(parts) == 6 and parts[0] == "arn" else ""
