"""What must hold after a race of waits: by DynamoDB's own answers, the tables and the post. Pure."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from itertools import chain

from flowguard.protocol.run import ENDED
from tests.proofs.races.fates import Fate, fates
from tests.proofs.races.history import History
from tests.proofs.races.reconcile import Check, check, of_claims, of_commits, of_owners
from tests.proofs.races.waits.flow import FROM_OUTSIDE, WAYS
from tests.proofs.races.waits.history import BegunWait, Told, WaitHistory, is_over, key_of
from tests.proofs.races.waits.post import ASKS, TOLD
from tests.proofs.races.waits.run import Outcome
from tests.proofs.soak.journal import Line

STAGES = {"answered": "resumed", "failed": "sorry", "timed out": "late"}


def reconcile(outcome: Outcome, history: History, waits: WaitHistory) -> list[Check]:
    return [
        *of_owners(outcome.items, history),
        *of_claims(history),
        *of_commits(history),
        *_ends(waits),
        *_answers(waits),
        *_went_on(outcome, waits),
        *_rows(outcome, waits),
        *_requests(outcome, history),
    ]


# -- how waits end


def _ends(waits: WaitHistory) -> Iterator[Check]:
    begun = waits.waits.values()
    strays = (f"{wait}: {wait.ends or 'no end'}" for wait in begun if len(wait.ends) != 1 and not _may_go_on(wait))
    yield check("each wait ended once, or its run made way for another", begun, strays)
    both = (f"{wait}: {wait.ends}" for wait in begun if wait.deadlines and len(wait.ends) > 1)
    yield check("no wait was ended by an answer and by its deadline", waits.tried, both)
    deadlines = [line for line in waits.calls("deadline") if line["yes"]]
    early = (f"{key_of(line)}" for line in deadlines if line["now"] < line["old"]["wait"]["deadline"])
    yield check("no deadline came before its time", deadlines, early)
    changes = [line for line in chain(waits.calls("answer"), deadlines) if line["yes"]]
    late = (f"{key_of(line)}: {line['old']['wait']}" for line in changes if is_over(line["old"]["wait"]))
    yield check("nothing changed a wait that was over", changes, late)
    others = (f"{key_of(line)} in {line['old']['request_id']}" for line in changes if not _is_its_own(line))
    yield check("nothing changed another request's wait, or another hop's", changes, others)


def _may_go_on(wait: BegunWait) -> bool:
    return not wait.ends and wait.made_way


def _is_its_own(line: Line) -> bool:
    old = line["old"]
    return (old["request_id"], old["hop"], old["status"]) == (line["request_id"], line["hop"], "WAITING")


# -- answers


def _answers(waits: WaitHistory) -> Iterator[Check]:
    kept = [line for wait in waits.waits.values() for line in wait.answers]
    names = Counter((key_of(line), line["name"]) for line in kept)
    twice = (f"{key.request_id} {name}: {times} times" for (key, name), times in names.items() if times > 1)
    yield check("each name was answered once", names, twice)
    gone = (f"{key_of(line)} {line['name']}" for line in kept if line["name"] not in line["old"]["wait"]["waiting"])
    yield check("each answer found its name awaited", kept, gone)
    wrong = (f"{told.call['name']} of {key_of(told.call)}: {told.verdict}" for told in waits.told if _is_wrong(told))
    yield check("each answer was told what the item says", waits.told, wrong)
    resumed = [wait for wait in waits.waits.values() if wait.next is not None and not wait.made_way]
    differ = (f"{wait}: {sorted(_kept(wait))}" for wait in resumed if _kept(wait) != _in_item(wait))
    yield check("the answers that were told so are those in the item", resumed, differ)


def _kept(wait: BegunWait) -> set[str]:
    return {line["name"] for line in wait.answers}


def _in_item(wait: BegunWait) -> set[str]:
    """The names that the item had answers to when the next hop was claimed."""
    assert wait.next is not None
    found = wait.next.old or {}
    return set(found.get("wait", {}).get("answered", ()))


def _is_wrong(told: Told) -> bool:
    return told.verdict not in _verdicts(told.call)


def _verdicts(call: Line) -> set[str]:
    """What the sender may be told, by the item that the call found."""
    old, name, hop = call["old"], call["name"], call["hop"]
    if call["yes"]:
        left = len(old["wait"]["waiting"]) - 1, old["wait"]["spare"] - ("one" in call)
        return {"RESUMED"} if left[1] < 0 or left[0] <= left[1] else {"RECORDED"}
    if old is None or old["request_id"] != call["request_id"]:
        return {"EXPIRED"} if old is None else {"SUPERSEDED"}
    if old["hop"] < hop or (old["hop"] == hop and not old["done"]):
        return {"EARLY"}
    if old["hop"] == hop and old["status"] in ENDED:
        return {"EXPIRED"}
    return {"EXPIRED"} if _came_in_vain(old, name, hop) else {"DUPLICATE"}


def _came_in_vain(old: Line, name: str, hop: int) -> bool:
    """Whether the wait of the hop was over without the name, as far as the item still says so."""
    wait, late = old.get("wait"), old.get("late")
    if late is not None and late["hop"] == hop:
        return name in late["names"]
    if wait is None or old["hop"] > hop + 1 or (old["hop"] == hop + 1 and old["status"] == "WAITING"):
        return False
    return bool(wait["timed_out"] and name not in wait["answered"])


# -- the stages after the waits


def _went_on(outcome: Outcome, waits: WaitHistory) -> Iterator[Check]:
    rows = outcome.effects
    twice = (f"{name}: {row['applied']}" for name, row in rows.items() if row["applied"] != 1)
    yield check("each run that went on had its effect once", rows, twice)
    ended = {f"{key.request_id}.{key.hop + 1}": wait for key, wait in waits.waits.items() if wait.ends}
    unknown = (name for name in rows if name not in ended)
    yield check("no run went on before its wait was over", rows, unknown)
    stages = (
        f"{name}: {row['went_on']} after {ended[name].ends}"
        for name, row in rows.items()
        if name in ended and row["went_on"] != STAGES[ended[name].ends[0]]
    )
    yield check("each went on at the stage for its end", rows, stages)
    other = (
        f"{name}: {row['got']}"
        for name, row in rows.items()
        if name in ended and json.loads(row["got"]) != {n: json.loads(text) for n, text in ended[name].got.items()}
    )
    yield check("each got the very answers that were kept", rows, other)


def _rows(outcome: Outcome, waits: WaitHistory) -> Iterator[Check]:
    said = {(row["request_id"]["S"], int(row["hop"]["N"]), row["name"]["S"]) for row in outcome.rows if "name" in row}
    kinds = {line["id"]: json.loads(line["record"]["body"])["kind"] for line in outcome.post if _asks(line)}
    due = {
        (key.request_id, key.hop, name)
        for key in waits.waits
        for name in FROM_OUTSIDE.intersection(WAYS[kinds[key.request_id]])
    }
    yield check("each name of a party outside has its own run's row", due, (str(one) for one in due - said))


def _asks(line: object) -> bool:
    return isinstance(line, dict) and line.get("kind") == "request"


# -- lost requests and messages


def _requests(outcome: Outcome, history: History) -> Iterator[Check]:
    asked = [line["id"] for line in outcome.post if _asks(line)]
    found = fates(asked, history)
    lost = (name for name, one in found.items() if one.fate is Fate.LOST)
    yield check("each request has ended, or made way for another", asked, lost)
    made_way = {name: one.by for name, one in found.items() if one.by is not None}
    strays = (f"{name} for {by}" for name, by in made_way.items() if by not in found or found[by].fate is Fate.LOST)
    yield check("whatever it made way for has ended or made way too", made_way, strays)
    stuck = (f"{key}: {item.status}" for key, item in outcome.items.items() if item.status not in ENDED)
    yield check("no run stands still", outcome.items, stuck)
    settled = {line["settled"] for line in outcome.post if "settled" in line}
    sent = {line["record"]["messageId"]: line for line in outcome.post if "record" in line and line["queue"] != TOLD}
    left = (f"{line['queue']} {line['id']}" for own, line in sent.items() if own not in settled)
    yield check("each message was acknowledged", sent, left)
    asks = Counter(line["queue"] for line in outcome.post if line.get("queue") in ASKS)
    yield check("each party was asked", ASKS, (queue for queue in ASKS if not asks[queue]))
