"""The title and the facts that the page of a link shows, sealed under its token.

They stand in the link, so that the page needs no call: ``<base64url of the JSON>.<22 characters of HMAC-SHA256>``, over
the token and the text. The owner of the link can read them; without the key they cannot be changed.
"""

from __future__ import annotations

import base64
import hmac
import json
from collections.abc import Mapping
from typing import Final

from flowguard.startup.named_tuple import NamedTuple
from flowguard.wire.signing import Keys

LONGEST_TITLE: Final = 100
MOST_FACTS: Final = 10
LONGEST_NAME: Final = 40
LONGEST_FACT: Final = 200
"""In characters, all of them."""

_PURPOSE: Final = "flowguard/1/token/shown"
_SEAL: Final = 16


class ShownFacts(NamedTuple):
    """The title of a page, and its facts by name."""

    title: str
    facts: Mapping[str, str]

    @property
    def problem(self) -> str | None:
        """Return why no page would show them. None where one does."""
        if not _fits(self.title, LONGEST_TITLE):
            return f"the title is not 1 to {LONGEST_TITLE} printable characters"
        if len(self.facts) > MOST_FACTS:
            return f"there are {len(self.facts)} facts of at most {MOST_FACTS}"
        if not all(_fits(name, LONGEST_NAME) and _fits(text, LONGEST_FACT) for name, text in self.facts.items()):
            return f"a fact is not a name of 1 to {LONGEST_NAME} and a text of 1 to {LONGEST_FACT} printable characters"
        return None

    def sealed(self, keys: Keys, token: str) -> str:
        """Return them as they stand in the link of the token."""
        text = json.dumps([self.title, dict(self.facts)], ensure_ascii=False, separators=(",", ":"))
        body = base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")
        return f"{body}.{_seal(keys, token, body)}"


def read_shown(keys: Keys, token: str, sealed: str) -> ShownFacts | None:
    """Read what :meth:`ShownFacts.sealed` made for this very token. None for anything else."""
    body, _, seal = sealed.partition(".")
    if not hmac.compare_digest(seal.encode("utf-8", "surrogatepass"), _seal(keys, token, body).encode()):
        return None
    title, facts = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    return ShownFacts(title, facts)


def _seal(keys: Keys, token: str, body: str) -> str:
    content = f"{token} {body}".encode("utf-8", "surrogatepass")
    digest = hmac.digest(keys.derive(token.partition(".")[0], _PURPOSE), content, "sha256")[:_SEAL]
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def _fits(text: object, longest: int) -> bool:
    return isinstance(text, str) and bool(text.strip()) and text.isprintable() and len(text) <= longest
