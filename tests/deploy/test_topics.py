"""What a deployment needs of flows whose runs begin with the records of Kafka."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from flowguard import Done, Flow, Outcome, Stage, Step
from flowguard.deploy.alarms import alarms_of
from flowguard.deploy.finding import LiveFinding
from flowguard.deploy.kafka_mapping import kafka_arguments, kafka_event, kafka_properties
from flowguard.deploy.kafka_need import KafkaNeed
from flowguard.deploy.kafka_plan import LONGEST_GROUP, MOST_TRIES, tries_of
from flowguard.deploy.live import LiveAccount
from flowguard.deploy.needs import FOR_EVER, Deployment, FunctionNeed, StreamNeed, Target
from flowguard.deploy.options import DeployOptions, StreamOptions
from flowguard.deploy.problems import CannotDeploy
from flowguard.deploy.stream_checks import check_shared_streams, check_streams
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from flowguard.streams import KafkaTopic, KinesisStream
from tests.deploy import topics
from tests.deploy.exercised import needs
from tests.deploy.templates import MODULES, template
from tests.deploy.test_doctor import SESSION
from tests.deploy.test_streaming import needed_of
from tests.deploy.topics import CLUSTER, KEY, PLAIN_SECRET, SCRAM_SECRET, SERVERS, AccountRecord

COPY: Final = "accounts-copy"
PLACE: Final = "orders-place"
PARTS: Final = CLUSTER.partition(":cluster/")
INTERFACES: Final = (
    *("ec2:CreateNetworkInterface", "ec2:DeleteNetworkInterface", "ec2:DescribeNetworkInterfaces"),
    *("ec2:DescribeSecurityGroups", "ec2:DescribeSubnets", "ec2:DescribeVpcs"),
)
CONNECTS: Final = ("kafka-cluster:Connect", "kafka-cluster:DescribeClusterDynamicConfiguration")
FINDS: Final = ("kafka:DescribeClusterV2", "kafka:GetBootstrapBrokers")


def deployment(**changes: Any) -> Deployment:
    given = {**topics.OPTIONS, **changes}
    return needs(MODULES["topics"], options=DeployOptions.model_validate(given))


def with_topics(**streams: Any) -> Deployment:
    """The deployment with other options of some topics."""
    return deployment(streams={**topics.OPTIONS["streams"], **streams})


def problems(**streams: Any) -> tuple[str, ...]:
    with pytest.raises(CannotDeploy) as refused:
        with_topics(**streams)
    return refused.value.problems


def stream(needed: Deployment, name: str) -> StreamNeed:
    [only] = [each for function in needed.functions for each in function.streams if each.name == name]
    return only


def topic(needed: Deployment, name: str) -> KafkaNeed:
    found = stream(needed, name).kafka
    assert found is not None
    return found


def may(function: FunctionNeed, on: Target) -> dict[str, tuple[str, ...]]:
    return {each.name: each.actions for each in function.permissions if each.on is on}


# -- what is needed


def test_a_topic_is_a_stream_of_its_cluster() -> None:
    needed = deployment()
    assert stream(needed, "accounts") == StreamNeed(
        *("accounts", False, "accounts-dead-letters", "TRIM_HORIZON", 4, 0, 1, FOR_EVER, MOST_TRIES),
        arn=CLUSTER,
        kafka=topic(needed, "accounts"),
    )
    limits = stream(needed, "limits")
    assert (limits.start, limits.batch_size, limits.window) == ("LATEST", 200, 5)
    assert (limits.max_age, limits.max_attempts, limits.kms_key) == (3_600, 500, KEY)
    aged = tries_of(KafkaTopic("accounts"), StreamOptions(max_age=3_600))
    assert aged == MOST_TRIES, "without a bound Lambda would give up sooner"
    assert {each.kind for function in needed.functions for each in function.streams} == {"Kafka"}
    assert not any("begin runs of" in note for note in needed.notes)


def test_a_group_has_the_names_of_function_and_topic_if_nothing_else_is_said() -> None:
    named = deployment(settings={"names": "staging-*", "signing_keys": "ssm:/keys"})
    for needed, name in ((deployment(), COPY), (named, f"staging-{COPY}")):
        copy = needed.function(name)
        assert [each.kafka and each.kafka.group_of(copy.name) for each in copy.streams] == [
            *(f"{name}-accounts", "limits-copies")
        ]
        assert f"{PARTS[0]}:group/{PARTS[2]}/{name}-accounts" in may(copy, Target.STREAM), "its role is for that one"
    assert [each.name for each in named.function(f"staging-{COPY}").streams] == ["accounts", "limits"]
    assert stream(named, "orders").undelivered == "staging-orders-dead-letters"


def test_a_role_opens_a_cluster_by_iam_if_there_is_no_secret() -> None:
    alone = with_topics(limits={"arn": CLUSTER})
    copy = alone.function(COPY)
    reads = ("kafka-cluster:DescribeTopic", "kafka-cluster:ReadData")
    groups = ("kafka-cluster:AlterGroup", "kafka-cluster:DescribeGroup")
    assert may(copy, Target.STREAM) == {
        CLUSTER: (*CONNECTS, *FINDS),
        f"{PARTS[0]}:topic/{PARTS[2]}/accounts": reads,
        f"{PARTS[0]}:topic/{PARTS[2]}/limits": reads,
        f"{PARTS[0]}:group/{PARTS[2]}/{COPY}-accounts": groups,
        f"{PARTS[0]}:group/{PARTS[2]}/{COPY}-limits": groups,
    }
    assert may(copy, Target.SECRET) == {}
    assert may(copy, Target.NETWORK) == {"*": INTERFACES}
    assert "sqs:SendMessage" in may(copy, Target.QUEUE)["accounts-dead-letters"]
    assert "sqs:SendMessage" in may(copy, Target.QUEUE)["accounts"], "a retry goes to the stage's inbox"


@pytest.mark.parametrize(
    ("auth", "lists"), [("SASL_SCRAM_512_AUTH", ["kafka:ListScramSecrets"]), ("CLIENT_CERTIFICATE_TLS_AUTH", [])]
)
def test_a_secret_opens_a_cluster_without_the_role(auth: str, lists: list[str]) -> None:
    by_secret = {"arn": CLUSTER, "secret": SCRAM_SECRET, "auth": auth, "kms_key": KEY}
    copy = with_topics(accounts=by_secret, limits=by_secret).function(COPY)
    assert may(copy, Target.STREAM) == {CLUSTER: (*FINDS, *lists)}
    assert may(copy, Target.SECRET) == {SCRAM_SECRET: ("secretsmanager:GetSecretValue",)}
    assert may(copy, Target.KEY) == {KEY: ("kms:Decrypt",)}
    assert [each.via for each in copy.permissions if each.on is Target.KEY] == [("secretsmanager",)]


def test_a_cluster_outside_needs_its_secret_and_the_network_that_is_said() -> None:
    place = deployment().function(PLACE)
    assert may(place, Target.STREAM) == {}
    assert may(place, Target.SECRET) == {PLAIN_SECRET: ("secretsmanager:GetSecretValue",)}
    assert may(place, Target.NETWORK) == {"*": INTERFACES}
    public = with_topics(orders={"servers": SERVERS, "secret": PLAIN_SECRET}).function(PLACE)
    assert may(public, Target.NETWORK) == {}
    hidden = with_topics(orders={"servers": SERVERS, "subnets": ["subnet-0a"], "security_groups": ["sg-0a"]})
    assert may(hidden.function(PLACE), Target.SECRET) == may(hidden.function(PLACE), Target.STREAM) == {}


def test_the_key_of_a_secret_of_kafka_is_its_own() -> None:
    """The deployment's key encrypts what is made here, and this secret is there already."""
    of_all = KEY.replace("1234abcd", "00000000")
    needed = deployment(kms_key=of_all)
    through = {each.name: each.via for each in needed.function(COPY).permissions if each.on is Target.KEY}
    assert through[KEY] == ("secretsmanager",)
    assert "secretsmanager" not in through[of_all]
    through = {each.name: each.via for each in needed.function(PLACE).permissions if each.on is Target.KEY}
    assert "secretsmanager" not in through[of_all], "its key is not known"


