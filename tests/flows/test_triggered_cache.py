"""TriggeredCache: an entry shows what the newest reset asked for, whatever an older run still tries to write."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import pytest

from flowguard import Done, Reject
from flowguard.events import EventType
from flowguard.protocol.run import Status
from flowguard.sim.calls import intercept
from flowguard.sim.memory.aws import MemoryAWS
from flowguard.testing import step_for
from flowguard.writes import Put, Update
from flows.triggered_cache import handlers
from flows.triggered_cache.flow import QUEUES, TABLES, BuildEntry, CollectParts, PublishEntry, TriggeredCache
from flows.triggered_cache.models import CacheReset, CacheState, EntryBuilt, EntryPublished, PartsCollected
from tests.flows.world import Meanwhile, World


@pytest.fixture
def world() -> Iterator[World]:
    functions = {
        "cache-resets": handlers.collect_parts,
        "cache-to-build": handlers.build_entry,
        "cache-to-publish": handlers.publish_entry,
    }
    with MemoryAWS(region="eu-west-1") as aws:
        yield World(aws, TriggeredCache, functions, tables=TABLES, queues=QUEUES)


def entry(world: World, key: str = "page/tea") -> dict[str, Any]:
    found = world.item("cache-entries", key)
    assert found is not None
    return found


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


def test_a_reset_entry_is_rebuilt_and_its_subscribers_are_told(world: World) -> None:
    assert world.deliver("triggered_cache/01-reset.json") == {"batchItemFailures": []}
    assert entry(world)["status"] == "REBUILDING"
    world.work()
    found = entry(world)
    assert (found["status"], found["revision"], found["request_id"]) == ("READY", 1, "page-tea-reset-1")
    assert found["content"] == (
        "page/tea, revision 1\ntitle: Tea, pots and cups\noffers: Two tins for the price of one"
    )
    published = {"cache_key": "page/tea", "revision": 1, "digest": found["digest"]}
    assert list(world.messages("cache-subscribers").values()) == [published]
    (complete,) = world.messages("cache-completed").values()
    assert (complete["status"], complete["result"]) == ("COMPLETED", published)


def test_while_it_is_rebuilt_the_old_content_can_be_read(world: World) -> None:
    world.deliver("triggered_cache/01-reset.json")
    world.work()
    before = entry(world)
    world.deliver("triggered_cache/03-newer.json")
    assert entry(world) == {**before, "status": "REBUILDING", "request_id": "page-tea-reset-2"}


def test_duplicates_of_every_message_change_nothing(world: World) -> None:
    world.deliver("triggered_cache/01-reset.json")
    world.work(copies=3)
    before = entry(world)
    world.deliver("triggered_cache/02-duplicate.json")
    world.work(copies=3)
    assert entry(world) == before
    assert len(world.messages("cache-subscribers")) == 1
    assert len(world.messages("cache-completed")) == 1
    assert world.count(EventType.COMMITTED, EventType.COMPLETED) == 3


@pytest.mark.parametrize("stages_done", [0, 1])
def test_a_cache_that_is_reset_while_being_processed_shows_the_newer_content(world: World, stages_done: int) -> None:
    world.deliver("triggered_cache/01-reset.json")
    world.work(*["cache-to-build"][:stages_done] or ["cache-to-publish"])
    world.deliver("triggered_cache/03-newer.json")
    world.work()
    assert (entry(world)["status"], entry(world)["revision"]) == ("READY", 2)
    assert [told["revision"] for told in world.messages("cache-subscribers").values()] == [2]
    assert world.count(EventType.TOOK_OVER) == 1
    assert world.count(EventType.SUPERSEDED) == 1


def test_the_old_runs_late_write_is_fenced(world: World) -> None:
    """The old run is about to publish; just before its commit the cache is reset and rebuilt as a whole."""
    world.deliver("triggered_cache/01-reset.json")
    world.work("cache-to-build")

    def reset_and_rebuild() -> None:
        world.deliver("triggered_cache/03-newer.json")
        world.work()

    with intercept(Meanwhile("TransactWriteItems", reset_and_rebuild)):
        world.work("cache-to-publish")
    assert world.count(EventType.FENCED) == 1
    assert (entry(world)["status"], entry(world)["revision"]) == ("READY", 2)
    assert [told["revision"] for told in world.messages("cache-subscribers").values()] == [2]
    run = world.run("page/tea")
    assert (run.request_id, run.status) == ("page-tea-reset-2", Status.COMPLETED)
    assert run.state is not None
    assert CacheState.model_validate_json(run.state).revision == 2


def test_a_first_stage_that_was_overtaken_does_not_mark_the_entry(world: World) -> None:
    def reset_and_rebuild() -> None:
        world.deliver("triggered_cache/03-newer.json")
        world.work()

    with intercept(Meanwhile("TransactWriteItems", reset_and_rebuild)):
        assert world.deliver("triggered_cache/01-reset.json") == {"batchItemFailures": []}
    assert world.count(EventType.FENCED) == 1
    assert (entry(world)["status"], entry(world)["request_id"]) == ("READY", "page-tea-reset-2")


def test_an_older_reset_that_comes_late_is_dropped(world: World) -> None:
    world.deliver("triggered_cache/03-newer.json")
    world.work()
    before = entry(world)
    assert world.deliver("triggered_cache/04-older.json") == {"batchItemFailures": []}
    world.work()
    assert entry(world) == before
    assert world.count(EventType.STALE) == 1


def test_a_change_published_to_a_topic_and_a_direct_invocation_enter_too(world: World) -> None:
    world.deliver("triggered_cache/05-sns-to-sqs.json")
    assert world.deliver("triggered_cache/06-invocation.json")["verdict"] == "CLAIMED"
    world.work()
    assert (entry(world, "page/pots")["revision"], entry(world, "page/cups")["revision"]) == (7, 3)


def test_one_revision_is_one_request_though_its_sender_repeats_it_under_no_id(world: World) -> None:
    world.deliver("triggered_cache/09-without-attributes.json")
    world.work()
    world.deliver("triggered_cache/10-sent-again.json")
    world.work()
    assert (world.count(EventType.CLAIMED), world.count(EventType.DONE), world.count(EventType.WEAK_ID)) == (3, 1, 0)
    assert entry(world, "page/kettles")["request_id"] == '["page/kettles","2"]'


def test_what_cannot_be_built_ends_in_the_dead_letters_and_the_subscribers_learn_of_it(world: World) -> None:
    world.deliver("triggered_cache/07-nothing-to-show.json")
    world.deliver("triggered_cache/08-bad-payload.json")
    assert sorted(world.messages("triggered-cache-dead-letters")) == ["page-empty-reset-1", "page-tea-reset-3"]
    (complete,) = world.messages("cache-completed").values()
    assert (complete["object_id"], complete["status"]) == ("page/empty", "FAILED")
    assert world.item("cache-entries", "page/empty") is None
