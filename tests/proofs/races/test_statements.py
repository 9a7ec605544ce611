"""What a race reads from a statement is what the call says that the statement was made from."""

from __future__ import annotations

from typing import Any

import pytest

from flowguard.aws.claim_call import claim_call
from flowguard.aws.commit_call import note_kills_call, release_call
from flowguard.aws.partiql import insert_statement, update_statement
from flowguard.protocol.claims import taken
from flowguard.protocol.conflict import OnConflict
from flowguard.protocol.run import BackOff, Claim
from flowguard.wire.message import ErrorNote
from tests.aws.states import STORED, request
from tests.aws.store.run import commit, commit_call
from tests.proofs.races.statements import showing_what_was_there, written
from tests.proofs.races.witness import plain, what

FIRST, SECOND = request(STORED), request(STORED, hop=2)
BEFORE = taken(None, FIRST)
CLAIMED = Claim(SECOND.message, taken(BEFORE, SECOND), BEFORE)
CALLS: dict[str, tuple[str, Any]] = {
    "claim, first hop": ("claim", claim_call("flowguard", FIRST)),
    "claim under IGNORE": ("claim", claim_call("flowguard", request(STORED, policy=OnConflict.IGNORE))),
    "claim, later hop": ("claim", claim_call("flowguard", SECOND)),
    "commit": ("commit", commit_call(CLAIMED, commit())),
    "commit of what was read": ("take", commit_call(CLAIMED._replace(unwritten=SECOND), commit())),
    "release": ("release", release_call("flowguard", CLAIMED, 5)),
}
READ = {"read_request_id", "read_epoch", "read_owner"}
"""Compared under the names of what is written."""

FIXED = {"zero", "one", "hop_before", "over", "lease_until", "retry"}
"""What no check of a race asks for, or what a release says under another name."""


@pytest.mark.parametrize("kind", CALLS)
def test_an_update_says_what_its_call_says(kind: str) -> None:
    done, call = CALLS[kind]
    said, partition, values = written(update_statement(call))
    wanted = plain(call["ExpressionAttributeValues"])
    assert (said, partition) == (done, call["Key"]["pk"]["S"])
    assert what(wanted) == done
    found = plain(values)
    for name in wanted.keys() - READ - (FIXED if done == "release" else {"zero", "one", "hop_before"}):
        assert found[name] == wanted[name], name


@pytest.mark.parametrize(
    ("call", "done", "epoch"),
    [
        (CALLS["claim, first hop"][1], "claim", 1),
        (commit_call(Claim(FIRST.message, BEFORE, None, FIRST), commit()), "take", 1),
    ],
)
def test_an_insert_says_what_its_call_says(call: Any, done: str, epoch: int) -> None:
    said, partition, values = written(insert_statement(call))
    assert (said, partition) == (done, call["Key"]["pk"]["S"])
    found, wanted = plain(values), plain(call["ExpressionAttributeValues"])
    assert found["epoch"] == epoch
    for name in ("request_id", "owner", "hop", "retry", "redrive", "requested_at", "lease_until"):
        assert found[name] == wanted[name], name


def test_a_note_of_kills_is_no_deadline() -> None:
    call = note_kills_call("flowguard", CLAIMED)
    assert what(plain(call["ExpressionAttributeValues"])) == "note"


def test_the_release_of_a_hop_that_rests_is_a_release() -> None:
    rest = BackOff(ErrorNote("Error", "why", 5), 5)
    call = release_call("flowguard", CLAIMED, 5, rest=rest)
    assert what(plain(call["ExpressionAttributeValues"])) == "release"


def test_each_update_is_made_to_answer_with_what_was_there_once() -> None:
    for _, call in CALLS.values():
        asked = showing_what_was_there(update_statement(call))
        assert asked["Statement"].count("RETURNING ALL OLD *") == 1
        assert showing_what_was_there(asked) == asked
    inserted = insert_statement(CALLS["claim, first hop"][1])
    assert showing_what_was_there(inserted) == inserted
