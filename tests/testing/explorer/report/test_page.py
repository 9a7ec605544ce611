"""The page of a report: all there, all escaped, one file, and the same bytes for the same report."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from flowguard.testing import sqs_event
from flowguard.testing.explorer import Report, Trace, Violation, explore, replay
from flowguard.testing.explorer.checks.problem import Problem
from flowguard.testing.explorer.record.site import Site
from flowguard.testing.explorer.report.excerpt import excerpt
from flowguard.testing.explorer.report.grid import MOST
from flowguard.testing.explorer.report.lanes import Called, Lane, LaneDelivery, LaneEnding, Lanes, Moment, Said
from flowguard.testing.explorer.report.page import LONGEST, page, page_of_schedule
from tests.testing.explorer import seeded

VOID = {"meta", "br", "wbr"}
HOSTILE = '<script>alert("&amp;")</script>'
SECRET = "card 4111"
PAST_ITS_END = len(Path(seeded.__file__).read_text().splitlines()) + 2


class Parsed(HTMLParser):
    """Reads a page and fails where it is not well formed. ``text`` has a blank for each tag but a ``wbr``."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []
        self.text = " ".join(self.text.split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.text += "" if tag == "wbr" else " "
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag
        self.text += " "

    def handle_data(self, data: str) -> None:
        if not self._open or self._open[-1] != "style":
            self.text += data

    def all(self, tag: str, of_class: str = "") -> list[dict[str, str | None]]:
        return [
            attributes
            for name, attributes in self.tags
            if name == tag and (not of_class or of_class in (attributes.get("class") or "").split())
        ]

    def values(self, name: str) -> list[str]:
        return [value for _, attributes in self.tags if (value := attributes.get(name)) is not None]


@cache
def report_of(stage: Any, seed: int = 0) -> Report:
    message: Any = sqs_event("orders", {"order_id": "o1", "note": SECRET})
    return explore(seeded.flow_of(stage), [message], tables=seeded.TABLES, bound=0, walks=0, seed=seed)


@cache
def trace_of(stage: Any, schedule: str) -> Trace:
    message: Any = sqs_event("orders", {"order_id": "o1", "note": SECRET})
    return replay(seeded.flow_of(stage), [message], schedule, tables=seeded.TABLES)


def hostile() -> Report:
    """Where a name or a value can come from outside, it is not a nice one."""
    site = Site(f"/{HOSTILE}.py", 3, HOSTILE)
    moments: tuple[Moment, ...] = (
        LaneDelivery(0, 1, 1, HOSTILE, HOSTILE, 1, 2, from_dlq=True, origin=None, letter=1),
        Called(0, 1, 1, HOSTILE, HOSTILE, site, (HOSTILE,), HOSTILE, 2, (HOSTILE,), (HOSTILE,), (2,)),
        Said(0, 1, HOSTILE),
        Said(0, None, HOSTILE),
    )
    drawn = Lanes((Lane(1, LaneEnding.LEFT, HOSTILE, (HOSTILE,)),), moments)
    problem = Problem(HOSTILE, HOSTILE, HOSTILE, HOSTILE, {HOSTILE: HOSTILE})
    found = Violation(HOSTILE, (problem,), site, HOSTILE, (HOSTILE,), (HOSTILE,), lanes=drawn)
    return Report(
        (HOSTILE,), 1, 1, 1, 0, {f"{HOSTILE}: {HOSTILE}": "ad"}, (found, replace(found, lanes=None)), undisturbed=drawn
    )


def endless() -> Report:
    """More than is drawn, and struck where it is and where it is not."""
    (violation,) = report_of(seeded.PlainAdd).violations
    calls = [
        Called(
            0, 1, number, "PutItem", "t", Site("", 0, "f"), ("dies",) * (number in {2, MOST + 9}), None, 1, (), (), ()
        )
        for number in range(1, MOST + 10)
    ]
    came = LaneDelivery(0, 1, 1, "orders", "count", 1, 1, from_dlq=False, origin=None, letter=None)
    drawn = Lanes((Lane(1, LaneEnding.ACKED, None, ()),), (came, *calls))
    return replace(report_of(seeded.PlainAdd), violations=(replace(violation, lanes=drawn),))


PAGES = {
    "a violation": lambda: page(report_of(seeded.PlainAdd)),
    "none": lambda: page(report_of(seeded.Recorded)),
    "a race": lambda: page(report_of(seeded.CheckThenAct)),
    "one schedule": lambda: page_of_schedule(trace_of(seeded.PlainAdd, "a2")),
    "made by hand": lambda: page(hostile()),
    "cut short": lambda: page(endless()),
    "many workers": lambda: page_of_schedule(trace_of(seeded.Recorded, "x1.x2.x3.x4.x5.x6")),
}

every_page = pytest.mark.parametrize("made", PAGES.values(), ids=PAGES.keys())


@pytest.mark.proof("explores flows")
@every_page
def test_a_page_is_well_formed_and_its_links_lead_somewhere(made: Callable[[], str]) -> None:
    read = Parsed(made())
    ids, links = read.values("id"), read.values("href")
    assert len(ids) == len(set(ids))
    assert {link.removeprefix("#") for link in links} <= set(ids)
    assert len(read.all("h1")) == 1
    for heading in read.all("th"):
        assert heading.get("scope") in {"row", "col", "rowgroup"}


@pytest.mark.slow("explores flows and handlers")
@every_page
def test_a_page_needs_no_network_and_no_script(made: Callable[[], str]) -> None:
    text = made()
    read = Parsed(text)
    assert not {tag for tag, _ in read.tags} & {"script", "link", "img", "iframe", "object", "base"}
    assert read.values("src") == []
    assert all(link.startswith("#") for link in read.values("href"))
    assert not re.search(r"url\(|@import|https?://", text)
    assert not [name for _, attributes in read.tags for name in attributes if name.startswith("on")]


def test_both_light_and_dark_are_there() -> None:
    text = page(hostile())
    assert '<meta name="color-scheme" content="light dark">' in text
    assert "@media (prefers-color-scheme: dark)" in text


@every_page
def test_a_table_has_a_cell_for_each_worker_in_each_row(made: Callable[[], str]) -> None:
    for table in re.findall(r'<table class="lanes">.*?</table>', made(), re.DOTALL):
        workers = table.count('<th scope="col">')
        assert workers > 0
        for row in re.findall(r"<tr.*?</tr>", table, re.DOTALL)[1:]:
            said = re.search(r'colspan="(\d+)"', row)
            assert (int(said[1]) if said else row.count("<td")) == workers


def test_what_is_hostile_is_escaped_wherever_it_comes_from() -> None:
    text = page(hostile())
    assert HOSTILE not in text
    assert "<script" not in text
    assert Parsed(text).text.count(HOSTILE) > 30


def test_a_violation_is_shown_whole() -> None:
    (violation,) = report_of(seeded.PlainAdd).violations
    read = Parsed(page(report_of(seeded.PlainAdd)))
    for part in (
        "violation 1 of 1, schedule a2 , found by",
        "equivalence: totals",
        violation.struck[0],
        "totals day monday: amount 5 10",
        violation.fix,
        f"seeded.py:{seeded.guilty_line('PlainAdd')} the line to change, and where it struck",
        "this line: table.update_item( # here",
        "It struck at call 2 .",
        "╳ dies after it (applied)",
        "died weak id, claimed",
        "30 s later",
        "record 1 receive 2",
        "again, after w1",
        "claimed: epoch 2, hop 1",
        "committed: hop 1, COMPLETED",
    ):
        assert part in read.text, part
    assert len(read.all("p", "strike")) == len(read.all("div", "hurt")) == 1
    assert [one["class"] for one in read.all("i", "again")] == ["wire from again", "wire into again"]


def test_the_source_is_shown_with_the_lines_round_it() -> None:
    line = seeded.guilty_line("PlainAdd")
    shown = excerpt(Site(seeded.__file__, line, "handle"), around=2)
    assert [(one.number, one.hit) for one in shown] == [(line + by, by == 0) for by in range(-2, 3)]
    assert shown[2].text == "    table.update_item(  # here"
    assert shown[0].text.startswith("def handle"), "what they share of indentation is left out"
    assert Parsed(page(report_of(seeded.PlainAdd))).all("span", "hit") != []


@pytest.mark.parametrize(
    "site", [Site("", 0, "claim"), Site("nowhere.py", 3, "f"), Site(seeded.__file__, PAST_ITS_END, "f")]
)
def test_a_source_that_cannot_be_read_is_left_out(site: Site) -> None:
    assert excerpt(site) == ()


@pytest.mark.slow("explores flows and handlers")
def test_where_it_struck_is_shown_beside_the_line_to_change() -> None:
    read = Parsed(page(report_of(seeded.MarkThenAdd)))
    line = seeded.guilty_line("MarkThenAdd")
    assert f"seeded.py:{line} the line to change" in read.text
    assert f"seeded.py:{line - 1} where it struck" in read.text


def test_a_worker_that_is_held_up_is_drawn_until_it_goes_on() -> None:
    read = Parsed(page_of_schedule(trace_of(seeded.CheckThenAct, "z2")))
    assert "╳ held up, before it" in read.text
    assert read.all("td", "below-held") != []


def test_of_flowguards_own_calls_no_source_is_shown() -> None:
    (violation,) = report_of(seeded.PlainAdd).violations
    one = replace(violation, lanes=trace_of(seeded.PlainAdd, "a1").lanes)
    text = Parsed(page(replace(report_of(seeded.PlainAdd), violations=(one,)))).text
    assert "It struck at call 1 ." in text
    assert "where it struck" not in text


def test_a_long_name_may_be_broken_before_its_capitals() -> None:
    assert "<b>Transact<wbr>Write<wbr>Items</b>" in page(report_of(seeded.Recorded))


def test_the_summary_and_the_coverage_are_the_reports() -> None:
    report = report_of(seeded.PlainAdd)
    read = Parsed(page(report))
    assert f"schedules {report.schedules} calls {len(report.coverage)} faults met" in read.text
    assert len(read.all("td", "met")) == sum(map(len, report.coverage.values()))
    kinds = {letter for letters in report.coverage.values() for letter in letters}
    assert len(read.all("td", "met") + read.all("td", "not")) == len(kinds) * len(report.coverage)
    assert "a dies after" in read.text


def test_without_a_violation_the_undisturbed_run_is_open() -> None:
    read = Parsed(page(report_of(seeded.Recorded)))
    assert "0 violations" in read.text
    opened = {one["id"] for one in read.all("details") if "open" in one}
    assert opened == {"undisturbed", "coverage"}
    (closed,) = [one for one in Parsed(page(report_of(seeded.PlainAdd))).all("details") if "open" not in one]
    assert closed["id"] == "undisturbed"


def test_a_page_of_one_schedule_draws_it_once() -> None:
    read = Parsed(page_of_schedule(trace_of(seeded.PlainAdd, "a2")))
    assert len(read.all("table", "lanes")) == 1
    assert "Time line of schedule a2" in read.text
    assert "the line to change, and where it struck" in read.text
    assert "The undisturbed run" in Parsed(page_of_schedule(trace_of(seeded.PlainAdd, "none"))).text


@pytest.mark.slow("explores flows and handlers")
def test_the_same_report_gives_the_same_page() -> None:
    first, again = report_of(seeded.PlainAdd), explore_again(seeded.PlainAdd)
    assert first.seconds != again.seconds
    assert page(first) == page(again)


def explore_again(stage: Any) -> Report:
    return report_of.__wrapped__(stage)


def test_a_payload_is_not_shown_unless_it_differs() -> None:
    assert SECRET not in page(report_of(seeded.PlainAdd))
    assert SECRET not in page_of_schedule(trace_of(seeded.Recorded, "a2"))
    (violation,) = report_of(seeded.PlainAdd).violations
    differs = replace(violation, problems=(Problem("equivalence", "orders", "note", None, SECRET),))
    assert f"nothing {SECRET}" in Parsed(page(replace(report_of(seeded.PlainAdd), violations=(differs,)))).text


def test_too_long_a_time_line_says_how_much_is_left_out() -> None:
    read = Parsed(page(endless()))
    assert "It struck at call 2 ." in read.text
    assert "10 moments more: too many to be shown." in read.text


def test_what_was_expected_is_left_out_where_nothing_was() -> None:
    (violation,) = report_of(seeded.PlainAdd).violations
    assert "expected found" in Parsed(page(report_of(seeded.PlainAdd))).text
    differs = replace(violation, problems=(Problem("mine", "the user's invariant", "15 on monday"),))
    text = Parsed(page(replace(report_of(seeded.PlainAdd), violations=(differs,)))).text
    assert "the user's invariant 15 on monday" in text
    assert "expected" not in text
    assert "nothing" not in text


def test_a_long_value_is_cut() -> None:
    (violation,) = report_of(seeded.PlainAdd).violations
    differs = replace(violation, problems=(Problem("equivalence", "orders", "note", "x", "y" * (LONGEST + 1)),))
    text = page(replace(report_of(seeded.PlainAdd), violations=(differs,)))
    assert "y" * (LONGEST - 1) + "…" in text
    assert "y" * LONGEST not in text


def test_the_template_and_its_style_are_files_of_the_package() -> None:
    there = files("flowguard.testing.explorer.report")
    assert there.joinpath("page.html.jinja").is_file()
    assert there.joinpath("page.css").is_file()
