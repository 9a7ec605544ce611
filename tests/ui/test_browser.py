"""The inspector and the explorer's page in a real browser. ``PICTURES=1`` makes the pictures of the docs anew."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
from selenium.webdriver.common.keys import Keys

from flowguard.flow import AnyFlow
from flowguard.ui.changes import Changes
from flowguard.ui.inspected import Inspected
from flowguard.ui.serving import opened
from flows.approval.flow import ApproveExpense
from tests.cli.test_explore import BUGGY, buggy, explore
from tests.engines.skipping import or_skip
from tests.ui.browser import Browser, browser
from tests.ui.claims import Claims
from tests.ui.shop import HOSTILE, ShopOrders, shop

__all__ = ["buggy"]  # a fixture

pytestmark = pytest.mark.proof("starts a browser")

PICTURES: Final = Path(__file__).parents[2] / "docs" / "pictures"
PAGES: Final = ("/", "/waits", "/flows", "/flows?flow=orders", "/letters", "/letters?queue=orders-dead-letters",
                "/run?flow=orders&object=order-2", "/run?flow=orders&object=order-3", "/nowhere")  # fmt: skip


@pytest.fixture(scope="module")
def started() -> Iterator[Browser]:
    yield from or_skip(browser())


@pytest.fixture
def own(started: Browser) -> Browser:
    """The browser, with nothing to complain about yet."""
    started.resize(1000)
    started.driver.get("about:blank")
    started.complaints()
    return started


@contextmanager
def served(inspected: Inspected, changes: Changes | None = None) -> Iterator[str]:
    """The address of an inspector that a thread serves."""
    server = opened(inspected, changes, 0)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.port}"
    finally:
        server.shutdown()
        thread.join()


def drawn(page: Browser, name: str) -> None:
    """Take the pictures of a page for the docs, light and dark, where somebody asks for it."""
    if "PICTURES" in os.environ:
        PICTURES.mkdir(exist_ok=True)
        for dark, file in ((True, f"{name}-dark.png"), (False, f"{name}.png")):
            page.dye(dark=dark)
            page.picture(PICTURES / file)


def test_runs_are_filtered_and_opened_by_keyboard_alone(own: Browser) -> None:
    own.resize(1000, 560)
    with shop() as found, served(found.inspected) as address:
        own.driver.get(f"{address}/")
        drawn(own, "inspector-runs")
        own.press(Keys.TAB)
        assert own.focused() == "To the content", "the first stop skips the menu"
        own.tab_to("status")
        own.press("F")  # as one chooses FAILED in a list
        own.tab_to("Filter")
        own.press(Keys.ENTER)
        assert "status=FAILED" in own.driver.current_url
        assert "2 shown, of 15 items that were read." in own.text()
        own.tab_to("order-2")
        own.press(Keys.ENTER)
        assert "FAILED at ship-order, hop 3, attempt 1" in own.text()
        assert "Reject: no carrier takes it" in own.text()
        assert own.complaints() == []


def test_a_run_and_a_graph_are_drawn(own: Browser) -> None:
    own.resize(760, 640)
    with shop() as found, served(found.inspected) as address:
        own.driver.get(f"{address}/run?flow=orders&object=order-3")
        circles = own.driver.find_elements("css selector", "svg.line circle")
        assert len(circles) == 5, "requested, two commits, the deadline, now"
        assert len({(one.location["x"], one.location["y"]) for one in circles}) == 5
        drawn(own, "inspector-run")
        own.driver.get(f"{address}/flows?flow=orders")
        assert "4 waiting" in own.driver.find_element("css selector", "svg.graph").text
        own.resize(760, 700)
        drawn(own, "inspector-flow")
        assert own.complaints() == []


DRAWN_WRONG: Final = """
const svg = document.querySelector("svg.graph"), wrong = [];
const rooms = [...svg.querySelectorAll(".box rect, .label, .box text")].map(e => [e, e.getBoundingClientRect()]);
const between = (a, low, high) => a >= low - 1 && a <= high + 1;
const inside = (a, b) => between(a.left, b.left, b.right) && between(a.right, b.left, b.right)
  && between(a.top, b.top, b.bottom) && between(a.bottom, b.top, b.bottom);
