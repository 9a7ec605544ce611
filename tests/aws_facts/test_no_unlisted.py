"""Nothing of AWS is in the source that has no row: no limit, no code of an error, no word of an interface.

What fails here is mended by a row in ``flowguard/aws_facts``, or, where the number or word is flowguard's own, by a
line in ``own.py`` beside this file.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from typing import Any, Final

import pytest

from flowguard.aws import faults
from flowguard.aws_facts.fact import Fact
from flowguard.aws_facts.fact_table import FACTS
from tests.aws_facts import source
from tests.aws_facts.own import ON_THIS_MACHINE, OWN_IN_THE_MIDDLE, OWN_NUMBERS, OWN_OPERATIONS, OWN_WORDS
from tests.aws_facts.source import Number, Word, bare_numbers, calls, constants, modules, resource_types, texts

KNOW_AWS: Final = (
    "aws/",
    "sim/",
    "deploy/",
    "dev/",
    "observers/",
    "protocol/",
    "wire/",
    "worker/",
    "retry.py",
    "items/writes.py",
)
"""Where each constant has to be a row's or flowguard's own."""

TELLING: Final = 900
"""From here on a number is hardly one of AWS's limits by chance, powers of ten and of two below 4,096 left out."""

_COMMON: Final = {1_000, 1_024, 2_048, 10_000, 10_000_000}

LIMITED: Final = [fact for fact in FACTS.values() if fact.limit is not None]
PLACES: Final = {place for fact in FACTS.values() for place in fact.relied_on_by}
WORDS: Final = {word for fact in FACTS.values() for word in fact.words}
OWN: Final = {place for places in OWN_NUMBERS.values() for place in places}
READS: Final = ("Describe", "Get", "List", "Simulate")
NO_WORDS: Final = {word for words in OWN_WORDS.values() for word in words}


# -- a limit is the number of its row ---------------------------------------------------------------------------------


@pytest.mark.parametrize("fact", LIMITED, ids=lambda fact: fact.name)
def test_every_constant_of_a_row_has_its_number(fact: Fact) -> None:
    for place in fact.relied_on_by:
        path, _, name = place.partition(":")
        if name.strip("_").isupper():
            value = getattr(importlib.import_module(f"flowguard.{path[:-3].replace('/', '.')}"), name)
            if numbers := set(_plain(value)):
                assert numbers & {fact.limit, (fact.limit or 0) * 1_000}, f"{place} is {value}, and AWS's {fact.limit}"


def _plain(value: Any) -> Iterator[int | float]:
    """The numbers in a value: of a tuple or of a mapping each, of a span its seconds."""
    match value:
        case int() | float() if not isinstance(value, bool):
            yield value
        case timedelta():
            yield value.total_seconds()
        case dict():
            yield from (number for one in value.values() for number in _plain(one))
        case tuple() | list():
            yield from (number for one in value for number in _plain(one))
        case _:
            pass


def test_each_constant_where_aws_is_known_is_a_rows_or_our_own() -> None:
    assert unlisted_constants(modules()) == []


def unlisted_constants(trees: dict[str, ast.Module]) -> list[str]:
    found = [one for path, tree in trees.items() if path.startswith(KNOW_AWS) for one in constants(path, tree)]
    return [
        f"{one.place} = {one.value} has no row; write one, or say in tests/aws_facts/own.py what it is"
        for one in found
        if one.place not in PLACES | OWN
    ]


def test_no_limit_of_aws_stands_in_the_middle_of_code() -> None:
    assert unlisted_numbers(modules()) == []


def unlisted_numbers(trees: dict[str, ast.Module]) -> list[str]:
    telling = {fact.limit for fact in LIMITED if (fact.limit or 0) >= TELLING} - _COMMON
    return [
        f"{one.place}, line {one.line}: {one.value} is a limit of AWS; give it a name that a row knows"
        for one in _numbers_of(trees)
        if telling & set(one.value) and one.place not in PLACES | OWN | OWN_IN_THE_MIDDLE.keys()
    ]


def _numbers_of(trees: dict[str, ast.Module]) -> Iterator[Number]:
    for path, tree in trees.items():
        yield from constants(path, tree)
        yield from (one._replace(value=(one.value,)) for one in bare_numbers(path, tree))


# -- a word is in a row -----------------------------------------------------------------------------------------------


def test_each_code_of_an_error_has_a_row() -> None:
    assert unlisted_words(modules(), texts, source.is_code) == []


def test_each_parameter_and_each_part_of_an_answer_has_a_row() -> None:
    assert unlisted_words(_calling(), texts, source.is_member) == []


def test_each_operation_that_is_called_has_a_row() -> None:
    assert unlisted_operations(modules()) == []


def unlisted_operations(trees: dict[str, ast.Module]) -> list[str]:
    """The operations that need a row. A call of an engine of this machine needs none."""
    away = {path: tree for path, tree in trees.items() if not path.startswith(ON_THIS_MACHINE)}
    rows = {(place, name) for places in OWN_OPERATIONS.values() for place, names in places.items() for name in names}
    return [
        f"{word.module}, line {word.line}: {word.text} has no row; add it to the words of one"
        for path, tree in away.items()
        for word in calls(path, tree)
        if word.text not in WORDS and not any(path.startswith(place) and word.text == name for place, name in rows)
    ]


