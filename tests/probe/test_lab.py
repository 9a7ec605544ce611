"""A program deletes what it has made, whatever happens, and touches nothing else."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any, Final

import pytest
from botocore.exceptions import ClientError

import flowguard.probe
from flowguard.clock import ManualClock
from flowguard.probe.lab import PREFIX, TAG, Interrupted, Lab, NotOurs
from flowguard.probe.made import bucket, mapping, queue, table, topic
from flowguard.sim.calls import ApiCall, Proceed, Recorder, Response, intercept
from flowguard.sim.memory.aws import MemoryAWS


@pytest.fixture
def aws() -> Iterator[MemoryAWS]:
    with MemoryAWS(ManualClock()) as memory:
        yield memory


def lab(aws: MemoryAWS, stop: Event | None = None) -> Lab:
    return Lab(aws.client, lambda seconds: None, stop)


def left(aws: MemoryAWS) -> list[Any]:
    queues = aws.client("sqs").list_queues().get("QueueUrls", [])
    return [*queues, *aws.client("dynamodb").list_tables()["TableNames"], *aws.client("sns").list_topics()["Topics"]]


def test_all_that_is_made_is_named_tagged_and_deleted(aws: MemoryAWS) -> None:
    with intercept(Recorder()) as recorder, lab(aws) as own:
        queue(own)
        table(own)
        topic(own)
        assert len(left(aws)) == 3
        assert own.namespace.startswith(PREFIX)
    made = next(call.params for call in recorder.calls if call.operation == "CreateQueue")
    assert made["QueueName"].startswith(own.namespace)
    assert made["tags"] == {TAG: own.namespace}
    assert left(aws) == []
    assert own.left == []


def test_it_is_deleted_after_an_error(aws: MemoryAWS) -> None:
    def work() -> None:
        with lab(aws) as own:
            queue(own)
            _ = 1 / 0

    with pytest.raises(ZeroDivisionError):
        work()
    assert left(aws) == []


@pytest.mark.parametrize("calls", range(1, 6))
def test_it_is_deleted_after_an_interruption_at_any_call(aws: MemoryAWS, calls: int) -> None:
    stop = Event()
    seen = 0

    def count(call: Any, proceed: Any) -> Any:
        nonlocal seen
        answer = proceed()
        if (seen := seen + 1) == calls:
            stop.set()
        return answer

    own = lab(aws, stop)

    def work() -> None:
        with own:
            queue(own)
            table(own)
            topic(own)
            queue(own)
            own.pause(1)

    with intercept(count), pytest.raises(Interrupted):
        work()
    assert left(aws) == []
    assert own.left == []


def test_a_call_for_something_else_is_not_sent(aws: MemoryAWS) -> None:
    url = aws.create_queue("orders")
    with intercept(Recorder()) as recorder, lab(aws) as own:
        for operation, params in (("delete_queue", {"QueueUrl": url}), ("list_queues", {})):
            with pytest.raises(NotOurs, match="names nothing that this probe has made"):
                own.ask("sqs", operation, **params)
            with pytest.raises(NotOurs):
                own.clean("sqs", operation, **params)
    assert recorder.calls == []
    assert left(aws) == [url]


def test_two_labs_do_not_meet(aws: MemoryAWS) -> None:
    with lab(aws) as one, lab(aws) as other:
        url = queue(one)
        with pytest.raises(NotOurs):
            other.ask("sqs", "delete_queue", QueueUrl=url)


def test_an_id_that_aws_has_given_is_ours_once_it_is_noted(aws: MemoryAWS) -> None:
    with lab(aws) as own:
        own.ours("id-of-aws")
        assert own.code_of("sqs", "get_queue_url", QueueName="id-of-aws") == "QueueDoesNotExist"


def test_what_could_not_be_deleted_is_named_and_the_rest_is_deleted(aws: MemoryAWS) -> None:
    def refuse() -> None:
        raise ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "DeleteRole")

    with lab(aws) as own:
        queue(own)
        own.undo("role of mine", refuse)
        queue(own)
    assert [one.partition(" (")[0] for one in own.left] == ["role of mine"]
    assert left(aws) == []


@pytest.mark.parametrize(("refusals", "left_over"), [(3, []), (99, ["mapping of mine (still in use)"])])
def test_what_aws_is_busy_with_is_deleted_later(aws: MemoryAWS, refusals: int, left_over: list[str]) -> None:
    tries: list[int] = []
    rests: list[float] = []

    def delete() -> None:
        tries.append(1)
        if len(tries) <= refusals:
            raise ClientError({"Error": {"Code": "ResourceInUseException", "Message": "busy"}}, "Delete")

    with Lab(aws.client, lambda seconds: None, rest=rests.append) as own:
        queue(own)
        own.undo("mapping of mine", delete)
    assert own.left == left_over
    assert left(aws) == []
    assert rests == [3] * min(refusals, 20)


def test_until_looks_once_more_at_the_end(aws: MemoryAWS) -> None:
    own, looks = lab(aws), iter([0, 0, 0, 7])
    assert own.until(lambda: next(looks), 3) == 7
    assert own.waited == 3
    assert own.until(lambda: 0, 2) == 0


@pytest.mark.parametrize("make", [queue, table, topic])
@pytest.mark.parametrize("lost", [True, False])
def test_what_was_made_by_a_call_without_an_answer_is_deleted(
    aws: MemoryAWS, make: Callable[[Lab], str], *, lost: bool
) -> None:
    """An interruption between the call and its answer leaves nothing that nobody knows of."""

    def without_answer(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation.startswith("Create") and made.count(call.operation) == 0:
            made.append(call.operation)
            if not lost:
                proceed()
            raise KeyboardInterrupt
        return proceed()

    made: list[str] = []
    with suppress(KeyboardInterrupt), lab(aws) as own, intercept(without_answer):
        make(own)
    assert made
    assert own.left == []
    assert left(aws) == []


def test_a_queue_that_sqs_does_not_find_by_its_name_yet_is_deleted(aws: MemoryAWS) -> None:
    def not_found_yet(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "GetQueueUrl":
            raise ClientError({"Error": {"Code": "QueueDoesNotExist", "Message": "no"}}, call.operation)
        return proceed()

    with intercept(not_found_yet), lab(aws) as own:
        queue(own)
    assert own.left == []
    assert left(aws) == []


class _Lambda:
    """Deletes functions at once, and a mapping only at the second try. It lists none of a function that is gone."""

    meta = SimpleNamespace(method_to_api_mapping={})

    def __init__(self) -> None:
        self.mappings = {"m-1": "Creating"}
        self.functions: set[str] = set()

    def create_event_source_mapping(self, **params: Any) -> Any:
        return {"UUID": "m-1"}

    def get_event_source_mapping(self, **params: Any) -> Any:
        return {"State": "Enabled"}

    def list_event_source_mappings(self, **params: Any) -> Any:
        if params["FunctionName"] not in self.functions:
            raise ClientError({"Error": {"Code": "ResourceNotFoundException", "Message": "no"}}, "List")
        return {"EventSourceMappings": [{"UUID": key, "State": state} for key, state in self.mappings.items()]}

    def delete_event_source_mapping(self, **params: Any) -> None:
        if self.functions:
            raise ClientError({"Error": {"Code": "ResourceInUseException", "Message": "busy"}}, "Delete")
        self.mappings.pop(params["UUID"], None)


def test_a_mapping_that_is_still_being_made_is_deleted_after_its_function(aws: MemoryAWS) -> None:
    service = _Lambda()
    clients = {"lambda": service, "sqs": aws.client("sqs")}
    with Lab(clients.__getitem__, lambda seconds: None, rest=lambda seconds: None) as own:
        name = own.name()
        service.functions.add(name)
        own.undo("function", service.functions.clear)
        mapping(own, queue(own), name)
    assert own.left == []
    assert service.mappings == {}


def test_a_table_a_topic_and_a_bucket_carry_the_tag_of_their_lab(aws: MemoryAWS) -> None:
    with intercept(Recorder()) as recorder, lab(aws) as own:
        for make in (table, topic, bucket):
            make(own)
    tag = [{"Key": TAG, "Value": own.namespace}]
    made = [call.params for call in recorder.calls if call.operation.startswith("Create")][:3]
    assert [one.get("Tags") or one["CreateBucketConfiguration"]["Tags"] for one in made] == [tag, tag, tag]


TAGGED: Final = {
    *("create_queue", "create_table", "create_topic", "create_bucket", "create_role", "create_function"),
    *("create_log_group", "create_event_source_mapping", "create_schedule_group", "create_secret", "put_parameter"),
    "put_rule",
}
UNTAGGED: Final = {
    "create_schedule": "it is in a group, which has the tag and is deleted with all that is in it",
    "create_function_url_config": "it is a part of its function",
}


def test_each_program_tags_whatever_it_makes() -> None:
    """By what stands in the programs: each call that makes something gives a tag, or is named here."""
    untagged = []
    for path in sorted(Path(flowguard.probe.__file__).parent.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            texts = (
                [one.value for one in node.args if isinstance(one, ast.Constant)] if isinstance(node, ast.Call) else []
            )
            for name in texts:
                makes = isinstance(name, str) and (name.startswith("create_") or name in TAGGED)
                if makes and name not in UNTAGGED and "tag" not in ast.unparse(node).lower():
                    untagged.append((path.name, name, ast.unparse(node)))
    assert [one for one in untagged if "**" not in one[2]] == []
