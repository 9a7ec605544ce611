"""Tables and messages that are kept between two starts, and files that are refused."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from flowguard.dev.cannot_serve import StateRefused
from flowguard.dev.saved_state import (
    FILE,
    LOCK,
    SavedState,
    only_user,
    put_back,
    read_state,
    take_state,
    travelling,
    write_state,
)
from flowguard.sim.account import SIMULATED_ROLE
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from flowguard.sim.moto import EmbeddedAWS
from tests.cli.test_hostile_text import OBJECT

NOW = 1_800_000_000.0
EMPTY = '{"flowguard_dev":1,"tables":[],"queues":[],"schedules":[]}'


@pytest.fixture
def aws() -> Iterator[EmbeddedAWS]:
    with travelling(NOW), EmbeddedAWS() as found:
        yield found


def taken(aws: EmbeddedAWS) -> SavedState:
    return take_state(aws.client, travelling, time.time())


def kept(state: SavedState, directory: Path) -> SavedState:
    """The state as the next start reads it."""
    write_state(directory, state)
    read = read_state(directory)
    assert read == state
    return state


def received(aws: EmbeddedAWS, queue: str) -> list[Any]:
    sqs = aws.client("sqs")
    found = sqs.receive_message(
        QueueUrl=sqs.get_queue_url(QueueName=queue)["QueueUrl"],
        MaxNumberOfMessages=10,
        MessageAttributeNames=["All"],
        MessageSystemAttributeNames=["All"],
    )
    return found.get("Messages", [])


def test_tables_come_back(aws: EmbeddedAWS, tmp_path: Path) -> None:
    aws.create_table("flowguard")
    item = {"pk": {"S": OBJECT}, "sk": {"S": "run"}, "n": {"N": "1.50"}, "b": {"B": b"\x00\xff"}, "base64": {"S": "x"}}
    inner: Any = {**item, "m": {"M": {"base64": {"S": "x"}, "l": {"L": [{"BS": [b"a"]}]}}}}
    aws.client("dynamodb").put_item(TableName="flowguard", Item=inner)
    state = kept(taken(aws), tmp_path)
    dynamodb = aws.client("dynamodb")
    dynamodb.delete_table(TableName="flowguard")
    put_back(state, aws.client, NOW, where="there")
    assert dynamodb.scan(TableName="flowguard")["Items"] == [inner]
    ttl = dynamodb.describe_time_to_live(TableName="flowguard")["TimeToLiveDescription"]
    assert (ttl["TimeToLiveStatus"], ttl["AttributeName"]) == ("ENABLED", "ttl")


def test_a_table_of_many_items_comes_back_whole(aws: EmbeddedAWS) -> None:
    aws.create_table("flowguard")
    dynamodb = aws.client("dynamodb")
    for number in range(60):
        dynamodb.put_item(TableName="flowguard", Item={"pk": {"S": str(number)}, "sk": {"S": "run"}})
    state = taken(aws)
    dynamodb.delete_table(TableName="flowguard")
    put_back(state, aws.client, NOW, where="there")
    assert dynamodb.scan(TableName="flowguard")["Count"] == 60


def test_an_engine_that_does_not_answer_is_no_empty_state(aws: EmbeddedAWS) -> None:
    def deny(call: ApiCall, proceed: Proceed) -> Response:
        raise ClientError({"Error": {"Code": "Odd", "Message": "odd"}}, call.operation)

    with intercept(deny), pytest.raises(StateRefused, match="cannot be taken"):
        taken(aws)


def test_messages_come_back_visible_delayed_and_in_somebodys_hands(aws: EmbeddedAWS, tmp_path: Path) -> None:
    url, sqs = aws.create_queue("orders", VisibilityTimeout="180"), aws.client("sqs")
    attributes: Any = {
        "n": {"DataType": "Number", "StringValue": "7"},
        "b": {"DataType": "Binary", "BinaryValue": b"\x00\xff"},
    }
    sqs.send_message(QueueUrl=url, MessageBody="held")
    assert len(received(aws, "orders")) == 1
    sqs.send_message(QueueUrl=url, MessageBody=OBJECT, MessageAttributes=attributes)
    sqs.send_message(QueueUrl=url, MessageBody="later", DelaySeconds=200)
    state = kept(taken(aws), tmp_path)
    [queue] = state.queues
    dues = {one.body: one.due - NOW for one in queue.messages}
    assert dues.keys() == {OBJECT, "held", "later"}
    assert dues[OBJECT] < 5
    assert 180 <= dues["held"] <= 301
    assert 200 <= dues["later"] <= 301
    sqs.delete_queue(QueueUrl=url)
    put_back(state, aws.client, time.time(), where="there")
    [first] = received(aws, "orders")
    assert (first["Body"], first["MessageAttributes"]["b"]["BinaryValue"]) == (OBJECT, b"\x00\xff")
    with travelling(NOW + 302):
        assert {one["Body"] for one in received(aws, "orders")} >= {"held", "later"}


def test_what_was_due_while_nothing_ran_is_due_at_once(aws: EmbeddedAWS) -> None:
    url = aws.create_queue("orders")
    aws.client("sqs").send_message(QueueUrl=url, MessageBody="later", DelaySeconds=200)
    state = taken(aws)
    aws.client("sqs").delete_queue(QueueUrl=url)
    with travelling(NOW + 86_400):
        put_back(state, aws.client, time.time(), where="there")
        assert [one["Body"] for one in received(aws, "orders")] == ["later"]


def test_a_message_received_too_often_is_among_the_dead_letters(aws: EmbeddedAWS) -> None:
    dead, sqs = aws.create_queue("a-dead"), aws.client("sqs")
    policy = json.dumps({"deadLetterTargetArn": aws.queue_arn(dead), "maxReceiveCount": 1})
    url = aws.create_queue("orders", RedrivePolicy=policy)
    sqs.send_message(QueueUrl=url, MessageBody="killer")
    assert len(received(aws, "orders")) == 1
    state = taken(aws)
    assert {one.name: [m.body for m in one.messages] for one in state.queues} == {"a-dead": ["killer"], "orders": []}
    for one in (url, dead):
        sqs.delete_queue(QueueUrl=one)
    put_back(state, aws.client, NOW, where="there")
    url = sqs.get_queue_url(QueueName="orders")["QueueUrl"]
    found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["RedrivePolicy"])["Attributes"]
    assert json.loads(found["RedrivePolicy"])["maxReceiveCount"] in (1, "1")


def test_a_fifo_queue_keeps_groups_and_order(aws: EmbeddedAWS) -> None:
    url, sqs = aws.create_queue("orders.fifo", FifoQueue="true"), aws.client("sqs")
    for number in range(3):
        sqs.send_message(QueueUrl=url, MessageBody=str(number), MessageGroupId="g", MessageDeduplicationId=f"d{number}")
    state = taken(aws)
    sqs.delete_queue(QueueUrl=url)
    put_back(state, aws.client, NOW, where="there")
    found = received(aws, "orders.fifo")
    assert [one["Body"] for one in found] == ["0", "1", "2"]
    assert found[0]["Attributes"]["MessageGroupId"] == "g"


def test_what_is_scheduled_comes_back(aws: EmbeddedAWS, tmp_path: Path) -> None:
    scheduler = aws.client("scheduler")
    scheduler.create_schedule_group(Name="later")
    target = {"Arn": aws.queue_arn(aws.create_queue("orders")), "RoleArn": SIMULATED_ROLE, "Input": OBJECT}
    for name, group in (("a", "later"), ("b", "default")):
        scheduler.create_schedule(
            Name=name,
            GroupName=group,
            ScheduleExpression="at(2027-01-02T02:54:05)",
            FlexibleTimeWindow={"Mode": "OFF"},
            Target=target,
        )
    state = kept(taken(aws), tmp_path)
    assert {(one.name, one.group) for one in state.schedules} == {("a", "later"), ("b", "default")}
    for name, group in (("a", "later"), ("b", "default")):
        scheduler.delete_schedule(Name=name, GroupName=group)
    scheduler.delete_schedule_group(Name="later")
    aws.client("sqs").delete_queue(QueueUrl=aws.client("sqs").get_queue_url(QueueName="orders")["QueueUrl"])
    put_back(state, aws.client, NOW, where="there")
    found = scheduler.get_schedule(Name="a", GroupName="later")
    assert (found["ScheduleExpression"], found["Target"]["Input"]) == ("at(2027-01-02T02:54:05)", OBJECT)


# -- the file


def test_nothing_is_kept_yet(tmp_path: Path) -> None:
    assert read_state(tmp_path / "new") is None


def test_a_directory_has_one_user_at_a_time(tmp_path: Path) -> None:
    place = tmp_path / "new" / "state"
    with only_user(place), pytest.raises(StateRefused, match="another flowguard dev keeps its state here; stop it"):
        only_user(place).__enter__()
    with only_user(place):
        pass


def test_a_link_in_the_place_of_the_lock_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "accounts").write_text("dear")
    (tmp_path / LOCK).symlink_to(tmp_path / "accounts")
    with pytest.raises(StateRefused, match="cannot be used"):
        only_user(tmp_path).__enter__()
    assert (tmp_path / "accounts").read_text() == "dear"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        EMPTY[:-9],
        EMPTY.replace(":1", ":2"),
        EMPTY.replace("}", ',"more":1}'),
        EMPTY.replace('"tables":[]', '"tables":[{"name":7}]'),
        "[" * 100_000,
    ],
    ids=range(9),
)
def test_a_damaged_file_is_refused_and_left_alone(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text)
    with pytest.raises(StateRefused, match=r"damaged, or of another version: .*; move it away") as refused:
        read_state(tmp_path)
    assert len(str(refused.value)) < 1_000
    assert (tmp_path / FILE).read_text() == text


def test_a_directory_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StateRefused, match="cannot be read"):
        read_state(tmp_path / "file")
    with pytest.raises(StateRefused, match="cannot be used"):
        only_user(tmp_path / "file").__enter__()
    with pytest.raises(StateRefused, match="cannot be written"):
        write_state(tmp_path / "file", SavedState.model_validate_json(EMPTY))


def test_a_state_that_the_engine_does_not_take_is_refused(aws: EmbeddedAWS) -> None:
    state = SavedState.model_validate_json(
        EMPTY.replace('"tables":[]', '"tables":[{"name":"t","key":[],"attributes":[],"ttl":null,"items":[]}]')
    )
    with pytest.raises(StateRefused, match="there: it cannot be put back"):
        put_back(state, aws.client, NOW, where="there")


def test_a_write_that_breaks_off_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_state(tmp_path, SavedState.model_validate_json(EMPTY))

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    state = EMPTY.replace('"queues":[]', '"queues":[{"name":"q","attributes":{},"messages":[]}]')
    with pytest.raises(StateRefused, match="No space left"):
        write_state(tmp_path, SavedState.model_validate_json(state))
    assert (tmp_path / FILE).read_text() == EMPTY
    assert [one.name for one in tmp_path.iterdir()] == [FILE]
