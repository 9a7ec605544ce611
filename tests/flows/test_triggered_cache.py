"""TriggeredCache: an entry shows what the newest reset asked for, whatever an older run still tries to write."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from hashlib import sha256
from typing import Any, Final

import pytest

from flowguard import Done, Reject
from flowguard.events import EventType
from flowguard.items.writes import Put, Update
from flowguard.sim.calls import intercept
from flowguard.testing import FlowResult, FlowRunner, step_for
from flows.triggered_cache.flow import BuildEntry, CollectParts, PublishEntry, TriggeredCache
from flows.triggered_cache.models import CacheReset, CacheState, EntryBuilt, EntryPublished, PartsCollected
from tests.flows.mishaps import Copies, Meanwhile
from tests.flows.samples import sample


@pytest.fixture
def cache(flow_runner: FlowRunner) -> FlowRunner:
    return flow_runner.serve(TriggeredCache)


def entry(result: FlowResult, key: str = "page/tea") -> Mapping[str, Any]:
    found = result.item("cache-entries", cache_key=key)
    assert found is not None
    return found


def revisions_told(result: FlowResult) -> list[int]:
    return [told.body["revision"] for told in result.sent("cache-subscribers")]


RESET: Final = "triggered_cache/01-reset.json"
DUPLICATE: Final = "triggered_cache/02-duplicate.json"
NEWER: Final = "triggered_cache/03-newer.json"
OLDER: Final = "triggered_cache/04-older.json"


# -- a stage is a plain method ----------------------------------------------------------------------------------------


def test_the_parts_are_collected_and_the_entry_is_marked() -> None:
    step = step_for(CollectParts, object_id="page", request_id="r-1")
    outcome = CollectParts().handle(CacheReset(cache_key="page", revision=4, parts=("title",)), step)
    assert outcome == BuildEntry.message(PartsCollected(cache_key="page"))
    assert step.state == CacheState(revision=4, parts={"title": "Tea, pots and cups"})
    (write,) = step.writes
    assert isinstance(write, Update)
    assert write.key == {"cache_key": "page"}
    assert write.change.values == {":rebuilding": "REBUILDING", ":request_id": "r-1"}


@pytest.mark.parametrize(("parts", "why"), [((), "nothing to show"), (("title", "moon"), "no source for moon")])
def test_what_cannot_be_built_is_rejected(parts: tuple[str, ...], why: str) -> None:
    with pytest.raises(Reject, match=why):
        CollectParts().handle(CacheReset(cache_key="page", revision=4, parts=parts), step_for(CollectParts))


def test_the_content_is_built_in_the_state_alone() -> None:
    step = step_for(BuildEntry, state=CacheState(revision=4, parts={"title": "Tea"}), hop=2)
    outcome = BuildEntry().handle(PartsCollected(cache_key="page"), step)
    assert outcome == PublishEntry.message(EntryBuilt(cache_key="page"))
    assert step.state.content == "page, revision 4\ntitle: Tea"
    assert not step.writes
    assert not step.sends


def test_publishing_replaces_the_entry_and_tells_its_subscribers() -> None:
    step = step_for(PublishEntry, state=CacheState(revision=4, content="Tea"), request_id="r-1", hop=3)
    published = EntryPublished(cache_key="page", revision=4, digest=sha256(b"Tea").hexdigest()[:16])
    assert PublishEntry().handle(EntryBuilt(cache_key="page"), step) == Done(published)
    (write,) = step.writes
    assert isinstance(write, Put)
    assert (write.item["content"], write.item["digest"]) == ("Tea", published.digest)
    (told,) = step.sends
    assert (str(told.to), told.body) == ("sqs:cache-subscribers", published.model_dump_json())


# -- the whole flow ---------------------------------------------------------------------------------------------------


def test_a_reset_entry_is_rebuilt_and_its_subscribers_are_told(cache: FlowRunner) -> None:
    reset = cache.deliver(sample(RESET)).step()
    assert [one.acked for one in reset.deliveries] == [True]
    assert entry(reset)["status"] == "REBUILDING"
    result = cache.run()
    found = entry(result)
    assert (found["status"], found["revision"], found["request_id"]) == ("READY", 1, "page-tea-reset-1")
    assert found["content"] == (
        "page/tea, revision 1\ntitle: Tea, pots and cups\noffers: Two tins for the price of one"
    )
    published = {"cache_key": "page/tea", "revision": 1, "digest": found["digest"]}
    assert [told.body for told in result.sent("cache-subscribers")] == [published]
    (complete,) = result.sent("cache-completed")
    assert (complete.body["status"], complete.body["result"]) == ("COMPLETED", published)


def test_while_it_is_rebuilt_the_old_content_can_be_read(cache: FlowRunner) -> None:
    before = entry(cache.deliver(sample(RESET)).run())
    reset = cache.deliver(sample(NEWER)).step()
    assert entry(reset) == {**before, "status": "REBUILDING", "request_id": "page-tea-reset-2"}


def test_duplicates_of_every_message_change_nothing(cache: FlowRunner) -> None:
    with intercept(Copies(3)):
        first = cache.deliver(sample(RESET)).run()
    again = cache.deliver(sample(DUPLICATE), sample(DUPLICATE)).run()
    assert entry(again) == entry(first)
    assert (len(first.sent("cache-subscribers")), len(first.sent("cache-completed"))) == (1, 1)
    assert {one.id for one in again.messages} <= {one.id for one in first.messages}, "copies: receivers drop them"
    assert first.count(EventType.COMMITTED, EventType.COMPLETED) == 3
    assert again.count(EventType.COMMITTED, EventType.COMPLETED) == 0


@pytest.mark.parametrize("stages_done", [0, 1])
def test_a_cache_that_is_reset_while_being_processed_shows_the_newer_content(
    cache: FlowRunner, stages_done: int
) -> None:
    cache.deliver(sample(RESET)).step()
    for _ in range(stages_done):
        cache.step()
    result = cache.deliver(sample(NEWER)).run()
    assert (entry(result)["status"], entry(result)["revision"]) == ("READY", 2)
    assert revisions_told(result) == [2]
    assert result.count(EventType.TOOK_OVER) == 1
    assert result.count(EventType.SUPERSEDED) == 1


def test_the_old_runs_late_write_is_fenced(cache: FlowRunner) -> None:
    """The old run is about to publish; just before its commit the cache is reset and rebuilt as a whole."""
    cache.deliver(sample(RESET))
    for _ in ("collect-parts", "build-entry"):
        cache.step()
    rebuilt: list[FlowResult] = []

    def reset_and_rebuild() -> None:
        rebuilt.append(cache.deliver(sample(NEWER)).run(within=timedelta(0)))

    with intercept(Meanwhile("TransactWriteItems", reset_and_rebuild)):
        late = cache.step()
    assert late.count(EventType.FENCED) == 1
    assert (entry(late)["status"], entry(late)["revision"]) == ("READY", 2)
    assert revisions_told(late) == revisions_told(rebuilt[0]) == [2]
    run = late.run("page/tea")
    assert (run.request_id, run.status) == ("page-tea-reset-2", "COMPLETED")
    assert CacheState.model_validate(run.state).revision == 2


def test_a_first_stage_that_was_overtaken_does_not_mark_the_entry(cache: FlowRunner) -> None:
    def reset_and_rebuild() -> None:
        cache.deliver(sample(NEWER)).run(within=timedelta(0))

    with intercept(Meanwhile("TransactWriteItems", reset_and_rebuild)):
        result = cache.deliver(sample(RESET)).step()
    assert [one.acked for one in result.deliveries] == [True]
    assert result.count(EventType.FENCED) == 1
    assert (entry(result)["status"], entry(result)["request_id"]) == ("READY", "page-tea-reset-2")


def test_an_older_reset_that_comes_late_is_dropped(cache: FlowRunner) -> None:
    before = entry(cache.deliver(sample(NEWER)).run())
    result = cache.deliver(sample(OLDER)).run()
    assert [one.acked for one in result.deliveries] == [True]
    assert entry(result) == before
    assert result.count(EventType.STALE) == 1


def test_a_change_published_to_a_topic_and_a_direct_invocation_enter_too(cache: FlowRunner) -> None:
    published, invoked = sample("triggered_cache/05-sns-to-sqs.json"), sample("triggered_cache/06-invocation.json")
    result = cache.deliver(published, invoked).run()
    assert result.verdicts[:2] == ["CLAIMED", "CLAIMED"]
    assert (entry(result, "page/pots")["revision"], entry(result, "page/cups")["revision"]) == (7, 3)


def test_what_cannot_be_built_ends_in_the_dead_letters_and_the_subscribers_learn_of_it(cache: FlowRunner) -> None:
    empty, bad = sample("triggered_cache/07-nothing-to-show.json"), sample("triggered_cache/08-bad-payload.json")
    result = cache.deliver(empty, bad).run()
    assert sorted(str(one.id) for one in result.dead_letters) == ["page-empty-reset-1", "page-tea-reset-3"]
    (complete,) = result.sent("cache-completed")
    assert (complete.body["object_id"], complete.body["status"]) == ("page/empty", "FAILED")
    assert result.item("cache-entries", cache_key="page/empty") is None
