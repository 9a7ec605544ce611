"""Docstrings stay plain: what they say first is one clause, and of a function what it does."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Final

import pytest

from tests.prose import Place, Prose, Sentence, odd_phrases, sentences, vague_names

MOST_VAGUE_NAMES = 1
"""Variables named one, found, own or said. A change that takes some away lowers it."""

ROOT: Final = Path(__file__).parents[1]
STOPPED_READERS: Final = (
    "moto answers, and refuses less",
    "are replaced by those of simulations",
    "its caller gets an error, and here never calls again",
    "neither are held in memory",
    "Count `max_hops` from there",
    "The choices are an offer",
    "over a bus come requests, never hops",
    "Lists are not added to",
    "from where pip had it",
    "not enough for a copy of a copy of a copy",
    "The history is a help, not a protocol",
    "nothing of a handler runs",
    "A number on an edge counts the runs that wait",
    "what that had written made the next one pass it over",
    "lists in `TABLES` and `ITEMS` goes without saying",
)
"""Sentences at which readers of earlier pages stopped, or the part of them that did it."""


@pytest.mark.parametrize("sentence", STOPPED_READERS)
def test_no_page_has_a_sentence_again_that_stopped_its_readers(sentence: str) -> None:
    assert [name for name, text in in_one_line() if sentence in text] == []


@functools.cache
def in_one_line() -> list[tuple[str, str]]:
    """All pages and modules, with their names."""
    pages = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "flowguard").rglob("*.py"), ROOT / "README.md"]
    return [(page.name, " ".join(page.read_text(encoding="utf-8").split())) for page in pages]


def test_the_packages_docstrings_are_plain() -> None:
    found = Prose.of(list(sentences()))
    assert found.opening_with_a_verb >= 0.9, "see python -m tests.prose --all"
    assert found.winding <= 0.05, "see python -m tests.prose --all"


def test_no_docstring_has_a_turn_of_phrase_that_sends_its_reader_back() -> None:
    assert [*odd_phrases()] == []


def test_what_is_odd(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "a.py").write_text('A = 1\n"""What that\nmeans: ``told``, comes to rest."""\n')
    assert [*odd_phrases(tmp_path / "p")] == [Place("p/a.py:2", "What that")]


def test_vague_names_become_fewer(tmp_path: Path) -> None:
    assert len([*vague_names()]) <= MOST_VAGUE_NAMES, "name it by what it holds; python -m tests.prose --all lists them"
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "a.py").write_text("def f(own, two):\n    found = [one for one in two]\n    return found\n")
    assert sorted(text for _, text in vague_names(tmp_path / "p")) == ["found", "one", "own"]


@pytest.mark.parametrize(
    ("text", "verb", "winding"),
    [
        ("Return the item", True, False),
        ("The item", False, False),
        ("Send it, wait: then go on", True, True),
        ("Send it, then go on", True, False),
        ("Send ``a, b, c`` to a queue", True, False),
    ],
)
def test_what_is_counted(text: str, verb: bool, winding: bool) -> None:
    sentence = Sentence("a.py:1", text, of_function=True)
    assert (sentence.opens_with_a_verb, sentence.is_winding) == (verb, winding)


def test_the_first_sentence_is_what_counts(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "a.py").write_text(
        '"""A module. And more, of it: all."""\ndef f():\n    """Do it.\n\n    Well."""\n'
    )
    assert [(one.place, one.text) for one in sentences(tmp_path / "p")] == [
        ("p/a.py:1", "A module"),
        ("p/a.py:2", "Do it"),
    ]
