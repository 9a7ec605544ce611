from __future__ import annotations

from pathlib import Path

import pytest

from tests.on_engines.luck import RACES, noticed_in


def test_races_are_run_until_one_breaks_the_check(tmp_path: Path) -> None:
    broken = iter([set(), {"another check"}, {"the check"}])
    assert noticed_in(lambda _: next(broken), tmp_path, "the check") == 3
    assert len(list(tmp_path.iterdir())) == 3


def test_a_mutant_that_no_race_shows_fails(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="'the check'"):
        noticed_in(lambda _: {"another check"}, tmp_path, "the check")
    assert len(list(tmp_path.iterdir())) == RACES
