"""TriggeredCache: three stages, each a Lambda function with a queue of its own."""

from __future__ import annotations

import hashlib
from typing import Final

from flowguard import SUPERSEDE, Done, Flow, Outcome, Reject, Stage, Step
from flows.triggered_cache.models import (
    CacheEntry,
    CacheReset,
    CacheState,
    EntryBuilt,
    EntryPublished,
    EntryStatus,
    PartsCollected,
)

ENTRIES: Final = "cache-entries"
SUBSCRIBERS: Final = "cache-subscribers"
COMPLETED: Final = "cache-completed"

TABLES: Final = {ENTRIES: "cache_key"}
"""The tables that the stages write to, and the name of each one's key."""

QUEUES: Final = (SUBSCRIBERS, COMPLETED)
"""The queues beside the stages' own that messages go to."""

SOURCES: Final = {
    "title": "Tea, pots and cups",
    "offers": "Two tins for the price of one",
    "opening-hours": "Monday to Saturday, 9 to 18",
}
"""What a page can show. A real flow would read it from somewhere."""


class CollectParts(Stage[CacheReset, CacheState], name="collect", then="build", inbox="cache-resets"):
    """Gather what the entry is made of, and mark it as being rebuilt."""

    def handle(self, reset: CacheReset, step: Step[CacheState]) -> Outcome:
        if not reset.parts:
            raise Reject("there is nothing to show")
        if unknown := sorted(set(reset.parts) - SOURCES.keys()):
            raise Reject(f"no source for {', '.join(unknown)}")
        step.state.revision = reset.revision
        step.state.parts = {part: SOURCES[part] for part in reset.parts}
        step.update(
            ENTRIES,
            {"cache_key": reset.cache_key},
            "SET #status = :rebuilding, request_id = :request_id",
            names={"#status": "status"},
            values={":rebuilding": EntryStatus.REBUILDING.value, ":request_id": step.request_id},
        )
        return BuildEntry.message(PartsCollected(cache_key=reset.cache_key))


class BuildEntry(Stage[PartsCollected, CacheState], name="build", then="publish", inbox="cache-to-build"):
    """Make the content. It stays in the run's state: nobody reads what is not published."""

    def handle(self, collected: PartsCollected, step: Step[CacheState]) -> Outcome:
        lines = [f"{collected.cache_key}, revision {step.state.revision}"]
        lines += [f"{part}: {text}" for part, text in step.state.parts.items()]
        step.state.content = "\n".join(lines)
        return PublishEntry.message(EntryBuilt(cache_key=collected.cache_key))


class PublishEntry(Stage[EntryBuilt, CacheState], name="publish", inbox="cache-to-publish"):
    """Replace the entry and tell its subscribers: unless the cache was reset meanwhile."""

    def handle(self, built: EntryBuilt, step: Step[CacheState]) -> Outcome:
        state = step.state
        digest = hashlib.sha256(state.content.encode()).hexdigest()[:16]
        step.put(
            ENTRIES,
            CacheEntry(
                cache_key=built.cache_key,
                status=EntryStatus.READY,
                revision=state.revision,
                content=state.content,
                digest=digest,
                request_id=step.request_id,
            ),
        )
        published = EntryPublished(cache_key=built.cache_key, revision=state.revision, digest=digest)
        step.send(SUBSCRIBERS, published)
        return Done(published)


class TriggeredCache(
    Flow,
    name="triggered-cache",
    object_id="cache_key",
    request_id=("cache_key", "revision"),
    on_conflict=SUPERSEDE,
    complete_to=COMPLETED,
):
    """Collect, build, publish. A newer reset takes the entry over; whatever the old run still writes is refused.

    A reset of one revision is one request, however many messages ask for it.
    """

    stages = (CollectParts, BuildEntry, PublishEntry)