KEYLESS: Final = (
    '[streams."limits"] has a secret of MSK, which is under a key of yours, and no kms_key: the role of its function '
    "may not open it, unless policies of yours allow it; say its ARN as kms_key"
)
OF_MSK: Final = {"arn": CLUSTER, "secret": SCRAM_SECRET}


@pytest.mark.parametrize("more", [{}, {"kms_key": KEY.replace("1234abcd", "00000000")}])
def test_a_secret_of_msk_is_under_a_key_that_a_note_asks_for(more: dict[str, Any]) -> None:
    """That of the deployment may be another one."""
    assert KEYLESS in deployment(streams={**topics.OPTIONS["streams"], "limits": OF_MSK}, **more).notes


@pytest.mark.parametrize(
    ("limits", "more"),
    [
        ({**OF_MSK, "kms_key": KEY}, {}),
        (OF_MSK, {"secrets": {SCRAM_SECRET: {"kms_key": KEY}}}),
        ({**OF_MSK, "auth": "CLIENT_CERTIFICATE_TLS_AUTH"}, {}),
        ({"servers": SERVERS, "secret": PLAIN_SECRET}, {}),
        ({"arn": CLUSTER}, {}),
    ],
)
def test_no_note_asks_for_a_key_that_is_said_or_that_a_secret_need_not_have(
    limits: dict[str, Any], more: dict[str, Any]
) -> None:
    needed = deployment(streams={**topics.OPTIONS["streams"], "limits": limits}, **more)
    assert [note for note in needed.notes if "secret of MSK" in note] == []


