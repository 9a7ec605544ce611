"""The documentation site has every page, and its links lead somewhere."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import pytest
from click.testing import CliRunner

from flowguard.cli import main
from tests import site
from tests.site import ROOT, SiteBroken
from tests.test_docs import PAGES, blocks


@pytest.fixture(scope="module")
def tools() -> None:
    """Skip where the site cannot be built; in CI, which must not pass by skipping, the build fails."""
    if not os.environ.get("CI") and not all((tool / "ready").exists() for tool in (site.TOOLS, site.MERMAID)):
        pytest.skip("what builds the site has not been fetched; run `make docs`")


# -- the site as a whole ----------------------------------------------------------------------------------------------


class Html(HTMLParser):
    """What a page of the site has: its anchors, its links, what a browser loads for it, its drawings."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.drawings = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.ids |= {given[name] for name in ("id", "name") if name in given}
        self.drawings += given.get("class") == "mermaid"
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag == "link":
            self.loads.append(given["href"])
        self.loads += [given[name] for name in ("src", "srcset", "data", "poster") if name in given]


def is_elsewhere(address: str) -> bool:
    return re.match(r"[a-z][a-z+.-]*:|//", address) is not None and not address.startswith("data:")


def dead(pages: Mapping[Path, Html]) -> Iterator[str]:
    """Each link that leads nowhere, and each file that a page loads and that is not there."""
    for place, found in pages.items():
        for address in (*found.links, *found.loads):
            path, _, anchor = unquote(address).partition("#")
            there = (place.parent / path.partition("?")[0]).resolve() if path else place
            if is_elsewhere(address) or address.startswith("data:"):
                continue
            if not there.is_file() or (anchor and there in pages and anchor not in pages[there].ids):
                yield f"{place.name}: {address}"


def loaded_from_elsewhere(root: Path, pages: Mapping[Path, Html]) -> Iterator[str]:
    """Each file that a browser would ask another host for."""
    for place, found in pages.items():
        yield from (f"{place.name}: {address}" for address in found.loads if is_elsewhere(address))
    for style in root.rglob("*.css"):
        asked = re.findall(r"""(?:url\(|@import)\s*['"]?([^'")\s]+)""", style.read_text(encoding="utf-8"))
        yield from (f"{style.name}: {address}" for address in asked if is_elsewhere(address))


def search_index(root: Path) -> dict[str, Any]:
    text = (root / "searchindex.js").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text.removeprefix("Search.setIndex(").removesuffix(")"))
    return found


def found_by(index: dict[str, Any], words: str) -> set[str]:
    """The pages that a search for these words finds: each is looked up by its stem, the longest that there is."""
    pages = [*index["docnames"]]
    found = set(pages)
    for word in words.lower().split():
        kinds = index["terms"], index["titleterms"]
        stem = max((term for terms in kinds for term in terms if word.startswith(term)), key=len, default="")
        places = [terms.get(stem, []) for terms in kinds]
        numbers = [number for one in places for number in ([one] if isinstance(one, int) else one)]
        found &= {pages[number] for number in numbers}
    return found


def title_of(text: str) -> str:
    [title] = re.findall(r"^# (.*)$", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE)
    return str(title).replace("`", "")


SEARCHED: Final = (
    ("compensation", "sagas.md"),
    ("escalate", "waiting-for-others.md"),
    ("human", "waiting-for-others.md"),
    ("rollback", "upgrading.md"),
    ("CDK", "deploy.md"),
    ("VPC", "deploy.md"),
    ("Temporal", "from-temporal.md"),
    ("Step Functions", "from-step-functions.md"),
    ("durable functions", "from-durable-functions.md"),
    ("NServiceBus", "from-nservicebus.md"),
    ("AwaitingStep", "glossary.md"),
)
"""Words that people come with, each with the page that a search for it is to find."""


