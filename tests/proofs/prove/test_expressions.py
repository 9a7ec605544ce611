"""A text loses one condition or one action at a time, and stays one that DynamoDB reads."""

from __future__ import annotations

import itertools
import random
import re
from typing import Any

import pytest

from flowguard.aws import expressions
from flowguard.sim.memory.conditions import condition
from tests.proofs.prove import probes
from tests.proofs.prove.expressions import Loss, Text, comparisons, condition_losses, marked_constants, update_losses
from tests.proofs.prove.protocol import asking

KIND = "ConditionExpression"


def plain(text: str) -> Text:
    return Text(text, [1] * len(text))


def losses(text: str) -> list[tuple[str, str, str]]:
    return [(loss.guard, loss.change, loss.after) for loss in condition_losses(plain(text))]


def test_operands_of_and_become_true_and_of_or_false() -> None:
    assert losses("a = :a AND (b < :b OR attribute_not_exists(c))") == [
        ("a = :a", "true", "(a = :a OR NOT a = :a) AND (b < :b OR attribute_not_exists(c))"),
        (
            "(b < :b OR attribute_not_exists(c))",
            "true",
            "a = :a AND ((b < :b OR attribute_not_exists(c)) OR NOT (b < :b OR attribute_not_exists(c)))",
        ),
        ("b < :b", "false", "a = :a AND ((b < :b AND NOT b < :b) OR attribute_not_exists(c))"),
        (
            "attribute_not_exists(c)",
            "false",
            "a = :a AND (b < :b OR (attribute_not_exists(c) AND NOT attribute_not_exists(c)))",
        ),
        ("b < :b", "becomes b <= :b", "a = :a AND (b <= :b OR attribute_not_exists(c))"),
    ]


@pytest.mark.parametrize(("a", "b", "c"), list(itertools.product([True, False], repeat=3)))
def test_a_loss_means_what_it_says(a: bool, b: bool, c: bool) -> None:
    text = "a = :yes AND (b = :yes OR c = :yes)"
    item: Any = {name: {"BOOL": value} for name, value in zip("abc", (a, b, c), strict=True)}
    wanted = {
        ("a = :yes", "true"): b or c,
        ("(b = :yes OR c = :yes)", "true"): a,
        ("b = :yes", "false"): a and c,
        ("c = :yes", "false"): a and b,
    }
    found = {
        (guard, change): condition("ConditionExpression", after, ()).holds(item, {":yes": {"BOOL": True}})
        for guard, change, after in losses(text)
    }
    assert found == wanted


def test_every_loss_of_flowguards_own_conditions_can_be_read() -> None:
    for text in (*expressions.FIRST_HOP.values(), expressions.LATER_HOP, expressions.COMMIT):
        found = losses(text)
        assert len(found) >= 4
        assert len({after for _, _, after in found}) == len(found)
        for _, _, after in found:
            condition("ConditionExpression", after, NAMES)


def test_the_comparisons_of_a_condition_are_found_as_they_are_and_flipped() -> None:
    text = "a = :a AND (b < :b OR NOT (c >= :c AND d > :d) OR attribute_not_exists(e))"
    assert comparisons(text) == [
        "a = :a",
        "b < :b",
        "b <= :b",
        "NOT (c >= :c AND d > :d)",
        "NOT (c > :c AND d > :d)",
        "NOT (c >= :c AND d >= :d)",
        "attribute_not_exists(e)",
    ]


OWN = (*expressions.FIRST_HOP.values(), expressions.LATER_HOP, expressions.COMMIT, expressions.ANSWER)
NAMES = tuple({**expressions.CLAIM_NAMES, **expressions.ANSWER_NAMES, "#caller": "one"}.items())
SMALL = "a = :a AND (b < :b OR NOT c >= :c)"


@pytest.mark.parametrize("text", [*OWN, SMALL], ids=range(len(OWN) + 1))
def test_whose_answer_differs_follows_from_the_comparisons(text: str) -> None:
    """What is noted of an item whose comparisons were met before is what asking every mutant gives."""
    draw = random.Random(text)
    others = [(place, condition(KIND, one[2], NAMES).holds) for place, one in enumerate(losses(text))]
    single = [condition(KIND, one, NAMES).holds for one in comparisons(text)]
    real = condition(KIND, text, NAMES)
    holds = asking(real.holds, lambda: others, single, {})
    words = {*re.findall(r"\b[a-z_]+\b", text), *expressions.CLAIM_NAMES.values()}
    for _ in range(500):
        item: Any = {word: {"N": draw.choice("12")} for word in words if draw.random() < 0.7}
        values: Any = {name: {"N": draw.choice("12")} for name in real.values}
        probes.taken()
        assert holds(item, values) == real.holds(item, values)
        assert probes.taken() == {place for place, other in others if other(item, values) != real.holds(item, values)}


def test_an_update_loses_each_action_and_each_amount() -> None:
    found = list(update_losses(plain("SET a = :a, n = if_not_exists(n, :zero) + :one REMOVE #b, c")))
    assert [(loss.guard, loss.change, loss.after) for loss in found] == [
        ("SET a = :a", "left out", "SET n = if_not_exists(n, :zero) + :one REMOVE #b, c"),
        ("SET n = if_not_exists(n, :zero) + :one", "left out", "SET a = :a REMOVE #b, c"),
        (
            "SET n = if_not_exists(n, :zero) + :one",
            "becomes n = if_not_exists(n, :zero)",
            "SET a = :a, n = if_not_exists(n, :zero) REMOVE #b, c",
        ),
        ("REMOVE #b", "left out", "SET a = :a, n = if_not_exists(n, :zero) + :one REMOVE c"),
        ("REMOVE c", "left out", "SET a = :a, n = if_not_exists(n, :zero) + :one REMOVE #b"),
    ]


def test_a_clause_goes_with_its_last_action_and_an_expression_does_not() -> None:
    assert [loss.after for loss in update_losses(plain("SET a = :a REMOVE b"))] == ["REMOVE b", "SET a = :a"]
    assert list(update_losses(plain("SET a = :a"))) == []


def test_marks_say_the_line_and_are_gone_from_the_text() -> None:
    marked = Text.marked("\x013\x02a = :a AND \x0117\x02b = :b")
    assert marked.text == "a = :a AND b = :b"
    found: list[Loss] = list(condition_losses(marked))
    assert [(loss.guard, loss.line) for loss in found] == [("a = :a", 3), ("b = :b", 17)]


def test_marked_constants_are_those_of_the_module() -> None:
    found = marked_constants(str(expressions.__file__))
    assert Text.marked(found["COMMIT"]).text == expressions.COMMIT
    assert {key: Text.marked(text).text for key, text in found["FIRST_HOP"].items()} == expressions.FIRST_HOP
