"""Readers ask for a page and get one rendering; a changed source resets it. Searches are carried out once.

Who names a place for the answer has to sign.
"""

from __future__ import annotations

from flows.page_cache.flow import ITEMS, PageCache, SearchCache
from flows.page_cache.models import PageWanted, SearchWanted
from tests.proofs.e2e.cloud import Cloud, Received
from tests.proofs.e2e.play import Check, Scene, Until

MODULE = "flows.page_cache.handlers"
READERS = "page-readers"
QUEUES = ("pages-wanted", "pages-to-render", "sources-changed", "searches-wanted")


def scene(cloud: Cloud) -> Scene:
    for table, items in ITEMS.items():
        for item in items:
            cloud.put(table, item)
    for reader in ("r1", "r2", "r3"):
        cloud.flows.start(PageCache, PageWanted(page="home"), request_id=f"{reader}-page", reply_to=READERS)
        cloud.flows.start(SearchCache, SearchWanted(words="home"), request_id=f"{reader}-search", reply_to=READERS)
    yield Until("three readers have a page and a search", lambda: len(cloud.distinct(READERS)) >= 6)
    cloud.send("sources-changed", {"source": "offers", "text": "Three for two", "revision": 2}, copies=2)
    yield Until("the source is changed, and its page reset", lambda: _revision(cloud) == 2 and cloud.settled(*QUEUES))
    cloud.flows.start(PageCache, PageWanted(page="home"), request_id="r4-page", reply_to=READERS)
    yield Until("a fourth reader has the page", lambda: len(cloud.distinct(READERS)) >= 7)
    yield Until("the queues are empty", lambda: cloud.settled(*QUEUES))
    searches = [one["carried_out"] for one in cloud.items("searches-made")]
    yield Check("the search of three readers is carried out once", [1], searches)
    ends = sorted(one.body["request_id"] for one in cloud.distinct(READERS))
    wanted = sorted([*(f"r{n}-{what}" for n in (1, 2, 3) for what in ("page", "search")), "r4-page"])
    yield Check("each reader is answered once, copies apart", wanted, ends)
    shown = [one.body["result"]["revisions"]["offers"] for one in cloud.distinct(READERS) if _is_page(one)]
    yield Check("three get the old page, and the fourth the new one", [1, 1, 1, 2], sorted(shown))


def _is_page(received: Received) -> bool:
    return "revisions" in (received.body["result"] or {})


def _revision(cloud: Cloud) -> int:
    found = cloud.item("page-sources", source="offers") or {}
    return int(found.get("revision", 0))
