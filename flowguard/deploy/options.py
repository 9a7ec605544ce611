"""The options of a deployment, read from a TOML file. All have defaults."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from flowguard.deploy.imports import Find, Import, Imports, with_values
from flowguard.deploy.kafka_need import SCRAM
from flowguard.deploy.observer_names import checked_names
from flowguard.deploy.option_arns import arn_problems
from flowguard.deploy.problems import CannotDeploy
from flowguard.errors import shown
from flowguard.names.at_aws import Names
from flowguard.settings import NameRule
from flowguard.text.setting_problems import (
    ACCOUNT,
    ANY_QUEUE,
    ANY_TABLE,
    ANY_TOPIC,
    ARCHITECTURE,
    BUCKET,
    CODE_SIGNING,
    DATABASE_USER,
    EXPORT,
    GROUP,
    KEYS,
    KMS_KEY,
    PLACE,
    POLICY,
    PREFIX,
    QUEUE,
    REGION,
    ROLE,
    ROLE_PATH,
    RUNTIME,
    SCHEDULE_GROUP,
    SECURE_LINKS,
    SECURITY_GROUP,
    SERVER,
    STANDARD_TOPIC,
    STORED_SECRET,
    STREAM,
    SUBNET,
    TABLE,
    TAG_KEY,
    TAG_TEXT,
    VARIABLE,
    setting_problem,
)
from flowguard.worker.patience import MANY_RECEIVES

RESERVED: Final = frozenset(
    {
        "AWS_ACCESS_KEY",
        "AWS_ACCESS_KEY_ID",
        "AWS_DEFAULT_REGION",
        "AWS_EXECUTION_ENV",
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE",
        "AWS_LAMBDA_FUNCTION_NAME",
        "AWS_LAMBDA_FUNCTION_VERSION",
        "AWS_LAMBDA_INITIALIZATION_TYPE",
        "AWS_LAMBDA_LOG_GROUP_NAME",
        "AWS_LAMBDA_LOG_STREAM_NAME",
        "AWS_LAMBDA_RUNTIME_API",
        "AWS_REGION",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "LAMBDA_RUNTIME_DIR",
        "LAMBDA_TASK_ROOT",
    }
)
"""The variables that Lambda sets itself. Two more begin with ``_``, which no variable of a function does."""

MOST_SUBNETS: Final = 16
MOST_SECURITY_GROUPS: Final = 5
"""Of a function in a network, as of Lambda's pollers of Kafka."""

POLICIES_OF_A_ROLE: Final = 10
MOST_POLICIES: Final = 25
"""Policies of a role, where the account's quota is raised as far as it goes."""

FIRST_WRITES: Final = 4_000
"""Write units a second that a new on-demand table takes."""

LONGEST_TIMEOUT: Final = 900
"""Seconds after which Lambda stops any function."""

TABLE_KEEPS: Final = 86_400
"""Seconds for which the stream of a table keeps a change."""

NAMES: Final = "FLOWGUARD_NAMES"

LONGEST_TAG: Final = 256
"""Characters of a tag's value."""

MOST_TAGS: Final = 40
"""Tags of a resource, of the 50 that AWS takes: CloudFormation has some of its own."""

_KEY: Final = "[key]"
"""The last part of the place of an error that is in a name and not in its value."""

_BUCKET_ARN: Final = re.compile("arn:[a-z0-9-]+:s3:::(.+)")
_ADDRESS: Final = re.compile(r"[0-9]+(\.[0-9]+){3}")
_GROUP_ARN: Final = re.compile("arn:[a-z0-9-]+:scheduler:[a-z0-9-]+:[0-9]{12}:schedule-group/(.+)")


def _name_in(form: re.Pattern[str], given: Any) -> Any:
    """Return the name in an ARN of that form. What is no such ARN stays as it is."""
    return match[1] if isinstance(given, str) and (match := form.fullmatch(given)) is not None else given


def _no_address(bucket: str) -> str:
    if _ADDRESS.fullmatch(bucket) is not None:
        raise ValueError("is an IP address, which no bucket has for a name")
    return bucket


