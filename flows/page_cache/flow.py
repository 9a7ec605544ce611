"""Two caches and a trigger: pages are kept until they are reset, searches for ten minutes."""

from __future__ import annotations

from datetime import timedelta
from html import escape
from typing import Final

from flowguard import SUPERSEDE, UNTIL_RESET, Done, Flow, Outcome, Reject, Stage, Step
from flows.page_cache.models import (
    Found,
    Page,
    PageState,
    PageWanted,
    PartsCollected,
    SearchWanted,
    Source,
    SourceChanged,
)

SOURCES: Final = "page-sources"
SEARCHES: Final = "searches-made"
READY: Final = "pages-ready"
READERS: Final = "page-readers"

TABLES: Final = {SOURCES: "source", SEARCHES: "words"}
"""The tables that the stages write to, and the name of each one's key."""

QUEUES: Final = (READY, READERS)
"""The queues beside the stages' own that messages go to: Complete messages, and answers to readers."""

FREE: Final = {SEARCHES: ("carried_out",), READERS: ("run",)}
"""What the explorer does not compare: whoever asks while a search is made gets its end, and whose it is may differ."""

ITEMS: Final = {
    SOURCES: [
        {"source": "title", "text": "Tea, pots and cups", "revision": 1},
        {"source": "offers", "text": "Two tins for the price of one", "revision": 1},
        {"source": "opening-hours", "text": "Monday to Saturday, 9 to 18", "revision": 1},
    ]
}
"""What the tables hold before the first message."""

PAGES: Final = {"home": ("title", "offers"), "visit-us": ("title", "opening-hours")}
"""What each page shows. A real flow would read it from somewhere."""

KEEP_SEARCHES: Final = timedelta(minutes=10)


# -- a triggered cache ------------------------------------------------------------------------------------------------


class CollectParts(Stage[PageWanted, PageState], name="collect-parts", then="render-page", inbox="pages-wanted"):
    """Read the sources of a page. The commit holds only while they are what was read."""

    def handle(self, wanted: PageWanted, step: Step[PageState]) -> Outcome:
        if wanted.page not in PAGES:
            raise Reject(f"there is no page {wanted.page!r}")
        for source in PAGES[wanted.page]:
            item = step.modify(SOURCES, {"source": source}, lambda found: found)
            if item is None:
                raise Reject(f"there is no source {source!r}")
            step.state.texts[source], step.state.revisions[source] = item["text"], int(item["revision"])
        return RenderPage.message(PartsCollected(page=wanted.page))


class RenderPage(Stage[PartsCollected, PageState], name="render-page", inbox="pages-to-render"):
    """Make the page."""

    def handle(self, collected: PartsCollected, step: Step[PageState]) -> Outcome:
        state, step.state = step.state, PageState()
        lines = (f"<p>{escape(state.texts[source])}</p>" for source in PAGES[collected.page])
        return Done(Page(page=collected.page, html="".join(lines), revisions=state.revisions))


class PageCache(
    Flow,
    name="page-cache",
    object_id="page",
    keep_result=UNTIL_RESET,
    answers="pages-wanted",
    complete_to=READY,
    reply_to=(READERS,),
):
    """Make a page when somebody asks for it, and keep it until one of its sources changes."""

    stages = (CollectParts, RenderPage)


class ChangeText(Stage[SourceChanged], name="change-text", inbox="sources-changed"):
    """Write the new text, and reset each page that shows the source."""

    def handle(self, changed: SourceChanged, step: Step) -> Outcome:
        step.put(SOURCES, Source(source=changed.source, text=changed.text, revision=changed.revision))
        for page, sources in PAGES.items():
            if changed.source in sources:
                step.reset(PageCache, page)
        return Done()


class ChangeSource(Flow, name="change-source", object_id="source", on_conflict=SUPERSEDE):
    """The newest text wins. The orders to reset are sent after the text is there."""

    stages = (ChangeText,)


# -- a stored cache ---------------------------------------------------------------------------------------------------


class Search(Stage[SearchWanted], name="search", inbox="searches-wanted"):
    """Find the pages with a source of such a name, and count how often that was done."""

    def handle(self, wanted: SearchWanted, step: Step) -> Outcome:
        found = [page for page, sources in PAGES.items() if any(wanted.words in one for one in (page, *sources))]
        step.update(SEARCHES, {"words": wanted.words}, "ADD carried_out :one", values={":one": 1})
        return Done(Found(words=wanted.words, pages=tuple(found)))


class SearchCache(Flow, name="search-cache", object_id="words", keep_result=KEEP_SEARCHES, reply_to=(READERS,)):
    """Search once for all who ask for the same words, and again for who asks after ten minutes."""

    stages = (Search,)
