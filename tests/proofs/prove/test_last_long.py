"""A long run writes its figures into the page, in the place of those before."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.proofs.prove.last_long import BLOCK, PAGE, commit_here, write_figures


def test_the_figures_take_the_place_of_those_before_and_nothing_else_changes(tmp_path: Path) -> None:
    page = Path(shutil.copy(PAGE, tmp_path / "proof.md"))
    write_figures("flows        1 case", "0123456789ab", page)
    write_figures("flows        2 cases\nmutants      3", "ba9876543210", page)
    [block] = BLOCK.findall(page.read_text())
    assert block == "commit       ba9876543210\nflows        2 cases\nmutants      3\n"
    assert BLOCK.sub("", page.read_text()) == BLOCK.sub("", PAGE.read_text())


def test_a_page_without_their_place_is_named(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Proof\n")
    with pytest.raises(LookupError, match=r"page\.md has 0 blocks"):
        write_figures("flows", "0123456789ab", page)
    assert page.read_text() == "# Proof\n"


def test_the_commit_is_that_of_the_clone() -> None:
    assert re.fullmatch(r"[0-9a-f]{12}( with changes)?", commit_here())