def test_what_leads_nowhere_or_to_another_host_is_noticed(tmp_path: Path) -> None:
    front, other, style = (tmp_path / name for name in ("index.html", "other.html", "site.css"))
    front.write_text(
        '<h1 id="top"></h1><a href="#top"></a><a href="#lost"></a><a href="other.html#here"></a>'
        '<a href="other.html?q=1"></a><a href="other.html#gone"></a><a href="https://example.com/"></a>'
        '<a href="gone.html"></a>'
        '<script src="//cdn.example/a.js"></script><script src="gone.js"></script><img src="data:image/png;base64,AA">'
        '<link rel="stylesheet" href="https://fonts.example/a.css">'
    )
    other.write_text('<h2 id="here"></h2><pre class="mermaid">a</pre>')
    style.write_text(
        '@import "https://fonts.example/b.css"; a { background: url(http://cdn.example/c.png) url(d.png) }'
    )
    pages = {path: Html(path.read_text()) for path in (front, other)}
    lost = ["#lost", "other.html#gone", "gone.html", "gone.js"]
    asked = ["//cdn.example/a.js", "https://fonts.example/a.css"]
    assert list(dead(pages)) == [f"index.html: {address}" for address in lost]
    assert list(loaded_from_elsewhere(tmp_path, pages)) == [f"index.html: {address}" for address in asked] + [
        "site.css: https://fonts.example/b.css",
        "site.css: http://cdn.example/c.png",
    ]
    assert [pages[path].drawings for path in (front, other)] == [0, 1]


@pytest.mark.proof("builds the site", first=True)
def test_the_site_has_all_pages_and_no_dead_links_and_asks_no_other_host(tools: None, tmp_path: Path) -> None:
    root = tmp_path / "site"
    site.build(root)
    pages = {path: Html(path.read_text(encoding="utf-8")) for path in root.resolve().rglob("*.html")}
    assert list(dead(pages)) == []
    assert list(loaded_from_elsewhere(root, pages)) == []

    texts = {place: file.read_text(encoding="utf-8") for place, file in site.sources().items() if file.suffix == ".md"}
    front = pages[root.resolve() / "index.html"]
    assert {place.replace(".md", ".html") for place in texts} - set(front.links) == {"index.html"}
    index = search_index(root)
    searched = dict(zip(index["docnames"], index["titles"], strict=True))
    assert searched == {place.removesuffix(".md"): title_of(text) for place, text in texts.items()}
    for word, page in SEARCHED:
        assert any(name.endswith(page.removesuffix(".md")) for name in found_by(index, word)), word
    drawn = {place: pages[root.resolve() / place.replace(".md", ".html")].drawings for place in texts}
    assert drawn == {place: len(re.findall(r"^```mermaid$", text, re.MULTILINE)) for place, text in texts.items()}


@pytest.mark.proof("builds a site, if a small one")
def test_a_page_with_faults_fails_the_build_and_all_are_told(tools: None, tmp_path: Path) -> None:
    front, lost = tmp_path / "README.md", tmp_path / "lost.md"
    front.write_text("# Front\n\n[There](#not-there), [elsewhere](lost.md#no-such-heading).\n", encoding="utf-8")
    lost.write_text("# Lost\n\nNo navigation has this page.\n", encoding="utf-8")
    with pytest.raises(SiteBroken) as broken:
        site.build(tmp_path / "site", {"index.md": front, "lost.md": lost})
    told = str(broken.value)
    assert "index.md:3: WARNING" in told
    assert "'not-there'" in told
    assert "'no-such-heading'" in told
    assert re.search(r"lost\.md: WARNING: .*toctree", told)


# -- its navigation ---------------------------------------------------------------------------------------------------


def test_each_page_is_in_the_navigation_once() -> None:
    named = Counter(f"{page}.md" for pages in site.NAVIGATION.values() for page in pages)
    assert {page: times for page, times in named.items() if times > 1} == {}
    below = {page.removesuffix("index.md") for page in named if page.count("/") == 1 and page.endswith("/index.md")}
    pages = {place for place in site.sources() if place.endswith(".md")}
    alone = {place for place in pages if place in named or not any(place.startswith(folder) for folder in below)}
    assert alone - {"index.md"} == set(named), "tests/site.py: NAVIGATION has the groups of pages"


def test_the_front_page_names_each_page_of_the_folders() -> None:
    front = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    pages = {place for place in site.sources() if re.match(r"(start|guides|explain|operate|proofs)/[^/]*\.md$", place)}
    assert {page for page in pages if f"]({page})" not in front} == set()


@pytest.mark.parametrize(("word", "page"), SEARCHED)
def test_a_search_by_the_words_of_others_leads_to_the_page_about_it(word: str, page: str) -> None:
    """The search of the site reads the words of the pages, and nothing else."""
    [file] = (ROOT / "docs").glob(f"*/{page}")
    assert re.search(rf"\b{word}\b", file.read_text(encoding="utf-8"), re.IGNORECASE)