# -- what the template says

SAID: Final = ("BatchSize", "StartingPosition", "MaximumRetryAttempts", "MaximumRecordAgeInSeconds")


def mappings() -> dict[str, Any]:
    resources = template("topics")["Resources"].values()
    return {each["Properties"]["Topics"][0]: each["Properties"] for each in resources if "Topics" in each["Properties"]}


def test_a_mapping_says_where_the_topic_is_and_what_becomes_of_what_fails() -> None:
    accounts, limits, orders = (mappings()[name] for name in ("accounts", "limits", "orders"))
    for own in (accounts, limits, orders):
        assert own["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
        assert own["BisectBatchOnFunctionError"] is True
        assert own["DestinationConfig"]["OnFailure"]["Destination"]["Fn::GetAtt"][0].endswith("DeadLettersQueue")
        assert own["ProvisionedPollerConfig"]["MinimumPollers"] == 1
        assert "ParallelizationFactor" not in own
    assert [accounts[name] for name in SAID] == [4, "TRIM_HORIZON", MOST_TRIES, FOR_EVER]
    assert [limits[name] for name in SAID] == [200, "LATEST", 500, 3_600]
    assert accounts["EventSourceArn"] == limits["EventSourceArn"] == CLUSTER
    assert accounts["AmazonManagedKafkaEventSourceConfig"] == {"ConsumerGroupId": f"{COPY}-accounts"}
    assert accounts["ProvisionedPollerConfig"] == {"MinimumPollers": 1}
    assert "SourceAccessConfigurations" not in accounts
    assert limits["SourceAccessConfigurations"] == [{"Type": "SASL_SCRAM_512_AUTH", "URI": SCRAM_SECRET}]
    assert limits["ProvisionedPollerConfig"]["MaximumPollers"] == 4
    assert "EventSourceArn" not in orders
    assert orders["SelfManagedEventSource"] == {"Endpoints": {"KafkaBootstrapServers": [*SERVERS]}}
    assert orders["SelfManagedKafkaEventSourceConfig"] == {"ConsumerGroupId": f"{PLACE}-orders"}
    assert [each["URI"].partition(":")[0] for each in orders["SourceAccessConfigurations"]] == [
        *("arn", "subnet", "subnet", "security_group")
    ]


def test_each_language_of_templates_says_the_same_of_a_topic() -> None:
    accounts, limits, orders = (topic(deployment(), name) for name in ("accounts", "limits", "orders"))
    of_limits = [("SASL_SCRAM_512_AUTH", SCRAM_SECRET)]
    of_orders = [
        ("BASIC_AUTH", PLAIN_SECRET),
        *(("VPC_SUBNET", f"subnet:{each}") for each in ("subnet-0a1b2c3d", "subnet-0a1b2c3e")),
        ("VPC_SECURITY_GROUP", "security_group:sg-0a1b2c3d"),
    ]
    shared: list[dict[str, Any]] = [
        {"Topics": ["accounts"], "ProvisionedPollerConfig": {"MinimumPollers": 1}},
        {
            "Topics": ["limits"],
            "ProvisionedPollerConfig": {"MinimumPollers": 1, "MaximumPollers": 4},
            "SourceAccessConfigurations": [{"Type": kind, "URI": what} for kind, what in of_limits],
        },
        {
            "Topics": ["orders"],
            "ProvisionedPollerConfig": {"MinimumPollers": 1},
            "SourceAccessConfigurations": [{"Type": kind, "URI": what} for kind, what in of_orders],
        },
    ]
    managed, outside = "AmazonManagedKafkaEventSourceConfig", "SelfManagedKafkaEventSourceConfig"
    assert [kafka_properties(each, "f") for each in (accounts, limits, orders)] == [
        shared[0] | {managed: {"ConsumerGroupId": "f-accounts"}},
        shared[1] | {managed: {"ConsumerGroupId": "limits-copies"}},
        shared[2]
        | {outside: {"ConsumerGroupId": "f-orders"}}
        | {"SelfManagedEventSource": {"Endpoints": {"KafkaBootstrapServers": [*SERVERS]}}},
    ]
    assert [kafka_event(each, "f") for each in (accounts, limits, orders)] == [
        shared[0] | {"ConsumerGroupId": "f-accounts"},
        shared[1] | {"ConsumerGroupId": "limits-copies"},
        shared[2] | {"ConsumerGroupId": "f-orders", "KafkaBootstrapServers": [*SERVERS]},
    ]
    assert [kafka_arguments(each, "f") for each in (accounts, limits, orders)] == [
        {
            "topics": ["accounts"],
            "amazon_managed_kafka_event_source_config": {"consumer_group_id": "f-accounts"},
            "provisioned_poller_config": {"minimum_pollers": 1},
        },
        {
            "topics": ["limits"],
            "amazon_managed_kafka_event_source_config": {"consumer_group_id": "limits-copies"},
            "provisioned_poller_config": {"minimum_pollers": 1, "maximum_pollers": 4},
            "source_access_configuration": [{"type": kind, "uri": what} for kind, what in of_limits],
        },
        {
            "topics": ["orders"],
            "self_managed_kafka_event_source_config": {"consumer_group_id": "f-orders"},
            "provisioned_poller_config": {"minimum_pollers": 1},
            "source_access_configuration": [{"type": kind, "uri": what} for kind, what in of_orders],
            "self_managed_event_source": {"endpoints": {"KAFKA_BOOTSTRAP_SERVERS": ",".join(SERVERS)}},
        },
    ]


# -- what cannot be

OUTSIDE: Final[dict[str, Any]] = {"servers": SERVERS, "secret": PLAIN_SECRET}
AT_MSK: Final[dict[str, Any]] = {"arn": CLUSTER}
NETWORK: Final[dict[str, Any]] = {"subnets": ["subnet-0a"], "security_groups": ["sg-0a"]}


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, 'does not say where kafka:accounts is; say arn = "arn:aws:kafka:…:cluster/…" of MSK, or servers = ['),
        (AT_MSK | {"servers": SERVERS}, "has the arn of a cluster of MSK, whose servers and network Lambda finds"),
        (AT_MSK | {"subnets": ["subnet-0a"]}, "leave out servers, subnets and security_groups"),
        (AT_MSK | {"security_groups": ["sg-0a"]}, "leave out servers, subnets and security_groups"),
        (OUTSIDE | {"subnets": ["subnet-0a"]}, "has subnets or security_groups alone; Lambda needs both, or neither"),
        (OUTSIDE | {"security_groups": ["sg-0a"]}, "has subnets or security_groups alone"),
        ({"servers": SERVERS}, "has neither secret nor subnets; Lambda reads a cluster without a network only by"),
        (AT_MSK | {"secret": PLAIN_SECRET, "auth": "BASIC_AUTH"}, "has auth = BASIC_AUTH, which MSK does not take"),
        (AT_MSK | {"auth": "SASL_SCRAM_512_AUTH"}, "says auth, and no secret"),
        (AT_MSK | {"kms_key": KEY}, "has kms_key, which is the key of the secret of a topic of Kafka, and no secret"),
        (AT_MSK | {"parallel": 2}, "has parallel = 2, which is for shards; for partitions it is pollers"),
        ({"arn": CLUSTER.replace(":kafka:", ":kinesis:").replace("cluster/bank", "stream")}, "of another service"),
    ],
)
def test_the_options_of_a_topic_say_where_it_is_and_how_to_get_there(options: Any, problem: str) -> None:
    [only] = problems(accounts=options)
    assert only.startswith('[streams."accounts"] ')
    assert problem in only


