"""Dead letters of requests whose answer is gone from S3."""

from __future__ import annotations

from random import Random

import pytest

from flowguard.flow import ATTACH, AnyFlow, Flow
from flowguard.names.ids import RequestId
from flowguard.settings import Settings
from flowguard.step import Step
from flowguard.worker.redrive import Fate
from tests.aws.dead_letters.letters import fates, redrive, work
from tests.scene import START, OrderState, Scene, Script, scene, two_stages


def cached(script: Script) -> AnyFlow:
    class Orders(Flow, name="orders", object_id="order_id", dead_letters="dead", on_conflict=ATTACH):
        stages = two_stages(script)

    return Orders


def close_with_a_long_result(step: Step[OrderState]) -> None:
    step.state.total = int("1" + "".join(Random(1).choices("0123456789", k=4000)))


def answer_is_gone(at: Scene) -> None:
    """Its run has ended, and a later request becomes a dead letter, for the text of that end is not there."""
    s3 = at.aws.client("s3")
    s3.create_bucket(Bucket="texts")
    at.script.closing = close_with_a_long_result
    at.deliver(at.order("k"))
    at.deliver(at.second(object_id="k"))
    for found in s3.list_objects_v2(Bucket="texts")["Contents"]:
        s3.delete_object(Bucket="texts", Key=found["Key"])
    at.deliver(at.order("k", request_id=RequestId("later"), requested_at=START - 900, reply_to="sqs:emails"))


@pytest.mark.parametrize("is_named", [False, True])
def test_a_request_whose_answer_is_gone_is_left_unless_it_is_named(is_named: bool) -> None:
    with scene(cached, settings=Settings(bucket="texts", offload_above=1024)) as at:
        answer_is_gone(at)
        [outcome] = redrive(unreadable=is_named, drop_obsolete=True)
        if is_named:
            assert fates([outcome]) == [Fate.REDRIVEN]
            work(at, "price-order")
        else:
            assert (outcome.sent, outcome.deleted) == (False, False)
            assert "it is answered with the end of request run-1, which is gone: the text at s3://" in str(
                outcome.failed
            )
        assert len(at.sent("dead")) == 1, "as its answer is still gone"