def test_the_pages_for_comers_have_one_flow_in_common() -> None:
    pages = [
        ROOT / f"docs/start/from-{of}.md" for of in ("step-functions", "temporal", "durable-functions", "nservicebus")
    ]
    flows = [re.findall(r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), re.M | re.S) for page in pages]
    assert len(flows[0]) == 1
    assert flows == [flows[0]] * 4


def test_the_flow_of_the_comers_passes_the_check_that_they_are_told_to_run(tmp_path: Path) -> None:
    page = (ROOT / "docs/start/from-temporal.md").read_text(encoding="utf-8")
    [flow] = re.findall(r"^```python\n(.*?)^```$", page, re.M | re.S)
    (tmp_path / "claims.py").write_text(flow, encoding="utf-8")
    checked = CliRunner().invoke(main, ["check", str(tmp_path / "claims.py")])
    assert (checked.exit_code, checked.stdout.splitlines()[-1]) == (0, "0 findings in 1 file")


def test_an_index_has_the_pages_of_its_folder_below_it() -> None:
    files = {"index.md": ROOT, "decisions/index.md": ROOT, "decisions/0002.md": ROOT, "decisions/0001.md": ROOT}
    assert "".join(site.contents("decisions/index.md", files)).splitlines()[1:] == [
        "```{toctree}",
        ":hidden:",
        "",
        "0001",
        "0002",
        "```",
    ]
    assert "".join(site.contents("decisions/0001.md", files)) == ""


MARKUP = re.compile(r"(?<!\\)</?[A-Za-z][^>]*>")
CODE = re.compile(r"^ *(`{3,}|~{3,}).*?^ *\1 *$|(`+)(?!`).*?(?<!`)\2(?!`)", re.MULTILINE | re.DOTALL)


def test_no_word_of_a_page_is_taken_for_markup() -> None:
    assert MARKUP.findall(r"a <b> \<c>") == ["<b>"]
    texts = {place: file.read_text(encoding="utf-8") for place, file in site.sources().items() if place.endswith(".md")}
    assert {place: found for place, text in texts.items() if (found := MARKUP.findall(CODE.sub("", text)))} == {}


# -- its links and drawings -------------------------------------------------------------------------------------------

FILES = {
    "index.md": ROOT / "docs" / "README.md",
    "guides/caches.md": ROOT / "docs" / "guides" / "caches.md",
    "decisions/index.md": ROOT / "docs" / "decisions" / "README.md",
    "flows/orders/index.md": ROOT / "flows" / "orders" / "README.md",
}


@pytest.mark.parametrize(
    ("place", "text", "moved"),
    [
        ("index.md", "[Caches](guides/caches.md#reset)", "[Caches](guides/caches.md#reset)"),
        ("index.md", "[Why](decisions/README.md)", "[Why](decisions/index.md)"),
        ("guides/caches.md", "[orders](../../flows/orders)", "[orders](../flows/orders/index.md)"),
        ("guides/caches.md", "[orders](../../flows/orders/)", "[orders](../flows/orders/index.md)"),
        ("decisions/index.md", "[caches\n`at` once](../guides/caches.md)", "[caches\n`at` once](../guides/caches.md)"),
        ("flows/orders/index.md", "[home](../../docs/README.md)", "[home](../../index.md)"),
        ("guides/caches.md", "[`a[0]`, [b]](../README.md)", "[`a[0]`, [b]](../index.md)"),
        (
            "guides/caches.md",
            "[the claims](../../flowguard/protocol/claims.py)",
            "the claims (`flowguard/protocol/claims.py`)",
        ),
        ("index.md", "in [`flows/`](../flows/)", "in `flows/`"),
        ("guides/caches.md", "[up](#reset) [out](https://a.com/a.md)", "[up](#reset) [out](https://a.com/a.md)"),
        ("guides/caches.md", "`[a](../README.md)`", "`[a](../README.md)`"),
        ("guides/caches.md", "``a ` [a](../README.md)``", "``a ` [a](../README.md)``"),
        ("guides/caches.md", "```python\n[a](../README.md)\n```", "```python\n[a](../README.md)\n```"),
        ("guides/caches.md", "<!-- [a](../README.md) -->", "<!-- [a](../README.md) -->"),
    ],
)
def test_links_lead_to_the_pages_of_the_site(place: str, text: str, moved: str) -> None:
    assert site.linked(text, FILES[place], place, FILES) == moved


