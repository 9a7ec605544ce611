"""PageCache: who asks is answered once, with a page that shows what the catalogue says, whatever dies meanwhile."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from flowguard import Done, Queue, Reject
from flowguard.aws.clients import Clients
from flowguard.aws.services import aws_services
from flowguard.client import FlowClient
from flowguard.events import EventType
from flowguard.names.ids import RequestId
from flowguard.settings import Settings
from flowguard.sim.calls import ApiCall, Proceed, Response, intercept
from flowguard.testing import FlowClock, FlowResult, FlowRunner, sqs_event, step_for
from flowguard.verdicts import ResetVerdict
from flows.page_cache.flow import (
    ITEMS,
    PAGES,
    READERS,
    READY,
    SOURCES,
    ChangeSource,
    ChangeText,
    CollectParts,
    PageCache,
    RenderPage,
    Search,
    SearchCache,
)
from flows.page_cache.models import Found, Page, PageState, PageWanted, PartsCollected, SearchWanted, SourceChanged
from tests.flows.mishaps import Death
from tests.flows.samples import SAMPLES, sample

HOME = PageWanted(page="home")
TITLE = SourceChanged(source="title", text="Tea & mugs", revision=2)


@pytest.fixture
def shop(flow_runner: FlowRunner) -> FlowRunner:
    flow_runner.table(SOURCES, "source", *ITEMS[SOURCES])
    return flow_runner.serve(PageCache, ChangeSource, SearchCache)


def wanted(shop: FlowRunner, *readers: str) -> FlowRunner:
    for reader in readers:
        shop.send(PageCache, HOME, request_id=RequestId(reader), reply_to=READERS)
    return shop


def answers(result: FlowResult, queue: str = READERS) -> list[tuple[str, Any]]:
    """Whose request was answered with which revisions. Copies of an answer have its id, and receivers drop them."""
    found = {one.id: one.body for one in result.sent(queue)}
    assert len({body["request_id"] for body in found.values()}) == len(found), "each request gets one answer"
    return sorted((body["request_id"], (body["result"] or {}).get("revisions")) for body in found.values())


OLD, NEW = {"title": 1, "offers": 1}, {"title": 2, "offers": 1}


# -- a stage is a plain method ----------------------------------------------------------------------------------------


def test_a_page_shows_its_sources_without_their_markup() -> None:
    state = PageState(texts={"title": "Tea & mugs", "offers": "none"}, revisions=NEW)
    outcome = RenderPage().handle(PartsCollected(page="home"), step_for(RenderPage, state=state, hop=2))
    assert outcome == Done(Page(page="home", html="<p>Tea &amp; mugs</p><p>none</p>", revisions=NEW))


def test_a_page_that_the_shop_does_not_have_is_rejected() -> None:
    with pytest.raises(Reject, match="there is no page 'moon'"):
        CollectParts().handle(PageWanted(page="moon"), step_for(CollectParts))


@pytest.mark.parametrize(("source", "pages"), [("title", 2), ("offers", 1), ("imprint", 0)])
def test_a_change_resets_each_page_that_shows_the_source(source: str, pages: int) -> None:
    step = step_for(ChangeText)
    ChangeText().handle(SourceChanged(source=source, text="new", revision=2), step)
    assert (len(step.writes), len(step.sends)) == (1, pages)


@pytest.mark.parametrize(("words", "pages"), [("offers", ("home",)), ("title", tuple(PAGES)), ("coffee", ())])
def test_a_search_finds_the_pages_by_what_they_show(words: str, pages: tuple[str, ...]) -> None:
    outcome = Search().handle(SearchWanted(words=words), step_for(Search))
    assert outcome == Done(Found(words=words, pages=pages))


# -- a triggered cache ------------------------------------------------------------------------------------------------


def test_forty_readers_are_answered_by_one_page(shop: FlowRunner) -> None:
    readers = [f"reader-{number:02}" for number in range(40)]
    result = wanted(shop, *readers).run()
    assert answers(result) == [(reader, OLD) for reader in readers]
    assert (result.count(EventType.ATTACHED), len(result.sent(READY))) == (39, 1)


def test_a_page_is_kept_until_one_of_its_sources_changes(shop: FlowRunner, flow_clock: FlowClock) -> None:
    wanted(shop, "reader-1").run()
    flow_clock.advance(days=300)
    kept = wanted(shop, "reader-2").run()
    assert (kept.count(EventType.KEPT), answers(kept)[-1]) == (1, ("reader-2", OLD))
    shop.send(ChangeSource, TITLE)
    shop.run()
    flow_clock.advance(seconds=1)
    assert answers(wanted(shop, "reader-3").run())[-1] == ("reader-3", NEW)


@pytest.mark.parametrize("operation", ["TransactWriteItems", "UpdateItem"])
def test_a_page_that_is_reset_while_it_is_being_made_is_made_anew_for_all_who_wait(
    shop: FlowRunner, flow_clock: FlowClock, operation: str
) -> None:
    """The first reader's page is made of the old title, in the first stage or the last; the second one waits for it."""
    wanted(shop, "reader-1")
    if operation == "UpdateItem":
        shop.step()
    wanted(shop, "reader-2")
    flow_clock.advance(seconds=1)
    changed: list[ResetVerdict] = []

    def change(call: ApiCall, proceed: Proceed) -> Response:
        """The text is written and the page is reset just before the commit."""
        is_commit = operation != "UpdateItem" or "committed_at" in str(call.params.get("UpdateExpression"))
        if call.operation == operation and is_commit and not changed:
            changed.append(ResetVerdict.NOTHING)
            put = {name: {"N" if name == "revision" else "S": str(value)} for name, value in dict(TITLE).items()}
            Clients().dynamodb.put_item(TableName=SOURCES, Item=put)
            changed[0] = FlowClient.of(aws_services(Settings(), clock=flow_clock)).reset(PageCache, "home")
        return proceed()

    with intercept(change):
        result = shop.run()
    assert changed == [ResetVerdict.RESTARTED]
    assert answers(result) == [("reader-1", NEW), ("reader-2", NEW)]
    assert result.count(EventType.FENCED) == 1


