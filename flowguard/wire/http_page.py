"""The pages that a person sees who opens a link. Each is whole by itself: nothing is loaded, no script runs.

All that comes from the request is escaped. The form has no address, so it is posted to the one that the person opened,
whatever a gateway or a domain put in front of it.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from html import escape
from typing import Final, NamedTuple

from flowguard.printable import one_line

FROM_PAGE: Final = "_page"
"""The field by which a form of these pages is recognised. It is no part of the answer."""

LONGEST_COMMENT: Final = 2_000

_STYLE: Final = (
    "body{font:1.1em/1.5 system-ui,sans-serif;max-width:34em;margin:12vh auto;padding:0 1em;color:#1a1a1a;"
    "background:#fff}button{font:inherit;padding:.5em 1.5em;margin:.5em .5em 0 0;cursor:pointer}"
    "textarea{font:inherit;width:100%;box-sizing:border-box}"
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
    """A page with a title, a text and perhaps a form."""

    title: str
    text: str
    form: Form | None = None

    def html(self) -> str:
        """Return the whole document."""
        title, text = _escaped(self.title), _escaped(self.text)
        return (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            '<meta name="robots" content="noindex, nofollow, noarchive">\n'
            '<meta name="referrer" content="no-referrer">\n'
            f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n<p>{text}</p>\n"
            f"{'' if self.form is None else _form(self.form)}</main>\n</body>\n</html>\n"
        )


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
