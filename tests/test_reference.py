"""The reference is complete and up to date: every public name, its options and its errors."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import re
from collections.abc import Iterator

import flowguard
import flowguard.observers
import flowguard.testing
from tests.reference import FOLDER, HANDED_OVER, Name, names, options_of, pages


def test_the_pages_are_up_to_date() -> None:
    there = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.md")}
    stale = [name for name, text in pages().items() if there.get(name) != text] + sorted(there.keys() - pages().keys())
    assert stale == [], "run: python -m tests.reference"
    assert [name for name, text in there.items() if "ForwardRef" in text] == []


def test_each_public_name_has_its_place_once() -> None:
    text = "\n".join(pages().values())
    for name in (*flowguard.__all__, *flowguard.observers.__all__, *flowguard.testing.__all__):
        assert len(re.findall(rf"^## `{name}`$", text, re.M)) == 1, name


def test_each_page_opens_with_how_its_names_are_used_and_shows_no_constructor_that_is_not_for_users() -> None:
    texts = pages()
    assert [name for name, text in texts.items() if name != "README.md" and "How to use" not in text[:700]] == []
    assert [kind for kind in HANDED_OVER if f"```text\n{kind.__name__}(" in "".join(texts.values())] == []


def members(one: Name) -> Iterator[tuple[str, object]]:
    """A public name and what is public in it."""
    yield one.name, one.value
    if isinstance(one.value, type) and not issubclass(one.value, enum.Enum):
        for name, value in vars(one.value).items():
            plain = value.__func__ if isinstance(value, classmethod | staticmethod) else value
            if not name.startswith("_") and (inspect.isfunction(plain) or isinstance(plain, property)):
                yield f"{one.name}.{name}", plain


def test_each_public_name_is_explained() -> None:
    silent = [
        name
        for one in names()
        for name, value in members(one)
        if (inspect.isfunction(value) or isinstance(value, type | property)) and not value.__doc__
    ]
    assert silent == []


def test_each_option_is_explained_where_it_is_given() -> None:
    missing = []
    for one in names():
        for path, value in members(one):
            said = f"{value.__doc__} {one.value.__doc__}"
            missing += [f"{path}: {name}" for name in keywords(value) if f"``{name}``" not in said]
    assert missing == []


def keywords(value: object) -> list[str]:
    """The options of a function, or of a class and its constructor. Fields have rows of their own."""
    call = value
    if isinstance(value, type):
        if dataclasses.is_dataclass(value) or "__init__" not in vars(value) or value in HANDED_OVER:
            return options_of(value)
        call = vars(value)["__init__"]
    if not inspect.isfunction(call):
        return []
    return [name for name, one in inspect.signature(call).parameters.items() if one.kind is one.KEYWORD_ONLY]