def test_a_text_that_changes_before_the_page_has_it_for_good_is_read_again(shop: FlowRunner) -> None:
    """Its worker has read the old text, and another one writes the new text before the commit."""
    ahead = [True]

    def change(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "TransactWriteItems" and ahead:
            ahead.clear()
            shop.send(ChangeSource, TITLE)
            shop.run(within=timedelta(0))
        return proceed()

    with intercept(change):
        result = wanted(shop, "reader-1").run()
    assert answers(result) == [("reader-1", NEW)]


def test_who_wants_a_page_that_there_is_not_learns_why(shop: FlowRunner) -> None:
    result = shop.deliver(sample("page_cache/07-no-such-page.json")).run()
    [answer] = result.sent(READERS)
    assert (answer.body["status"], "no page 'moon'" in answer.body["error"]) == ("FAILED", True)
    assert len(result.dead_letters) == 1


# -- the Complete message goes out before anything is released --------------------------------------------------------


@pytest.mark.parametrize("queue", [READERS, READY])
def test_the_complete_message_goes_out_though_the_worker_dies_right_after_its_commit(
    shop: FlowRunner, queue: str
) -> None:
    wanted(shop, "reader-1").step()
    with intercept(Death("SendMessageBatch", made=False)):
        dead = shop.step()
    assert dead.run("home").status == "COMPLETED"
    assert not any(queue in str(one.to) for one in dead.messages)
    assert answers(shop.run(), queue) == [("reader-1", OLD)]


def test_a_newer_request_gets_the_object_only_after_the_complete_message_of_the_run_before(
    shop: FlowRunner, flow_clock: FlowClock
) -> None:
    """The first worker dies after its commit. Its message comes back later than the newer request."""
    wanted(shop, "reader-1").step()
    with intercept(Death("SendMessageBatch", made=False)):
        shop.step()
    flow_clock.advance(seconds=1)
    assert FlowClient.of(aws_services(Settings(), clock=flow_clock)).reset(PageCache, "home") is ResetVerdict.DROPPED
    flow_clock.advance(seconds=1)
    newer = wanted(shop, "reader-2").step()
    assert newer.verdicts == ["CLAIMED"]
    assert answers(newer, READY) == [("reader-1", OLD)]
    assert answers(newer) == [("reader-1", OLD)], "before a line of the newer run's handler"


def asked(reader: str, clock: FlowClock) -> Any:
    attributes = PageCache.request(
        HOME, request_id=RequestId(reader), requested_at=clock.now(), reply_to=Queue(READERS)
    )[0].attributes()
    return sqs_event("pages-wanted", HOME, attributes=attributes)


def test_while_the_complete_message_cannot_be_sent_nobody_else_gets_the_object(
    shop: FlowRunner, flow_clock: FlowClock
) -> None:
    wanted(shop, "reader-1").step()

    def down(call: ApiCall, proceed: Proceed) -> Response:
        if call.operation == "SendMessageBatch":
            raise ClientError({"Error": {"Code": "ServiceUnavailable", "Message": "down"}}, call.operation)
        return proceed()

    with intercept(down):
        shop.step()
        FlowClient.of(aws_services(Settings(), clock=flow_clock)).reset(PageCache, "home")
        flow_clock.advance(seconds=1)
        held_up = shop.deliver(asked("reader-2", flow_clock)).step()
    assert [one.acked for one in held_up.deliveries] == [False]
    assert held_up.count(EventType.COMMITTED, EventType.COMPLETED) == 0
    assert [reader for reader, _ in answers(shop.run())] == ["reader-1", "reader-2"]


# -- a stored cache ---------------------------------------------------------------------------------------------------


def searched(shop: FlowRunner, *readers: str) -> FlowRunner:
    for reader in readers:
        shop.send(SearchCache, SearchWanted(words="tea"), request_id=RequestId(reader), reply_to=READERS)
    return shop


@pytest.mark.long("a thousand requests")
def test_a_thousand_searches_at_once_are_one_and_all_are_answered_once(shop: FlowRunner) -> None:
    result = searched(shop, *(f"search-{number}" for number in range(1_000))).run()
    told = Counter(one.body["request_id"] for one in result.sent(READERS))
    assert (len(told), set(told.values())) == (1_000, {1})
    assert result.table("searches-made") == ({"words": "tea", "carried_out": 1},)


def test_a_search_is_kept_for_ten_minutes(shop: FlowRunner, flow_clock: FlowClock) -> None:
    searched(shop, "search-1").run()
    for minutes, times in ((9.9, 1), (0.2, 2)):
        flow_clock.advance(minutes=minutes)
        result = searched(shop, f"search-{minutes}").run()
        assert [int(row["carried_out"]) for row in result.table("searches-made")] == [times]
        assert searched(shop, f"copy-{minutes}").run().count(EventType.KEPT) >= 1


VERDICTS = {
    "01": "CLAIMED",
    "02": "CLAIMED",
    "03": "ATTACHED",
    "04": "KEPT",
    "05": "CLAIMED",
    "06": "CLAIMED",
    "07": "CLAIMED",
    "08": "CLAIMED",
    "09": "KEPT",
    "10": "KEPT",
    "11": "CLAIMED",
}


def test_the_samples_do_what_their_page_says(shop: FlowRunner, flow_clock: FlowClock) -> None:
    events = {file.name[:2]: sample(f"page_cache/{file.name}") for file in (SAMPLES / "page_cache").glob("*.json")}
    names = {event["Records"][0]["messageId"]: number for number, event in events.items()}
    met: list[FlowResult] = []
    for group in (("01", "02", "03"), *((number,) for number in sorted(events)[3:])):
        [record] = events[group[0]]["Records"]
        at = int(record["messageAttributes"]["requestedat"]["stringValue"])
        flow_clock.advance(seconds=max(0, at - flow_clock.now()) / 1_000)
        met.append(shop.deliver(*(events[number] for number in group)).run())
    rows = [row for result in met for row in result.deliveries]
    found = {names[row.record]: row.verdict for row in rows if row.record in names}
    assert found == VERDICTS
    assert [int(row["carried_out"]) for row in met[-1].table("searches-made")] == [2]
    readers = {one.body["request_id"] for result in met for one in result.messages if READERS in str(one.to)}
    assert readers == {
        f"{who}-{number}" for who, most in (("reader", 5), ("search", 4)) for number in range(1, most + 1)
    }
