"""``flowguard retry --again``: a run that was taken back begins anew. And a retry of one whose ``on_failed`` failed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from flowguard.errors import Reject
from flowguard.failed import Failure
from flowguard.flow import PER_REQUEST, AnyFlow, Flow
from flowguard.names.ids import RequestId
from flowguard.outcome import Done, Outcome
from flowguard.protocol.run import RunItem, Status
from flowguard.stage import Stage
from flowguard.step import Step
from flowguard.wire.message import Message
from flowguard.worker.dead_letters import Letter
from flowguard.worker.redrive import judge
from tests.cli.test_cancel import decline, retry, run
from tests.cli.test_dlq import dlq
from tests.scene import OrderState, Scene, Script, scene, two_stages
from tests.ui.inspecting import opened, parsed
from tests.ui.test_changes import change, forms

FREED = 77


def undone(script: Script) -> AnyFlow:
    class Undo(Stage[Failure, OrderState], name="undo", inbox="undo"):
        def handle(self, failure: Failure, step: Step[OrderState]) -> Outcome:
            script.closing(step)
            step.state.total = FREED
            return Done()

    class Orders(Flow, name="orders", object_id="order_id", dead_letters="dead", on_failed=Undo, trust_senders=True):
        stages = (*two_stages(script), Undo)

    return Orders


UndoneOrders = undone(Script())


@pytest.fixture
def at() -> Iterator[Scene]:
    with scene(undone) as found:
        found.aws.create_queue("undo")
        yield found


def undo(at: Scene) -> Message:
    return at.message(stage="undo", hop=2, body="{}")


def taken_back(at: Scene) -> RunItem:
    at.script.pricing = decline
    at.deliver(at.message())
    deliver_sent(at, "undo")
    at.script.pricing = lambda step: None
    return item(at)


def item(at: Scene) -> RunItem:
    found = at.item()
    assert found is not None
    return found


def deliver_sent(at: Scene, queue: str) -> list[Message]:
    """Deliver what lies in a queue, and return it."""
    found = [_message(at, one) for one in at.sent(queue)]
    at.deliver(*found)
    return found


def _message(at: Scene, received: dict[str, object]) -> Message:
    said = {name: one["StringValue"] for name, one in received["MessageAttributes"].items()}  # type: ignore[attr-defined]
    stage = said["flowstage"].partition("/")[2]
    place = json.loads(said["flowguard"])
    return at.message(
        stage=stage,
        request_id=RequestId(said["uniquerequestid"]),
        requested_at=int(said["requestedat"]),
        hop=place["hop"],
        redrive=place.get("redrive", 0),
        body=str(received["Body"]) if "redrive" not in place else json.loads(str(received["Body"]))["Message"],
    )


def test_a_run_that_was_taken_back_begins_anew_and_stale_copies_of_it_change_nothing(at: Scene) -> None:
    before = taken_back(at)
    assert (before.status, before.request_id) == (Status.FAILED, "run-1")
    seen: list[object] = []
    at.script.pricing = lambda step: seen.append((step.superseded, step.superseded_error))
    at.clock.advance(seconds=60)
    row = json.loads(retry(at, "--again", "--json").stdout)
    again = json.loads(retry(at, "--again", "--json").stdout)
    assert row["request_id"] == again["request_id"]
    assert row["request_id"].startswith("again-")
    assert row["requested_at"] == at.clock.now()
    assert len(deliver_sent(at, "price-order")) == 2, "two calls are two copies of one request"
    assert seen == [(OrderState(total=FREED), None)]
    assert at.deliver(at.message(), undo(at), at.message(redrive=1)) == [True] * 3
    assert (item(at).request_id, item(at).hop, at.priced()) == (row["request_id"], 1, 1)
    deliver_sent(at, "close-order")
    assert item(at).status is Status.COMPLETED
    assert len(at.sent("dead")) == 1, "the letter stays for people"


def test_a_letter_whose_payload_begins_the_run_again_is_not_dropped_as_obsolete(at: Scene) -> None:
    taken_back(at)
    redriven = dlq("redrive", "--all", "--yes", "--drop-obsolete")
    assert ("GIVEN_UP" in redriven.stdout, "(deleted)" in redriven.stdout) == (True, False)
    retry(at, "--again")


def test_the_page_of_its_letter_says_so_in_place_of_a_button(at: Scene) -> None:
    taken_back(at)
    page = parsed(opened(at, changes=True).get("/letters?queue=dead"))
    assert "id" not in page.fields
    assert "It is not sent back: the run went on: it is at hop 2 (undo)" in page.text
    assert "to begin anew, use 'flowguard retry --again'" in page.text


def test_what_goes_on_or_was_not_taken_back_is_not_begun_anew(at: Scene, tmp_path: Path) -> None:
    told = retry(at, "--again", code=1).stderr
    assert "there is no run; is it" in told
    assert "is a dead letter ('flowguard dlq list dead')" in told
    at.deliver(at.message())
    assert "the run of request run-1 goes on" in retry(at, "--again", code=1).stderr
    at.deliver(at.newer())
    assert "the run of request run-2 goes on" in retry(at, "--again", code=1).stderr
    row = json.loads(retry(at, "--again", "--json", code=1).stdout)
    assert (row["begun"], "goes on" in row["problem"]) == (False, True)
    at.script.pricing = decline
    at.deliver(at.newer(request_id=RequestId("run-3"), requested_at=at.clock.now()))
    assert "being taken back" in retry(at, "--again", code=1).stderr
    assert "--from is for --again" in retry(at, "--from", str(tmp_path / "x"), code=2).stderr
    assert "--lane is for --from" in retry(at, "--again", "--lane", "fast", code=2).stderr


def test_a_run_that_failed_later_needs_the_payload(at: Scene, tmp_path: Path) -> None:
    at.script.closing = decline
    at.deliver(at.message())
    deliver_sent(at, "close-order")
    at.script.closing = lambda step: None
    deliver_sent(at, "undo")
    assert item(at).status is Status.FAILED
    assert "'flowguard retry --again --from FILE' begins the run anew" in retry(at, code=1).stderr
    given_up = dlq("redrive", "--all", "--yes").stdout
    assert (
        "use 'flowguard retry --again --from FILE', FILE being the payload of its first stage, or send the request"
        in given_up
    )
    told = (
        "it failed at hop 2, and a run begins anew at its first stage. Type flowguard retry 'tests.scene:"
        "orders.<locals>.Orders' o1 --again --from FILE where FILE is the Order that price-order takes"
    )
    assert told in retry(at, "--again", code=1).stderr
    file = tmp_path / "order.json"
    file.write_text('{"order_id": "o2"}')
    assert "contradicts" in retry(at, "--again", "--from", str(file), code=2).stderr
    file.write_text('{"order_id": "o1"}')
    in_lane = retry(at, "--again", "--from", str(file), "--lane", "fast", code=2).stderr
    assert "orders has no lane 'fast'; it has none" in in_lane
    at.sent("price-order")
    retry(at, "--again", "--from", str(file))
    [sent] = deliver_sent(at, "price-order")
    assert item(at).request_id == sent.request_id


def test_the_letter_of_an_undo_that_failed_goes_back_and_nothing_is_begun_anew(at: Scene) -> None:
    at.script.closing = decline
    before = taken_back(at)
    assert before.status is Status.FAILED
    assert "its on_failed stage has failed too" in retry(at, "--again", code=1).stderr
    page = parsed(opened(at, changes=True).get("/run?flow=orders&object=o1")).text
    assert "Send its dead letter back" in page
    assert "Begin anew" not in page
    at.script.closing = lambda step: None
    result = retry(at, flow=f"{__name__}:UndoneOrders")
    assert "REDRIVEN" in result.stdout
    deliver_sent(at, "undo")
    failed = item(at).own_failure
    assert failed is not None
    assert failed.undone


def test_the_inspector_offers_what_the_command_allows(at: Scene) -> None:
    taken_back(at)
    assert "'flowguard retry --again' begins the run anew" in retry(at, code=1).stderr
    client = opened(at, changes=True)
    form = forms(client, "/run?flow=orders&object=o1")
    assert "Begin anew: done begun anew: request again-" in change(client, "/run/again", 200, **form)
    deliver_sent(at, "price-order")
    assert "goes on" in change(client, "/run/again", 409, **form)


def test_a_run_that_is_rejected_again_is_another_run(at: Scene) -> None:
    taken_back(at)
    retry(at, "--again")

    def refuse(step: Step[OrderState]) -> None:
        raise Reject("again")

    at.script.pricing = refuse
    [first] = deliver_sent(at, "price-order")
    deliver_sent(at, "undo")
    at.script.pricing = lambda step: None
    at.clock.advance(seconds=1)
    assert json.loads(retry(at, "--again", "--json").stdout)["request_id"] != first.request_id


def test_what_was_cancelled_and_taken_back_is_never_said_to_begin_anew_by_this_command(at: Scene) -> None:
    at.deliver(at.message())
    run(at, "cancel", "tests.cli.test_again:UndoneOrders", "o1", "--why", "the customer called")
    at.deliver(at.message(stage="close-order", hop=2, body="{}"))
    deliver_sent(at, "undo")
    assert (item(at).status, item(at).cancelled_because) == (Status.FAILED, "the customer called")
    shown = run(at, "show", "orders", "o1").stdout
    assert "it was cancelled, and its on_failed stage took it back; there is no dead letter of it" in shown
    refused = retry(at, code=1).stderr
    assert "it was cancelled, which leaves no dead letter; to begin anew, send the request under another id" in refused
    assert "--again" not in shown + refused
    letter = Letter("m", at.clock.now(), 1, None, None, "{}", message=at.message(stage="close-order", hop=2))
    why = judge(letter, item(at), now=at.clock.now()).why
    assert ("send the request under another id" in why, "--again" in why) == (True, False)


def test_a_run_whose_undo_has_failed_too_says_so_and_begins_anew_by_no_command(at: Scene) -> None:
    at.script.closing = decline
    taken_back(at)
    shown = run(at, "show", "orders", "o1").stdout
    assert "the card is declined; its on_failed stage has failed too" in shown
    assert "the dead letter of that can be sent back" in shown
    letter = dlq("redrive", "--all", "--yes", "--json", "--stage", "price-order").stdout
    assert ("--again" in shown, "'flowguard retry --again" in letter) == (False, False)


class UndoneByRequest(Flow, name="orders", object_id=PER_REQUEST, dead_letters="dead", on_failed="undo"):
    """What a command knows by the class: each request is an object of its own."""

    stages = UndoneOrders.stages


def test_where_each_request_is_an_object_nothing_proposes_to_begin_it_anew(at: Scene) -> None:
    taken_back(at)
    assert "--again" in run(at, "show", "orders", "o1").stdout
    by_request = f"{__name__}:UndoneByRequest"
    said = run(at, "show", by_request, "o1").stdout + retry(at, flow=by_request, code=1).stderr
    assert said.count("each request of orders is an object of its own; to begin anew, send the request under") == 2
    assert "--again" not in said


class UndoneByKey(Flow, name="orders", object_id="order_id", request_id="order_id", dead_letters="dead",
                  on_failed="undo", trust_senders=True):  # fmt: skip
    """What a command knows by the class: its requests are named by their payload."""

    stages = UndoneOrders.stages


def test_a_request_that_its_payload_names_is_not_begun_anew_under_another_id(at: Scene, tmp_path: Path) -> None:
    """Its item would know that id alone, and take the order's next copy for a newer request."""
    by_key, key = f"{__name__}:UndoneByKey", RequestId("o1")
    at.script.pricing = decline
    at.deliver(at.message(request_id=key))
    deliver_sent(at, "undo")
    at.script.pricing = lambda step: None
    file = tmp_path / "order.json"
    file.write_text('{"order_id": "o1"}')
    for options in ((), ("--from", str(file))):
        row = json.loads(retry(at, "--again", "--json", *options, flow=by_key, code=1).stdout)
        assert row["begun"] is False
        assert "requests of orders are named by their payload" in row["problem"]
        assert "send it for another object, or, once no copy of it can come any more, under" in row["problem"]
    said = run(at, "show", by_key, "o1").stdout + retry(at, flow=by_key, code=1).stderr
    assert (said.count("requests of orders are named by their payload"), "--again" in said) == (2, False)
    at.clock.advance(seconds=60)
    at.deliver(at.message(request_id=key, requested_at=at.clock.now()))
    deliver_sent(at, "price-order")
    assert (item(at).request_id, item(at).status, at.priced()) == (key, Status.FAILED, 0)
