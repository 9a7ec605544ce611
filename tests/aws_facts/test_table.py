"""No row is careless, and the table is no part of what a function loads."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter

import pytest

from flowguard.aws_facts.fact import ENGINES, Fact
from flowguard.aws_facts.fact_table import FACTS, TABLE
from tests.aws_facts import page
from tests.aws_facts.source import ROOT, modules, names_of


def test_the_page_is_up_to_date() -> None:
    assert page.FILE.read_text(encoding="utf-8") == page.text(), "run: python -m tests.aws_facts.page"


def test_each_name_is_that_of_one_row() -> None:
    names = Counter(fact.name for facts in TABLE.values() for fact in facts)
    assert [name for name, count in names.items() if count > 1] == []
    assert [name for name in names if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", name)] == []


@pytest.mark.parametrize("fact", FACTS.values(), ids=lambda fact: fact.name)
def test_a_row_says_what_where_and_for_whom(fact: Fact) -> None:
    assert fact.sentence.endswith(".")
    assert re.match(r"https://(docs\.)?aws\.amazon\.com/", fact.source.url)
    assert fact.source.title
    assert fact.relied_on_by
    assert set(fact.engines) <= set(ENGINES)
    assert re.fullmatch(r"(20\d\d-\d\d)?", fact.read)
    assert fact.seen is None or re.fullmatch(r"20\d\d-\d\d-\d\d", fact.seen.date)


@pytest.mark.parametrize("fact", FACTS.values(), ids=lambda fact: fact.name)
def test_who_relies_on_a_row_is_there(fact: Fact) -> None:
    for place in fact.relied_on_by:
        path, _, name = place.partition(":")
        if path.startswith("docs/"):
            assert (ROOT / path).is_file(), f"{place} is no page"
        else:
            assert path in modules(), f"{path} is no module of the package"
            assert name, f"{place} says which module and not what in it"
            assert name in names_of(path), f"{path} defines no {name}"


def test_a_function_does_not_load_the_table() -> None:
    found = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys, flowguard; flowguard.Flow, flowguard.lambda_handler; import flowguard.aws.services;"
            "print([name for name in sys.modules if name.startswith(('flowguard.aws_facts', 'flowguard.probe'))])",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout == "[]\n"