@pytest.mark.parametrize(
    "options", [OUTSIDE, OUTSIDE | NETWORK, {"servers": SERVERS} | NETWORK, AT_MSK | {"parallel": 1, "group": "g"}]
)
def test_other_ways_to_a_topic_are_right(options: Any) -> None:
    assert topic(with_topics(accounts=options), "accounts").topic == "accounts"


def test_the_records_that_may_wait_in_a_topic_are_an_option() -> None:
    """A function of several topics has one metric, so the topic that may have the fewest of them counts."""
    streams = topics.OPTIONS["streams"]
    for most, counts in ((50_000, 10_000), (100, 100)):
        needed = with_topics(limits=streams["limits"] | {"largest_lag": most}, orders=streams["orders"])
        found = {alarm.name: alarm.threshold for alarm in alarms_of(needed, 900) if alarm.metric == "OffsetLag"}
        assert found == {f"{COPY}-topic-behind": counts, f"{PLACE}-topic-behind": 10_000}


@pytest.mark.parametrize(
    "name", ["servers", "group", "secret", "auth", "subnets", "security_groups", "pollers", "largest_lag"]
)
def test_what_is_for_kafka_is_for_no_other_stream(name: str) -> None:
    given = topics.OPTIONS["streams"]["limits"] | topics.OPTIONS["streams"]["orders"] | {"largest_lag": 50_000}

    class Plain(Flow, name="plain", object_id="key", streams=(KinesisStream("viewed"),)):
        stages = (Take,)

    with pytest.raises(CannotDeploy) as refused:
        needed_of(Plain, options={"streams": {"viewed": {name: given[name]}}})
    assert refused.value.problems == (
        f'[streams."viewed"] has {name}, which is for topics of Kafka, and it is kinesis:viewed; take it out',
    )


