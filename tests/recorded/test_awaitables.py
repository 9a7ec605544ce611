"""A handler builds what its run waits for."""

from __future__ import annotations

import pytest

from flowguard.errors import RunFailed
from flowguard.outcome import AwaitedToken
from flowguard.sim.account import SIMULATED_ANSWERS
from flowguard.testing import step_for
from tests.recorded.carts import Price


def test_a_token_makes_the_link_with_which_a_person_answers() -> None:
    token = step_for(Price).token("approval")
    link = token.link("https://example.com/answers/", choices=("yes", "no"), with_comment=True)
    assert link == f"https://example.com/answers/{token.text}?answers=yes%2Cno&comment=yes"
    assert token.link("https://example.com", failed=True) == f"https://example.com/{token.text}?failed=true"


def test_the_base_of_links_is_a_setting() -> None:
    token = step_for(Price).token("approval", title="Pay?")
    assert token.link().startswith(f"{SIMULATED_ANSWERS}/{token.text}?shown=")
    with pytest.raises(RunFailed, match="no link can be made: set FLOWGUARD_ANSWERS_URL, or give the URL above"):
        AwaitedToken("k1.x", "row").link()


def test_a_link_that_cannot_be_made_ends_the_run_and_shows_no_token() -> None:
    token = step_for(Price).token("approval")
    with pytest.raises(RunFailed, match="no link can be made: the base of a link is a URL without query") as refused:
        token.link("example.com/answers?to=you")
    assert token.text not in str(refused.value)
    with pytest.raises(RunFailed, match="no link can be made: the choices of a link: there are more than 8"):
        token.link("https://example.com", choices=("yes",) * 9)
