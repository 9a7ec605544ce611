"""What became of each request: its own end, or the request that it had to make way for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from tests.proofs.races.history import Grant, History
from tests.proofs.soak.journal import Line


class Fate(StrEnum):
    COMPLETED = "completed"
    FAILED = "failed"
    SUPERSEDED = "superseded"
    STALE = "stale"
    IGNORED = "ignored"
    LOST = "lost"


class Found(NamedTuple):
    """``by`` is the request that this one had to make way for."""

    fate: Fate
    by: str | None = None


def fates(requests: Sequence[str], history: History) -> Mapping[str, Found]:
    begun: dict[str, Found] = {}
    for grants in history.grants.values():
        for grant, following in zip(grants, [*grants[1:], None], strict=True):
            begun[grant.request_id] = _so_far(grant, following)
    refused = {line["request_id"]: line for line in history.lines("told-claim") if line["verdict"] in _REFUSALS}
    return {name: begun.get(name) or _never_begun(refused.get(name)) for name in requests}


_REFUSALS = {"STALE": Fate.STALE, "IGNORED": Fate.IGNORED, "SUPERSEDED": Fate.SUPERSEDED}


def _so_far(grant: Grant, following: Grant | None) -> Found:
    """Of a request's last claim what holds is its commit, or who took the object afterwards."""
    status = grant.commits[0]["status"] if grant.commits else None
    if status in ("COMPLETED", "FAILED"):
        return Found(Fate(str(status).lower()))
    if following is not None and following.request_id != grant.request_id:
        return Found(Fate.SUPERSEDED, following.request_id)
    return Found(Fate.LOST)


def _never_begun(refusal: Line | None) -> Found:
    if refusal is None:
        return Found(Fate.LOST)
    return Found(_REFUSALS[refusal["verdict"]], refusal["holder"])