class Take(Stage[AccountRecord], name="take"):
    def handle(self, record: AccountRecord, step: Step) -> Outcome:
        return Done()


def test_a_group_is_as_long_as_lambda_takes() -> None:
    room = LONGEST_GROUP - len("long-serve-")

    def begun_by(name: str, **options: Any) -> Deployment:
        flow: Any = type("Long", (Flow,), {"stages": (Take,), "__module__": __name__}, **long_flow(name))
        return needed_of(flow, options={"streams": {name: AT_MSK | options}})

    assert topic(begun_by("a" * room), "a" * room).group_of("long-serve") == f"long-serve-{'a' * room}"
    with pytest.raises(CannotDeploy, match=r"would be named 'long-serve-a{29}'… \(201 characters\), and Lambda takes"):
        begun_by("a" * (room + 1))
    assert begun_by("a" * (room + 1), group="g" * LONGEST_GROUP).names == ("long",)


def long_flow(name: str) -> dict[str, Any]:
    return {"name": "long", "object_id": "key", "streams": (KafkaTopic(name),)}


def test_two_flows_of_one_topic_have_groups_of_their_own() -> None:
    class One(Flow, name="one-flow", object_id="key", streams=(KafkaTopic("accounts"),)):
        stages = (Take,)

    class Other(Flow, name="other-flow", object_id="key", streams=(KafkaTopic("accounts"), KinesisStream("accounts"))):
        stages = (Take,)

    def refused(**options: Any) -> tuple[str, ...]:
        with pytest.raises(CannotDeploy) as problem:
            needed_of(One, Other, options={"streams": {"accounts": AT_MSK | options}})
        return problem.value.problems

    shared = (
        '[streams."accounts"] names a group, and 2 flows begin with kafka:accounts: each would get some of the '
        "records; leave it out, and each function has a group of its own"
    )
    assert shared in refused(group="g")
    assert shared not in refused()
    assert not any("names a group" in problem for problem in problems(orders={"servers": SERVERS}))


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("servers", ["kafka-1.example.com"], "is no server of Kafka with its port"),
        ("servers", ["kafka-1.example.com:65536"], "is no server of Kafka with its port"),
        ("servers", ["kafka-1.example.com:0"], "is no server of Kafka with its port"),
        ("servers", [f"kafka-{number}.example.com:9096" for number in range(11)], "has more than 10 parts"),
        ("group", "a b", "is no consumer group"),
        ("group", "g" * 201, "is no consumer group"),
        ("secret", "kafka", "is no ARN of a secret"),
        ("arn", CLUSTER.rpartition("/")[0], "nor of a cluster of MSK"),
        ("pollers", 2_001, "is more than 2000"),
        ("largest_lag", 0, "is less than 1"),
    ],
)
def test_an_option_has_the_form_that_aws_takes(name: str, value: Any, problem: str) -> None:
    class File:
        def read_text(self, encoding: str) -> str:
            return f"[streams.accounts]\n{name} = {json.dumps(value)}"

    with pytest.raises(CannotDeploy, match=problem):
        DeployOptions.read(File())  # type: ignore[arg-type]  # what it reads


