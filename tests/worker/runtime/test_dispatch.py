"""What was committed is sent: the side messages first, the next hop last, batches in common calls."""

from __future__ import annotations

from botocore.exceptions import EndpointConnectionError

from flowguard.events import EventType
from flowguard.names.ids import ObjectId, RequestId
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from tests.scene import Scene


def sent_order(at: Scene) -> list[str]:
    return [str(h.facts["kind"]) for h in at.tally.events if h.type is EventType.SENT]


def test_the_next_hop_is_sent_last(at: Scene) -> None:
    at.deliver(at.message())
    assert sent_order(at) == ["side", "next"]


def test_a_next_hop_is_never_sent_before_its_side_messages_are(at: Scene) -> None:
    def throttled(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "SendMessageBatch" and call.params["QueueUrl"].endswith("/emails"):
            failed = [{"Id": e["Id"], "SenderFault": False, "Code": "Throttled"} for e in call.params["Entries"]]
            return {"Failed": failed}
        return proceed()

    with intercept(throttled):
        assert at.deliver(at.message()) == [False]
    assert at.sent("close-order") == []
    assert at.told(EventType.NOT_SENT) == 1
    assert at.deliver(at.message()) == [True]
    assert (len(at.sent("emails")), len(at.sent("close-order")), at.priced()) == (1, 1, 1)


def test_a_batch_sends_in_common_calls_and_one_refused_entry_holds_back_its_own_record_alone(at: Scene) -> None:
    calls: list[int] = []

    def one_refused(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation != "SendMessageBatch":
            return proceed()
        calls.append(len(call.params["Entries"]))
        return {"Failed": [{"Id": "1", "SenderFault": False, "Code": "Throttled"}]} if len(calls) == 1 else proceed()

    messages = [
        at.message(object_id=ObjectId(f"o{n}"), request_id=RequestId(f"run-{n}"), body=f'{{"order_id":"o{n}"}}')
        for n in range(3)
    ]
    with intercept(one_refused):
        assert at.deliver(*messages) == [True, False, True]
    assert calls == [3, 2], "three side messages, then the next hops of the two whose side messages were taken"


def test_a_send_that_fails_outright_leaves_the_record_in_its_queue(at: Scene) -> None:
    def unreachable(call: ApiCall, proceed: Proceed) -> Response:
        if call.service == "sqs":
            raise EndpointConnectionError(endpoint_url="https://sqs")
        return proceed()

    with intercept(unreachable):
        assert at.deliver(at.message()) == [False]
    assert at.deliver(at.message()) == [True]
    assert at.priced() == 1
