"""Pages: whole by themselves, with everything escaped."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from flowguard.wire.http_page import POLICY, Form, Page


class Seen(HTMLParser):
    """The tags, attributes and texts of a page, as a browser finds them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


FORM = Form(("approve", "decline"), with_comment=True)


def test_a_page_has_a_button_for_each_choice_and_posts_to_where_it_was_opened() -> None:
    seen = Seen(Page("Your answer", "Choose", FORM).html())
    (form,) = [attributes for tag, attributes in seen.tags if tag == "form"]
    assert form == {"method": "post", "autocomplete": "off"}
    buttons = [attributes for tag, attributes in seen.tags if tag == "button"]
    assert buttons == [{"name": "answer", "value": "approve"}, {"name": "answer", "value": "decline"}]
    fields = [attributes["name"] for tag, attributes in seen.tags if tag in {"input", "textarea"}]
    assert fields == ["_page", "comment"]


def test_a_page_is_light_or_dark_as_its_reader_wants_it() -> None:
    html = Page("Your answer", "Choose", FORM).html()
    assert "color-scheme:light dark" in html
    assert "@media(prefers-color-scheme:dark)" in html


def test_without_choices_there_is_one_button_and_without_a_form_none() -> None:
    assert Page("t", "x", Form()).html().count("<button>") == 1
    assert "comment" not in Page("t", "x", Form()).html()
    assert "<form" not in Page("t", "x").html()


def test_nothing_is_loaded_and_nothing_runs() -> None:
    html = Page("t", "x", FORM).html()
    assert not {"script", "img", "link", "iframe", "object", "a", "base"} & {tag for tag, _ in Seen(html).tags}
    assert not re.search(r"https?:|//|url\(|@import|\bon\w+=|style=", html)


def test_the_policy_admits_the_one_style_and_nothing_else() -> None:
    style = re.search("<style>(.*)</style>", Page("t", "x").html(), re.DOTALL)
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert (
        f"default-src 'none'; style-src 'sha256-{digest}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ) == POLICY


@given(title=st.text(), text=st.text(), choice=st.text(min_size=1))
def test_whatever_the_texts_are_the_page_has_the_same_tags(title: str, text: str, choice: str) -> None:
    plain = [tag for tag, _ in Seen(Page("t", "x", Form(("a",))).html()).tags]
    html = Page(title, text, Form((choice,))).html()
    assert [tag for tag, _ in Seen(html).tags] == plain
    assert html.encode(), "no half of a surrogate pair is left"
    assert not re.search("[\u202a-\u202e\u2066-\u2069\x00-\x09\x0b-\x1f]", html)


def test_markup_is_shown_and_not_obeyed() -> None:
    html = Page("<h1>", "a & b", Form(('"><script>alert(1)</script>',))).html()
    assert "<script" not in html
    assert "a &amp; b" in html
    seen = Seen(html)
    assert '"><script>alert(1)</script>' in [attributes.get("value") for _, attributes in seen.tags]