def test_the_options_of_the_guide_are_right() -> None:
    guide = Path("docs/guides/streams.md").read_text(encoding="utf-8").partition("### Deploy a topic")[2]
    [shown, *_] = re.findall(r"```toml\n(.*?)```", guide, re.DOTALL)
    streams = topics.OPTIONS["streams"] | tomllib.loads(shown)["streams"]
    needed = deployment(streams=streams)
    assert may(needed.function(COPY), Target.KEY) == {KEY: ("kms:Decrypt",)}
    assert topic(needed, "orders").group == "orders-runs"


# -- the doctor

TELLS: Final = {"OnFailure": {"Destination": "arn:aws:sqs:eu-west-1:123456789012:accounts-dead-letters"}}
RIGHT: Final[dict[str, Any]] = {
    "State": "Enabled",
    "EventSourceArn": CLUSTER,
    "BatchSize": 4,
    "StartingPosition": "TRIM_HORIZON",
    "FunctionResponseTypes": ["ReportBatchItemFailures"],
    "BisectBatchOnFunctionError": True,
    "MaximumRecordAgeInSeconds": FOR_EVER,
    "MaximumRetryAttempts": MOST_TRIES,
    "ProvisionedPollerConfig": {"MinimumPollers": 1, "MaximumPollers": 200},
    "DestinationConfig": TELLS,
    "Topics": ["accounts"],
    "AmazonManagedKafkaEventSourceConfig": {"ConsumerGroupId": "accounts-copy-accounts"},
}
LIMITS: Final = RIGHT | {
    "Topics": ["limits"],
    "AmazonManagedKafkaEventSourceConfig": {"ConsumerGroupId": "limits-copies"},
}
OUTSIDE_MAPPING: Final[dict[str, Any]] = {name: each for name, each in RIGHT.items() if name != "EventSourceArn"} | {
    "Topics": ["orders"],
    "SelfManagedEventSource": {"Endpoints": {"KAFKA_BOOTSTRAP_SERVERS": [*reversed(SERVERS)]}},
    "SelfManagedKafkaEventSourceConfig": {"ConsumerGroupId": "orders-place-orders"},
    "DestinationConfig": {"OnFailure": {"Destination": "arn:aws:sqs:eu-west-1:123456789012:orders-dead-letters"}},
}


