"""Today's code reads what releases that have landed wrote beside runs: tokens, signatures, entries of keys, texts."""

from __future__ import annotations

import copy
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from flowguard.errors import TokenRefused
from flowguard.wire.tokens import TokenClaim
from tests.worker.runtime.landed_forms import (
    CODECS,
    ENTRIES,
    LINK,
    LONG,
    NOW,
    ROW,
    SHOWN,
    TEXT,
    kinds,
    load,
    read_today,
    samples,
    written,
)

COMMAND = "python -m tests.worker.runtime.landed_forms"
READ: dict[str, Any] = {
    "token": TokenClaim("approvals", ROW, NOW + 1),
    "shown": SHOWN,
    "link": LINK,
    "message": (2, 1, None),
    "sealed": dict.fromkeys(CODECS, TEXT),
    "sealed messages": dict.fromkeys(CODECS, TEXT),
    "entries": {
        **{key: ("DONE", end.result or end.refusal) for key, end in ENTRIES.items()},
        "failed": ("claimed", "ValueError"),
        "running": ("BUSY", None),
        "started": ("DONE", '["r-1","o-1"]'),
        "reused": ("REUSED", None),
    },
    "outside": LONG,
}


@pytest.mark.parametrize("path", samples(), ids=lambda path: path.stem)
def test_what_a_landed_release_wrote_is_read(path: Path) -> None:
    assert read_today(load(path)) == READ


def test_what_is_written_now_is_of_a_form_that_is_recorded() -> None:
    problem = f"code that is deployed does not know this; record it: {COMMAND}"
    assert kinds(written()) == kinds(load(samples()[-1])), problem


def test_the_same_token_and_signature_are_made_as_were_recorded() -> None:
    recorded, now = load(samples()[-1]), written()
    assert {name: recorded[name] for name in ("token", "message")} == {name: now[name] for name in ("token", "message")}


@pytest.mark.parametrize("name", ["token", "link", "shown"])
def test_another_text_is_noticed(name: str) -> None:
    changed = copy.deepcopy(load(samples()[-1]))
    changed[name] = changed[name][:-1] + ("A" if changed[name][-1] != "A" else "B")
    with pytest.raises(TokenRefused) if name == "token" else nullcontext():
        assert read_today(changed) != READ
