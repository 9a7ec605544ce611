"""What must hold after a race. Each check looks at DynamoDB's own answers, at the tables and at the post. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, pairwise

from flowguard.protocol.run import RunItem
from tests.proofs.races.fates import Fate, fates
from tests.proofs.races.flow import QUIET
from tests.proofs.races.history import Grant, History, Old
from tests.proofs.races.post import is_redriven
from tests.proofs.races.run import Outcome
from tests.proofs.soak.journal import Line
from tests.sent_ids import readable

SHOWN = 3


@dataclass(frozen=True)
class Check:
    """``of`` is how many were looked at, ``strays`` are those that break it."""

    name: str
    of: int
    strays: tuple[str, ...]

    @property
    def holds(self) -> bool:
        return not self.strays

    def __str__(self) -> str:
        if self.holds:
            return f"{self.name:<68} {self.of:>6}  ok"
        return f"{self.name:<68} {self.of:>6}  WRONG: {len(self.strays)}, such as {'; '.join(self.strays[:SHOWN])}"


def reconcile(outcome: Outcome, history: History) -> list[Check]:
    return [
        *of_owners(outcome.items, history),
        *of_claims(history),
        *of_commits(history),
        *_effects(outcome, history),
        *_requests(outcome, history),
    ]


def check(name: str, looked_at: Collection[object], strays: Iterator[object]) -> Check:
    return Check(name, len(looked_at), tuple(str(stray) for stray in strays))


# -- double owners


def of_owners(items: Mapping[str, RunItem], history: History) -> Iterator[Check]:
    grants = list(history.each())
    owners = Counter((key, grant.epoch) for key, claims in history.grants.items() for grant in claims)
    yield check("no epoch has two owners", grants, (f"{at}: {n} claims" for at, n in owners.items() if n > 1))
    last = {key: item.epoch for key, item in items.items()}
    yield check(
        "epochs rise by one with each claim",
        grants,
        (
            f"{key}: {len(history.grants.get(key, ()))} claims, epoch {last.get(key)}"
            for key in last.keys() | history.grants.keys()
            if [grant.epoch for grant in history.grants.get(key, ())] != list(range(1, last.get(key, 0) + 1))
        ),
    )


# -- each claim, against the item that it found


def of_claims(history: History) -> Iterator[Check]:
    grants = list(history.each())
    for name, concerns, is_wrong in _RULES:
        concerned = [grant for grant in grants if concerns(grant)]
        yield check(name, concerned, (f"{grant} over {_said(grant.old)}" for grant in concerned if is_wrong(grant)))


def _said(old: Old | None) -> str:
    if old is None:
        return "no item"
    attempt = old["redrive"], old["retry"]
    return f"{old['request_id']} hop {old['hop']} attempt {attempt} {old['status']}{' done' if old['done'] else ''}"


def _found(grant: Grant, name: str) -> int:
    assert grant.old is not None
    return int(grant.old[name])


def _status(grant: Grant) -> str:
    assert grant.old is not None
    return str(grant.old["status"])


def _stored_attempt(grant: Grant) -> tuple[int, int]:
    return _found(grant, "redrive"), _found(grant, "retry")


def _takes_a_living_lease(grant: Grant) -> bool:
    """Only a repeated call may: its owner is the same."""
    mine = grant.old is not None and grant.old["owner"] == grant.line["owner"]
    now = grant.line["committed_at"] if grant.line["what"] == "take" else grant.line["now"]
    return not mine and _found(grant, "lease_until") > now


def _is_no_newer(grant: Grant) -> bool:
    """Of two requests of one time the first keeps the object."""
    return int(grant.line["requested_at"]) <= _found(grant, "requested_at")


def _is_not_free(grant: Grant) -> bool:
    """Under IGNORE: neither ended when this one was asked for, nor abandoned."""
    ended = _status(grant) != "RUNNING" and _found(grant, "committed_at") < grant.line["requested_at"]
    at_work = _status(grant) != "RUNNING" or _found(grant, "lease_until") >= grant.line["abandoned_before"]
    return not ended and at_work


def _goes_on(grant: Grant) -> bool:
    """Whether the hop before has not ended the run, and what it waited for was there."""
    assert grant.old is not None
    wait = grant.old.get("wait")
    if _status(grant) == "WAITING" and wait is not None:
        return bool(wait["timed_out"]) or wait["spare"] < 0 or len(wait["waiting"]) <= wait["spare"]
    return _status(grant) == "RUNNING"


def _same_attempt(grant: Grant) -> bool:
    return grant.same_hop and not _found(grant, "done") and grant.attempt == _stored_attempt(grant)


_RULES: tuple[tuple[str, Callable[[Grant], bool], Callable[[Grant], bool]], ...] = (
    ("an attempt is taken over only when its lease is over", _same_attempt, _takes_a_living_lease),
    (
        "an attempt makes way only for a later one",
        lambda grant: grant.same_hop and not _found(grant, "done"),
        lambda grant: grant.attempt < _stored_attempt(grant),
    ),
    (
        "a committed hop is begun again only by a redrive of a failed run",
        lambda grant: grant.same_hop and bool(_found(grant, "done")),
        lambda grant: _status(grant) != "FAILED" or grant.line["redrive"] <= _found(grant, "redrive"),
    ),
    (
        "a later hop follows on the commit of the one before it",
        lambda grant: grant.hop > 1 and not grant.same_hop,
        lambda grant: (
            not grant.same_run
            or _found(grant, "hop") != grant.hop - 1
            or not _found(grant, "done")
            or not _goes_on(grant)
        ),
    ),
    ("only a newer request takes over", lambda grant: grant.took_over and grant.hop == 1, _is_no_newer),
    (
        "under IGNORE only a free object is taken over",
        lambda grant: grant.took_over and "abandoned_before" in grant.line,
        _is_not_free,
    ),
)


# -- commits


def of_commits(history: History) -> Iterator[Check]:
    applied = [line for line in (*history.lines("commit"), *history.lines("take")) if line["yes"]]
    fenced: list[str] = []
    for grants in history.grants.values():
        for grant, following in pairwise(grants):
            old = following.old
            if old is None or bool(grant.commits) != old["done"] or old["owner"] != grant.line["owner"]:
                fenced.append(f"{grant}, then {following} over {_said(old)}")
    owners = {(grant.line["owner"], grant.epoch) for grant in history.each()}
    strangers = (f"{line['request_id']} epoch {line['epoch']}" for line in applied if _author(line) not in owners)
    yield check("only the last owner commits", history.commits, chain(fenced, strangers))
    hops = Counter(grant.hop_id for grant, _ in history.commits)
    yield check("one commit of each hop and redrive", hops, (f"{hop}: {n}" for hop, n in hops.items() if n > 1))
    there = set(map(_author, applied))
    said = [line for line in history.lines("told-commit") if line["answer"] == "committed"]
    strays = (f"{line['request_id']} epoch {line['epoch']}" for line in said if _author(line) not in there)
    yield check("what a worker takes for committed is committed", said, strays)


def _author(line: Line) -> tuple[str, int]:
    return line["owner"], line["epoch"]


# -- effects


def _effects(outcome: Outcome, history: History) -> Iterator[Check]:
    due = Counter(f"{grant.request_id}.{grant.hop}" for key, grant in _effects_by_item(history))
    made = Counter({name: int(row["applied"]) for name, row in outcome.effects.items()})
    strays = (f"{name}: {made[name]} for {due[name]}" for name in due | made if not due[name] == made[name] == 1)
    yield check("each committed hop has its effect once, no other has one", due, strays)
    totals = Counter({name: int(row["applied"]) for name, row in outcome.totals.items()})
    of_objects = Counter(key.rpartition("#")[2] for key, _ in _effects_by_item(history))
    strays = (
        f"{name}: {totals[name]} for {of_objects[name]}"
        for name in of_objects | totals
        if totals[name] != of_objects[name]
    )
    yield check("the objects' sums are their commits", of_objects, strays)
    came = {name: int(row["came_from"]) for name, row in outcome.effects.items()}
    strays = (f"{name}: {hop}" for name, hop in came.items() if hop + 1 != int(name.rpartition(".")[2]))
    yield check("each hop had the state of the hop before it", came, strays)


def _effects_by_item(history: History) -> Iterator[tuple[str, Grant]]:
    for key, grants in history.grants.items():
        if key.split("#")[1] in QUIET:
            continue
        for grant in grants:
            for commit in grant.commits:
                if commit["status"] != "FAILED":
                    yield key, grant


# -- lost requests and messages


def _requests(outcome: Outcome, history: History) -> Iterator[Check]:
    asked = [line["id"] for line in outcome.post if line.get("kind") == "request"]
    found = fates(asked, history)
    lost = (name for name, one in found.items() if one.fate is Fate.LOST)
    yield check("each request has ended, or made way for another", asked, lost)
    made_way = {name: one.by for name, one in found.items() if one.by is not None}
    strays = (f"{name} for {by}" for name, by in made_way.items() if by not in found or found[by].fate is Fate.LOST)
    yield check("whatever it made way for has ended or made way too", made_way, strays)
    told = {readable(line["id"]) for line in outcome.post if line.get("kind") == "complete"}
    ended = [grant for grant, commit in history.commits if commit["status"] != "RUNNING"]
    yield check("whoever waits is told of each end", ended, (g for g in ended if f"{g.hop_id}.0" not in told))
    letters = {readable(line["id"]) for line in outcome.post if line.get("kind") == "dead"}
    failed = [grant for grant, commit in history.commits if commit["status"] == "FAILED"]
    strays = (f"{grant}" for grant in failed if f"{grant.hop_id}.dead" not in letters)
    yield check("each failure has its dead letter", failed, strays)
    yield _messages(outcome)
    told_claims = history.lines("told-claim")
    early = (f"{line['request_id']} {line['verdict']}" for line in told_claims if line["verdict"] in ("EARLY", "GONE"))
    yield check("no message was early, none came to an item that is gone", told_claims, early)


def _messages(outcome: Outcome) -> Check:
    settled = {line["settled"] for line in outcome.post if "settled" in line}
    sent = {
        line["record"]["messageId"]: line["id"]
        for line in outcome.post
        if "record" in line and (line["kind"] != "dead" or is_redriven(line["id"]))
    }
    return check("each message was acknowledged", sent, (own for record, own in sent.items() if record not in settled))