class Mappings:
    """An interceptor that answers what is live: the mappings of a function, and those of the cluster."""

    def __init__(self, *sources: Mapping[str, Any], others: tuple[Mapping[str, Any], ...] = ()) -> None:
        self._sources = sources
        self._others = others

    def __call__(self, call: ApiCall, proceed: Proceed, /) -> Response:
        assert call.operation == "ListEventSourceMappings", call.operation
        if "FunctionName" in call.params:
            return {"EventSourceMappings": list(self._sources)}
        assert call.params == {"EventSourceArn": CLUSTER}
        return {"EventSourceMappings": [*self._sources, *self._others]}


def findings_of(
    function: str, *sources: Mapping[str, Any], others: tuple[Mapping[str, Any], ...] = ()
) -> list[LiveFinding]:
    with intercept(Mappings(*sources, others=others)):
        return list(check_streams(deployment().function(function), {"Timeout": 840}, LiveAccount(SESSION)))


def test_nothing_is_wrong_with_mappings_as_the_template_makes_them() -> None:
    assert findings_of(COPY, RIGHT, LIMITS) == []
    assert findings_of(PLACE, OUTSIDE_MAPPING) == []


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"State": "Disabled"}, "source-off"),
        ({"FunctionResponseTypes": []}, "report-failures-missing"),
        ({"ProvisionedPollerConfig": None}, "kafka-unprovisioned"),
        ({"MaximumRecordAgeInSeconds": 60}, "stream-age-short"),
        ({"MaximumRetryAttempts": 0}, "stream-attempts-few"),
        ({"MaximumRetryAttempts": 9_999}, "stream-attempts-few"),
        ({"MaximumRetryAttempts": -1}, "stream-attempts-few"),
        ({"MaximumRetryAttempts": None}, "stream-attempts-few"),
        ({"DestinationConfig": None}, "stream-undelivered-missing"),
        ({"BisectBatchOnFunctionError": False}, "stream-whole"),
        ({"StartingPosition": "LATEST"}, "stream-start-latest"),
    ],
)
def test_what_is_wrong_with_a_mapping_is_found(changes: dict[str, Any], rule: str) -> None:
    [finding] = findings_of(COPY, RIGHT | changes, LIMITS)
    assert (finding.rule, finding.resource) == (rule, COPY)
    assert "the topic accounts" in finding.what


def test_a_record_without_a_bound_and_a_destination_holds_up_its_partition() -> None:
    open_ended = {"MaximumRecordAgeInSeconds": -1, "MaximumRetryAttempts": -1, "DestinationConfig": None}
    found = {finding.rule: finding for finding in findings_of(COPY, RIGHT | open_ended, LIMITS)}
    assert found.keys() == {"stream-age-open", "stream-undelivered-missing"}
    assert "holds up its partition until then" in found["stream-age-open"].why


def test_who_else_reads_a_topic_is_not_said() -> None:
    """Each consumer group gets every record, however many there are."""

    def live(call: ApiCall, proceed: Proceed, /) -> Response:
        if call.operation == "ListPipes":
            return {"Pipes": [{"Name": "audit", "Source": call.params["SourcePrefix"]}]}
        return {"EventSourceMappings": [RIGHT, LIMITS]}

    needed = deployment()
    with intercept(live):
        assert list(check_shared_streams(needed, needed.function(COPY), LiveAccount(SESSION))) == []


def test_nothing_bounds_the_attempts_if_there_is_no_destination() -> None:
    endless = {"MaximumRetryAttempts": -1, "DestinationConfig": None}
    assert [each.rule for each in findings_of(COPY, RIGHT | endless, LIMITS)] == [
        "stream-age-open",
        "stream-undelivered-missing",
    ]


def test_what_the_fix_of_few_attempts_says() -> None:
    [few] = findings_of(COPY, RIGHT | {"MaximumRetryAttempts": -1}, LIMITS)
    assert (few.what, few.fix) == (
        "its mapping from the topic accounts gives a record up after 10 retries",
        "set MaximumRetryAttempts to 10000",
    )


