"""Today's code goes on with what releases that have landed wrote, from before each of their deliveries.

That is a newer release that takes over what stands in table and queues; or what its worker has left that died between
its commit and its messages.

What today's code writes is read by no older code here: that it has other attributes is noticed, and no more. Nor does
it show what fails and is redriven, or both at work at once. Signatures, tokens, keys and texts in S3, which these
worlds do not have, are in ``test_landed_forms.py``.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from tests.testing.explorer.run.lasting_rows import Nightly
from tests.worker.runtime.landed_release import Moment, forms, gone_on, load, recorded, samples

RUNS = ("finds#p0", "finds#p1", "nightly#monday", "orders#o1", "pages#milk", "pages#tea", "prices#o1")
ENDED = {**{f"run#{name}": "COMPLETED" for name in RUNS}, "o1": ("1", "1")}
"""Each run has ended, and what it counts is counted once."""

LAST = samples()[-1]
COMMAND = "python -m tests.worker.runtime.landed_release"


@pytest.mark.slow("strikes at each call of a run")
@pytest.mark.parametrize(
    "path",
    [*(pytest.param(path, marks=pytest.mark.proof("an earlier release")) for path in samples()[:-1]), LAST],
    ids=lambda path: path.stem,
)
@pytest.mark.parametrize("died", [False, True])
def test_what_a_landed_release_wrote_is_gone_on_with(path: Path, died: bool) -> None:
    moments = load(path)
    assert len(moments) > 15
    places = [place for place in range(int(died), len(moments)) if not died or _is_sent_last(moments[place - 1])]
    assert {place: gone_on(moments, place, died=died) for place in places} == dict.fromkeys(places, ENDED)


def _is_sent_last(moment: Moment) -> bool:
    """Answer whether the delivery sends after it has written: a group's requests are sent, and then noted as such."""
    return f"sqs:{moment['queue']}" != str(Nightly.answers)


def test_what_is_written_now_is_of_a_form_that_is_recorded() -> None:
    assert forms(recorded()) == forms(load(LAST)), f"code that is deployed does not know this; record it: {COMMAND}"


# -- what would be noticed


def renamed(moments: list[Moment], name: str) -> list[Moment]:
    """What this release would read if it called an attribute of its items something else."""
    changed: Any = copy.deepcopy(moments)
    for moment in changed:
        for item in moment["items"].values():
            if name in item:
                item[f"other_{name}"] = item.pop(name)
    return list(changed)


@pytest.mark.parametrize("name", ["wait", "outbox", "request_id", "waiting", "hop"])
def test_a_release_that_does_not_read_what_was_written_is_noticed(name: str) -> None:
    moments = renamed(load(LAST), name)
    assert forms(moments) != forms(load(LAST))
    assert any(_ends(moments, place) != ENDED for place in range(1, len(moments)))


def _ends(moments: list[Moment], place: int) -> object:
    try:
        return gone_on(moments, place, died=True)
    except Exception as error:
        return error