def test_an_operation_without_a_row_is_called_where_it_says_and_only_reads() -> None:
    for why, places in OWN_OPERATIONS.items():
        for place, names in places.items():
            there = {
                word.text for path, tree in modules().items() if path.startswith(place) for word in calls(path, tree)
            }
            assert sorted(set(names) - there) == []
            assert "only reads" not in why or all(name.startswith(READS) for name in names)
            assert not set(names) & WORDS


def test_each_type_of_resource_has_a_row() -> None:
    assert unlisted_words(modules(), resource_types, lambda _: True) == []


def _calling() -> dict[str, ast.Module]:
    """What calls AWS in a function, describes what is deployed, or reads what services send."""
    return {path: tree for path, tree in modules().items() if path.startswith(("aws/", "deploy/", "wire/"))}


Read = Callable[[str, ast.Module], Iterable[Word]]


def unlisted_words(trees: dict[str, ast.Module], read: Read, counts: Callable[[str], bool]) -> list[str]:
    return [
        f"{one.module}, line {one.line}: {one.text} has no row; add it to the words of one"
        for path, tree in trees.items()
        for one in read(path, tree)
        if counts(one.text) and one.text not in WORDS | NO_WORDS
    ]


def test_nothing_is_called_our_own_that_is_gone() -> None:
    there = {one.place for path, tree in modules().items() for one in constants(path, tree)}
    assert sorted(OWN - there) == []
    assert sorted(OWN & PLACES) == []
    middle = {one.place for path, tree in modules().items() for one in bare_numbers(path, tree)}
    assert sorted(OWN_IN_THE_MIDDLE.keys() - middle) == []


# -- and the rules bite -----------------------------------------------------------------------------------------------


def one(text: str, path: str = "aws/novelty.py") -> dict[str, ast.Module]:
    return {path: ast.parse(text)}


@pytest.mark.parametrize("text", ["MOST: Final = 17", "MOST = 4 * 1024", "_SIZES = (1, 2)", "AGE = timedelta(days=3)"])
def test_a_new_constant_is_seen(text: str) -> None:
    (found,) = unlisted_constants(one(text))
    assert found.startswith("aws/novelty.py:")
    assert not unlisted_constants(one(text, "novelty.py"))


@pytest.mark.parametrize("place", KNOW_AWS)
def test_each_place_where_aws_is_known_has_constants(place: str) -> None:
    assert any(path.startswith(place) and [*constants(path, tree)] for path, tree in modules().items())


@pytest.mark.parametrize("text", ["def f(x): return x[:262_144]", "class A:\n    most = 409_600", "MOST = 1_048_576"])
def test_a_limit_without_a_name_is_seen_anywhere(text: str) -> None:
    assert len(unlisted_numbers(one(text, "worker/novelty.py"))) == 1


@pytest.mark.parametrize(
    "text",
    [
        "f('NoSuchThingException')",
        "x == 'TableInUseException'",
        "{'VolumeNotFound'}",
        "f('EC2Failed')",
        "f('OptInRequired')",
    ],
)
def test_a_new_code_is_seen(text: str) -> None:
    assert len(unlisted_words(one(text), texts, source.is_code)) == 1


def test_a_new_parameter_operation_and_resource_are_seen() -> None:
    assert len(unlisted_words(one("client.put_item(ReturnItemCollectionMetrics='SIZE')"), texts, source.is_member)) == 1
    for path in ("aws/novelty.py", "deploy/novelty.py", "novelty.py"):
        assert len(unlisted_operations(one("self._client.create_table()", path))) == 1
        assert len(unlisted_operations(one("self._ask('dynamodb', 'create_table')", path))) == 1
    assert not unlisted_operations(one("self._ask('dynamodb', 'describe_table')", "deploy/novelty.py"))
    assert not unlisted_operations(one("aws.client('sqs').create_queue()", "sim/novelty.py"))
    assert len(unlisted_words(one("{'Type': 'AWS::EC2::VPC'}"), resource_types, lambda _: True)) == 1


def test_a_constant_that_differs_from_its_row_is_seen() -> None:
    assert set(_plain((2_048, 1_024))) == {2_048, 1_024}
    assert set(_plain({"Event": 1, "RequestResponse": 2})) == {1, 2}
    assert set(_plain(timedelta(minutes=15))) == {900}


@pytest.mark.parametrize("place", ["FINAL", "FOR_MINUTES"])
def test_each_code_of_a_row_is_in_the_list_that_the_row_names(place: str) -> None:
    listed = getattr(faults, place)
    rows = [fact for fact in FACTS.values() if f"aws/faults.py:{place}" in fact.relied_on_by]
    assert rows
    assert {fact.name: set(fact.words) - listed for fact in rows} == {fact.name: set() for fact in rows}