def test_a_topic_that_nothing_brings_is_missing() -> None:
    elsewhere = RIGHT | {"EventSourceArn": CLUSTER.replace("bank", "shop")}
    other = RIGHT | {"Topics": ["accounts-2"]}
    queue = {"EventSourceArn": "arn:aws:sqs:eu-west-1:123456789012:accounts", "BatchSize": 4}
    missing = findings_of(COPY, elsewhere, other, queue, LIMITS)
    assert [(each.rule, each.what, each.why) for each in missing] == [
        (
            "source-missing",
            "no event source mapping brings it the topic accounts",
            "its records begin no runs, and expire in the topic",
        )
    ]
    others_serve = {"Endpoints": {"KAFKA_BOOTSTRAP_SERVERS": [SERVERS[0]]}}
    for wrong in (OUTSIDE_MAPPING | {"SelfManagedEventSource": others_serve}, RIGHT | {"Topics": ["orders"]}):
        assert [each.rule for each in findings_of(PLACE, wrong)] == ["source-missing"]


def test_a_batch_is_as_large_as_there_is_time_for() -> None:
    [slow] = findings_of(PLACE, OUTSIDE_MAPPING | {"BatchSize": 200})
    assert (slow.rule, slow.what.partition(" at once")[0]) == (
        "batch-slow",
        "it gets up to 200 records of the topic orders",
    )


def test_a_function_of_kafka_is_stopped_after_fourteen_minutes() -> None:
    with intercept(Mappings(OUTSIDE_MAPPING)):
        [long] = check_streams(deployment().function(PLACE), {"Timeout": 841}, LiveAccount(SESSION))
    assert (long.rule, long.severity.value, long.fix) == ("kafka-timeout-long", "error", "set Timeout to 85 s")
    assert deployment(functions={"place": {"timeout": 840}}).function(PLACE).timeout == 840
    with pytest.raises(CannotDeploy, match="orders-place is stopped after 841 s, and Lambda gives records of Kafka"):
        deployment(functions={"place": {"timeout": 841}})


def test_two_mappings_of_one_group_are_found() -> None:
    second = RIGHT | {"Topics": ["others"]}
    shared = findings_of(COPY, RIGHT, LIMITS, others=(second,))
    assert [(each.rule, each.severity.value) for each in shared] == [("kafka-group-shared", "error")]
    assert "is of the consumer group accounts-copy-accounts, as another mapping is" in shared[0].what
    own_group = {"AmazonManagedKafkaEventSourceConfig": {"ConsumerGroupId": "theirs"}}
    assert findings_of(COPY, RIGHT, LIMITS, others=(second | own_group,)) == []
    shared = findings_of(PLACE, OUTSIDE_MAPPING, OUTSIDE_MAPPING | {"Topics": ["others"]})
    assert [each.rule for each in shared] == ["kafka-group-shared"]


def test_mappings_that_name_no_group_share_none() -> None:
    unnamed = {name: each for name, each in RIGHT.items() if name != "AmazonManagedKafkaEventSourceConfig"}
    assert findings_of(COPY, unnamed, LIMITS, others=(unnamed,)) == []


def test_a_group_is_the_one_that_the_options_name() -> None:
    [other] = findings_of(
        COPY, RIGHT, LIMITS | {"AmazonManagedKafkaEventSourceConfig": {"ConsumerGroupId": "limits-old"}}
    )
    assert (other.rule, other.severity.value) == ("kafka-group-other", "warning")
    assert other.why == "it goes on where that group is, and not where limits-copies is"


def test_what_may_not_be_read_of_a_cluster_is_not_wrong() -> None:
    def live(call: ApiCall, proceed: Proceed, /) -> Response:
        if "FunctionName" in call.params:
            return {"EventSourceMappings": [RIGHT, LIMITS]}
        raise call.client.exceptions.ClientError({"Error": {"Code": "AccessDenied"}}, call.operation)

    with intercept(live):
        assert list(check_streams(deployment().function(COPY), {"Timeout": 840}, LiveAccount(SESSION))) == []


def test_a_function_reads_shards_beside_topics() -> None:
    """A mapping of a cluster outside has no ARN."""
    mixed = replace(
        deployment().function(PLACE),
        streams=(stream(deployment(), "orders"), replace(stream(deployment(), "orders"), name="viewed", kafka=None)),
    )
    with intercept(Mappings(OUTSIDE_MAPPING)):
        wrong = list(check_streams(mixed, {"Timeout": 840}, LiveAccount(SESSION)))
    assert [each.what for each in wrong] == ["no event source mapping brings it the stream viewed"]