_name_of_group = partial(_name_in, _GROUP_ARN)
BucketName = Annotated[
    str,
    Field(pattern=BUCKET, min_length=3, max_length=63),
    BeforeValidator(partial(_name_in, _BUCKET_ARN)),
    AfterValidator(_no_address),
]
TagKey = Annotated[str, Field(pattern=TAG_KEY)]
TagText = Annotated[str, Field(pattern=TAG_TEXT, max_length=LONGEST_TAG)]
Days = Annotated[int, Field(ge=1)]
KeyArn = Annotated[str, Field(pattern=KMS_KEY)]


def _takes_number(kind: Any) -> bool:
    """Answer whether an option of that type is a number, or none."""
    return kind is int or int in get_args(kind)


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    @field_validator("*", mode="before")
    @classmethod
    def _is_no_truth(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuse ``true`` where a number is asked for. Pydantic would take it for 1."""
        if isinstance(value, bool) and _takes_number(cls.model_fields[str(info.field_name)].annotation):
            raise ValueError(f"is {str(value).lower()}, and a number is asked for")
        return value

    @field_validator("*")
    @classmethod
    def _names_each_once(cls, value: Any) -> Any:
        if isinstance(value, tuple) and (twice := sorted({str(each) for each in value if value.count(each) > 1})):
            raise ValueError(f"has {', '.join(twice)} twice")
        return value


OF_MADE_ROLES: Final = ("policies", "database_users")
"""The options of functions that say what a role has which is made for one."""


class FunctionOptions(Frozen):
    """Options of one function, or in ``[defaults]`` of all. None is replaced by a derived value."""

    name: str | None = None
    """Its name at Lambda; the first flow's and its own by default."""
    timeout: int | None = Field(None, ge=1, le=LONGEST_TIMEOUT)
    memory: int = Field(256, ge=128, le=10_240)
    batch_size: int | None = Field(None, ge=1, le=10_000)
    window: int = Field(0, ge=0, le=300)
    """Seconds for which Lambda gathers a batch. FIFO queues have none."""
    max_concurrency: int | None = Field(None, ge=2, le=1_000)
    reserved: int | None = Field(None, ge=2)
    """Invocations at once that are kept for it, and the most that it has."""
    url_concurrency: int = Field(10, ge=0)
    """Invocations at once that are reserved for a function with a URL, and the most that it has. 0 reserves none."""
    url_auth: Literal["AWS_IAM", "NONE"] = "AWS_IAM"
    """Who may call the URL of a function that starts runs: who may by IAM, or all."""
    role: str | None = Field(None, pattern=ROLE)
    """The name or ARN of a role that is there. None is made then."""
    queue: str | None = Field(None, pattern=QUEUE)
    """The queue of a function under ``@once``; one of its rule's name by default."""
    policies: tuple[Annotated[str, Field(pattern=POLICY)], ...] = Field((), max_length=MOST_POLICIES)
    """ARNs of policies for what the handlers call themselves: 10, or as many as the quota of the account says."""
    database_users: tuple[Annotated[str, Field(pattern=DATABASE_USER)], ...] = ()
    """ARNs of users of databases whose password is a token of IAM: as these it may connect."""
    environment: dict[Annotated[str, Field(pattern=VARIABLE)], str] = {}

    @field_validator(*OF_MADE_ROLES)
    @classmethod
    def _are_attached(cls, given: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        if given and info.data.get("role") is not None:
            raise ValueError("has no effect beside role: nothing is attached to a role that is there")
        return given

    @field_validator("environment")
    @classmethod
    def _are_own(cls, environment: dict[str, str]) -> dict[str, str]:
        if taken := sorted(RESERVED & environment.keys()):
            raise ValueError(f"has {', '.join(taken)}, which Lambda itself sets")
        if ours := sorted(name for name in environment if name.startswith("FLOWGUARD_")):
            raise ValueError(f"has {', '.join(ours)}, which belongs under [settings]")
        return environment


def _no_account(role: str) -> str:
    """Refuse an account's number, which has the form of a role's name."""
    if re.fullmatch("[0-9]{12}", role):
        raise ValueError(f"has {role}, which is an account; name its roles by their ARNs")
    return role


_Party = Annotated[str, Field(pattern=ROLE), AfterValidator(_no_account)]


class QueueOptions(Frozen):
    """Options of one queue. An ``existing`` queue is named and not made."""

    existing: bool = False
    name: str | None = Field(None, pattern=ANY_QUEUE)
    """Its name at AWS, or its ARN, where that does not follow from the rule of the names."""
    senders: tuple[_Party, ...] = ()
    """Names or ARNs of further roles that may send to the queue: of flows and services that are deployed elsewhere.

    A queue for which they are listed is closed to all others; an empty list leaves its functions, its feeds and the
    operators. One of answers or dead letters is closed anyway.
    """
    buckets: tuple[BucketName, ...] = ()
    """Names or ARNs of buckets of the same account that tell the queue what happens to their objects."""
    kms_key: KeyArn | None = None
    """The ARN of its key, if it has another one."""
    max_receive_count: int = Field(MANY_RECEIVES, ge=3, le=1_000)
    """How often SQS delivers a record before it gives it up. Throttles, outages and busy objects use receives up."""


class TableOptions(Frozen):
    """Options of one table."""

    existing: bool = False
    name: str | None = Field(None, pattern=ANY_TABLE)
    """Its name at AWS, or its ARN, where that does not follow from the rule of the names."""
    kms_key: KeyArn | None = None
    """The ARN of its key, if it has another one."""
    warm_writes: int | None = Field(None, ge=FIRST_WRITES)
    """Write units a second that the table takes at once. A new one takes ``FIRST_WRITES`` anyway."""
    warm_reads: int | None = Field(None, ge=12_000)
    run_index: bool = False
    """Whether the run table has an index by which ``--index`` finds runs. It costs three writes for each run."""


class TopicOptions(Frozen):
    """Options of one topic, by its name."""

    existing: bool = False
    name: str | None = Field(None, pattern=ANY_TOPIC)
    """Its name at AWS, or its ARN, where that does not follow from the rule of the names."""
    buckets: tuple[BucketName, ...] = ()
    """Names or ARNs of buckets of the same account that tell the topic what happens to their objects."""
    kms_key: KeyArn | None = None
    """The ARN of its key, if it has another one."""


class StreamOptions(Frozen):
    """Options of one stream, by its name in the code: of a table's stream that is the table's."""

    arn: str | None = Field(None, pattern=STREAM)
    """Its ARN, or that of a consumer of it. A Kinesis stream without one is in the deployment's own account.

    Of a topic of MSK it is the cluster's.
    """
    start: Literal["LATEST", "TRIM_HORIZON"] = "TRIM_HORIZON"
    """What a new mapping begins with: the oldest record, or what comes after it."""
    batch_size: int | None = Field(None, ge=1, le=10_000)
    """The most records of an invocation; that of the function's queues by default."""
    window: int = Field(0, ge=0, le=300)
    """Seconds for which Lambda gathers a batch."""
    parallel: int = Field(1, ge=1, le=10)
    """Batches of one shard that are worked on at once. Those of one partition key stay in order."""
    max_age: int | None = Field(None, ge=60, le=604_800)
    """Seconds after which Lambda gives a record up, also one that the function has never got. None: never."""
    max_attempts: int | None = Field(None, ge=1, le=10_000)
    """How many times Lambda retries a failed record. None: until it is ``max_age`` old, or as often as it can."""
    kms_key: KeyArn | None = None
    """The ARN of the customer's key that encrypts it. Of Kafka it is the key of the secret."""
    servers: tuple[Annotated[str, Field(pattern=SERVER)], ...] = Field((), max_length=10)
    """The servers of a cluster of Kafka outside MSK, each with its port."""
    group: str | None = Field(None, pattern=GROUP)
    """The consumer group of Kafka. By default it has the names of the function and of the topic."""
    secret: str | None = Field(None, pattern=STORED_SECRET)
    """The ARN of the secret that opens the cluster of Kafka."""
    auth: Literal["SASL_SCRAM_512_AUTH", "SASL_SCRAM_256_AUTH", "BASIC_AUTH", "CLIENT_CERTIFICATE_TLS_AUTH"] = SCRAM
    """What the secret is: a user's name and password, or a certificate."""
    subnets: tuple[Annotated[str, Field(pattern=SUBNET)], ...] = Field((), max_length=MOST_SUBNETS)
    """The subnets from which Lambda reaches a cluster of Kafka outside MSK."""
    security_groups: tuple[Annotated[str, Field(pattern=SECURITY_GROUP)], ...] = Field(
        (), max_length=MOST_SECURITY_GROUPS
    )
    """The security groups of what Lambda makes in these subnets."""
    pollers: int | None = Field(None, ge=1, le=2_000)
    """The most pollers of a topic of Kafka at once, which cost by the hour. None leaves it to Lambda."""
    largest_lag: int = Field(10_000, ge=1)
    """Records that wait in a topic of Kafka until that is an alarm, if it lasts for a quarter of an hour."""


class SecretOptions(Frozen):
    """Options of a secret or parameter that is there, by its name or ARN as settings or code have it."""

    kms_key: KeyArn
    """The ARN of its key, where that is not the deployment's."""


class ScheduleGroupOptions(Frozen):
    """Options of a group of schedules, by its name. A ``former`` one is that of a release before."""

    existing: bool = False
    former: bool = False


class ScheduleOptions(Frozen):
    """Options of a schedule that begins runs, by its name: ``<flow>-<name of the schedule>``."""

    enabled: bool = True
    """Whether it sends requests. Off, it is there and sends none."""


class SettingsOptions(Frozen):
    """The settings of the functions, without their prefix FLOWGUARD_. Keys are never written here, only where they are.

    ``bucket`` is there already, and ``scheduler_role`` where it is given.
    """

    table: str = Field("flowguard", pattern=TABLE)
    names: NameRule = "*"
    """The names at AWS: a rule with * for the name in the code."""
    bucket: BucketName | None = None
    bucket_owner: str | None = Field(None, pattern=ACCOUNT)
    """The account of the bucket, where that is another than the functions'."""
    offload_above: int | None = Field(None, ge=1_024, le=200_000)
    prefix: str | None = Field(None, pattern=PREFIX)
    scheduler_role: str | None = Field(None, pattern=ROLE)
    scheduler_group: Annotated[str, BeforeValidator(_name_of_group)] = Field("flowguard", pattern=SCHEDULE_GROUP)
    """The name of the group of schedules, or its ARN: of the account and region that is deployed to."""
    signing_keys: str | None = Field(None, pattern=KEYS)
    token_keys: str | None = Field(None, pattern=KEYS)
    """Keys of tokens alone. Without them the signing keys make tokens too."""
    answers_url: str | None = Field(None, pattern=SECURE_LINKS)
    """The base of links: the URL of the function of answers, or of what is before it."""
    observers: Annotated[str, AfterValidator(checked_names)] | None = None
    """What watches, where that is not the logs alone. What it calls needs ``policies`` of the functions."""
    client: Literal["auto", "boto3", "lean"] | None = None
    """Who makes the calls of a message, where that is not the lean client in functions of Lambda."""
    debug_sampled: bool | None = None

    @field_validator("bucket_owner")
    @classmethod
    def _has_a_bucket(cls, owner: str | None, info: ValidationInfo) -> str | None:
        if owner is not None and info.data.get("bucket") is None:
            raise ValueError("has no effect without bucket")
        return owner

    @property
    def at_aws(self) -> Names:
        """Return the names that resources have at AWS."""
        return Names.parse(self.names)


class VpcOptions(Frozen):
    """The network in which functions run. It needs ways to the services of AWS: endpoints, or a NAT."""

    subnets: tuple[Annotated[str, Field(pattern=SUBNET)], ...] = Field(min_length=1, max_length=MOST_SUBNETS)
    security_groups: tuple[Annotated[str, Field(pattern=SECURITY_GROUP)], ...] = Field(
        min_length=1, max_length=MOST_SECURITY_GROUPS
    )


class AlarmTopicOptions(Frozen):
    """The topic that gets the alarms. It is there already."""

    arn: str = Field(pattern=STANDARD_TOPIC)
    """Its ARN, for which the template has a parameter. This is the default of that."""
    kms_key: KeyArn | None = None
    """The ARN of the customer's key that encrypts it, whose policy has to let CloudWatch publish."""


class DeployOptions(Frozen):
    """All options of a deployment. Functions are named by their handlers, other resources by their names at AWS."""

    runtime: str = Field("python3.13", pattern=RUNTIME)
    architecture: str = Field("arm64", pattern=ARCHITECTURE)
    log_retention: int = 30
    """Days for which logs are kept. Where they are said, a log is kept so long without its function too."""
    oldest_message: int = Field(900, ge=1)
    """Seconds after which the age of the oldest message of a queue is an alarm."""
    reply_to: tuple[Annotated[str, Field(pattern=PLACE)], ...] = ()
    """Queues that requests may name as their ``reply_to``, of flows that list none."""
    operators: tuple[_Party, ...] = ()
    """The roles of those who redrive, retry and cancel. Named, inboxes of later stages are closed to others."""
    exports: str | None = Field(None, pattern=EXPORT)
    """What the names begin with under which the template exports the ARNs of what it makes."""
    tags: dict[TagKey, TagText] = Field({}, max_length=MOST_TAGS)
    """Further tags of each resource that can have some. ``flowguard`` is the template's own."""
    role_path: str = Field("/", pattern=ROLE_PATH, max_length=512)
    """The path of the roles that are made."""
    named_roles: bool = True
    """Whether roles have names where a rule of the names is set. One account has each name once, in all regions."""
    permissions_boundary: str | None = Field(None, pattern=POLICY)
    """The ARN of the policy that bounds the permissions of each role that is made."""
    kms_key: KeyArn | None = None
    """The ARN of the key that encrypts all that is made. The bucket and the secrets may be under it too."""
    account: str | None = Field(None, pattern=ACCOUNT)
    """The account that is deployed to, if a key is of another account. The key's policy names it."""
    region: str | None = Field(None, pattern=REGION)
    """The region that is deployed to. What is named by its ARN must be of it; without it, all that is of one region."""
    bucket_key: KeyArn | None = None
    """The ARN of the key of the bucket, if it has another one."""
    code_signing: str | None = Field(None, pattern=CODE_SIGNING)
    """The ARN of the code signing configuration of all functions."""
    tracing: bool = False
    """Whether Lambda sends traces of the functions to X-Ray."""
    vpc: VpcOptions | None = None
    alarm_topic: AlarmTopicOptions | None = None
    settings: SettingsOptions = Field(SettingsOptions(), validate_default=True)
    defaults: FunctionOptions = FunctionOptions()
    functions: dict[str, FunctionOptions] = {}
    queues: dict[str, QueueOptions] = {}
    tables: dict[str, TableOptions] = {}
    topics: dict[str, TopicOptions] = {}
    streams: dict[str, StreamOptions] = {}
    secrets: dict[str, SecretOptions] = {}
    schedule_groups: dict[Annotated[str, Field(pattern=SCHEDULE_GROUP)], ScheduleGroupOptions] = {}
    schedules: dict[str, ScheduleOptions] = {}

    @field_validator("tags")
    @classmethod
    def _are_free(cls, tags: dict[str, str]) -> dict[str, str]:
        if taken := sorted(key for key in tags if key.lower().startswith("aws:") or key.lower() == "flowguard"):
            raise ValueError(f"has {', '.join(taken)}, which AWS or the template itself sets")
        if len({key.lower() for key in tags}) < len(tags):
            raise ValueError("has keys that differ in capital letters alone, which IAM takes for one on a role")
        return tags

    @field_validator("settings")
    @classmethod
    def _have_the_bucket(cls, settings: SettingsOptions, info: ValidationInfo) -> SettingsOptions:
        if info.data.get("bucket_key") is not None and settings.bucket is None:
            raise ValueError("has no bucket, and bucket_key is the key of one")
        return settings

    @field_validator("topics")
    @classmethod
    def _have_one_name(cls, topics: dict[str, TopicOptions]) -> dict[str, TopicOptions]:
        if by_arn := [arn for arn, topic in topics.items() if arn.startswith("arn:") and topic.name is not None]:
            blocks = ", ".join(f'[topics."{arn.rpartition(":")[2]}"]' for arn in by_arn)
            raise ValueError(f"takes name in a block of the topic's name alone, and not of its ARN: write {blocks}")
        return topics

    @property
    def alarms_to(self) -> str:
        """Return the ARN of the topic that gets the alarms. It is empty where the options name none."""
        return "" if self.alarm_topic is None else self.alarm_topic.arn

    @property
    def keeps_logs(self) -> bool:
        """Answer whether logs stay when their function, or the whole deployment, is taken away."""
        return "log_retention" in self.model_fields_set

    @property
    def log_level(self) -> str:
        """Return the least level that Lambda keeps of the functions' own lines."""
        return "DEBUG" if self.settings.debug_sampled else "INFO"

    _imports: dict[str, Import] = PrivateAttr(default_factory=dict)

    @property
    def imports(self) -> Imports:
        """Return the imports that the options name, by the placeholder that stands for each in the options."""
        return self._imports

    @classmethod
    def read(cls, file: Path, find: Find = lambda _: None) -> DeployOptions:
        """Read the options of a TOML file. Raises :class:`CannotDeploy` with all that is wrong in it.

        ``find`` tells the values of what other stacks export.
        """
        try:
            given, imports = with_values(tomllib.loads(file.read_text(encoding="utf-8")), find)
            options = cls.model_validate(given)
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise CannotDeploy(str(file), (f"cannot be read: {error}",)) from None
        except ValidationError as error:
            raise CannotDeploy(str(file), tuple(map(_problem, error.errors(include_url=False)))) from None
        if of_others := tuple(arn_problems(given)):
            raise CannotDeploy(str(file), of_others)
        options._imports = imports
        return options

    def of_environment(self, environment: Mapping[str, str]) -> DeployOptions:
        """Return the options with the names at AWS that the environment gives.

        Raises :class:`CannotDeploy` where the options give other ones.
        """
        text = environment.get(NAMES)
        if text is None:
            return self
        try:
            names = str(Names.parse(text))
        except ValueError as error:
            raise CannotDeploy(NAMES, (f"it {error}",)) from None
        if self.settings.names not in ("*", names):
            problem = f"it is {shown(names)}, and the options say names = {shown(self.settings.names)}; leave one out"
            raise CannotDeploy(NAMES, (problem,))
        return self.model_copy(update={"settings": self.settings.model_copy(update={"names": names})})

    def own_of(self, attribute: str, handler: str) -> FunctionOptions | None:
        """Return the options that a function alone has. None for one that has the defaults."""
        return self.functions.get(handler, self.functions.get(attribute))

    def of_function(self, attribute: str, handler: str) -> FunctionOptions:
        """Return the options of a function by its handler's name or whole path. Defaults are filled in."""
        if (chosen := self.own_of(attribute, handler)) is None:
            return self.defaults
        return self.defaults.model_copy(update={name: getattr(chosen, name) for name in chosen.model_fields_set})

    def of_queue(self, name: str) -> QueueOptions:
        """Return the options of a queue."""
        return self.queues.get(name, QueueOptions())

    def of_stream(self, name: str) -> StreamOptions:
        """Return the options of a stream."""
        return self.streams.get(name, StreamOptions())


def _problem(error: Mapping[str, Any]) -> str:
    """Return what is wrong with an option, by its place in the file."""
    place = ".".join(str(part) for part in error["loc"] if part != _KEY)
    there = {options.__name__: options.model_fields for options in Frozen.__subclasses__()}
    taken = there[error["ctx"]["class_name"]] if error["type"] == "model_type" else ()
    meant = _meant(str(error["loc"][-1])) if error["type"] == "extra_forbidden" else ""
    return f"{place} {setting_problem(error)}{meant}{': it takes ' if taken else ''}{', '.join(taken)}"


def _meant(name: str) -> str:
    """Ask for the option whose name is nearest. That of a setting is the variable's without its prefix."""
    known = {option for options in Frozen.__subclasses__() for option in options.model_fields}
    near = get_close_matches(name.removeprefix("FLOWGUARD_").lower(), sorted(known), 1)
    return f"; is it {near[0]}?" if near else ""


RETENTIONS: Final = (
    *(1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653),
)
"""The days for which CloudWatch can keep logs."""
