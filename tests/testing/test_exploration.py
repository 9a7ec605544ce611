"""What ``@pytest.mark.flow_explore`` is given: every mistake is told, with its fix, before anything runs."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from flowguard.flow import Flow
from flowguard.testing import Exploration, MarkerError
from flowguard.testing.explorer import PlainFunction, View, explore
from tests.testing.explorer import seeded

PUT = seeded.flow_of(seeded.PlainPut)
ORDER = seeded.Order(order_id="o1")


class Other(BaseModel):
    """What no flow takes."""


@pytest.mark.parametrize(
    ("flows", "arguments", "problem"),
    [
        ([], {}, "it names no flow"),
        ([seeded.PlainPut], {}, "PlainPut'> is no Flow"),
        ([Flow], {}, "flowguard.flow.Flow'> is no Flow"),
        ([[PUT]], {}, "'>] is no Flow"),
        ([PUT], {"messages": None}, "messages is None; give what starts it"),
        ([PUT], {"messages": []}, "messages is []; give what starts it"),
        ([PUT], {"messages": ORDER}, "messages is Order("),
        ([PUT], {"messages": [3]}, "messages has 3; each is a payload"),
        ([PUT], {"messages": [{"Records": [{"eventSource": "aws:sqs"}]}]}, "messages cannot be read: Records[0]"),
        ([PUT], {"walk": 3}, "it takes no 'walk'; there are messages, tables, "),
        ([PUT], {"bound": -1}, "bound is -1; give a whole number from 0"),
        ([PUT], {"walks": True}, "walks is True; give a whole number from 0"),
        ([PUT], {"most": 0}, "most is 0; give a whole number from 1"),
        ([PUT], {"seed": "x"}, "seed is 'x'; give a whole number"),
        ([PUT], {"batch": 0}, "batch: 0; give a whole number from 1 to 10"),
        ([PUT], {"batch": 11}, "batch: 11; give a whole number from 1 to 10"),
        ([PUT], {"batch": True}, "batch: True; give a whole number from 1 to 10"),
        ([PUT], {"together": True}, "together: one record at once shares no calls; give batch=2 or more"),
        ([PUT], {"batch": 2, "together": 1}, "together: 1; give True or False"),
        ([PUT], {"engine": None}, "engine is None; give in_memory or on_moto"),
        ([PUT], {"tables": {"": "pk"}}, "tables is {'': 'pk'}; give each table the name of its hash key"),
        ([PUT], {"tables": {"t": ""}}, "tables is {'t': ''}; give each table the name of its hash key"),
        ([PUT], {"tables": ["t"]}, "tables is ['t']; give each table the name of its hash key"),
        ([PUT], {"items": [{"sku": "tea"}]}, "items is [{'sku': 'tea'}]; list what lies in each table"),
        ([PUT], {"items": {"t": {"sku": "tea"}}}, "items is {'t': {'sku': 'tea'}}; list what lies in each table"),
        ([PUT], {"items": {"t": []}}, "items cannot be put in: the hash key of the table t is not known"),
        (
            [PUT],
            {"items": {"t": [{"a": 1}]}, "tables": {"t": "sku"}},
            "items cannot be put in: item 1 of t needs a 'sku'",
        ),
        ([PUT], {"free": {"t": "a"}}, "free is {'t': 'a'}; list what may differ"),
        ([PUT], {"free": {"t": [3]}}, "free is {'t': [3]}; list what may differ"),
        ([PUT], {"before": 3}, "before: '3' is no flow; give flows, or a directory with their code"),
        ([PUT], {"outside": "psp.example"}, "outside: 'psp.example' are no parties; name hosts"),
        ([PUT], {"invariants": [1]}, "invariants is [1]; give functions of a view"),
    ],
)
def test_a_wrong_argument_is_told_before_anything_runs(flows: Any, arguments: Any, problem: str) -> None:
    with pytest.raises(MarkerError) as raised:
        Exploration(tuple(flows), {"messages": [ORDER], **arguments})
    (told,) = raised.value.problems
    assert problem in told


def test_a_plain_function_is_explored_like_a_flow() -> None:
    seen: list[View] = []
    function = PlainFunction("orders", lambda event, context: None)
    report = Exploration((function,), {"messages": [ORDER], "bound": 0, "walks": 0, "invariants": None}).explore(
        seen.append
    )
    assert report.violations == (), str(report)
    assert len(seen) > 1


@pytest.mark.slow("runs flows")
def test_items_are_there_for_an_exploration_and_for_one_schedule_again() -> None:
    seen: list[Any] = []
    items = {"prices": [{"sku": "tea", "price": 4}]}
    about = {"messages": [ORDER], "tables": {"prices": "sku"}, "items": items, "bound": 0, "walks": 0}
    exploration = Exploration((PUT,), about)
    exploration.explore(lambda view: seen.append(view.item("prices", sku="tea")))
    exploration.replay("none", lambda view: seen.append(view.item("prices", sku="tea")))
    assert len(seen) > 20
    assert all(item == {"sku": "tea", "price": 4} for item in seen)


def test_a_payload_of_another_flow_is_told() -> None:
    with pytest.raises(MarkerError, match="messages cannot be read: Other starts none of the flows"):
        Exploration((PUT,), {"messages": [Other()]})


def test_every_mistake_is_told_at_once() -> None:
    with pytest.raises(MarkerError) as raised:
        Exploration((), {"messages": [], "walks": -1, "table": {}})
    assert len(raised.value.problems) == 4


def test_the_page_names_each_option_of_the_marker() -> None:
    page = (Path(__file__).parents[2] / "docs/guides/test-your-flow.md").read_text()
    _, _, after = page.partition("The marker takes the flows")
    listed, _, _ = after.partition("[The reference]")
    named = set(re.findall(r"`(\w+)`", listed)) - {"PlainFunction", "explore", "Later"}
    assert named == set(inspect.signature(explore).parameters) - {"flows"}
