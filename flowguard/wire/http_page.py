"""The pages that a person sees who opens a link. Each is whole by itself: nothing is loaded, no script runs.

All that comes from the request is escaped. The form has no address, so it is posted to the one that the person opened,
whatever a gateway or a domain put in front of it.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from html import escape
from typing import Final

from flowguard.startup.named_tuple import NamedTuple
from flowguard.text.printable import one_line

FROM_PAGE: Final = "_page"
"""The field by which a form of these pages is recognised. It is no part of the answer."""

LONGEST_COMMENT: Final = 2_000

_STYLE: Final = (
    ":root{color-scheme:light dark;--page:#f4f5f7;--card:#fff;--text:#1a1d21;--soft:#5a6270;--line:#d9dde3;"
    "--strong:#1f5fbf}"
    "@media(prefers-color-scheme:dark){:root{--page:#14171a;--card:#1e2226;--text:#e8eaed;--soft:#a3abb6;"
    "--line:#3a4048;--strong:#8ab4f8}}"
    "body{font:1.05em/1.5 system-ui,sans-serif;margin:0;color:var(--text);background:var(--page)}"
    "main{max-width:34em;margin:10vh auto;padding:1.5em 2em 2em;background:var(--card);border:1px solid var(--line);"
    "border-radius:12px;box-sizing:border-box}"
    "@media(max-width:36em){main{margin:0;min-height:100vh;border:0;border-radius:0}}"
    "h1{font-size:1.5em;line-height:1.25;margin:0 0 .5em;overflow-wrap:anywhere}"
    "dl{display:grid;grid-template-columns:max-content 1fr;gap:.3em 1.2em;margin:1em 0;padding:1em 0;"
    "border:solid var(--line);border-width:1px 0}dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}"
    "button{font:inherit;padding:.6em 1.6em;margin:.6em .6em 0 0;cursor:pointer;color:var(--strong);"
    "background:var(--card);border:1px solid var(--strong);border-radius:8px}"
    "button:hover,button:focus-visible{background:var(--strong);color:var(--card)}"
    "textarea{font:inherit;width:100%;box-sizing:border-box;color:inherit;background:var(--page);"
    "border:1px solid var(--line);border-radius:8px;padding:.5em}"
)
_STYLE_DIGEST: Final = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()

POLICY: Final = (
    f"default-src 'none'; style-src 'sha256-{_STYLE_DIGEST}'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
"""The Content-Security-Policy of every page."""


class Form(NamedTuple):
    """What a person may answer: a button for each choice, or one button where there are none."""

    choices: Sequence[str] = ()
    with_comment: bool = False


class Page(NamedTuple):
    """A page with a title, a text, perhaps a form, and facts by name."""

    title: str
    text: str
    form: Form | None = None
    facts: Sequence[tuple[str, str]] = ()

    def html(self) -> str:
        """Return the whole document."""
        title, text = _escaped(self.title), _escaped(self.text)
        return (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            '<meta name="robots" content="noindex, nofollow, noarchive">\n'
            '<meta name="referrer" content="no-referrer">\n'
            f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n"
            f"{_facts(self.facts)}<p>{text}</p>\n"
            f"{'' if self.form is None else _form(self.form)}</main>\n</body>\n</html>\n"
        )


def _facts(facts: Sequence[tuple[str, str]]) -> str:
    rows = "".join(f"<dt>{_escaped(name)}</dt><dd>{_escaped(text)}</dd>\n" for name, text in facts)
    return f"<dl>\n{rows}</dl>\n" if facts else ""


def _form(form: Form) -> str:
    comment = (
        f'<p><label>Comment (optional)<br><textarea name="comment" rows="4" maxlength="{LONGEST_COMMENT}"></textarea>'
        "</label></p>\n"
    )
    buttons = "".join(
        f'<button name="answer" value="{_escaped(choice)}">{_escaped(choice)}</button>\n' for choice in form.choices
    )
    return (
        f'<form method="post" autocomplete="off">\n<input type="hidden" name="{FROM_PAGE}" value="1">\n'
        f"{comment if form.with_comment else ''}{buttons or '<button>Confirm</button>' + chr(10)}</form>\n"
    )


def _escaped(text: str) -> str:
    return escape(one_line(text))
