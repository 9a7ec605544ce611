"""Two deployments of the same flows in one account: no resource of one is a resource of the other."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner

from flowguard.aws.clients import Clients
from flowguard.cli import main
from flowguard.cli.iac import FORMATS
from flowguard.deploy.at_aws import under_names
from flowguard.deploy.derive import needs_of
from flowguard.deploy.found import find_functions
from flowguard.deploy.needs import Deployment, Permission, TopicNeed
from flowguard.deploy.options import DeployOptions, TopicOptions
from flowguard.deploy.problems import CannotDeploy
from flowguard.destinations import Bus
from flowguard.dev.functions import Order, mapping_of, outside_environment
from flowguard.dev.provided import Provider
from flowguard.names.at_aws import AS_IN_CODE, Names, rule_of
from flowguard.sim.account import ACCOUNT_ID, REGION
from flowguard.sim.moto import EmbeddedAWS
from tests.deploy import everything
from tests.deploy.streaming import CLICKED, KEY, PRICES, SHARED
from tests.deploy.templates import MODULES, options_of
from tests.deploy.topics import CLUSTER, PLAIN_SECRET, SCRAM_SECRET
from tests.deploy.topics import KEY as KEY_OF_KAFKA

RULE: Final = "staging-*"
ORDERS: Final = "flows.orders.handlers"
_NAMING: Final = ("name", "name_prefix", "path")
"""What Terraform names a role by. With another it makes the role anew."""


def under(options: DeployOptions, names: str) -> DeployOptions:
    return options.of_environment({"FLOWGUARD_NAMES": names})


def described(name: str, names: str = RULE) -> Deployment:
    options = options_of(name)
    return needs_of(find_functions([MODULES[name]]), under(options, names) if names != "*" else options)


def resources(needed: Deployment) -> dict[str, set[str]]:
    return {
        "functions": {one.name for one in needed.functions},
        "tables": {one.name for one in needed.tables},
        "queues": {one.name for one in needed.queues if one.arn is None},
        "topics": {one.arn for one in needed.topics},
        "rest": {needed.scheduler_group, str(needed.signing_secret)} - {"None"},
    }


@pytest.mark.parametrize("name", MODULES)
def test_every_resource_has_another_name_and_only_that(name: str) -> None:
    plain, staging = described(name, "*"), described(name)
    for kind, names in resources(plain).items():
        renamed = resources(staging)[kind]
        assert renamed == {re.sub("([^:]+)$", r"staging-\1", one) for one in names}, kind
        assert not renamed & names, kind


@pytest.mark.parametrize(("is_given", "named"), [(False, "staging-clocks"), (True, "clocks")])
def test_a_group_that_is_imported_is_not_renamed(is_given: bool, named: str) -> None:
    needed = replace(described("ticking", "*"), scheduler_group="clocks")
    assert under_names(needed, Names.parse(RULE), group_is_given=is_given).scheduler_group == named


def is_of_kafka(arn: str) -> bool:
    """Whether it is a cluster, a topic of it, or a group that the options name."""
    return arn.startswith(CLUSTER.partition("cluster/")[0]) and (":group/" not in arn or arn.endswith("/limits-copies"))


def test_a_role_of_one_deployment_may_touch_nothing_of_the_other() -> None:
    def named(needed: Deployment) -> set[Permission]:
        return {one for function in needed.functions for one in function.permissions}

    for name in MODULES:
        shared = {(one.target, one.name) for one in named(described(name, "*")) & named(described(name))}
        assert {target for target, _ in shared} <= {
            "objects",
            "bucket",
            "parameter",
            "bus",
            "queue",
            "secret",
            "scheduler role",
            "stream",
            "key",
            "network",
        }, name
        elsewhere = {where for target, where in shared if target in ("stream", "key") and not is_of_kafka(where)}
        assert elsewhere <= {CLICKED, SHARED, PRICES, KEY, KEY_OF_KAFKA}
        exact = [where for target, where in shared if target == "queue"]
        assert all(where.startswith(("arn:", "https:")) for where in exact), name
        assert [where for target, where in shared if target == "bus"] in ([], ["default"])
        secrets = {where for target, where in shared if target == "secret"}
        assert secrets <= {"flowguard/keys", SCRAM_SECRET, PLAIN_SECRET}, "they were given"


def test_each_resource_of_a_role_is_the_one_of_its_deployment() -> None:
    found = {(one.target, one.name) for one in described("everything").function("staging-everything-pack").permissions}
    assert found == {
        ("bucket", "long-texts/here/*"),
        ("bus", "default"),
        ("function", "staging-print-label"),
        ("logs", "staging-everything-pack"),
        ("objects", "long-texts/here/*"),
        ("parameter", "/flowguard/token-keys"),
        ("queue", "arn:aws:sqs:eu-west-1:210987654321:theirs"),
        ("queue", "https://sqs.eu-west-1.amazonaws.com/123456789012/answers-here"),
        ("queue", "staging-everything"),
        ("queue", "staging-everything-dead-letters"),
        ("queue", "staging-everything-pack"),
        ("queue", "staging-parcels"),
        ("queue", "staging-replies"),
        ("queue", "staging-to-ship.fifo"),
        ("scheduler role", ""),
        ("schedules", "staging-flowguard"),
        ("secret", "flowguard/keys"),
        ("table", "staging-flowguard"),
        ("table", "staging-lines"),
        ("topic", "arn:aws:sns:eu-west-1:123456789012:staging-news.fifo"),
    }
    secrets = {
        one.name
        for function in described("approval").functions
        for one in function.permissions
        if one.target == "secret"
    }
    assert secrets == {"staging-flowguard/signing-keys"}


@pytest.mark.parametrize("name", MODULES)
def test_what_refers_to_a_queue_or_function_refers_to_that_of_its_deployment(name: str) -> None:
    plain, staging = described(name, "*"), described(name)
    exact = {queue.name for queue in plain.queues if queue.arn is not None}

    def called(name: str | None) -> str | None:
        return name if name is None or name in exact else f"staging-{name}"

    for queue in plain.queues:
        found = staging.queue(str(called(queue.name)))
        assert (found.reader, found.give_up_to) == (called(queue.reader), called(queue.give_up_to))
        assert found.undelivered == tuple(map(called, queue.undelivered))
        assert found.topics == tuple(re.sub("([^:]+)$", r"staging-\1", arn) for arn in queue.topics)
        assert (found.arn, found.rules, found.owner) == (queue.arn, queue.rules, f"staging-{queue.owner}")
    for function in plain.functions:
        there = staging.function(f"staging-{function.name}")
        assert (there.reads, there.links_to) == (tuple(map(called, function.reads)), called(function.links_to))
    assert staging.undelivered_schedules == called(plain.undelivered_schedules)
    assert staging.run_table == f"staging-{plain.run_table}"
    assert [topic.existing for topic in staging.topics] == [topic.existing for topic in plain.topics]
    kept = {table.name for table in plain.tables if table.existing}
    assert {table.name for table in staging.tables if table.existing} == {f"staging-{name}" for name in kept}
    assert not any("FLOWGUARD_NAMES" in dict(one.environment) for one in plain.functions)


def test_a_bus_and_a_permission_on_it_have_its_name_at_aws() -> None:
    plain = described("everything", "*")
    shop = Bus("shop", "shop", "Placed")
    events = replace(plain.queue("everything-events"), rules=(shop,))
    [first, *_] = plain.functions
    sending = replace(first, permissions=(Permission("bus", "shop", ("events:PutEvents",)),))
    needed = under_names(replace(plain, queues=(events,), functions=(sending,)), Names(RULE))
    assert needed.queues[0].rules == (shop._replace(name="staging-shop"),)
    assert needed.functions[0].permissions[0].name == "staging-shop"


def test_each_account_has_the_schedule_group_default() -> None:
    options = DeployOptions.model_validate({"settings": {"names": RULE, "scheduler_group": "default"}})
    needed = needs_of(find_functions(["flows.approval.handlers"]), options)
    assert needed.scheduler_group == "default"
    groups = {one.name for function in needed.functions for one in function.permissions if one.target == "schedules"}
    assert groups == {"default"}


def test_a_topic_of_another_account_is_not_made() -> None:
    theirs = "arn:aws:sns:eu-west-1:210987654321:news-of-all.fifo"
    options = options_of("everything")
    topics = {**options.topics, "news.fifo": TopicOptions(name=theirs)}
    needed = needs_of(
        find_functions([MODULES["everything"]]), under(options.model_copy(update={"topics": topics}), RULE)
    )
    assert {(topic.arn, topic.existing) for topic in needed.topics} == {
        (theirs, True),
        ("arn:aws:sns:eu-west-1:123456789012:staging-orders-placed", True),
    }


def test_functions_know_the_names_and_the_secret_that_is_made() -> None:
    for function in described("approval").functions:
        given = dict(function.environment)
        assert (given["FLOWGUARD_TABLE"], given["FLOWGUARD_NAMES"]) == ("flowguard", RULE)
        assert given["FLOWGUARD_SIGNING_KEYS"] == "secretsmanager:staging-flowguard/signing-keys"
    for function in described("everything").functions:
        given = dict(function.environment)
        assert given["FLOWGUARD_SIGNING_KEYS"] == "secretsmanager:flowguard/keys", "the options name it"
        assert given.get("FLOWGUARD_TOKEN_KEYS") in (None, "ssm:/flowguard/token-keys")
    [group] = {dict(one.environment).get("FLOWGUARD_SCHEDULER_GROUP") for one in described("everything").functions} - {
        None
    }
    assert group == "staging-flowguard"


def test_metrics_alarms_and_tags_are_told_apart() -> None:
    from flowguard.deploy.alarms import alarms_of, metrics_of

    plain, staging = described("take_payment", "*"), described("take_payment")
    assert not {one.metric for one in metrics_of(plain)} & {one.metric for one in metrics_of(staging)}
    assert not {one.name for one in alarms_of(plain, 900)} & {one.name for one in alarms_of(staging, 900)}
    assert (plain.tags, staging.tags) == (["take-payment"], ["staging-take-payment"])
    assert {one.owner for one in staging.queues} == {"staging-take-payment"}


def test_single_resources_can_have_a_name_of_their_own() -> None:
    theirs = "arn:aws:sqs:us-east-1:210987654321:settled-orders"
    stock = "arn:aws:dynamodb:us-east-1:210987654321:table/stock"
    options = DeployOptions.model_validate(
        {
            "settings": {"names": RULE},
            "queues": {"orders-settled": {"name": theirs}, "goods-received": {"existing": True, "name": "goods"}},
            "tables": {"stock": {"name": stock}},
        }
    )
    needed = needs_of(find_functions([ORDERS]), options)
    settled, goods = needed.queue("settled-orders"), needed.queue("goods")
    assert (settled.arn, settled.made, goods.made, goods.reader) == (
        theirs,
        False,
        False,
        "staging-receive-goods",
    )
    [table] = [one for one in needed.tables if "stock" in one.name and one.name.startswith("arn:")]
    assert table.existing
    given = {one.name: dict(one.environment)["FLOWGUARD_NAMES"] for one in needed.functions}
    of_orders = f"{RULE},queues.orders-settled={theirs},tables.stock={stock}"
    assert given == {
        "staging-add-to-order": of_orders,
        "staging-place-order": of_orders,
        "staging-receive-goods": f"{RULE},queues.goods-received=goods,tables.stock={stock}",
    }, "each knows the names of what it uses"
    text = FORMATS["cloudformation"](needed, options)
    assert f'"{stock}"' in text, "the role may use it"
    assert text.count(theirs) >= 1


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        ("x" * 60 + "*", "Lambda takes up to 64"),
        (f"{RULE},tables.orders=staging-stock", "2 tables would be named 'staging-stock'"),
        (f"{RULE},queues.orders-placed=staging-goods-received", "2 queues would be named 'staging-goods-received'"),
    ],
)
def test_a_name_that_aws_does_not_take_is_refused(names: str, problem: str) -> None:
    with pytest.raises(CannotDeploy, match=problem):
        needs_of(find_functions([ORDERS]), under(DeployOptions(), names))


def test_a_topic_that_is_there_takes_no_name_from_one_that_is_made() -> None:
    ours, theirs = (f"arn:aws:sns:eu-west-1:{account}:placed" for account in ("123456789012", "210987654321"))
    needed = needs_of(find_functions([ORDERS]), DeployOptions())

    def named(*topics: TopicNeed) -> tuple[str, ...]:
        return tuple(topic.name for topic in under_names(replace(needed, topics=topics), Names.parse(RULE)).topics)

    made, same = TopicNeed(ours, existing=False), TopicNeed(ours, existing=True)
    assert named(made, TopicNeed(theirs, existing=True)) == ("staging-placed", "staging-placed")
    assert named(same, TopicNeed(theirs, existing=True)) == ("staging-placed", "staging-placed")
    for other in (same, TopicNeed(theirs, existing=False)):
        with pytest.raises(CannotDeploy, match="2 topics would be named 'staging-placed'"):
            named(made, other)


def test_a_group_of_schedules_is_named_where_there_are_schedules() -> None:
    names = "x" * 56 + "*"
    with pytest.raises(CannotDeploy) as raised:
        needs_of(find_functions(["flows.approval.handlers"]), under(DeployOptions(), names))
    assert "a schedule group would be named" in str(raised.value)
    with pytest.raises(CannotDeploy) as raised:
        needs_of(find_functions([ORDERS]), under(DeployOptions(), names))
    assert "schedule group" not in str(raised.value)


def test_options_and_environment_say_the_same() -> None:
    options = DeployOptions.model_validate({"settings": {"names": RULE}})
    assert under(options, RULE).settings.names == options.of_environment({}).settings.names == RULE
    with pytest.raises(CannotDeploy, match="leave one out"):
        under(options, "test-*")
    with pytest.raises(CannotDeploy, match=r"FLOWGUARD_NAMES: it does not begin with a rule"):
        under(options, "staging")


# -- at work ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def aws() -> Iterator[EmbeddedAWS]:
    with EmbeddedAWS() as found:
        yield found


class Served:
    """The functions of a deployment, with everything that they need."""

    def __init__(self, aws: EmbeddedAWS, names: str) -> None:
        self.aws, self.said = aws, list[dict[str, Any]]()
        self.needed = described("orders", names)
        assert Provider(Clients(), ACCOUNT_ID, REGION).provide(self.needed, None) == []
        order = Order((ORDERS,), None, ACCOUNT_ID, REGION)
        self.mappings = [
            mapping_of(need, queue, order, Clients(), self.said.append)
            for need in self.needed.functions
            for queue in need.reads
        ]

    def send(self, queue: str, payload: object) -> None:
        sqs = self.aws.client("sqs")
        sqs.send_message(QueueUrl=sqs.get_queue_url(QueueName=queue)["QueueUrl"], MessageBody=json.dumps(payload))

    def work(self) -> list[str | None]:
        self.said.clear()
        while waiting := [mapping for mapping in self.mappings if self._has_messages(mapping.queue)]:
            waiting[0].poll()
        return [one["outcome"] for one in self.said if one["event"] == "delivery"]

    def _has_messages(self, queue: str) -> bool:
        """Answer whether a message is there: a poll of an empty queue waits for one."""
        sqs = self.aws.client("sqs")
        url = sqs.get_queue_url(QueueName=queue)["QueueUrl"]
        found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["ApproximateNumberOfMessages"])
        return found["Attributes"]["ApproximateNumberOfMessages"] != "0"

    def items(self, table: str) -> list[Any]:
        return list(self.aws.client("dynamodb").scan(TableName=table)["Items"])


DELIVERY: Final = {"delivery_id": "delivery-1", "sku": "tea", "pieces": 10}


@pytest.mark.slow("runs flows in two deployments")
def test_the_same_request_runs_once_in_each_deployment_and_neither_sees_the_other(aws: EmbeddedAWS) -> None:
    plain, staging = Served(aws, "*"), Served(aws, RULE)
    staging.send("staging-goods-received", DELIVERY)
    assert (plain.work(), set(staging.work())) == ([], {"completed"})
    assert plain.items("stock") == plain.items("flowguard") == []
    assert len(staging.items("staging-stock")) == len(staging.items("staging-flowguard")) == 1
    plain.send("goods-received", DELIVERY)
    assert (set(plain.work()), staging.work()) == ({"completed"}, [])
    assert plain.items("stock") == staging.items("staging-stock")


def test_an_order_goes_through_all_its_stages_under_other_names(aws: EmbeddedAWS) -> None:
    staging = Served(aws, RULE)
    staging.send("staging-goods-received", DELIVERY)
    staging.work()
    staging.send("staging-orders-placed", {"order_id": "order-1", "customer": "ada", "lines": {"tea": 2}})
    assert set(staging.work()) == {"completed"}
    [order] = staging.items("staging-orders")
    assert order["status"] == {"S": "PLACED"}
    sqs = aws.client("sqs")
    url = sqs.get_queue_url(QueueName="staging-orders-settled")["QueueUrl"]
    assert len(sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]) >= 1


DELIVERIES: Final = "flows.orders.flow:ReceiveGoods"


@pytest.mark.slow("runs flows in two deployments")
@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["list"], "receive-goods"),
        (["stats"], "receive-goods"),
        (["show", "receive-goods", "delivery-1"], "receive-goods of delivery-1: COMPLETED"),
        (["dlq", "list", "receive-goods-dead-letters"], "1 dead letter"),
        (["dlq", "list", "staging-receive-goods-dead-letters"], "1 dead letter"),
        (["retry", DELIVERIES, "delivery-1"], "COMPLETED"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_command_reads_the_deployment_that_the_environment_names(
    command: list[str], said: str, aws: EmbeddedAWS, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, staging = Served(aws, "*"), Served(aws, RULE)
    staging.send("staging-goods-received", DELIVERY)
    staging.work()
    staging.send("staging-receive-goods-dead-letters", {"a": "letter"})
    monkeypatch.setenv("FLOWGUARD_NAMES", RULE)
    there = CliRunner().invoke(main, command)
    assert said in there.output
    assert "staging-staging" not in there.output
    assert plain.items("flowguard") == []
    monkeypatch.delenv("FLOWGUARD_NAMES")
    elsewhere = CliRunner().invoke(main, command)
    is_named_as_at_aws = command[-1].startswith("staging-")
    assert (said in elsewhere.output) is is_named_as_at_aws


@pytest.mark.slow("runs flows in two deployments")
def test_a_command_sends_to_the_deployment_that_the_environment_names(
    aws: EmbeddedAWS, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plain, staging = Served(aws, "*"), Served(aws, RULE)
    monkeypatch.setenv("FLOWGUARD_NAMES", RULE)
    file = tmp_path / "delivery.json"
    file.write_text(json.dumps(DELIVERY))
    assert CliRunner().invoke(main, ["send", DELIVERIES, str(file)]).exit_code == 0
    assert (plain.work(), staging.work()) == ([], ["completed"])


def named(module: str, **given: str) -> dict[str, set[str]]:
    """The names given one by one that each function of a deployment knows."""
    names = ",".join(["*", *(f"{place.replace('__', '.', 1)}={name}" for place, name in given.items())])
    needed = needs_of(find_functions([module]), under(DeployOptions.model_validate(everything.OPTIONS), names))
    known = {one.name: dict(one.environment)["FLOWGUARD_NAMES"] for one in needed.functions}
    return {name: set(Names.parse(text).given) for name, text in known.items()}


def test_a_function_knows_the_names_of_what_it_uses_of_each_kind() -> None:
    given = {
        "tables__lines": "all-lines",
        "tables__flowguard": "all-runs",
        "tables__others": "x",
        "queues__parcels": "all-parcels",
        "queues__others": "y",
        "topics__news.fifo": "all-news.fifo",
        "topics__others": "z",
        "topics__orders-placed": "all-placed",
        "functions__print-label": "prints",
        "functions__others": "w",
        "queues__to-ship.fifo": "all-to-ship.fifo",
        "queues__everything-dead-letters": "all-letters",
    }
    known = named("tests.deploy.everything", **given)
    of_flow = {"tables.flowguard", "queues.to-ship.fifo", "queues.everything-dead-letters"}
    assert all(of_flow <= each for each in known.values()), "what a flow knows its messages by"
    assert {"tables.lines", "queues.parcels"} <= known["everything-pack"]
    assert {"topics.news.fifo", "functions.print-label"} <= known["everything-ship"]
    assert not {"tables.lines", "topics.orders-placed"} & known["everything-ship"]
    assert "topics.orders-placed" in known["everything-pack"]
    assert "topics.news.fifo" in known["everything-answers"], "it feeds a queue that is read there"
    assert not [each for each in known.values() if any("others" in place for place in each)]


def test_a_bus_is_known_where_it_is_sent_to_and_where_it_feeds_a_queue() -> None:
    needed = needs_of(find_functions(["tests.deploy.everything"]), DeployOptions.model_validate(everything.OPTIONS))
    function, names = needed.function("everything-answers"), Names.parse("*,buses.shop=all-shops")
    sends = replace(function, permissions=(Permission("bus", "shop", ("events:PutEvents",)),))
    fed = tuple(
        replace(queue, rules=(Bus("shop", source="a", detail_type="b"),)) if queue.name in function.reads else queue
        for queue in needed.queues
    )
    for given in (
        replace(needed, functions=(sends,)),
        replace(needed, functions=(replace(function, permissions=()),), queues=fed),
    ):
        [named_at_aws] = under_names(given, names).functions
        assert dict(named_at_aws.environment)["FLOWGUARD_NAMES"] == "*,buses.shop=all-shops"
    [other] = under_names(replace(needed, functions=(replace(function, permissions=()),)), names).functions
    assert dict(other.environment)["FLOWGUARD_NAMES"] == "*"


def test_a_function_with_an_alias_and_the_queues_of_its_flow_are_known_too() -> None:
    needed = needs_of(find_functions(["tests.deploy.everything"]), DeployOptions.model_validate(everything.OPTIONS))
    called = Permission("function", "print-label:live", ("lambda:InvokeFunction",))
    function = replace(needed.function("everything-answers"), permissions=(called,), reads=())
    text = "*,functions.print-label=prints,queues.everything-dead-letters=letters,queues.to-ship.fifo=ships.fifo"
    [named_at_aws] = under_names(replace(needed, functions=(function,)), Names.parse(text)).functions
    assert dict(named_at_aws.environment)["FLOWGUARD_NAMES"] == text


@pytest.mark.parametrize(
    ("text", "rule"),
    [("", "*"), (" ", "*"), (",queues.a=b", "*"), ("staging-*", "staging-*"), (" *-dev , queues.a=b", "*-dev")],
)
def test_the_rule_of_a_text_of_names(text: str, rule: str) -> None:
    assert rule_of(text) == rule


def test_commands_in_another_terminal_are_told_the_names(aws: EmbeddedAWS) -> None:
    every = "staging-*,queues.nobodys=x"
    assert outside_environment(Served(aws, every).needed, {})["FLOWGUARD_NAMES"] == every
    assert "FLOWGUARD_NAMES" not in outside_environment(Served(aws, "*").needed, {})
    assert outside_environment(Served(aws, RULE).needed, {})["FLOWGUARD_NAMES"] == RULE


# -- roles, and what the rule does not change


def roles_in(name: str, form: str, names: str = RULE, **given: Any) -> list[Any]:
    """What each role of a template says of its name."""
    options = options_of(name).model_copy(update=given)
    options = under(options, names) if names != "*" else options
    needed = needs_of(find_functions([MODULES[name]]), options)
    template = json.loads(FORMATS[form](needed, options))
    if form == "terraform-json":
        roles = template["resource"]["aws_iam_role"].values()
        return sorted(role.get("name", role.get("name_prefix")) for role in roles)
    roles = [each["Properties"] for each in template["Resources"].values() if each["Type"] == "AWS::IAM::Role"]
    return sorted(str(role.get("RoleName")) for role in roles)


@pytest.mark.parametrize("form", FORMATS)
def test_the_roles_have_names_by_the_rule(form: str) -> None:
    roles = roles_in("approval", form)
    needed = described("approval")
    of_scheduler = "flowguard-scheduler-" if form == "terraform-json" else "None"
    assert roles == sorted([*(one.name for one in needed.functions), of_scheduler])


@pytest.mark.parametrize(("names", "given"), [("*", {}), (RULE, {"named_roles": False}), ("*,tables.stock=s", {})])
def test_the_roles_have_none_without_a_rule_or_where_the_options_say_so(names: str, given: dict[str, bool]) -> None:
    assert {*roles_in("approval", "cloudformation", names, **given)} == {"None"}
    assert all(prefix.endswith("-") for prefix in roles_in("approval", "terraform-json", names, **given))


@pytest.mark.parametrize("form", FORMATS)
def test_the_role_of_the_scheduler_stays_the_same_when_another_flow_comes_first(form: str) -> None:
    """A schedule that is made has the ARN of the role: with another role the pending ones are lost."""

    def role_of_scheduler(*modules: str) -> Any:
        options = under(DeployOptions.model_validate({"settings": {"signing_keys": "ssm:/keys"}}), RULE)
        whole = json.loads(FORMATS[form](needs_of(find_functions(modules), options), options))
        made = whole["resource"]["aws_iam_role"] if form == "terraform-json" else whole["Resources"]
        role = made["scheduler" if form == "terraform-json" else "SchedulerRole"]
        return {name: role.get("Properties", role).get(name) for name in ("RoleName", "Path", *_NAMING)}

    alone = role_of_scheduler(MODULES["ticking"])
    assert alone == role_of_scheduler(MODULES["ticking"], MODULES["approval"])
    prefix = "flowguard-scheduler-" if form == "terraform-json" else None
    assert alone == {"RoleName": None, "Path": None, "name": None, "path": None, "name_prefix": prefix}


def test_a_function_whose_name_is_the_schedulers_has_a_role_of_its_own() -> None:
    options = DeployOptions.model_validate(
        {"settings": {"signing_keys": "ssm:/keys"}, "functions": {"sweep": {"name": "scheduler"}}}
    )
    needed = needs_of(find_functions([MODULES["ticking"]]), options)
    resources = json.loads(FORMATS["cloudformation"](needed, options))["Resources"].values()
    assert sum(each["Type"] == "AWS::IAM::Role" for each in resources) == len(needed.functions) + 1
    blocks = json.loads(FORMATS["terraform-json"](needed, options))["resource"]
    for kind in ("aws_iam_role", "aws_iam_role_policy"):
        assert len(blocks[kind]) == len(needed.functions) + 1
        assert "lifecycle" in blocks[kind]["scheduler"]


@pytest.mark.parametrize(
    ("names", "given", "is_refused"),
    [(RULE, {}, True), (RULE, {"named_roles": False}, False), ("*,tables.stock=s", {}, False)],
)
def test_roles_whose_names_differ_in_case_alone_are_refused(
    names: str, given: dict[str, bool], is_refused: bool
) -> None:
    def derived(sweep: dict[str, str]) -> Deployment:
        functions = {"report": {"name": "charge"}, "sweep": {"name": "Charge", **sweep}}
        asked = {"settings": {"signing_keys": "ssm:/keys"}, "functions": functions, **given}
        options = under(DeployOptions.model_validate(asked), names)
        return needs_of(find_functions([MODULES["ticking"]]), options)

    derived({"name": "charges"})
    derived({"role": "ours"})
    if not is_refused:
        derived({})
        return
    with pytest.raises(CannotDeploy) as refused:
        derived({})
    assert refused.value.problems == (
        "roles would be named 'staging-Charge' and 'staging-charge', and IAM does not tell names apart by case; "
        "give one of these functions another name, or say named_roles = false",
    )


def test_two_functions_of_one_name_are_told_of_once() -> None:
    needed = described("ticking")
    with pytest.raises(CannotDeploy) as refused:
        under_names(replace(needed, functions=(needed.functions[0],) * 2, at_aws=AS_IN_CODE), Names("us-*"))
    assert [problem for problem in refused.value.problems if "role" in problem] == []


def test_who_deploys_is_told_of_named_roles_and_of_keys_that_are_shared() -> None:
    told = [
        note for note in described("ticking").notes if "the rule" in note or "of this rule" in note or "no rule" in note
    ]
    assert [note.partition(" ")[0] for note in told] == ["roles", "the", "signing_keys"]
    assert "CAPABILITY_NAMED_IAM" in told[0]
    assert told[1].startswith("the scheduler's role sends to queues of this rule alone: ")
    assert "is lost when it is due" in told[1]
    assert "ssm:/keys" in told[2]
    options = options_of("ticking")
    keys = options.settings.model_copy(update={"signing_keys": None, "token_keys": "ssm:/tokens"})
    own = under(options.model_copy(update={"settings": keys, "named_roles": False}), RULE)
    notes = needs_of(find_functions([MODULES["ticking"]]), own).notes
    assert [note.partition(" ")[0] for note in notes if "no rule" in note] == ["token_keys"]
    assert not any("CAPABILITY" in note for note in notes)
    for of_nobody in (described("ticking", "*"), described("orders")):
        assert not any("scheduler's role" in note or "no rule" in note for note in of_nobody.notes)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({}, []),
        ({"token_keys": "secretsmanager:ours"}, ["token_keys is secretsmanager:ours, which no rule"]),
        (
            {"signing_keys": "secretsmanager:flowguard/signing-keys"},
            ["signing_keys is secretsmanager:flowguard/signing-keys, which no rule"],
        ),
    ],
)
def test_the_secret_that_the_template_makes_is_of_one_environment(settings: dict[str, str], told: list[str]) -> None:
    options = under(DeployOptions.model_validate({"settings": settings}), RULE)
    needed = needs_of(find_functions(["flows.approval.handlers"]), options)
    made = None if "signing_keys" in settings else "staging-flowguard/signing-keys"
    assert needed.signing_secret == made
    shared = [note for note in needed.notes if "which no rule of the names changes" in note]
    assert [note.partition(" of the names")[0] for note in shared] == told
    assert not any("CAPABILITY" in note for note in described("ticking", "*").notes)
    given = options.settings.model_copy(update={"scheduler_role": "sends-later"})
    theirs = needs_of(find_functions([MODULES["ticking"]]), under(options.model_copy(update={"settings": given}), RULE))
    assert not any("scheduler's role" in note for note in theirs.notes)


LATE: Final = "flows.approval.handlers"
LOST: Final = "the template that was there had a rule of the names, and this one has none"


def written_over(
    before: str, monkeypatch: pytest.MonkeyPatch, directory: Path, *form: str, module: str = LATE, after: str = "*"
) -> bool:
    """Whether it is said that schedules are lost, as a template under other names is written over one."""
    told = []
    for names in (before, after):
        monkeypatch.setenv("FLOWGUARD_NAMES", names)
        ran = CliRunner().invoke(main, ["iac", module, *form])
        assert ran.exit_code == 0, ran.output
        told.append(LOST in ran.stderr)
    for file in directory.rglob("*"):
        file.unlink()
    assert not told[0]
    return told[1]


@pytest.mark.parametrize("form", ["cloudformation", "sam", "terraform-json"])
@pytest.mark.parametrize("before", [RULE, "*-staging", f"{RULE},queues.a=b"])
def test_a_template_that_loses_its_rule_says_what_is_lost(
    before: str, form: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = ("-o", str(tmp_path / "template.json"))
    assert written_over(before, monkeypatch, tmp_path, "--format", form, *file)


def test_so_does_one_of_several_stacks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert written_over(RULE, monkeypatch, tmp_path, "--split", str(tmp_path))


def test_nothing_is_lost_where_no_rule_goes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = ("-o", str(tmp_path / "template.json"))
    assert not written_over("*", monkeypatch, tmp_path, *file)
    assert not written_over("*,queues.a=b", monkeypatch, tmp_path, *file)
    assert not written_over(RULE, monkeypatch, tmp_path, *file, after="prod-*"), "a note says it of each rule"
    assert not written_over(RULE, monkeypatch, tmp_path, *file, module="flows.orders.handlers"), "none is scheduled"
    assert not written_over(RULE, monkeypatch, tmp_path), "it is written over no template"
    assert not written_over(RULE, monkeypatch, tmp_path, *file, "--json")


def test_a_role_that_is_there_is_not_named() -> None:
    options = options_of("orders")
    given = options.model_copy(update={"defaults": options.defaults.model_copy(update={"role": "ours"})})
    notes = needs_of(find_functions([MODULES["orders"]]), under(given, RULE)).notes
    assert not any("CAPABILITY" in note for note in notes)