const holds = (b, p) => p.x > b.left + 2 && p.x < b.right - 2 && p.y > b.top + 2 && p.y < b.bottom - 2;
const name = e => (e.closest(".box") || e).textContent.trim();
for (const [i, [one, a]] of rooms.entries()) {
  if (!inside(a, svg.getBoundingClientRect())) wrong.push(name(one) + " is cut");
  if (one.textContent.endsWith("…")) wrong.push(name(one) + " is shortened");
  if (one.matches(".box text") && !inside(a, one.closest(".box").querySelector("rect").getBoundingClientRect()))
    wrong.push(name(one) + " is wider than its box");
  for (const [other, b] of rooms.slice(i + 1)) {
    if (one.closest(".box") && one.closest(".box") === other.closest(".box")) continue;
    const apart = a.right <= b.left || b.right <= a.left || a.bottom <= b.top || b.bottom <= a.top;
    if (!apart) wrong.push(name(one) + " covers " + name(other));
  }
}
const boxes = rooms.filter(([e]) => e.matches("rect, .label"));
for (const way of svg.querySelectorAll(".way")) {
  const length = way.getTotalLength(), to = way.getScreenCTM();
  for (let at = 8; at < length - 8; at += 2) {
    const p = way.getPointAtLength(at).matrixTransform(to);
    for (const [box, b] of boxes)
      if (holds(b, p)) wrong.push("an edge runs through " + name(box));
  }
}
return [...new Set(wrong)];
"""
"""What is wrong with the drawing of a flow, as it is seen."""


@pytest.mark.parametrize("width", [360, 760, 1280])
def test_a_flow_is_drawn_so_that_it_can_be_read(own: Browser, width: int) -> None:
    flows: dict[str, AnyFlow] = {flow.name: flow for flow in (ShopOrders, ApproveExpense, Claims)}
    with shop() as found, served(replace(found.inspected, flows=flows)) as address:
        for dark in (False, True):
            own.resize(width, 800, dark=dark)
            for name in flows:
                own.driver.get(f"{address}/flows?flow={name}")
                assert own.run(DRAWN_WRONG) == [], name
                assert own.overflow() == 0


BROKEN_WORDS: Final = """
const broken = [], cells = document.querySelectorAll(".rows th, .rows td:not(.wide), .at, .brand, dt");
for (const cell of cells) {
  const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
  for (let text = texts.nextNode(); text; text = texts.nextNode())
    for (const word of text.data.matchAll(cell.matches(".at") ? /\\S+/g : /[^\\s-]+-?/g)) {
      const range = document.createRange();
      range.setStart(text, word.index);
      range.setEnd(text, word.index + word[0].length);
      if (new Set([...range.getClientRects()].map(r => r.top)).size > 1) broken.push(word[0]);
    }
}
return broken;
"""
"""The words of tables, and the times, that are on two lines."""


@pytest.mark.parametrize("width", [360, 760, 850, 1280])
def test_tables_and_times_break_no_word(own: Browser, width: int) -> None:
    own.resize(width)
    with shop() as found, served(found.inspected, found.changes) as address:
        for path in PAGES:
            own.driver.get(f"{address}{path}")
            assert own.run(BROKEN_WORDS) == [], path
            assert own.overflow() == 0, path


def test_filters_are_folded_on_a_phone_until_they_are_asked_for_or_set(own: Browser) -> None:
    def are_seen() -> bool:
        return own.driver.find_element("css selector", "form.filters").is_displayed()

    own.resize(360, 740)
    with shop() as found, served(found.inspected) as address:
        own.driver.get(f"{address}/")
        assert not are_seen()
        own.driver.find_element("css selector", "label.fold").click()
        assert are_seen()
        own.driver.get(f"{address}/?status=FAILED")
        assert are_seen()
        own.resize(1000)
        own.driver.get(f"{address}/waits")
        assert are_seen()
        assert not own.driver.find_element("css selector", "label.fold").is_displayed()


@pytest.mark.parametrize("dark", [False, True])
def test_a_narrow_screen_has_no_sideways_scrolling(own: Browser, dark: bool) -> None:
    own.resize(360, 740, dark=dark)
    with shop(payloads=True) as found, served(found.inspected, found.changes) as address:
        for path in PAGES:
            own.driver.get(f"{address}{path}")
            assert own.overflow() == 0, path


def test_a_hostile_payload_runs_no_script(own: Browser) -> None:
    with shop(HOSTILE, payloads=True) as found, served(found.inspected, found.changes) as address:
        for path in ("/", "/run?flow=orders&object=order-7", "/letters?queue=orders-dead-letters"):
            own.driver.get(f"{address}{path}")
            assert "onerror=" in own.text(), f"{path}: its text is shown as it is"
            assert "struck" not in own.driver.title
            assert own.driver.find_elements("css selector", "main img, main script") == []
        assert own.complaints() == []


def test_even_markup_that_came_through_would_run_no_script(own: Browser) -> None:
    with shop() as found, served(found.inspected) as address:
        own.driver.get(f"{address}/")
        own.run("""
            const script = document.createElement("script");
            script.textContent = "document.title = 'struck'";
            document.body.append(script);
            document.body.insertAdjacentHTML("beforeend", "<img src=x onerror='document.title = 1'>");
        """)
        assert own.driver.title == "Runs · flowguard"
        assert len([one for one in own.complaints() if "Content Security Policy" in one]) >= 2


def test_a_dead_letter_is_redriven_by_its_button(own: Browser) -> None:
    own.resize(900, 700)
    with shop() as found, served(found.inspected, found.changes) as address:
        own.driver.get(f"{address}/letters?queue=orders-dead-letters")
        before = len(own.driver.find_elements("css selector", "article.letter"))
        own.tab_to("Redrive")
        own.press(Keys.ENTER)
        assert "Redrive: done" in own.text()
        assert "REDRIVEN: the run failed at hop" in own.text()
        own.tab_to("Back")
        own.press(Keys.ENTER)
        assert len(own.driver.find_elements("css selector", "article.letter")) == before - 1


def test_a_page_of_another_site_cannot_ask_for_anything(own: Browser) -> None:
    with shop() as found, served(found.inspected, found.changes) as address, served(found.inspected) as other:
        own.driver.get(f"{other}/")
        own.run(f"""
            document.querySelector("main").innerHTML = "<a href='{address}/'>x</a>";
            document.querySelector("main a").click();
        """)
        assert own.driver.current_url == f"{address}/"
        assert "It comes from a page of another site." in own.text()


def test_the_page_of_the_explorer_opens_and_fits(own: Browser, buggy: str, tmp_path: Path) -> None:
    page = tmp_path / "schedule.html"
    assert explore(BUGGY, "--messages", buggy, "--schedule", "a2", "--html", str(page)).exit_code == 1
    own.driver.get(page.as_uri())
    for width in (360, 1280):
        own.resize(width)
        assert own.overflow() == 0
        assert "Time line of schedule a2" in own.text()
    own.tab_to("Time line")
    assert own.complaints() == []
