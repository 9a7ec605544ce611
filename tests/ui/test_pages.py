"""The pages of the inspector: what each shows, how lists go on, and what hostile texts come to."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from flowguard.aws import run_pages
from flowguard.aws.pause_rows import Pause, PauseRows
from flowguard.clock import ManualClock
from flowguard.errors import Reject
from flowguard.outcome import Outcome
from flowguard.sim.calls import ApiCall, Proceed, Recorder, Response, intercept
from flowguard.step import Step
from flowguard.ui import pages
from flowguard.ui.inspected import Bounds
from flowguard.ui.pages import link
from flowguard.wire.message import ErrorNote
from flowguard.wire.signing import Keyring, Keys
from flowguard.wire.tokens import Tokens
from tests.aws.engines import same_clients
from tests.cli.test_hostile_text import CONTROL, HOSTILE, OBJECT, notification, put
from tests.cli.test_list import break_down, played
from tests.scene import START, OrderState, Scene, scene, told_orders
from tests.ui.inspecting import opened, parsed, text
from tests.waits import All, Progress, asks, wait_scene

MARKUP = "</td></title><hostile onload=x>'\"><script>x</script>{{7*7}}&amp;"


@pytest.fixture
def at() -> Iterator[Scene]:
    with scene() as found:
        played(found)
        yield found


def objects(answer: Any) -> list[str]:
    return [one.partition("object=")[2] for one in parsed(answer).links if one.startswith("/run?")]


# -- runs


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", ["left", "bad", "o2", "o1"]),
        ("?status=FAILED", ["bad"]),
        ("?status=failed", ["bad"]),
        ("?stage=close-order", ["o1"]),
        ("?flow=orders&stage=price-order&status=RUNNING", ["left", "o2"]),
        ("?flow=other", []),
        ("?older=11m", ["bad", "o2", "o1"]),
        ("?quiet=10m", ["bad", "o2", "o1"]),
        ("?older=1d", []),
    ],
)
def test_filters_narrow_the_list(at: Scene, query: str, found: list[str]) -> None:
    assert objects(opened(at).get(f"/{query}")) == found


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("older=soon", "older: 'soon' is no time; write 90s, 15m, 1h or 2d."),
        ("quiet=-1m", "quiet: '-1m' is no time"),
        ("flow=%00", "The flow "),
        ("status=PAUSED", "The status is none of RUNNING, WAITING, COMPLETED, FAILED."),
        ("stage=" + "x" * 3000, "The stage "),
        ("after=%F0%9F", "is no place of a list"),
        ("after=bm9uZQ", "is no place of a list"),
    ],
)
def test_a_filter_that_is_none_is_refused(at: Scene, query: str, said: str) -> None:
    assert said in text(opened(at), f"/?{query}", 400)


def test_pages_have_each_run_once_and_read_no_more_than_they_show(at: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_pages, "ITEMS_A_PAGE", 3)
    at.deliver(*(at.order(f"n{number}") for number in range(20)))
    client, path, seen = opened(at, bounds=Bounds(rows=4, read=6)), "/", []
    for _ in range(30):
        with intercept(Recorder()) as calls:
            answer = client.get(path)
        assert [call.operation for call in calls.calls] in (["Scan"], ["Scan", "Scan"])
        assert len(objects(answer)) <= 4
        seen += objects(answer)
        onward = [one for one in parsed(answer).links if "after=" in one]
        if not onward:
            break
        path = onward[-1]
    assert sorted(seen) == sorted(["o1", "o2", "bad", "left", *(f"n{number}" for number in range(20))])


def test_a_page_without_a_hit_says_how_much_was_read_and_goes_on_with_its_filters(
    at: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_pages, "ITEMS_A_PAGE", 2)
    answer = opened(at, bounds=Bounds(rows=9, read=2)).get("/?stage=nowhere&older=1m")
    assert "No run passes these filters among the items that were read so far." in parsed(answer).text
    assert "0 shown, of 2 items that were read." in parsed(answer).text
    assert [one for one in parsed(answer).links if "after=" in one and "stage=nowhere" in one and "older=1m" in one]


def test_runs_that_a_group_asked_for_are_counted_and_shown_on_request(at: Scene) -> None:
    group = "night-0123456789abcdef.1.group"
    at.deliver(*(at.order(f"n{number}", request_id=f"{group}.0.{number}") for number in range(3)))
    client = opened(at, bounds=Bounds(rows=9, read=100))
    answer = client.get("/")
    assert objects(answer) == ["left", "bad", "o2", "o1"]
    assert "3 runs of orders that one group asked for: 3 RUNNING Show them" in " ".join(parsed(answer).text.split())
    [more] = [one for one in parsed(answer).links if "group=" in one]
    assert sorted(objects(client.get(more))) == ["n0", "n1", "n2"]
    assert parsed(client.get(more)).fields["group"] == group
    assert objects(client.get("/?flow=orders&group=another.1.group")) == []


# -- one run


def test_a_run_has_its_facts_and_its_time_line(at: Scene) -> None:
    client = opened(at)
    answer = client.get("/run?flow=orders&object=bad")
    said = parsed(answer).text
    assert "FAILED at price-order, hop 1, attempt 1" in said
    assert "Reject: the card is declined" in said
    happened = "hop 1 at price-order (epoch 1): failed for good, 0 ms after its claim"
    assert f"{happened} 2027-01-15T08:00:00.000Z, 11 min ago" in said
    assert parsed(answer).tags["circle"] == 2
    assert "the lease of its worker ended" in text(client, "/run?flow=orders&object=left")
    assert "hop 2 at close-order (epoch 2): completed" in text(client, "/run?flow=orders&object=o1")


def test_payloads_are_shown_only_where_they_were_asked_for(at: Scene) -> None:
    path = "/run?flow=orders&object=o1"
    assert '{"total":7}' not in text(opened(at), path)
    assert "bytes. Start the inspector with --payloads" in text(opened(at), path)
    assert '{"total":7}' in text(opened(at, payloads=True), path)
    put(at, {"hop": 1}, '{"secret":1}')
    assert '"secret"' not in text(opened(at), "/letters?queue=dead")
    assert '"secret"' in text(opened(at, payloads=True), "/letters?queue=dead")


def test_a_letter_that_was_not_sent_shows_no_token(at: Scene) -> None:
    token = Tokens(Keyring(lambda: Keys.parse("k1:" + "x" * 32), ManualClock())).make("orders", "0" * 32, 1)
    put(at, {"hop": 1}, json.dumps({"mail": f"https://shop.example/answer?token={token}"}))
    page = text(opened(at, payloads=True), "/letters?queue=dead")
    assert "https://shop.example/answer?token=<token>" in page
    assert token not in page


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/run?flow=orders&object=nobody", "There is no run of nobody in flow orders."),
        ("/run?flow=other&object=o1", "There is no run of o1 in flow other."),
        ("/run", "There is no such run: the flow is empty."),
        ("/run?flow=orders&object=%00", "There is no such run: the object "),
        ("/run?flow=orders&object=" + "x" * 9999, "There is no such run: the object "),
        ("/run?flow=orders&object=%FF%ED%A0%80", "There is no "),
        ("/flows?flow=other", "No class of flow other is known."),
        ("/letters?queue=price-order", "Queue price-order is none of those"),
        ("/nowhere", "Not Found"),
    ],
)
def test_what_is_not_there_is_said(at: Scene, path: str, said: str) -> None:
    assert said in text(opened(at), path, 404)


@pytest.mark.parametrize(
    "path", ["/", "/waits", "/run?flow=orders&object=o1", "/flows?flow=orders", "/letters?queue=dead"]
)
def test_what_a_service_refuses_is_a_page_that_says_so(at: Scene, path: str) -> None:
    def refuse(call: ApiCall, proceed: Proceed) -> Response:
        raise ClientError({"Error": {"Code": "AccessDeniedException", "Message": HOSTILE + MARKUP}}, call.operation)

    client = opened(at)
    with intercept(refuse):
        answer = client.get(path)
    assert answer.status_code == 502
    assert "is denied" in parsed(answer).text
    assert parsed(answer).tags["hostile"] == 0
    assert CONTROL.findall(answer.text.replace("\n", "")) == []


def test_an_item_that_is_no_run_is_counted_and_named(at: Scene) -> None:
    at.aws.client("dynamodb").put_item(
        TableName="flowguard", Item={"pk": {"S": "run#orders#odd"}, "sk": {"S": "run"}, "status": {"S": "RUNNING"}}
    )
    client = opened(at)
    for path in ("/", "/flows?flow=orders"):
        assert "1 of them are no runs that this version can read." in text(client, path)
    assert "its item is no run that this version can read" in text(client, "/run?flow=orders&object=odd", 502)


# -- flows


def test_a_graph_has_the_numbers_of_runs_at_its_stages_and_on_its_edges(at: Scene) -> None:
    client = opened(at)
    said = text(client, "/flows?flow=orders")
    assert "4 runs, counted in" in said
    assert "1 left 1 on the way" not in said, "what is on the only way onward stands on that way"
    assert "price-order: 1 left, 1 on the way, 1 failed" in said
    assert "close-order: no run" in said
    assert "orders" in text(client, "/flows")
    assert "No flow's class is known." in text(opened(at, known=False), "/flows")


def test_a_flow_says_which_stages_are_paused_or_drained_and_why(at: Scene) -> None:
    pauses = PauseRows(same_clients().dynamodb, "flowguard")
    of_orders = Pause("orders", "close-order", "arn", START - 3_600_000, "no <stock>", {}, nonce="n1")
    assert pauses.write(of_orders, None)
    assert pauses.write(Pause("others", "close-order", "arn", START, "of another flow", {}, nonce="n1"), None)
    shown = text(opened(at), "/flows?flow=orders")
    assert "paused close-order since 2027-01-15T07:00:00.000Z (1 h ago): no <stock>" in shown
    assert "of another flow" not in shown
    assert pauses.write(of_orders._replace(why="no stock", at_once=5, nonce="n2"), of_orders)
    assert "drains close-order since 2027-01-15T07:00:00.000Z (1 h ago): no stock, at most 5 batches at once" in text(
        opened(at), "/flows?flow=orders"
    )
    assert pauses.tell(
        Pause("orders", "pay", "", START - 3_600_000, "3 Away", {}, nonce="n3", place="all#1", until=START)
    )
    assert "has paused itself pay for the key all#1 since 2027-01-15T07:00:00.000Z (1 h ago): 3 Away" in text(
        opened(at), "/flows?flow=orders"
    )


def test_a_graph_counts_only_so_much_unless_more_is_asked_for(at: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "COUNTED", (2, 1000))
    client = opened(at)
    first = text(client, "/flows?flow=orders")
    assert "so far, counted in 2 items" in first
    assert first.count("Count in") == first.count("Count in 1,000 items") == 1
    whole = text(client, "/flows?flow=orders&read=1000")
    assert "so far" not in whole
    assert "Count in" not in whole
    assert "so far, counted in 2 items" in text(client, "/flows?flow=orders&read=999999"), "no other bound is taken"


# -- waits


def test_waits_have_their_deadlines_and_what_is_missing() -> None:
    def waits(step: Step[Progress]) -> Outcome:
        return All.when_all(**asks(step), within=timedelta(days=1), on_timeout="late")

    with wait_scene() as waiting:
        waiting.begin(waits)
        client = opened(waiting)
        assert "in 1 d) a, b, c" in text(client, "/waits")
        run = next(one for one in parsed(client.get("/waits")).links if one.startswith("/run"))
        assert "WAITING at" in text(client, run)
        assert "the deadline: without the answers it goes on at late" in text(client, run)
        assert "3 more of these answers, then all" in text(client, run)
        waiting.answer("a")
        assert "2 more of these answers, then all" in text(client, run)
        waiting.clock.advance(seconds=2 * 86_400)
        assert " late " in text(client, "/waits")
        assert "the deadline passed" in text(client, run)
        assert "1 waiting, 1 late" in text(client, link("/flows", waiting.flow.name))
        assert parsed(client.get("/waits?flow=none")).tags["table"] == 0


def test_a_wait_that_is_over_is_no_longer_listed() -> None:
    with wait_scene() as waiting:
        waiting.begin(lambda step: All.when_all(**asks(step), within=timedelta(days=1), on_timeout="late"))
        for name in "abc":
            waiting.answer(name)
        client = opened(waiting)
        assert "Nothing waits." in text(client, "/waits")
        assert "It is over (" in text(client, "/run?flow=carts&object=c1")


def test_a_run_whose_worker_is_at_work_is_not_quiet(at: Scene) -> None:
    def look(step: Step[OrderState]) -> None:
        seen.append(objects(opened(at).get("/?quiet=1s")))

    seen: list[list[str]] = []
    at.script.pricing = look
    at.deliver(at.order("busy"))
    assert seen == [["left", "bad", "o2", "o1"]]


def test_the_style_sheet_is_the_inspectors_own(at: Scene) -> None:
    answer = opened(at).get("/style.css")
    assert (answer.status_code, answer.mimetype) == (200, "text/css")
    assert "http" not in answer.text, "nothing is fetched from elsewhere"


# -- hostile texts


@pytest.fixture
def hostile() -> Iterator[Scene]:
    with scene() as found:

        def decline(step: Step[OrderState]) -> None:
            raise Reject(HOSTILE + MARKUP + "z" * 5000)

        found.script.pricing = decline
        found.deliver(found.order("o1", request_id=MARKUP))
        item: Any = found.aws.client("dynamodb").scan(TableName="flowguard")["Items"][0]
        for name in (MARKUP, OBJECT + MARKUP):
            item["pk"] = {"S": f"run#orders#{name}"}
            item["stage"] = {"S": name}
            item["stages"] = {"M": {name: {"S": name}}}
            item["state"] = {"S": f'"{MARKUP.replace(chr(34), "")}"'}
            found.aws.client("dynamodb").put_item(TableName="flowguard", Item=item)
        text = HOSTILE + MARKUP
        place = {"version": 1, "hop": 1, "object": text, "error": [text, text, START]}
        put(found, {**place, "redrive": 1}, notification())
        unsent = {"kind": "side", "to": f"sqs:{text}", "id": text, "attributes": {}}
        put(found, {**place, "unsent": unsent}, OBJECT + MARKUP)
        put(found, {"hop": text}, MARKUP)
        yield found


def test_no_text_becomes_markup_on_any_page(hostile: Scene) -> None:
    client = opened(hostile, payloads=True, changes=True, queues=(MARKUP,))
    ways = ["/", "/waits", "/flows", "/flows?flow=orders", "/letters", "/letters?queue=dead", link("/nowhere", MARKUP)]
    ways += [link("/", MARKUP, stage=MARKUP, older=""), link("/", older=MARKUP), link("/run", HOSTILE, MARKUP)]
    ways += [one for one in parsed(client.get("/")).links if one.startswith("/run?")]
    ways += [one for one in parsed(client.get("/letters?queue=dead")).links if one.startswith("/run?")]
    assert len([one for one in ways if one.startswith("/run?")]) >= 4
    for path in ways:
        answer = client.get(path)
        found = parsed(answer)
        assert answer.status_code in (200, 400, 404), path
        assert (found.tags["hostile"], found.tags["script"]) == (0, 0), path
        assert not [one for one in found.attributes if one.startswith("on") or one == "style"], path
        assert "49" not in re.sub(r"\d{3,}", "", found.text) or "{{7*7}}" in found.text, path
        assert CONTROL.findall(answer.text.replace("\n", "")) == [], path


def test_each_template_is_one_that_is_escaped() -> None:
    found = list((Path(pages.__file__).parent / "templates").iterdir())
    assert {one.suffix for one in found} == {".html"}
    assert [one.name for one in found if re.search(r"\|\s*safe|autoescape", one.read_text())] == []


def test_a_link_takes_any_name() -> None:
    assert link("/run", "a&b", "\ud800") == "/run?flow=a%26b&object=%ED%A0%80"
    assert link("/letters") == "/letters"


# -- a full history


def test_a_run_with_a_full_history_has_it_as_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    with scene(told_orders) as at:
        at.script.pricing = break_down
        at.deliver(at.message())
        at.script.pricing = lambda step: None
        at.deliver(at.message().again(ErrorNote("RuntimeError", MARKUP, START)))
        page = "/run?flow=orders&object=o1"
        shown = text(opened(at), page)
        assert "Full history" in shown
        assert "failed, and is tried again: RuntimeError" in shown
        assert "Older attempts" not in shown
        monkeypatch.setattr(pages, "TOLD", (1, 2))
        few = parsed(opened(at).get(page))
        assert "tried again: RuntimeError" not in few.text
        assert f"{page}&history=2" in few.links
        for asked in ("2", "99999999999", "-1", "x"):
            again = text(opened(at), f"{page}&history={asked}")
            assert ("tried again: RuntimeError" in again) is (asked == "2")


def test_a_run_without_rows_has_no_such_table(at: Scene) -> None:
    assert "Full history" not in text(opened(at), "/run?flow=orders&object=o1")


def test_a_row_with_markup_in_it_is_text() -> None:
    with scene(told_orders) as at:
        at.deliver(at.message())
        item: Any = {
            "pk": {"S": "run#orders#o1"},
            "sk": {"S": "history#9"},
            "told": {"S": f"aaaa,1,0,0,9,r,,19bf0c5a2d0,{MARKUP}"},
            "error": {"S": MARKUP},
        }
        at.aws.client("dynamodb").put_item(TableName="flowguard", Item=item)
        answer = opened(at).get("/run?flow=orders&object=o1")
        assert "hostile" not in parsed(answer).tags
        assert MARKUP in parsed(answer).text