def test_long_lines_of_code_are_folded_and_outputs_are_not() -> None:
    style = (ROOT / ".ci/site/static/site.css").read_text(encoding="utf-8")
    folded = set(re.findall(r"^\.highlight-(\w+) pre[,\s]", style, re.MULTILINE))
    assert folded == {block.language for page in PAGES for block in blocks(page)} - {"", "console", "mermaid", "text"}


def test_a_link_to_no_file_is_refused() -> None:
    with pytest.raises(SiteBroken, match=r"docs/guides/caches\.md links to .*no-such\.md, which is not there"):
        site.linked("[a](no-such.md)", FILES["guides/caches.md"], "guides/caches.md", FILES)


def test_a_diagram_is_drawn_by_the_script_of_the_site_and_is_no_markup() -> None:
    text = site.drawn('```mermaid\nflowchart TD\n    a["<b>"] --> b\n```\n', "flows/orders/index.md")
    assert text == (
        '<pre class="mermaid">\nflowchart TD\n    a[&quot;&lt;b&gt;&quot;] --&gt; b\n</pre>\n'
        '\n<script src="../../_static/mermaid.min.js"></script>\n'
        '\n<script src="../../_static/drawings.js"></script>\n'
    )
    assert site.drawn("```text\nmermaid\n```\n", "caches.md") == "```text\nmermaid\n```\n"


def test_what_is_not_released_yet_is_told_by_its_kinds() -> None:
    told = "".join(site.unreleased("changelog.md", site.sources()))
    notes = [file for file in ROOT.glob("docs/changes/+*.md") if file.suffixes[-2:] == [".added", ".md"]]
    assert told.count("\n### Added\n") == bool(notes)
    assert len(re.findall(r"^- ", told, re.MULTILINE)) >= len(notes)
    assert re.findall(r"\]\(\.\./", told) == []


def test_without_its_tools_the_build_says_what_to_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site, "MERMAID", tmp_path / "mermaid")
    monkeypatch.setattr(site, "TOOLS", tmp_path / "docs")
    with pytest.raises(SiteBroken, match=r"docs has not been fetched.*run `make docs`"):
        site.build(tmp_path / "site", {})
    assert not (tmp_path / "site").exists()


ENDPOINT = "--endpoint-url"
IN_ALL = "AWS_ENDPOINT_URL="


def without_endpoint(text: str) -> list[str]:
    """The commands of the AWS CLI on a page, in blocks and in sentences, that do not say how they reach an emulator.

    A command says it by its option, a page once for all that come after it by the variable. A sentence may go on with
    the option behind the command.
    """
    silent = []
    for block in re.finditer(r"^ *```(?:sh|console)[^\n]*\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL):
        for command in re.sub(r"\\\n *", "", block[1]).splitlines():
            if (
                re.search(r"(?:^|[$&|(]) *aws ", command)
                and ENDPOINT not in command
                and IN_ALL not in text[: block.end()]
            ):
                silent.append(command.strip())
    for inline in re.finditer(r"`(aws [^`]+ [^`]*(?:--|…)[^`]*)`", text):
        if ENDPOINT not in text[inline.start() : inline.end() + 90] and IN_ALL not in text[: inline.start()]:
            silent.append(inline[1])
    return silent


@pytest.mark.parametrize(
    ("text", "silent"),
    [
        ("```sh\naws s3 ls\n```\n", ["aws s3 ls"]),
        ("```console\n$ k=$(x) && aws s3 cp a \\\n   b\n```\nlater: AWS_ENDPOINT_URL=x", ["$ k=$(x) && aws s3 cp a b"]),
        ("AWS_ENDPOINT_URL=x comes first\n```sh\naws s3 ls\n```\n", []),
        ("```sh\naws s3 ls --endpoint-url x\naws s3 rm x\n```\n", ["aws s3 rm x"]),
        ("type `aws sqs purge-queue --queue-url q`.", ["aws sqs purge-queue --queue-url q"]),
        ("type `aws sqs purge-queue --queue-url q`, with `--endpoint-url` on an emulator", []),
        ("the output of `aws sqs receive-message`", []),
    ],
)
def test_a_command_without_its_endpoint_is_seen_wherever_it_stands(text: str, silent: list[str]) -> None:
    assert without_endpoint(text) == silent


def test_each_command_of_aws_says_how_it_reaches_an_emulator() -> None:
    pages = [page for page in (ROOT / "docs").glob("*/*.md") if page.parent.name not in ("decisions", "reference")]
    silent = {page.name: without_endpoint(page.read_text(encoding="utf-8")) for page in pages}
    assert [name for name, commands in silent.items() if commands] == []
