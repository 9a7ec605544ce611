"""What a flow says of the streams whose records begin its runs."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from flowguard import ATTACH, IGNORE, SUPERSEDE, DefinitionError, Done, Flow, Outcome, Stage, Step, Topic
from flowguard.protocol.conflict import OnConflict
from flowguard.streams import KinesisStream, TableStream


class Order(BaseModel):
    order_id: str


class Take(Stage[Order], name="take"):
    def handle(self, order: Order, step: Step) -> Outcome:
        return Done()


def flow_with(streams: Any, on_conflict: OnConflict = SUPERSEDE) -> type[Flow]:
    class Orders(Flow, name="orders", object_id="order_id", streams=streams, on_conflict=on_conflict):
        stages = (Take,)

    return Orders


def test_a_flow_names_its_streams_and_has_none_by_default() -> None:
    streams = (KinesisStream("orders"), TableStream("orders"), KinesisStream("a" * 128), TableStream("a" * 255))
    assert flow_with(streams).streams == streams
    assert flow_with(()).streams == ()
    assert [str(stream) for stream in streams[:2]] == ["kinesis:orders", "dynamodb:orders"]


@pytest.mark.parametrize(
    ("streams", "problem"),
    [
        ([KinesisStream("orders")], "write a tuple: streams=(KinesisStream('orders'), TableStream('stock'))"),
        (("orders",), "write a tuple"),
        (KinesisStream("orders"), "write a tuple"),
        ((KinesisStream("a" * 129),), "a stream has a name of up to 128"),
        ((KinesisStream(""),), "a stream has a name of up to 128"),
        ((KinesisStream(7),), "KinesisStream(7) has a form that AWS does not know"),  # type: ignore[arg-type]
        ((KinesisStream("arn:aws:kinesis:eu-west-1:123456789012:stream/s"),), "its ARN belongs into the options"),
        ((TableStream("ab"),), "a table has a name of 3 to 255"),
        ((TableStream("a" * 256),), "a table has a name of 3 to 255"),
        ((TableStream(None),), "TableStream(None) has a form that AWS does not know"),  # type: ignore[arg-type]
        ((KinesisStream("s"), KinesisStream("s")), "it lists the stream kinesis:s 2 times; leave all but one out"),
        ((TableStream("sss"), TableStream("sss")), "it lists the stream dynamodb:sss 2 times"),
    ],
)
def test_what_names_no_stream_is_refused(streams: Any, problem: str) -> None:
    with pytest.raises(DefinitionError) as refused:
        flow_with(streams)
    [only] = refused.value.problems
    assert problem in only


@pytest.mark.parametrize(("on_conflict", "change"), [(ATTACH, "while a run goes on"), (IGNORE, "that is behind")])
def test_a_flow_with_streams_turns_no_change_away_for_the_run_before(on_conflict: Any, change: str) -> None:
    streams = (TableStream("orders"),)
    assert flow_with(streams, SUPERSEDE).streams == streams
    assert flow_with((), on_conflict).streams == ()
    with pytest.raises(
        DefinitionError, match=f"under {on_conflict.name} .*{change}.* a flow with streams takes SUPERS"
    ):
        flow_with(streams, on_conflict)


def test_the_first_stage_of_a_flow_with_streams_reads_a_queue() -> None:
    """The retry of a record is a delayed message, and no topic delays one."""

    class Told(Stage[Order], name="told", inbox=Topic("arn:aws:sns:us-east-1:123456789012:orders")):
        def handle(self, order: Order, step: Step) -> Outcome:
            return Done()

    with pytest.raises(DefinitionError, match="cannot delay the retry of a stream's record; give it a queue"):
        type("Orders", (Flow,), {"stages": (Told,)}, name="orders", object_id="order_id", streams=(TableStream("a"),))
