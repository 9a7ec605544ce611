"""The link that a person or a third party answers with. What it offers is checked when it is made and when opened."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from urllib.parse import unquote, urlencode, urlsplit

from flowguard.errors import shown

MOST_CHOICES: Final = 8

LONGEST_CHOICE: Final = 40
"""In characters."""


def answer_link(
    base: str,
    token: str,
    *,
    choices: Sequence[str] = (),
    with_comment: bool = False,
    failed: bool = False,
    about: str = "",
) -> str:
    """Return the URL at which a token is answered.

    ``base`` is the URL above it, such as ``https://…/answers``. The page of the link has a button for each of
    ``choices``, and a field for a comment where ``with_comment`` says so. An answer to a link with ``failed`` reports
    that it could not be done. ``about`` is what its page says of the case, sealed. Raises ValueError for a base with a
    query, and for choices that no page would show.
    """
    given: object = base
    parts = urlsplit(given if isinstance(given, str) else "")
    if not parts.scheme or not parts.netloc or "?" in base or "#" in base:
        raise ValueError("the base of a link is a URL without query and fragment, such as https://example.com/answers")
    if isinstance(choices, str):
        raise ValueError(f"choices={shown(choices)} is one text; write choices=({shown(choices)},)")
    if problem := choices_problem(choices):
        raise ValueError(f"the choices of a link: {problem}")
    query = [("answer", choices[0])] if len(choices) == 1 else [("answers", _joined(choices))] if choices else []
    query += [("comment", "yes")] if with_comment else []
    query += [("failed", "true")] if failed else []
    query += [("shown", about)] if about else []
    return f"{base.rstrip('/')}/{token}{'?' if query else ''}{urlencode(query)}"


def _joined(choices: Sequence[str]) -> str:
    """Return choices as one text: a load balancer passes on one value alone of a parameter that is repeated."""
    return ",".join(choice.replace("%", "%25").replace(",", "%2C") for choice in choices)


def parted(choices: str) -> list[str]:
    """Return the choices of such a text."""
    return [unquote(choice) for choice in choices.split(",")]


def choices_problem(choices: Sequence[object]) -> str | None:
    """Return why a page cannot offer these choices. None where it can."""
    if len(choices) > MOST_CHOICES:
        return f"there are more than {MOST_CHOICES}"
    if not all(
        isinstance(choice, str) and choice.strip() and choice.isprintable() and len(choice) <= LONGEST_CHOICE
        for choice in choices
    ):
        return f"one is not 1 to {LONGEST_CHOICE} printable characters"
    return None
