"""The site as a reader sees it: a way from each page to the next, and no comment that a block of code cuts off."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import site
from tests.ui.browser import Browser, browser

PAGES = ("start/quick-start", "start/install", "guides/sagas", "operate/deploy")
WIDTHS = (1280, 390)

CUT_OFF = """
return [...document.querySelectorAll(
  ".highlight-python pre, .highlight-json pre, .highlight-sh pre, .highlight-toml pre, .highlight-yaml pre"
)].filter((one) => one.scrollWidth > one.clientWidth + 1).map((one) => one.textContent.slice(0, 80));
"""
BESIDE = """
return ["prev-page", "next-page"].map((name) => {
  const link = document.querySelector(`.related-pages a.${name}`);
  return link && link.getBoundingClientRect().height ? link.href : null;
});
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site. Without its tools that is skipped, but in CI, which must not pass by skipping."""
    if not os.environ.get("CI") and not all((tool / "ready").exists() for tool in (site.TOOLS, site.MERMAID)):
        pytest.skip("what builds the site has not been fetched; run `make docs`")
    root = tmp_path_factory.mktemp("site")
    site.build(root)
    return root


@pytest.fixture(scope="module")
def opened() -> Iterator[Browser]:
    with browser() as chromium:
        yield chromium


def at(opened: Browser, address: str, script: str) -> Any:
    opened.driver.get(address)
    return opened.driver.execute_script(script)


@pytest.mark.long("opens in a browser what tests/test_site.py builds and reads")
def test_each_page_leads_on_and_back_and_cuts_no_comment_off(built: Path, opened: Browser) -> None:
    for width in WIDTHS:
        opened.resize(width)
        for page in PAGES:
            address = (built / f"{page}.html").as_uri()
            assert at(opened, address, CUT_OFF) == [], (page, width)
            before, after = at(opened, address, BESIDE)
            assert at(opened, after, BESIDE)[0] == address, (page, width)
            assert at(opened, before, BESIDE)[1] == address, (page, width)
