"""Our engines answer as DynamoDB itself has answered, where somebody has captured it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from flowguard.sim.memory.aws import MemoryAWS
from flowguard.sim.moto import EmbeddedAWS
from flowguard.sim.table_keys import create_table
from tests.aws.engines import on_dynamodb_local
from tests.sim.memory.captured import CAPTURED, TABLE, Captured, Said, is_as_captured

ROOT: Final = Path(__file__).parents[3]
NAMES: Final = {
    "memory": "the AWS in memory",
    "moto": "moto under the strict layer",
    "dynamodb-local": "DynamoDB Local",
}
DIFFERS: Final = {
    "memory": set[str](),
    "moto": {
        "a token with other parameters",
        "an insert of what is there",
        "RETURNING ALL OLD",
        "a failed member shows the item (2026-10-10)",
    },
    "dynamodb-local": {"a key of another type"},
}
"""What each engine answers otherwise."""


@pytest.fixture
def memory() -> Iterator[Any]:
    with MemoryAWS() as aws:
        create_table(aws.client("dynamodb"), TABLE, "pk")
        yield aws.client("dynamodb")


@pytest.mark.parametrize("one", CAPTURED, ids=lambda one: one.name)
def test_the_memory_answers_as_dynamodb_did(one: Captured, memory: Any) -> None:
    answer = one.ask(memory)
    assert is_as_captured(answer, one.answer), answer


def differing(client: Any) -> set[str]:
    """The names of the answers that differ. An engine may be confused by a question."""
    create_table(client, TABLE, "pk")
    found = set()
    for one in CAPTURED:
        try:
            as_captured = is_as_captured(one.ask(client), one.answer)
        except Exception:
            as_captured = False
        if not as_captured:
            found.add(one.name)
    return found


@pytest.mark.slow("81 questions to moto")
def test_moto_under_the_strict_layer_differs_where_it_is_known_to() -> None:
    with EmbeddedAWS() as aws:
        assert differing(aws.client("dynamodb")) == DIFFERS["moto"]


@pytest.mark.slow("81 questions to DynamoDB Local")
def test_dynamodb_local_differs_where_it_is_known_to(dynamodb_local_url: str) -> None:
    assert differing(on_dynamodb_local(dynamodb_local_url).dynamodb) == DIFFERS["dynamodb-local"]


def test_the_figures_are_those_of_the_page() -> None:
    text = (ROOT / "docs" / "operate" / "probe.md").read_text(encoding="utf-8")
    for engine, differs in DIFFERS.items():
        assert f"| {NAMES[engine]} | {len(CAPTURED) - len(differs)} of {len(CAPTURED)} |" in text


def test_no_question_is_asked_twice() -> None:
    assert len({one.name for one in CAPTURED}) == len(CAPTURED)


@pytest.mark.parametrize(
    ("answer", "captured", "alike"),
    [
        (Said("a", "the part of it"), Said("a", "part"), True),
        (Said("a", "part"), Said("a", "the part of it"), False),
        (Said("a", "part"), Said("b", "part"), False),
        ([Said("a", "x"), Said("b")], [Said("a"), Said("b")], True),
        ([Said("a")], [Said("a"), Said("b")], False),
        ((Said("a"), None), (Said("a"), None), True),
        (Said("a"), "taken", False),
        ("taken", "taken", True),
        ({"a": 1}, {"a": 2}, False),
    ],
)
def test_a_part_of_a_message_is_enough(answer: Any, captured: Any, alike: bool) -> None:
    assert is_as_captured(answer, captured) is alike
